package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/redistest"
	"pushq/internal/testenv"
)

const (
	stream   = "{test}:follow"
	patience = 2 * time.Minute
)

// A diary is what a handler was given.
type diary struct {
	handle func(context.Context, []Entry) error // nil is success

	mutex   sync.Mutex
	batches [][]string // pushes, in calls that have succeeded or not
	done    []string   // pushes, in calls that have succeeded
}

func (d *diary) Handle(ctx context.Context, entries []Entry) error {
	var pushes []string
	for _, entry := range entries {
		pushes = append(pushes, entry.PushID)
	}
	d.mutex.Lock()
	d.batches = append(d.batches, pushes)
	d.mutex.Unlock()
	if d.handle != nil {
		if err := d.handle(ctx, entries); err != nil {
			return err
		}
	}
	d.mutex.Lock()
	d.done = append(d.done, pushes...)
	d.mutex.Unlock()
	return nil
}

// got returns the pushes of all calls that have succeeded.
func (d *diary) got() []string {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return slices.Clone(d.done)
}

func (d *diary) calls() [][]string {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return slices.Clone(d.batches)
}

func (d *diary) await(t testing.TB, count int) {
	t.Helper()
	testenv.Eventually(t, patience, strconv.Itoa(count)+" entries", func() bool { return len(d.got()) >= count })
}

// newFollower returns one that does not wait long after a failure.
func newFollower(client redis.UniversalClient, d *diary) *Follower {
	f := New(client, Options{Stream: stream, Handle: d.Handle, Log: slog.New(slog.DiscardHandler)})
	f.retry = backoff{first: time.Millisecond, longest: 20 * time.Millisecond}
	return f
}

// start runs a follower until stop, which returns after how long it has ended, or the
// end of the test.
func start(t testing.TB, f *Follower) (stop func() time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Run(ctx)
	}()
	stop = func() time.Duration {
		begun := time.Now()
		cancel()
		<-ended
		return time.Since(begun)
	}
	t.Cleanup(func() { stop() })
	return stop
}

// add adds entries for pushes first to last and returns their names.
func add(t testing.TB, client redis.UniversalClient, first, last int) []string {
	t.Helper()
	var pushes []string
	pipe := client.Pipeline()
	for number := first; number <= last; number++ {
		push := fmt.Sprintf("push-%05d", number)
		pushes = append(pushes, push)
		pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: []string{"id", push, "record", `{"push":"` + push + `"}`}})
	}
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	return pushes
}

// holding has a consumer that has died hold the next entries.
func holding(t testing.TB, client redis.UniversalClient, consumer string, count int64) {
	t.Helper()
	err := client.XGroupCreateMkStream(t.Context(), stream, defaultGroup, "0").Err()
	if err != nil {
		require.ErrorContains(t, err, "BUSYGROUP")
	}
	streams, err := client.XReadGroup(t.Context(), &redis.XReadGroupArgs{
		Group: defaultGroup, Consumer: consumer, Streams: []string{stream, ">"}, Count: count, Block: -1,
	}).Result()
	require.NoError(t, err)
	require.Len(t, streams[0].Messages, int(count))
}

func consumers(t testing.TB, client redis.UniversalClient) map[string]int64 {
	t.Helper()
	all, err := client.XInfoConsumers(t.Context(), stream, defaultGroup).Result()
	require.NoError(t, err)
	pending := map[string]int64{}
	for _, consumer := range all {
		pending[consumer.Name] = consumer.Pending
	}
	return pending
}

func requireEmpty(t testing.TB, client redis.UniversalClient) {
	t.Helper()
	testenv.Eventually(t, patience, "an empty stream", func() bool { return client.XLen(t.Context(), stream).Val() == 0 })
	pending, err := client.XPending(t.Context(), stream, defaultGroup).Result()
	require.NoError(t, err)
	require.Zero(t, pending.Count)
}

func TestEntriesAreHandledInOrderAndRemoved(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		want := add(t, client, 1, 250)
		seen := &diary{}
		f := newFollower(client, seen)
		start(t, f)
		seen.await(t, 250)
		want = append(want, add(t, client, 251, 260)...) // and what comes while it waits
		seen.await(t, 260)
		require.Equal(t, want, seen.got())
		for _, batch := range seen.calls() {
			require.LessOrEqual(t, len(batch), defaultBatch)
		}
		requireEmpty(t, client)
	})
}

func TestAnEntryIsWhatWasAdded(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		record := "{\"push\":\"\x00\xff\r\n\"}" // bytes are nobody's matter here
		id := client.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: []string{"id", "01JB", "record", record}}).Val()
		require.NoError(t, client.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: []string{"foreign", "entry"}}).Err())
		got := make(chan []Entry, 1)
		seen := &diary{handle: func(_ context.Context, entries []Entry) error {
			got <- entries
			return nil
		}}
		start(t, newFollower(client, seen))
		entries := <-got
		require.Len(t, entries, 2)
		require.Equal(t, Entry{StreamID: id, PushID: "01JB", Record: []byte(record)}, entries[0])
		require.Empty(t, entries[1].PushID)
		requireEmpty(t, client)
	})
}

func TestABatchIsRepeatedUntilItSucceeds(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		want := add(t, client, 1, 30)
		calls := 0
		seen := &diary{handle: func(context.Context, []Entry) error {
			calls++
			if 2 <= calls && calls <= 4 {
				return errors.New("no room")
			}
			return nil
		}}
		f := newFollower(client, seen)
		f.Batch = 10
		start(t, f)
		seen.await(t, 30)
		require.Equal(t, want, seen.got(), "nothing is skipped, nothing twice")
		require.Equal(t, [][]string{want[:10], want[10:20], want[10:20], want[10:20], want[10:20], want[20:]}, seen.calls())
		requireEmpty(t, client)
	})
}

// What is dealt with before a failure is not dealt with again, by nobody.
func TestAPartOfABatchIsDone(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		want := add(t, client, 1, 10)
		ctx, stop := context.WithCancel(t.Context())
		seen := &diary{}
		seen.handle = func(_ context.Context, entries []Entry) error {
			switch len(entries) {
			case 10, 7:
				return &PartError{3, errors.New("no room")}
			case 4:
				stop()
				return &PartError{1, errors.New("no room")}
			default:
				return nil
			}
		}
		f := newFollower(client, seen)
		f.Run(ctx)
		require.Equal(t, [][]string{want, want[3:], want[6:]}, seen.calls())
		require.EqualValues(t, 3, client.XLen(t.Context(), stream).Val())
		start(t, newFollower(client, seen))
		seen.await(t, 3)
		require.Equal(t, want[7:], seen.got())
		requireEmpty(t, client)
	})
}

// Neither after a panic.
func TestAPartOfABatchIsDoneBeforeAPanic(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		want := add(t, client, 1, 5)
		seen := &diary{handle: func(_ context.Context, entries []Entry) error {
			switch {
			case len(entries) == 5:
				return &PartError{2, errors.New("no room")}
			case len(entries) == 3 || entries[0].PushID == want[3]:
				panic("cannot deal with it")
			default:
				return nil
			}
		}}
		start(t, newFollower(client, seen))
		seen.await(t, 2)
		requireEmpty(t, client)
		one := func(place int) []string { return want[place : place+1] }
		require.Equal(t, [][]string{want, want[2:], one(2), one(3), one(3), one(3), one(4)}, seen.calls())
		require.EqualValues(t, 1, client.XLen(t.Context(), AsideKey(stream)).Val())
	})
}

// An entry that makes the handler panic is put aside, as it is, and holds up no other.
func TestAnEntryThatMakesTheHandlerPanicIsPutAside(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		want := add(t, client, 1, 30)
		poison := map[string]bool{want[4]: true, want[17]: true}
		panicked := map[string]int{}
		passing := true // a panic that does not come again is no reason
		seen := &diary{handle: func(_ context.Context, entries []Entry) error {
			for _, entry := range entries {
				if entry.PushID == want[9] && len(entries) == 1 && passing {
					passing = false
					panic("once")
				}
				if poison[entry.PushID] {
					panicked[entry.PushID]++
					panic("cannot deal with it")
				}
			}
			return nil
		}}
		f := newFollower(client, seen)
		f.Batch = 10
		start(t, f)
		seen.await(t, 28)
		requireEmpty(t, client)
		want = slices.DeleteFunc(want, func(push string) bool { return poison[push] })
		require.ElementsMatch(t, want, seen.got())
		aside, err := client.XRange(t.Context(), AsideKey(stream), "-", "+").Result()
		require.NoError(t, err)
		require.Len(t, aside, 2)
		for place, push := range []string{"push-00005", "push-00018"} {
			require.Equal(t, map[string]any{"id": push, "record": `{"push":"` + push + `"}`}, aside[place].Values)
			require.Equal(t, 1+maxPanics, panicked[push], "once with others, and then by itself")
		}
		add(t, client, 31, 32)
		seen.await(t, 30)
	})
}

func TestFailuresAreToldOnce(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, testenv.StartRedis(t).URL())
	lines := &lines{}
	calls := 0
	seen := &diary{handle: func(context.Context, []Entry) error {
		if calls++; calls < 10 {
			return errors.New("no room")
		}
		return nil
	}}
	f := newFollower(client, seen)
	f.Log = slog.New(lines)
	start(t, f)
	add(t, client, 1, 1)
	seen.await(t, 1)
	testenv.Eventually(t, patience, "the end of the outage", func() bool { return len(lines.all()) == 2 })
	require.Equal(t, []string{"cannot deal with the entries of a stream, trying again", "following a stream again"}, lines.all())
}

// lines are the messages of a log.
type lines struct {
	slog.Handler
	mutex sync.Mutex
	texts []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }

func (l *lines) Handle(_ context.Context, record slog.Record) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.texts = append(l.texts, record.Message)
	return nil
}

func (l *lines) all() []string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Clone(l.texts)
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	b := backoff{first: 2 * time.Millisecond, longest: 16 * time.Millisecond}
	var next []time.Duration
	for range 5 {
		started := time.Now()
		before := max(b.next, b.first)
		require.True(t, b.wait(t.Context()))
		require.GreaterOrEqual(t, time.Since(started), before/2)
		next = append(next, b.next)
	}
	require.Equal(t, []time.Duration{4e6, 8e6, 16e6, 16e6, 16e6}, next)
	b.reset()
	b.wait(t.Context())
	require.Equal(t, 4*time.Millisecond, b.next)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, (&backoff{first: time.Hour, longest: time.Hour}).wait(ended))
}
