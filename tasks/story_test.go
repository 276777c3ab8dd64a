package tasks

import (
	"context"
	"encoding/json"
	"runtime"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A story drives the scripts for one push and looks at what they leave behind.
type story struct {
	t       require.TestingT
	ctx     context.Context
	client  *redis.Client
	records *Records
	push    Push
}

func newStory(t *testing.T, client *redis.Client) *story {
	return &story{t: t, ctx: t.Context(), client: client, records: NewRecords(client, Swrve, testRetention), push: newPush()}
}

// attempting is a run of three allowed attempts, none of which counts as dead.
func (s *story) attempting(token string) Attempting {
	return Attempting{Push: s.push, Token: token, Interrupted: time.Hour, MaxAttempts: 3}
}

func (s *story) begin(attempting Attempting) Begun {
	begun, err := s.records.Begin(s.ctx, attempting)
	require.NoError(s.t, err)
	return begun
}

// begun begins an attempt that must be allowed.
func (s *story) begun(token string) Begun {
	begun := s.begin(s.attempting(token))
	require.Equal(s.t, Go, begun.Answer)
	return begun
}

// interrupt makes the begun attempt look as if it had started age ago.
func (s *story) interrupt(token string, age time.Duration) {
	record := s.record()
	for place := range record.Attempts {
		if record.Attempts[place].Token == token {
			record.Attempts[place].StartedAt = MillisOf(time.Now().Add(-age))
		}
	}
	s.write(record)
}

func (s *story) write(record *Record) {
	text, err := json.Marshal(record)
	require.NoError(s.t, err)
	require.NoError(s.t, s.client.Set(s.ctx, Swrve.RecordKey(s.push.ID), text, time.Hour).Err())
}

func (s *story) succeed(token string) {
	millis := int64(12)
	require.NoError(s.t, errorOf(s.records.Finish(s.ctx, s.push, Attempt{Token: token, Status: AttemptOK, Millis: &millis}, Sent)))
}

// fail records an error of the provider, and the end of the push or "".
func (s *story) fail(token string, end State) {
	millis := int64(812)
	require.NoError(s.t, errorOf(s.records.Finish(s.ctx, s.push, Attempt{
		Token: token, Status: AttemptError, Millis: &millis,
		ErrorType: ErrorSwrve, ErrorCode: 503, ErrorMessage: "no room",
	}, end)))
}

func (s *story) withdraw(token string) {
	require.NoError(s.t, s.records.Withdraw(s.ctx, s.push, token, "not sent: shutdown"))
}

func (s *story) end(end State) {
	require.NoError(s.t, s.records.End(s.ctx, s.push, end))
}

// record returns the record, or nil.
func (s *story) record() *Record {
	record, err := s.records.Get(s.ctx, s.push.ID)
	require.NoError(s.t, err)
	return record
}

func (s *story) attempts() []AttemptStatus {
	statuses := []AttemptStatus{}
	for _, attempt := range s.record().Attempts {
		statuses = append(statuses, attempt.Status)
	}
	return statuses
}

// dead reports whether the push is in the index of dead pushes.
func (s *story) dead() bool {
	err := s.client.ZScore(s.ctx, Swrve.DeadKey(), s.push.ID).Err()
	if err == redis.Nil {
		return false
	}
	require.NoError(s.t, err)
	return true
}

// requireLifetime wants the record to live that long, give or take a minute.
func (s *story) requireLifetime(want time.Duration) {
	lifetime, err := s.client.TTL(s.ctx, Swrve.RecordKey(s.push.ID)).Result()
	require.NoError(s.t, err)
	require.InDelta(s.t, want.Seconds(), lifetime.Seconds(), 60)
}

// errorOf drops the end that Finish returns.
func errorOf(_ State, err error) error { return err }

func (s *story) enqueue() {
	task, err := newTask(Swrve, s.push, s.records.retention)
	require.NoError(s.t, err)
	_, err = asynq.NewClientFromRedisClient(s.client).EnqueueContext(s.ctx, task)
	require.NoError(s.t, err)
}

// take makes the enqueued task active, as asynq does (internal/rdb: dequeueCmd).
func (s *story) take() {
	queue := Swrve.queue(s.push)
	_, err := s.client.TxPipelined(s.ctx, func(pipe redis.Pipeliner) error {
		pipe.RPopLPush(s.ctx, asynqStateKey(queue, asynq.TaskStatePending), asynqStateKey(queue, asynq.TaskStateActive))
		pipe.HSet(s.ctx, asynqTaskKey(queue, s.push.ID), "state", "active")
		pipe.HDel(s.ctx, asynqTaskKey(queue, s.push.ID), "pending_since")
		pipe.ZAdd(s.ctx, asynqLeaseKey(queue), redis.Z{Score: float64(time.Now().Unix() + 30), Member: s.push.ID})
		return nil
	})
	require.NoError(s.t, err)
}

func (s *story) taskState() asynq.TaskState {
	info, err := asynq.NewInspectorFromRedisClient(s.client).GetTaskInfo(Swrve.queue(s.push), s.push.ID)
	require.NoError(s.t, err)
	return info.State
}

// finishSent finishes the attempt as a worker that holds the task.
func (s *story) finishSent(attempt Attempt) (completed bool) {
	completed, err := s.records.FinishSent(s.ctx, s.push, attempt)
	require.NoError(s.t, err)
	return completed
}

func sent(token string) Attempt {
	millis := int64(12)
	return Attempt{Token: token, Status: AttemptOK, StartedAt: MillisOf(time.Now()), Millis: &millis}
}

// waitForNextMillisecond returns when Redis' clock no longer shows the instant that it
// shows now.
func (s *story) waitForNextMillisecond() {
	now := func() int64 { return s.client.Time(s.ctx).Val().UnixMilli() }
	for started := now(); now() == started; {
		runtime.Gosched()
	}
}
