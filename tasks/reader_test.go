package tasks

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// A desk has everything that reads and writes pushes, on one Redis.
type desk struct {
	t         *testing.T
	channel   Channel
	server    *testenv.Redis
	client    *redis.Client
	intake    *Intake
	records   *Records
	reader    *Reader
	inspector *asynq.Inspector
}

func newDesk(t *testing.T) *desk { return newDeskOf(t, Swrve) }

func newDeskOf(t *testing.T, channel Channel) *desk {
	server := testenv.StartRedis(t)
	client := server.Client(t)
	require.NoError(t, RegisterQueues(t.Context(), client, channel))
	records := NewRecords(client, channel, testRetention)
	return &desk{
		t: t, channel: channel, server: server, client: client, records: records,
		intake:    NewIntake(client, channel, testRetention),
		reader:    NewReader(client, channel, records),
		inspector: asynq.NewInspectorFromRedisClient(client),
	}
}

// own makes the push one of the desk's channel: those of fcm are made of messages.
func (d *desk) own(push Push) Push {
	if d.channel == FCM {
		key := "key-" + push.ID
		push.ClaimID, push.Notification = notificationClaimID(key), testenv.Notification("idempotency_key", strconv.Quote(key))
	}
	return push
}

func (d *desk) accept(push Push) Push {
	push = d.own(push)
	_, err := d.intake.Accept(d.t.Context(), push, false)
	require.NoError(d.t, err)
	return push
}

func (d *desk) get(id string) Report {
	report, err := d.reader.Get(d.t.Context(), id)
	require.NoError(d.t, err)
	return report
}

func (d *desk) requireState(want State, id string) Report {
	testenv.Eventually(d.t, 10*time.Second, string(want), func() bool { return d.get(id).State == want })
	return d.get(id)
}

// attempt records a whole attempt.
func (d *desk) attempt(push Push, status AttemptStatus, end State) {
	_, err := d.records.Begin(d.t.Context(), Attempting{Push: push, Token: push.ID, Interrupted: time.Hour, MaxAttempts: 3})
	require.NoError(d.t, err)
	require.NoError(d.t, errorOf(d.records.Finish(d.t.Context(), push, Attempt{Token: push.ID, Status: status}, end)))
}

func TestGetAScheduledPush(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	push := d.accept(newWindowedPush(time.Now().Add(time.Hour)))
	report := d.get(push.ID)
	require.Equal(t, Scheduled, report.State)
	require.Equal(t, push, report.Push)
	require.False(t, report.NextAttemptAt.Before(push.DueAt.Time()))
	require.Less(t, report.NextAttemptAt.Sub(push.DueAt.Time()), time.Second)
	require.Equal(t, time.UTC, report.NextAttemptAt.Location())
	require.Empty(t, report.Attempts)
}

func TestGetAPendingPush(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	push := d.accept(newPush())
	require.Equal(t, Report{Push: push, State: Pending}, d.get(push.ID))
}

func TestGetAPushThatAWorkerHolds(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	push := d.accept(pushSaying("hold"))
	startWorker(t, d.server, time.Now())
	report := d.requireState(InMemory, push.ID)
	require.Equal(t, push, report.Push)
	require.True(t, report.NextAttemptAt.IsZero())
}

func TestGetAPushThatWaitsForItsNextRun(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	start := time.Now()
	startWorker(t, d.server, start)
	for text, want := range map[string]State{
		"attempt failed: SWRVE 503":                   Retry,
		"deferred: window opens 2026-11-27T09:00:00Z": Scheduled,
		"deferred: shutdown":                          Pending,
	} {
		push := pushSaying(text)
		d.attempt(push, AttemptError, "")
		d.accept(push)
		testenv.Eventually(t, 10*time.Second, text, func() bool { return !d.get(push.ID).NextAttemptAt.IsZero() })
		report := d.get(push.ID)
		require.Equal(t, want, report.State)
		require.WithinDuration(t, start.Add(time.Hour), report.NextAttemptAt, 2*time.Second)
		require.Len(t, report.Attempts, 1)
		text, err := d.reader.LastError(Swrve.ImmediateQueue(), push.ID)
		require.NoError(t, err)
		require.Equal(t, push.Message, text)
	}
}

// With and without asynq's task, the ends read the same.
func TestGetAnEndedPush(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	startWorker(t, d.server, time.Now())
	for text, want := range map[string]State{
		"":                           Sent,
		"failed: SWRVE 400: no user": Failed,
		"given up: OTHER: no answer": GivenUp,
	} {
		push := pushSaying(text)
		status := AttemptError
		if want == Sent {
			status = AttemptOK
		}
		d.attempt(push, status, want)
		d.accept(push)
		archivedOrCompleted := func() bool {
			task, err := d.inspector.GetTaskInfo(Swrve.ImmediateQueue(), push.ID)
			return err == nil && (task.State == asynq.TaskStateArchived || task.State == asynq.TaskStateCompleted)
		}
		testenv.Eventually(t, 10*time.Second, "end of "+text, archivedOrCompleted)
		withTask := d.get(push.ID)
		require.Equal(t, want, withTask.State)
		require.Equal(t, push, withTask.Push)
		require.Len(t, withTask.Attempts, 1)
		require.True(t, withTask.NextAttemptAt.IsZero())

		require.NoError(t, d.inspector.DeleteTask(Swrve.ImmediateQueue(), push.ID))
		require.Equal(t, withTask, d.get(push.ID))
	}
}

// asynq may lose the worker's answer, and shows the push as in retry then.
func TestGetADeliveredPushThatAsynqStillRetries(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	push := pushSaying("asynq: task lease expired")
	d.attempt(push, AttemptOK, Sent)
	d.accept(push)
	startWorker(t, d.server, time.Now())
	testenv.Eventually(t, 10*time.Second, "a retry", func() bool {
		task, err := d.inspector.GetTaskInfo(Swrve.ImmediateQueue(), push.ID)
		return err == nil && task.State == asynq.TaskStateRetry
	})
	report := d.get(push.ID)
	require.Equal(t, Sent, report.State)
	require.True(t, report.NextAttemptAt.IsZero())
}

func TestGetAPushThatAnOperatorStopped(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	push := d.accept(newPush())
	require.NoError(t, d.inspector.ArchiveTask(Swrve.ImmediateQueue(), push.ID))
	require.Equal(t, Report{Push: push, State: Cancelled}, d.get(push.ID))

	require.NoError(t, d.inspector.RunTask(Swrve.ImmediateQueue(), push.ID))
	require.Equal(t, Pending, d.get(push.ID).State)

	// Deleted, its record is all that is left, or nothing.
	require.NoError(t, d.inspector.DeleteTask(Swrve.ImmediateQueue(), push.ID))
	_, err := d.reader.Get(t.Context(), push.ID)
	require.ErrorIs(t, err, ErrNotFound)
	d.attempt(push, AttemptError, "")
	require.Equal(t, Cancelled, d.get(push.ID).State)
}

func TestGetAPushWhosePayloadCannotBeDecoded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := NewID()
	_, err := asynq.NewClientFromRedisClient(d.client).Enqueue(asynq.NewTask(Swrve.TaskType(), []byte("\xff{")),
		asynq.TaskID(id), asynq.Queue(Swrve.WindowQueue()))
	require.NoError(t, err)
	require.Equal(t, Report{Push: Push{ID: id}, State: Pending}, d.get(id))
}

func TestGetAnIDThatNamesNoPush(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	push := d.accept(newPush())
	for _, id := range []string{
		"", NewID(), KeyedID("caller", "key"), strings.ToLower(push.ID), push.ID + "0", push.ID[:25], " " + push.ID,
		push.ID[:13] + "/" + push.ID[14:], "../../../etc/passwd", strings.Repeat("A", 300), strings.Repeat("Z", 26),
		"01M8FKQ944MZEQ408G8G9K98\n\x00", "Привет-привет", "00000000000000000000000000",
	} {
		_, err := d.reader.Get(t.Context(), id)
		require.ErrorIs(t, err, ErrNotFound, "%q", id)
	}
}

func TestGetATaskThatIsNoPush(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, err := asynq.NewClientFromRedisClient(d.client).Enqueue(asynq.NewTask("somebody:else", nil),
		asynq.TaskID("not-a-push"), asynq.Queue(Swrve.ImmediateQueue()))
	require.NoError(t, err)
	_, err = d.reader.Get(t.Context(), "not-a-push")
	require.ErrorIs(t, err, ErrNotFound)
}

// A queue that asynq has forgotten is a fault: nobody may take its pushes for
// gone.
func TestGetFromAQueueThatIsNotRegistered(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	push := d.accept(newPush())
	require.NoError(t, d.client.SRem(t.Context(), "asynq:queues", Swrve.WindowQueue()).Err())
	for _, id := range []string{push.ID, NewID()} {
		_, err := d.reader.Get(t.Context(), id)
		require.ErrorIs(t, err, ErrUnreadable)
		require.NotErrorIs(t, err, ErrNotFound)
	}
	_, err := d.reader.LastError(Swrve.WindowQueue(), push.ID)
	require.ErrorIs(t, err, ErrUnreadable)

	require.NoError(t, RegisterQueues(t.Context(), d.client, Swrve))
	require.Equal(t, Pending, d.get(push.ID).State)
}

func TestReadingWithoutRedis(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	reader := NewReader(client, Swrve, NewRecords(client, Swrve, testRetention))
	server.Stop()
	_, err := reader.Get(t.Context(), NewID())
	require.ErrorIs(t, err, ErrUnreadable)
	require.NotErrorIs(t, err, ErrNotFound)
	for _, state := range States() {
		_, err := reader.List(t.Context(), state, 10, "")
		require.ErrorIs(t, err, ErrUnreadable, state)
	}
	require.Error(t, RegisterQueues(t.Context(), client, Swrve))
}

func TestGetARecordThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	push := d.accept(newPush())
	require.NoError(t, d.client.Set(t.Context(), Swrve.RecordKey(push.ID), "{", time.Hour).Err())
	_, err := d.reader.Get(t.Context(), push.ID)
	require.ErrorContains(t, err, "decode the record of push "+push.ID)
	require.NotErrorIs(t, err, ErrNotFound)
}

func TestLastErrorOfATaskThatHasNone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	push := d.accept(newPush())
	for _, id := range []string{push.ID, NewID()} {
		text, err := d.reader.LastError(Swrve.ImmediateQueue(), id)
		require.NoError(t, err)
		require.Empty(t, text)
	}
}
