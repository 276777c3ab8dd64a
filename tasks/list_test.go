package tasks

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// list follows a listing to its end and returns the ids of all its pushes.
func (d *desk) list(state State, limit int) []string {
	ids, cursor := []string{}, ""
	for range 1000 {
		page, err := d.reader.List(d.t.Context(), state, limit, cursor)
		require.NoError(d.t, err)
		require.LessOrEqual(d.t, len(page.Reports), limit)
		for _, report := range page.Reports {
			require.Equal(d.t, state, report.State)
			ids = append(ids, report.Push.ID)
		}
		if page.Next == "" {
			return ids
		}
		cursor = page.Next
	}
	require.Fail(d.t, "the listing has no end")
	return nil
}

// requireEach wants every push once, at different sizes of a page.
func (d *desk) requireEach(want []string, state State) {
	for _, limit := range []int{50, MaxPage} {
		got := d.list(state, limit)
		require.Len(d.t, got, len(want), "%s, limit %d", state, limit)
		require.ElementsMatch(d.t, want, got, "%s, limit %d", state, limit)
	}
}

// requireOrder wants exactly these pushes in this order.
func (d *desk) requireOrder(want []string, state State) {
	for _, limit := range []int{1, 7, MaxPage} {
		require.Equal(d.t, want, d.list(state, limit), "%s, limit %d", state, limit)
	}
}

func (d *desk) acceptMany(count int, make func(number int) Push) []string {
	ids := []string{}
	for number := range count {
		ids = append(ids, d.accept(make(number)).ID)
	}
	return ids
}

// waitFor waits until asynq has that many tasks of both queues in a state.
func (d *desk) waitFor(count int, state asynq.TaskState) {
	testenv.Eventually(d.t, 15*time.Second, strconv.Itoa(count)+" tasks "+state.String(), func() bool {
		total := 0
		for _, queue := range Swrve.Queues() {
			info, err := d.inspector.GetQueueInfo(queue)
			require.NoError(d.t, err)
			total += map[asynq.TaskState]int{
				asynq.TaskStateActive: info.Active, asynq.TaskStateRetry: info.Retry, asynq.TaskStateCompleted: info.Completed,
			}[state]
		}
		return total == count
	})
}

// mixed makes every second push a windowed one.
func mixed(push Push, number int) Push {
	if number%2 == 1 {
		push.CronExpression = "* * 9-17 ? * *"
	}
	return push
}

func TestListNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, state := range States() {
		page, err := d.reader.List(t.Context(), state, MaxPage, "")
		require.NoError(t, err)
		require.Empty(t, page.Reports, state)
		require.Empty(t, page.Next, state)
	}
}

func TestListScheduledThatShareOneInstant(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	due := time.Now().Add(time.Hour)
	ids := d.acceptMany(210, func(int) Push { return newWindowedPush(due) })
	d.requireEach(ids, Scheduled)
	require.Empty(t, d.list(Pending, 100))
}

func TestListScheduledByNextAttempt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	order := rand.Perm(40)
	ids := make([]string, len(order))
	for _, minutes := range order {
		ids[minutes] = d.accept(newWindowedPush(time.Now().Add(time.Hour + time.Duration(minutes)*time.Minute))).ID
	}
	// Those deferred to their window stand among them.
	start := time.Now().Add(59*time.Minute + 30*time.Second)
	startWorker(t, d.server, start)
	deferred := pushSaying("deferred: window opens 2026-11-27T09:00:00Z")
	deferred.PushKey = "20" // 79.5 minutes from now, between numbers 19 and 20
	d.accept(deferred)
	d.waitFor(1, asynq.TaskStateRetry)
	d.requireOrder(slices.Insert(ids, 20, deferred.ID), Scheduled)
}

func TestListPendingInQueueOrder(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ids := d.acceptMany(230, func(number int) Push { return mixed(newPush(), number) })
	want := []string{}
	for _, remainder := range []int{0, 1} { // the immediate queue first
		for number := remainder; number < len(ids); number += 2 {
			want = append(want, ids[number])
		}
	}
	d.requireOrder(want, Pending)
}

func TestListInMemory(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ids := d.acceptMany(20, func(number int) Push { return mixed(pushSaying("hold"), number) })
	startWorker(t, d.server, time.Now())
	d.waitFor(20, asynq.TaskStateActive)
	d.requireEach(ids, InMemory)
	require.Empty(t, d.list(Pending, 100))
}

// Three states share asynq's retry sets, and here one instant as well.
func TestListTheStatesThatAreInAsynqsRetry(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	texts := []string{"attempt failed: SWRVE 503", "deferred: window opens 2026-11-27T09:00:00Z", "deferred: shutdown"}
	ids := d.acceptMany(240, func(number int) Push { return mixed(pushSaying(texts[number%3]), number) })
	startWorker(t, d.server, time.Now())
	d.waitFor(len(ids), asynq.TaskStateRetry)
	for remainder, state := range []State{Retry, Scheduled, Pending} {
		want := []string{}
		for number := remainder; number < len(ids); number += 3 {
			want = append(want, ids[number])
		}
		d.requireEach(want, state)
	}
}

func TestListRetryByNextAttempt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ids := make([]string, 40)
	for _, minutes := range rand.Perm(len(ids)) {
		push := mixed(pushSaying("attempt failed: SWRVE 503"), minutes)
		push.PushKey = strconv.Itoa(10 + minutes)
		ids[minutes] = d.accept(push).ID
	}
	startWorker(t, d.server, time.Now())
	d.waitFor(len(ids), asynq.TaskStateRetry)
	d.requireOrder(ids, Retry)
}

// Pending shows the queue before what was deferred.
func TestListPendingWithDeferred(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	startWorker(t, d.server, time.Now())
	deferred := d.acceptMany(3, func(int) Push { return pushSaying("deferred: shutdown") })
	d.waitFor(3, asynq.TaskStateRetry)
	for _, queue := range Swrve.Queues() {
		require.NoError(t, d.inspector.PauseQueue(queue))
	}
	queued := d.acceptMany(3, func(int) Push { return newPush() })
	got := d.list(Pending, 2)
	require.Equal(t, queued, got[:3])
	require.ElementsMatch(t, deferred, got[3:])
}

func TestListSentNewestFirst(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	startWorker(t, d.server, time.Now())
	want := []string{}
	for hours := range 6 {
		// asynq orders by the end of the retention: this stands for the passing
		// of hours.
		retention := testRetention
		retention.Completed = time.Duration(hours+1) * time.Hour
		push := mixed(pushSaying(""), hours)
		_, err := NewIntake(d.client, Swrve, retention).Accept(t.Context(), push, false)
		require.NoError(t, err)
		want = slices.Insert(want, 0, push.ID)
	}
	d.waitFor(len(want), asynq.TaskStateCompleted)
	d.requireOrder(want, Sent)
}

func TestListManySent(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	startWorker(t, d.server, time.Now())
	ids := d.acceptMany(210, func(number int) Push { return mixed(pushSaying(""), number) })
	d.waitFor(len(ids), asynq.TaskStateCompleted)
	d.requireEach(ids, Sent)
}

// endAt ends a push at a time of the test's choosing.
func (d *desk) endAt(push Push, end State, at Millis) {
	require.NoError(d.t, d.records.End(d.t.Context(), push, end))
	require.NoError(d.t, d.client.ZAdd(d.t.Context(), Swrve.DeadKey(), redis.Z{Score: float64(at), Member: push.ID}).Err())
}

func TestListTheDeadNewestFirst(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	now := MillisOf(time.Now())
	for _, state := range []State{Failed, GivenUp, Cancelled} {
		ids := make([]string, 12)
		for _, place := range rand.Perm(len(ids)) {
			push := newPush()
			d.endAt(push, state, now-Millis(place))
			ids[place] = push.ID
		}
		defer d.requireOrder(ids, state) // when the index has all three
	}
}

func TestListManyDeadOfOneInstant(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ids := map[State][]string{}
	instant := MillisOf(time.Now()) - 60_000
	for number := range 210 {
		push, end := newPush(), []State{Failed, GivenUp, Cancelled}[number%3]
		d.endAt(push, end, instant)
		ids[end] = append(ids[end], push.ID)
	}
	for end, want := range ids {
		d.requireEach(want, end)
	}
}

// A dead push that an operator has put back into the queue is listed there.
func TestListARequeuedPush(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	push := newPush()
	d.attempt(push, AttemptError, Failed)
	d.accept(push)
	require.Empty(t, d.list(Failed, 10))
	require.Equal(t, []string{push.ID}, d.list(Pending, 10))
}

// Some are in the archive, some in the index of dead pushes, some in both.
func TestListCancelledWithoutRepeats(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ids := []string{}
	for number := range 210 {
		push := mixed(newPush(), number)
		ids = append(ids, push.ID)
		if number%3 < 2 {
			d.accept(push)
			require.NoError(t, d.inspector.ArchiveTask(Swrve.queue(push), push.ID))
		}
		if number%3 > 0 {
			require.NoError(t, d.records.End(t.Context(), push, Cancelled))
		}
	}
	d.requireEach(ids, Cancelled)
}

// asynq keeps seconds, the index milliseconds.
func TestListCancelledNewestFirstFromArchiveAndIndex(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	archived := d.accept(newPush())
	require.NoError(t, d.inspector.ArchiveTask(Swrve.ImmediateQueue(), archived.ID))
	older, newer := newPush(), newPush()
	d.endAt(older, Cancelled, MillisOf(time.Now())-60_000)
	d.endAt(newer, Cancelled, MillisOf(time.Now())+60_000)
	d.requireOrder([]string{newer.ID, archived.ID, older.ID}, Cancelled)
}

func TestListReadsOnPastPushesInOtherStates(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for range 30 {
		d.endAt(newPush(), Failed, MillisOf(time.Now()))
	}
	old := newPush()
	d.endAt(old, GivenUp, MillisOf(time.Now())-60_000)
	page, err := d.reader.List(t.Context(), GivenUp, 10, "")
	require.NoError(t, err)
	require.Len(t, page.Reports, 1)
	require.Equal(t, old.ID, page.Reports[0].Push.ID)
	require.Empty(t, page.Next)
}

func TestAPageIsAsLongAsItsLimit(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.acceptMany(MaxPage+1, func(int) Push { return newPush() })
	page, err := d.reader.List(t.Context(), Pending, MaxPage, "")
	require.NoError(t, err)
	require.Len(t, page.Reports, MaxPage)
	page, err = d.reader.List(t.Context(), Pending, MaxPage, page.Next)
	require.NoError(t, err)
	require.Len(t, page.Reports, 1)
	require.Empty(t, page.Next)
}

func TestListRefusesAForgedCursor(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.acceptMany(3, func(int) Push { return newPush() })
	page, err := d.reader.List(t.Context(), Pending, 1, "")
	require.NoError(t, err)
	_, err = d.reader.List(t.Context(), Pending, 1, page.Next)
	require.NoError(t, err)
	for _, state := range States() {
		if state == Pending {
			continue
		}
		_, err := d.reader.List(t.Context(), state, 1, page.Next)
		require.ErrorIs(t, err, ErrCursor, state)
	}
	_, err = d.reader.List(t.Context(), Pending, 1, "garbage")
	require.ErrorIs(t, err, ErrCursor)
}

// One record that cannot be decoded must not hide all others.
func TestAListingLeavesOutWhatItCannotDecode(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := server.Client(t)
	require.NoError(t, RegisterQueues(t.Context(), client, Swrve))
	records := NewRecords(client, Swrve, testRetention)
	reader := NewReader(client, Swrve, records)
	good, bad := newPush(), newPush()
	for _, push := range []Push{good, bad} {
		require.NoError(t, records.End(t.Context(), push, Failed))
	}
	require.NoError(t, client.Set(t.Context(), Swrve.RecordKey(bad.ID), "{", time.Hour).Err())
	page, err := reader.List(t.Context(), Failed, 10, "")
	require.NoError(t, err)
	require.Len(t, page.Reports, 1)
	require.Equal(t, good.ID, page.Reports[0].Push.ID)
	_, err = reader.Get(t.Context(), bad.ID)
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrNotFound)
}
