package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"pushq/internal/testenv"
)

// noon is a time at which the pushes of newWindowedPush are due and open.
var noon = time.Date(2040, 1, 4, 12, 0, 0, 0, time.UTC)

type bulkCall func(ctx context.Context, filter Filter, limit int, cursor string) (Bulk, error)

// loop follows the pages to their end and returns the sums.
func loop(t *testing.T, call bulkCall, filter Filter, limit int) (sum Bulk, calls int) {
	t.Helper()
	for cursor := ""; calls < 1000; {
		page, err := call(t.Context(), filter, limit, cursor)
		require.NoError(t, err)
		require.LessOrEqual(t, page.Matched, limit)
		require.Equal(t, page.Matched, page.Done+page.Closed+page.Moved+page.Failed)
		sum.Matched, sum.Done, sum.Closed = sum.Matched+page.Matched, sum.Done+page.Done, sum.Closed+page.Closed
		sum.Moved, sum.Failed = sum.Moved+page.Moved, sum.Failed+page.Failed
		calls++
		if cursor = page.Next; cursor == "" {
			return sum, calls
		}
	}
	require.Fail(t, "the loop has no end")
	return sum, calls
}

// seed stores many ended pushes without a task, as asynq has forgotten them.
func (d *desk) seed(count int, end State, make func(number int) (Push, []Attempt)) []string {
	ids := []string{}
	now := MillisOf(time.Now())
	for start := 0; start < count; start += 1000 {
		_, err := d.client.Pipelined(d.t.Context(), func(pipe redis.Pipeliner) error {
			for number := start; number < min(start+1000, count); number++ {
				push, attempts := make(number)
				record := Record{Push: push, Attempts: attempts, End: end, EndedAt: now - Millis(count-number)}
				text, err := json.Marshal(record)
				require.NoError(d.t, err)
				pipe.Set(d.t.Context(), Swrve.RecordKey(push.ID), text, time.Hour)
				pipe.ZAdd(d.t.Context(), Swrve.DeadKey(), redis.Z{Score: float64(record.EndedAt), Member: push.ID})
				ids = append(ids, push.ID)
			}
			return nil
		})
		require.NoError(d.t, err)
	}
	return ids
}

// together does something so many times, many at once.
func (d *desk) together(count int, do func(number int) error) {
	var all errgroup.Group
	all.SetLimit(64)
	for number := range count {
		all.Go(func() error { return do(number) })
	}
	require.NoError(d.t, all.Wait())
}

func plain(int) (Push, []Attempt) { return newPush(), nil }

// requireNoGhosts wants as many task hashes as the queues say they have tasks.
func (d *desk) requireNoGhosts() {
	hashes := 0
	for _, queue := range Swrve.Queues() {
		keys := d.client.Scan(d.t.Context(), 0, "asynq:{"+queue+"}:t:*", 10_000).Iterator()
		for keys.Next(d.t.Context()) {
			hashes++
		}
		require.NoError(d.t, keys.Err())
	}
	require.Equal(d.t, countTasks(d.t, d.inspector), hashes)
}

func TestBulkInEveryState(t *testing.T) {
	t.Parallel()
	for _, state := range States() {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			operator := d.operator(noon)
			for name, action := range map[string]struct {
				call   bulkCall
				states []State
				after  State
			}{
				"retry":  {operator.RetryAll, RetryableStates(), Pending},
				"cancel": {operator.CancelAll, CancellableStates(), Cancelled},
			} {
				if !slices.Contains(action.states, state) {
					continue
				}
				pushes := []Push{d.inState(state), d.inState(state), d.inState(state)}
				sum, calls := loop(t, action.call, Filter{State: state}, 2)
				require.Equal(t, Bulk{Matched: 3, Done: 3}, sum, name)
				require.Equal(t, 2, calls)
				for _, push := range pushes {
					require.Equal(t, action.after, d.get(push.ID).State)
					require.True(t, d.listed(action.after, push.ID))
					require.False(t, d.listed(state, push.ID))
				}
				sum, _ = loop(t, action.call, Filter{State: state}, MaxBulk)
				require.Zero(t, sum.Matched)
				_, err := d.inspector.DeleteAllPendingTasks(Swrve.ImmediateQueue())
				require.NoError(t, err)
			}
			d.requireNoGhosts()
		})
	}
}

func TestBulkFilters(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	now := MillisOf(time.Now())
	ids := d.seed(8, Failed, func(number int) (Push, []Attempt) {
		push := newPush()
		if number%2 == 1 {
			push.MessagePrototypeKey = "Other"
		}
		last := Attempt{Status: AttemptError, ErrorType: ErrorSwrve, ErrorCode: 400 + number%4}
		if number >= 4 {
			last = Attempt{Status: AttemptError, ErrorType: ErrorOther}
		}
		return push, []Attempt{{Status: AttemptError, ErrorType: ErrorSwrve, ErrorCode: 400}, last}
	})
	d.seed(3, GivenUp, plain)
	for _, test := range []struct {
		filter Filter
		want   []int
	}{
		{Filter{ErrorType: ErrorSwrve}, []int{0, 1, 2, 3}},
		{Filter{ErrorType: ErrorOther}, []int{4, 5, 6, 7}},
		{Filter{ErrorCode: 400}, []int{0}},
		{Filter{MessagePrototypeKey: "Other"}, []int{1, 3, 5, 7}},
		{Filter{MessagePrototypeKey: "Other", ErrorType: ErrorSwrve, ErrorCode: 403}, []int{3}},
		{Filter{MessagePrototypeKey: "other"}, nil},
		{Filter{Since: now - 3}, []int{5, 6, 7}},
		{Filter{Since: now + 1}, nil},
	} {
		test.filter.State = Failed
		for place, id := range ids {
			d.endAt(d.get(id).Push, Failed, now-Millis(8-place))
		}
		sum, _ := loop(t, d.operator(noon).RetryAll, test.filter, 3)
		require.Equal(t, Bulk{Matched: len(test.want), Done: len(test.want)}, sum, test.filter)
		for place, id := range ids {
			retried := d.get(id).State == Pending
			require.Equal(t, slices.Contains(test.want, place), retried, "%d %v", place, test.filter)
			if retried {
				require.NoError(t, d.inspector.DeleteTask(Swrve.ImmediateQueue(), id))
			}
		}
	}
}

// An end that comes back is not met again, and neither is a new one.
func TestRetryingComesToAnEndWhilePushesFailAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const count = 300
	ids := d.seed(count, Failed, plain)
	operator := d.operator(time.Now())
	call := func(ctx context.Context, filter Filter, limit int, cursor string) (Bulk, error) {
		page, err := operator.RetryAll(ctx, filter, limit, cursor)
		for _, id := range ids { // a worker that is quick, and fails
			if report := d.get(id); report.State == Pending {
				require.NoError(t, d.inspector.DeleteTask(Swrve.ImmediateQueue(), id))
				require.NoError(t, d.records.End(ctx, report.Push, Failed))
			}
		}
		d.seed(5, Failed, plain)
		return page, err
	}
	sum, calls := loop(t, call, Filter{State: Failed}, 50)
	require.Equal(t, Bulk{Matched: count, Done: count}, sum)
	require.Equal(t, 6+1, calls)
}

// Pushes in RETRY come back with a later time, which may be within the bound.
func TestRetryingWhatWaitsForItsNextAttempt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	start := time.Now()
	startWorker(t, d.server, start)
	ids := []string{}
	for number := range 60 {
		push := pushSaying("attempt failed: SWRVE 503")
		push.PushKey = fmt.Sprint(1 + number%3*20) // minutes
		d.attempt(push, AttemptError, "")
		ids = append(ids, d.accept(push).ID)
	}
	d.waitFor(60, asynq.TaskStateRetry)
	operator := d.operator(time.Now())
	call := func(ctx context.Context, filter Filter, limit int, cursor string) (Bulk, error) {
		page, err := operator.RetryAll(ctx, filter, limit, cursor)
		for _, id := range ids { // the worker tries each once more, and it waits again
			if report := d.get(id); report.State == Pending || report.State == InMemory {
				d.requireState(Retry, id)
				_, err := d.records.Begin(ctx, Attempting{Push: report.Push, Token: NewID(), Interrupted: 0, MaxAttempts: 100})
				require.NoError(t, err)
				later := redis.Z{Score: float64(start.Add(30 * time.Minute).Unix()), Member: id}
				require.NoError(t, d.client.ZAddXX(ctx, asynqStateKey(Swrve.ImmediateQueue(), asynq.TaskStateRetry), later).Err())
			}
		}
		return page, err
	}
	sum, _ := loop(t, call, Filter{State: Retry}, 7)
	require.Equal(t, Bulk{Matched: 60, Done: 60}, sum)
}

func TestBulkOfManyThatShareOneInstant(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	due := time.Now().Add(time.Hour)
	ids := d.acceptMany(450, func(int) Push { return newWindowedPush(due) })
	sum, _ := loop(t, d.operator(time.Now()).RetryAll, Filter{State: Scheduled}, 100)
	require.Equal(t, Bulk{Matched: 450, Closed: 450}, sum, "their window is closed")
	sum, _ = loop(t, d.operator(time.Now()).CancelAll, Filter{State: Scheduled, MessagePrototypeKey: "Other"}, 100)
	require.Zero(t, sum.Matched)
	for _, id := range ids {
		require.Equal(t, Scheduled, d.get(id).State)
	}
	sum, calls := loop(t, d.operator(noon).RetryAll, Filter{State: Scheduled}, 100)
	require.Equal(t, Bulk{Matched: 450, Done: 450}, sum)
	require.LessOrEqual(t, calls, 6)
	d.requireNoGhosts()
}

// Some of the queue are chosen, some go by a worker's hand, new ones come.
func TestCancellingAQueueThatMoves(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const count = 400
	ids := d.acceptMany(count, func(number int) Push {
		push := mixed(newPush(), number)
		if number%3 == 0 {
			push.MessagePrototypeKey = "Other"
		}
		return push
	})
	taken := map[string]bool{}
	operator := d.operator(time.Now())
	call := func(ctx context.Context, filter Filter, limit int, cursor string) (Bulk, error) {
		page, err := operator.CancelAll(ctx, filter, limit, cursor)
		for range 4 { // a worker takes the oldest and forgets it
			id, popErr := d.client.RPop(ctx, asynqStateKey(Swrve.ImmediateQueue(), asynq.TaskStatePending)).Result()
			require.NoError(t, popErr)
			require.NoError(t, d.client.Del(ctx, asynqTaskKey(Swrve.ImmediateQueue(), id)).Err())
			taken[id] = true
		}
		time.Sleep(2 * time.Millisecond) // what is accepted now is newer than the first call
		d.acceptMany(30, func(int) Push { return newPush() })
		return page, err
	}
	sum, calls := loop(t, call, Filter{State: Pending, MessagePrototypeKey: "Hello"}, 20)
	require.Less(t, calls, 30)
	cancelled := 0
	for number, id := range ids {
		if taken[id] {
			continue
		}
		want := Cancelled
		if number%3 == 0 {
			want = Pending
		}
		require.Equal(t, want, d.get(id).State, number)
		if want == Cancelled {
			cancelled++
		}
	}
	require.GreaterOrEqual(t, sum.Done, cancelled)
	require.Equal(t, sum.Done, sum.Matched)
	d.requireNoGhosts()
}

// asynq's archive would drop what is beyond 9,999 without its hash.
func TestCancellingMoreThanTheArchiveHolds(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const count = 10_500
	intake := openIntake(t, d.server.URL())
	pushes := make([]Push, count)
	d.together(count, func(number int) error {
		pushes[number] = newPush()
		_, err := intake.Accept(t.Context(), pushes[number], false)
		return err
	})
	started := time.Now()
	sum, _ := loop(t, d.operator(time.Now()).CancelAll, Filter{State: Pending}, MaxBulk)
	t.Logf("%d cancelled in %s", count, time.Since(started))
	require.Equal(t, Bulk{Matched: count, Done: count}, sum)
	require.Zero(t, countTasks(t, d.inspector))
	d.requireNoGhosts()
	require.EqualValues(t, count, d.client.ZCard(t.Context(), Swrve.DeadKey()).Val())
	for range 20 {
		push := pushes[rand.IntN(count)]
		require.Equal(t, Cancelled, d.get(push.ID).State)
	}
}

// A filter that nothing matches examines no more than so many a call.
func TestBulkExaminesABoundedNumber(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.seed(bulkExamined+10, Failed, plain)
	operator, filter := d.operator(time.Now()), Filter{State: Failed, MessagePrototypeKey: "Other"}
	page, err := operator.RetryAll(t.Context(), filter, MaxBulk, "")
	require.NoError(t, err)
	require.Zero(t, page.Matched)
	require.NotEmpty(t, page.Next)
	match := newPush()
	match.MessagePrototypeKey = "Other"
	since := MillisOf(time.Now())
	d.endAt(match, Failed, since)
	sum, _ := loop(t, func(ctx context.Context, filter Filter, limit int, cursor string) (Bulk, error) {
		if cursor == "" {
			cursor = page.Next
		}
		return operator.RetryAll(ctx, filter, limit, cursor)
	}, filter, MaxBulk)
	require.Zero(t, sum.Matched, "it was not there at the first call")
	sum, _ = loop(t, operator.RetryAll, Filter{State: Failed, MessagePrototypeKey: "Other", Since: since}, MaxBulk)
	require.Equal(t, Bulk{Matched: 1, Done: 1}, sum)
}

func TestBulkCursors(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.seed(5, Failed, plain)
	d.acceptMany(3, func(int) Push { return newPush() })
	operator := d.operator(time.Now())
	page, err := operator.RetryAll(t.Context(), Filter{State: Failed}, 2, "")
	require.NoError(t, err)
	waiting, err := operator.CancelAll(t.Context(), Filter{State: Pending}, 1, "")
	require.NoError(t, err)
	for _, filter := range []Filter{{State: GivenUp}, {State: Failed, Since: 1}, {State: Failed, ErrorCode: 400}, {State: Failed, MessagePrototypeKey: "Hello"}} {
		_, err := operator.RetryAll(t.Context(), filter, 2, page.Next)
		require.ErrorIs(t, err, ErrCursor, filter)
	}
	_, err = operator.CancelAll(t.Context(), Filter{State: Failed}, 2, page.Next)
	require.ErrorIs(t, err, ErrCursor)
	listed, err := d.reader.List(t.Context(), Failed, 1, "")
	require.NoError(t, err)
	for _, forged := range []string{"garbage", "e30", page.Next + "A", page.Next[1:], waiting.Next, listed.Next} {
		_, err := operator.RetryAll(t.Context(), Filter{State: Failed}, 2, forged)
		require.ErrorIs(t, err, ErrCursor, forged)
	}
	again, err := operator.RetryAll(t.Context(), Filter{State: Failed}, 3, page.Next)
	require.NoError(t, err, "the limit may change")
	require.Equal(t, 3, again.Done)
}

// A dry run counts what the real call does then, page by page, and changes nothing.
func TestADryRunCountsAndChangesNothing(t *testing.T) {
	t.Parallel()
	for _, state := range States() {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			operator := d.operator(noon)
			for name, action := range map[string]struct {
				call   bulkCall
				states []State
			}{"retry": {operator.RetryAll, RetryableStates()}, "cancel": {operator.CancelAll, CancellableStates()}} {
				if !slices.Contains(action.states, state) {
					continue
				}
				for range 5 {
					d.inState(state)
				}
				before := d.dump()
				sum, calls := loop(t, action.call, Filter{State: state, DryRun: true}, 2)
				require.Equal(t, Bulk{Matched: 5, Done: 5}, sum, name)
				require.Equal(t, 3, calls)
				require.Equal(t, before, d.dump(), "nothing has changed")
				page, err := action.call(t.Context(), Filter{State: state, DryRun: true}, 2, "")
				require.NoError(t, err)
				_, err = action.call(t.Context(), Filter{State: state}, 2, page.Next)
				require.ErrorIs(t, err, ErrCursor, "a cursor of a dry run is not one of the real call")
				sum, _ = loop(t, action.call, Filter{State: state}, MaxBulk)
				require.Equal(t, Bulk{Matched: 5, Done: 5}, sum, name)
				_, err = d.inspector.DeleteAllPendingTasks(Swrve.ImmediateQueue())
				require.NoError(t, err)
			}
		})
	}
	t.Run("what may not be done", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.accept(newWindowedPush(time.Now().Add(time.Hour)))
		sum, _ := loop(t, d.operator(time.Now()).RetryAll, Filter{State: Scheduled, DryRun: true}, MaxBulk)
		require.Equal(t, Bulk{Matched: 1, Closed: 1}, sum)
	})
}

// dump is all that Redis holds, by key.
func (d *desk) dump() map[string]string {
	all := make(map[string]string)
	for _, key := range d.client.Keys(d.t.Context(), "*").Val() {
		all[key] = d.client.Dump(d.t.Context(), key).Val()
	}
	return all
}

// A Redis that takes no writes is no fault of the push that meets it first.
func TestBulkOnARedisThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.seed(3, Failed, plain)
	d.accept(newPush())
	operator := d.operator(time.Now())
	set := func(name, value string) { require.NoError(t, d.client.ConfigSet(t.Context(), name, value).Err()) }
	for _, refusal := range []struct {
		setting, begin, end string
		full                bool
	}{{"maxmemory", "1", "0", true}, {"min-replicas-to-write", "1", "0", false}} {
		set(refusal.setting, refusal.begin)
		for _, call := range []struct {
			bulkCall
			state State
		}{{operator.RetryAll, Failed}, {operator.CancelAll, Pending}} {
			page, err := call.bulkCall(t.Context(), Filter{State: call.state}, MaxBulk, "")
			require.ErrorIs(t, err, ErrNotStored, refusal.setting)
			require.Equal(t, refusal.full, errors.Is(err, ErrStoreFull), refusal.setting)
			require.Zero(t, page.Done)
		}
		set(refusal.setting, refusal.end)
	}
	sum, _ := loop(t, operator.RetryAll, Filter{State: Failed}, MaxBulk)
	require.Equal(t, Bulk{Matched: 3, Done: 3}, sum)
}

// One push that cannot be read or acted on does not hold up the others, and the
// loop comes to an end.
func TestBulkGoesOnPastAFaultOfOnePush(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	pending := []string{}
	for number := range 6 {
		pending = append(pending, d.accept(newPush()).ID)
		switch number {
		case 2: // a task that cannot be read
			require.NoError(t, d.client.HSet(t.Context(), asynqTaskKey(Swrve.ImmediateQueue(), pending[2]), "msg", "garbage").Err())
		case 4: // an id without a task, and one that is not ours
			require.NoError(t, d.client.LPush(t.Context(), asynqStateKey(Swrve.ImmediateQueue(), asynq.TaskStatePending), NewID(), "old-0").Err())
		}
	}
	sum, _ := loop(t, d.operator(time.Now()).CancelAll, Filter{State: Pending}, 2)
	require.Equal(t, Bulk{Matched: 6, Done: 5, Failed: 1}, sum)

	ids := d.seed(3, Failed, plain)
	require.NoError(t, d.client.Set(t.Context(), Swrve.RecordKey(ids[1]), "{", time.Hour).Err())
	page, err := d.operator(time.Now()).RetryAll(t.Context(), Filter{State: Failed}, MaxBulk, "")
	require.NoError(t, err)
	require.Equal(t, 2, page.Done)
	require.Equal(t, 1, page.Failed)
	require.ErrorContains(t, page.Fault, ids[1])
}

// windowsDown fails commands for the queue of windows, as if its server of a
// cluster were down, after it has let so many pass.
type windowsDown struct{ left atomic.Int64 }

func (w *windowsDown) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *windowsDown) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if strings.Contains(fmt.Sprint(command.Args()), "{"+Swrve.WindowQueue()+"}") && w.left.Add(-1) < 0 {
			command.SetErr(errors.New("connection refused"))
			return command.Err()
		}
		return next(ctx, command)
	}
}

func (w *windowsDown) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// When one server of a cluster fails half-way, the call fails and tells what it
// has done: it does not pass over the rest as faults of single pushes.
func TestBulkWithHalfACluster(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	client, down := d.server.Client(t), &windowsDown{}
	client.AddHook(down)
	reader := NewReader(client, Swrve, NewRecords(client, Swrve, testRetention))
	operator := NewOperator(client, Swrve, testRetention, reader, time.UTC, fixedClock(noon))
	d.seed(250, Failed, plain)

	down.left.Store(150) // enough for the first chunk and a part of the second
	sum, err := operator.RetryAll(t.Context(), Filter{State: Failed}, MaxBulk, "")
	require.ErrorIs(t, err, ErrUnreadable)
	done := countTasks(t, d.inspector)
	require.Greater(t, done, bulkChunk)
	require.Equal(t, Bulk{Matched: done, Done: done}, sum)

	down.left.Store(math.MaxInt64)
	rest, _ := loop(t, operator.RetryAll, Filter{State: Failed}, MaxBulk)
	require.Equal(t, Bulk{Matched: 250 - done, Done: 250 - done}, rest)
}

// A call that fails half-way may be repeated, and then nothing is left out: whether asynq
// has the tasks of the pushes yet, or has forgotten them.
func TestBulkWithoutRedis(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(d *desk) []string{
		"with tasks": func(d *desk) (ids []string) {
			for range 4 {
				ids = append(ids, d.inState(Failed).ID)
			}
			return ids
		},
		"without": func(d *desk) []string { return d.seed(4, Failed, plain) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			proxy := testenv.NewProxy(t, d.server.Addr())
			operator := d.operatorBehind(proxy, noon)

			failed := fail(d)
			require.NoError(t, retryScript.Load(t.Context(), d.client).Err())
			// Taken out of the record, but not run: it is found again.
			proxy.CutReplyTo(retryScript.Hash(), 3)
			page, err := operator.RetryAll(t.Context(), Filter{State: Failed}, 4, "")
			require.NoError(t, err)
			require.Equal(t, 3, page.Failed)
			require.ErrorIs(t, page.Fault, ErrIncomplete)
			require.Equal(t, 3, proxy.Cut())
			failed = append(failed, d.seed(300, Failed, plain)...)

			proxy.Refuse(true)
			_, err = operator.RetryAll(t.Context(), Filter{State: Failed}, MaxBulk, page.Next)
			require.ErrorIs(t, err, ErrUnreadable)
			proxy.Refuse(false)

			d.server.Freeze()
			started := time.Now()
			_, err = operator.RetryAll(t.Context(), Filter{State: Failed}, MaxBulk, "")
			require.ErrorIs(t, err, ErrUnreadable)
			require.Less(t, time.Since(started), time.Minute)
			d.server.Thaw()

			sum, _ := loop(t, operator.RetryAll, Filter{State: Failed}, 100)
			require.Equal(t, len(failed)-1, sum.Done)
			for _, id := range failed {
				require.Equal(t, Pending, d.get(id).State)
			}
			require.Zero(t, d.client.ZCard(t.Context(), Swrve.DeadKey()).Val())
		})
	}
}
