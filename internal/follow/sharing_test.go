package follow

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/redistest"
	"pushq/internal/testenv"
)

func TestTwoFollowersShare(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		seen := &diary{}
		either := make(chan struct{})
		both := &diary{handle: func(ctx context.Context, entries []Entry) error {
			select { // each waits for the other once
			case either <- struct{}{}:
			case <-either:
			case <-ctx.Done():
				return ctx.Err()
			}
			return seen.Handle(ctx, entries)
		}}
		want := add(t, client, 1, 1000)
		for range 2 {
			f := newFollower(client, both)
			f.Batch = 50
			start(t, f)
		}
		seen.await(t, 1000)
		require.ElementsMatch(t, want, seen.got(), "each once")
		requireEmpty(t, client)
	})
}

func TestWhatADeadFollowerHeldIsTakenOver(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		const silence = time.Second
		want := add(t, client, 1, 30)
		holding(t, client, "dead", 5)
		died := time.Now()
		holding(t, client, "dead too", 20)

		seen := &diary{}
		f := newFollower(client, seen)
		f.silence, f.Batch = silence, 3
		start(t, f)
		seen.await(t, 5)
		require.Equal(t, want[25:], seen.got()[:5], "the dead may only be slow")
		seen.await(t, 30)
		require.GreaterOrEqual(t, time.Since(died), silence)
		require.Equal(t, want[:25], seen.got()[5:])
		requireEmpty(t, client)
	})
}

// A handler that takes long is not dead: it keeps what it holds, and its place in the group.
func TestASlowFollowerKeepsItsEntries(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		const silence = time.Second
		release := make(chan struct{})
		slow := &diary{handle: func(ctx context.Context, _ []Entry) error {
			select {
			case <-release:
			case <-ctx.Done(): // the test has failed
			}
			return ctx.Err()
		}}
		want := add(t, client, 1, 10)
		slowOne := newFollower(client, slow)
		slowOne.silence = silence
		start(t, slowOne)
		testenv.Eventually(t, patience, "the slow one to begin", func() bool { return len(slow.calls()) == 1 })
		quick := &diary{}
		quickOne := newFollower(client, quick)
		quickOne.silence = silence
		start(t, quickOne)
		want = append(want, add(t, client, 11, 20)...)
		quick.await(t, 10)
		select { // longer than it may be silent
		case <-time.After(3 * silence):
		case <-t.Context().Done():
		}
		require.Equal(t, want[10:], quick.got())
		require.EqualValues(t, 10, consumers(t, client)[slowOne.consumer])
		close(release)
		slow.await(t, 10)
		require.Equal(t, want[:10], slow.got())
		requireEmpty(t, client)
	})
}

// Nor does it lose those that wait until it has dealt with the first ones by themselves.
func TestASlowFollowerKeepsItsEntriesAfterAPanic(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		const silence = time.Second
		release := make(chan struct{})
		want := add(t, client, 1, 3)
		slow := &diary{handle: func(ctx context.Context, entries []Entry) error {
			if len(entries) > 1 {
				panic("cannot deal with it")
			}
			select {
			case <-release:
			case <-ctx.Done(): // the test has failed
			}
			return ctx.Err()
		}}
		slowOne := newFollower(client, slow)
		slowOne.silence = silence
		start(t, slowOne)
		testenv.Eventually(t, patience, "the first one by itself", func() bool { return len(slow.calls()) == 2 })
		quick := &diary{}
		quickOne := newFollower(client, quick)
		quickOne.silence = silence
		start(t, quickOne)
		select { // longer than it may be silent
		case <-time.After(3 * silence):
		case <-t.Context().Done():
		}
		require.Empty(t, quick.calls())
		require.EqualValues(t, 3, consumers(t, client)[slowOne.consumer])
		close(release)
		slow.await(t, 3)
		require.Equal(t, want, slow.got())
		requireEmpty(t, client)
	})
}

func TestAStopLeavesNothingBehind(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		seen := &diary{}
		f := newFollower(client, seen)
		stop := start(t, f)
		add(t, client, 1, 1)
		seen.await(t, 1)
		require.Less(t, stop(), 2*time.Second)
		require.Empty(t, consumers(t, client))
	})
}

// A stop ends the repeating of a failed batch. The next follower goes on with it at
// once, and in order.
func TestAStopLeavesAFailedBatchToTheNext(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		failing := &diary{handle: func(context.Context, []Entry) error { return errors.New("no room") }}
		want := add(t, client, 1, 10)
		f := newFollower(client, failing)
		f.Batch = 5
		stop := start(t, f)
		testenv.Eventually(t, patience, "a repetition", func() bool { return len(failing.calls()) > 3 })
		require.Less(t, stop(), 2*time.Second)

		seen := &diary{}
		start(t, newFollower(client, seen))
		seen.await(t, 10)
		require.Equal(t, want, seen.got())
		requireEmpty(t, client)
	})
}

// What a handler has done after the stop was asked for is not done again.
func TestAStopWaitsForTheHandler(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		begun := make(chan struct{})
		seen := &diary{handle: func(ctx context.Context, _ []Entry) error {
			close(begun)
			<-ctx.Done()
			return nil
		}}
		add(t, client, 1, 3)
		stop := start(t, newFollower(client, seen))
		<-begun
		stop()
		require.Len(t, seen.got(), 3)
		requireEmpty(t, client)
		require.Empty(t, consumers(t, client))
	})
}

// The embedded Redis does not know how long a consumer has been silent, and forgets none.
func TestTheDeadAreForgottenWhenTheyHoldNothing(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, testenv.StartRedis(t).URL())
	add(t, client, 1, 5)
	holding(t, client, "dead", 5)
	seen := &diary{}
	f := newFollower(client, seen)
	f.silence = 500 * time.Millisecond
	start(t, f)
	seen.await(t, 5)
	testenv.Eventually(t, patience, "the dead to be forgotten", func() bool { return len(consumers(t, client)) == 1 })
	require.Contains(t, consumers(t, client), f.consumer)
}

func TestForgettingSparesThoseThatHoldEntries(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, testenv.StartRedis(t).URL())
	add(t, client, 1, 5)
	holding(t, client, "busy", 2)
	holding(t, client, "idle", 1)
	held := client.XPendingExt(t.Context(), &redis.XPendingExtArgs{
		Stream: stream, Group: defaultGroup, Start: "-", End: "+", Count: 10, Consumer: "idle",
	}).Val()
	require.NoError(t, client.XAck(t.Context(), stream, defaultGroup, held[0].ID).Err())

	f := newFollower(client, &diary{})
	require.NoError(t, f.forget(t.Context(), ""))
	require.Equal(t, map[string]int64{"busy": 2, "idle": 0}, consumers(t, client), "they may live")
	require.NoError(t, f.forget(t.Context(), "busy"))
	require.Equal(t, map[string]int64{"busy": 2, "idle": 0}, consumers(t, client))
	f.silence = 0
	require.NoError(t, f.forget(t.Context(), ""))
	require.Equal(t, map[string]int64{"busy": 2}, consumers(t, client))
}

// Somebody has removed an entry from the stream while a follower that died held it.
func TestWhatIsHeldAndGoneIsLeftOut(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, testenv.StartRedis(t).URL())
	want := add(t, client, 1, 3)
	seen := &diary{}
	f := newFollower(client, seen)
	holding(t, client, f.consumer, 3)
	messages := client.XRange(t.Context(), stream, "-", "+").Val()
	require.NoError(t, client.XDel(t.Context(), stream, messages[1].ID).Err())
	start(t, f)
	seen.await(t, 2)
	require.Equal(t, slices.Delete(want, 1, 2), seen.got())
	requireEmpty(t, client)
}
