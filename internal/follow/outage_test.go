package follow

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/redistest"
	"pushq/internal/testenv"
)

// A reply that is lost has made the entries this follower's all the same, and go-redis
// asks again without telling.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	client := server.Client(t)
	want := add(t, client, 1, 40)
	seen := &diary{}
	f := newFollower(redistest.Connect(t, proxy.URL()), seen)
	f.Batch = 10
	proxy.CutReplyTo("xreadgroup", 5)
	proxy.CutReplyTo("xack", 5)
	start(t, f)
	seen.await(t, 40)
	require.Equal(t, want, seen.got(), "nothing is skipped, nothing twice")
	requireEmpty(t, client)
	require.Equal(t, 10, proxy.Cut())
}

// Many replies are lost, more than go-redis repeats a command.
func TestAnUnreliableNetwork(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	client := server.Client(t)
	seen := &diary{}
	f := newFollower(redistest.Connect(t, proxy.URL()), seen)
	f.Batch = 7
	start(t, f)
	var want []string
	for round := range 10 {
		proxy.CutReplyTo("xreadgroup", 4)
		proxy.CutReplyTo("xack", round%5)
		want = append(want, add(t, client, round*20, round*20+19)...)
		seen.await(t, len(want))
	}
	require.Equal(t, want, seen.got())
	requireEmpty(t, client)
}

func TestRedisIsAway(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	client := server.Client(t)
	seen := &diary{}
	f := newFollower(redistest.Connect(t, proxy.URL()), seen)
	proxy.Refuse(true) // from the start
	stop := start(t, f)
	want := add(t, client, 1, 10)
	proxy.Refuse(false)
	seen.await(t, 10)

	proxy.Refuse(true)
	want = append(want, add(t, client, 11, 20)...)
	proxy.Refuse(false)
	seen.await(t, 20)

	proxy.Blackhole(true)
	want = append(want, add(t, client, 21, 30)...)
	proxy.Blackhole(false)
	seen.await(t, 30)
	require.Equal(t, want, seen.got())

	proxy.Blackhole(true)
	require.Less(t, stop(), 15*time.Second)
}

func TestRedisRestarts(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	client := redistest.Connect(t, server.URL())
	seen := &diary{}
	f := newFollower(client, seen)
	f.Batch = 5
	start(t, f)
	want := add(t, client, 1, 500)
	seen.await(t, 50)
	server.Stop()
	server.Start()
	want = append(want, add(t, client, 501, 600)...)
	testenv.Eventually(t, patience, "the last", func() bool { return slices.Contains(seen.got(), want[599]) })
	testenv.Eventually(t, patience, "all entries", func() bool {
		got := seen.got()
		slices.Sort(got)
		return slices.Equal(want, slices.Compact(got))
	})
	require.LessOrEqual(t, len(seen.got()), 605, "only a batch may come twice")
	requireEmpty(t, client)
}

func TestEverythingIsFlushed(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		begun, release := make(chan struct{}), make(chan struct{})
		first := true
		seen := &diary{handle: func(context.Context, []Entry) error {
			if first {
				first = false
				close(begun)
				<-release
			}
			return nil
		}}
		f := newFollower(client, seen)
		start(t, f)
		want := add(t, client, 1, 5)
		<-begun
		handed := len(seen.calls()[0])
		require.NoError(t, client.FlushAll(t.Context()).Err())
		close(release)
		seen.await(t, handed)
		testenv.Eventually(t, patience, "the group to be there again", func() bool {
			return client.XInfoGroups(t.Context(), stream).Err() == nil
		})
		want = append(want[:handed], add(t, client, 6, 20)...)
		seen.await(t, len(want))
		require.Equal(t, want, seen.got())

		// Entries that come before the group is there again are not lost either.
		require.NoError(t, client.FlushAll(t.Context()).Err())
		want = append(want, add(t, client, 21, 30)...)
		seen.await(t, len(want))
		require.Equal(t, want, seen.got())
		requireEmpty(t, client)
	})
}

func TestTheGroupIsDestroyed(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		seen := &diary{}
		start(t, newFollower(client, seen))
		want := add(t, client, 1, 5)
		seen.await(t, 5)
		requireEmpty(t, client)
		require.NoError(t, client.XGroupDestroy(t.Context(), stream, defaultGroup).Err())
		want = append(want, add(t, client, 6, 10)...)
		seen.await(t, 10)
		require.Equal(t, want, seen.got())
	})
}

func TestOnACluster(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	client := redistest.Connect(t, cluster.URL())
	want := map[string]*diary{}
	for number := range 4 { // of other slots
		name := fmt.Sprintf("pushq:{channel%d}:follow", number)
		seen := &diary{}
		f := newFollower(client, seen)
		f.Stream, f.silence = name, time.Second
		start(t, f)
		want[name] = seen
	}
	for name, seen := range want {
		for number := range 20 {
			require.NoError(t, client.XAdd(t.Context(), &redis.XAddArgs{
				Stream: name, Values: []string{"id", fmt.Sprint(number), "record", "{}"},
			}).Err())
		}
		seen.await(t, 20)
		testenv.Eventually(t, patience, "an empty stream", func() bool { return client.XLen(t.Context(), name).Val() == 0 })
	}
}

// A Redis that is full is not written to, and what is dealt with makes room all the same.
func TestAFullRedisIsEmptied(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := server.Client(t)
	want := add(t, client, 1, 250)
	holding(t, client, "one that has died", 50)
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.ErrorContains(t, client.Set(t.Context(), "other", "", 0).Err(), "OOM")
	seen := &diary{}
	f := newFollower(redistest.Connect(t, server.URL()), seen)
	f.silence = 100 * time.Millisecond
	start(t, f)
	seen.await(t, 250)
	require.ElementsMatch(t, want, seen.got())
	requireEmpty(t, client)
}
