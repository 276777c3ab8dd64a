package tasks

import (
	"log/slog"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// without runs something while the user of Redis has no right to a command, and says what
// came of it.
func without(t *testing.T, client *redis.Client, command string, run func() error) error {
	t.Helper()
	require.NoError(t, client.Do(t.Context(), "ACL", "SETUSER", "default", "-"+command).Err())
	err := run()
	require.NoError(t, client.Do(t.Context(), "ACL", "SETUSER", "default", "+"+command).Err())
	return err
}

// Redis may refuse any command of a script, and keeps what the script has written before.
// When the script is repeated, the record, the index, the claim and the followers are as
// if nothing had been refused.
func TestNothingIsDroppedWhenRedisRefusesACommand(t *testing.T) {
	t.Parallel()
	millis := int64(12)
	failure := Attempt{Token: "a", Status: AttemptError, Millis: &millis, ErrorType: ErrorOther, ErrorMessage: "no"}
	type change struct {
		run          func(s *story) error
		end          State
		ends, others int64 // what the followers of ends and of attempts are told
	}
	for name, change := range map[string]change{
		"a first attempt delivers": {func(s *story) error {
			return errorOf(s.records.Finish(s.ctx, s.push, sent("a"), Sent))
		}, Sent, 1, 1},
		"an attempt fails for good": {func(s *story) error {
			return errorOf(s.records.Finish(s.ctx, s.push, failure, Failed))
		}, Failed, 1, 1},
		"an attempt fails": {func(s *story) error {
			return errorOf(s.records.Finish(s.ctx, s.push, failure, ""))
		}, "", 0, 1},
		"given up": {func(s *story) error { return s.records.End(s.ctx, s.push, GivenUp) }, GivenUp, 1, 1},
		"cancelled": {func(s *story) error {
			content, err := s.push.encode()
			require.NoError(s.t, err)
			return cancelScript.Run(s.ctx, s.client,
				[]string{Swrve.RecordKey(s.push.ID), Swrve.DeadKey(), Swrve.ClaimKey(s.push.ID), Swrve.FollowersKey()},
				s.push.ID, content, 0, seconds(testRetention.Dead), "", time.Hour.Milliseconds()).Err()
		}, Cancelled, 1, 1},
	} {
		for _, command := range []string{"xadd", "set", "zadd", "zrem", "zremrangebyscore", "hgetall"} {
			t.Run(name+" without "+command, func(t *testing.T) {
				t.Parallel()
				client := testenv.StartRedis(t).Client(t)
				require.NoError(t, RegisterQueues(t.Context(), client, Swrve))
				s := newStory(t, client)
				require.NoError(t, AddFollowers(s.ctx, client, Swrve, Followers{Ends: []string{"e"}, Attempts: []string{"a"}}))
				require.NoError(t, client.Set(s.ctx, Swrve.ClaimKey(s.push.ID), "hash", time.Hour).Err())
				s.enqueue()
				if change.end != Cancelled {
					s.begun("a")
				}
				run := func() error { return change.run(s) }
				if err := without(t, client, command, run); err != nil {
					require.ErrorContains(t, err, "can't run this command")
					require.NoError(t, run())
				}
				require.Equal(t, change.end, s.record().End)
				require.Equal(t, change.end != "" && change.end != Sent, s.dead())
				claim := "hash"
				if change.end != "" {
					claim += " ended"
				}
				require.Equal(t, claim, client.Get(s.ctx, Swrve.ClaimKey(s.push.ID)).Val())
				told := func(name string) int64 { return client.XLen(s.ctx, Swrve.FollowKey(name)).Val() }
				require.GreaterOrEqual(t, told("e"), change.ends)
				require.GreaterOrEqual(t, told("a"), change.others)
				if command != "set" { // the only one behind what is told
					require.Equal(t, []int64{change.ends, change.others}, []int64{told("e"), told("a")})
				}
			})
		}
	}
}

// A task that moves from one place to another is in one of them, whatever Redis refuses,
// so that the repetition finds it.
func TestNoTaskIsLostWhenRedisRefusesACommand(t *testing.T) {
	t.Parallel()
	queue := Swrve.ImmediateQueue()
	active := func(s *story) { s.enqueue(); s.take() }
	type move struct {
		prepare func(s *story)
		run     func(s *story) error
		to      asynq.TaskState
	}
	for name, move := range map[string]move{
		"accepted": {func(*story) {}, func(s *story) error {
			intake := NewIntake(s.client, Swrve, testRetention)
			defer intake.Close()
			_, err := intake.Accept(s.ctx, s.push, false)
			return err
		}, asynq.TaskStatePending},
		"taken back": {func(s *story) {
			active(s)
			past := float64(time.Now().Add(-time.Hour).Unix())
			require.NoError(s.t, s.client.ZAdd(s.ctx, asynqLeaseKey(queue), redis.Z{Score: past, Member: s.push.ID}).Err())
		}, func(s *story) error {
			_, err := NewCaretaker(s.client, Swrve, s.records, slog.New(slog.DiscardHandler)).takeBack(s.ctx, queue)
			return err
		}, asynq.TaskStateRetry},
		"given back": {active, func(s *story) error {
			lease := int64(s.client.ZScore(s.ctx, asynqLeaseKey(queue), s.push.ID).Val())
			return NewTaker(s.client, queue).GiveBack(s.ctx, []Taken{{ID: s.push.ID, leaseEnd: lease}})
		}, asynq.TaskStatePending},
		"without a lease": {func(s *story) {
			active(s)
			require.NoError(s.t, s.client.Del(s.ctx, asynqLeaseKey(queue)).Err())
		}, func(s *story) error {
			return leaselessRequeueScript.Run(s.ctx, s.client, []string{
				asynqStateKey(queue, asynq.TaskStateActive), asynqLeaseKey(queue),
				asynqTaskKey(queue, s.push.ID), asynqStateKey(queue, asynq.TaskStatePending),
			}, s.push.ID, "fix").Err()
		}, asynq.TaskStatePending},
		"rescheduled": {func(s *story) {
			s.enqueue()
			require.NoError(s.t, asynq.NewInspectorFromRedisClient(s.client).ArchiveTask(queue, s.push.ID))
		}, func(s *story) error {
			return rescheduleScript.Run(s.ctx, s.client, []string{
				asynqTaskKey(queue, s.push.ID), asynqStateKey(queue, asynq.TaskStateScheduled),
				asynqStateKey(queue, asynq.TaskStateRetry), asynqStateKey(queue, asynq.TaskStateArchived),
			}, s.push.ID, time.Now().Add(time.Hour).Unix()).Err()
		}, asynq.TaskStateScheduled},
	} {
		for _, command := range []string{"lpush", "rpush", "lrem", "zadd", "zrem", "hset"} {
			t.Run(name+" without "+command, func(t *testing.T) {
				t.Parallel()
				client := testenv.StartRedis(t).Client(t)
				require.NoError(t, RegisterQueues(t.Context(), client, Swrve))
				s := newStory(t, client)
				move.prepare(s)
				places := func() (found []asynq.TaskState) {
					for _, place := range taskPlaces {
						key := asynqStateKey(queue, place)
						var in bool
						if isList(place) {
							in = client.LPos(s.ctx, key, s.push.ID, redis.LPosArgs{}).Err() == nil
						} else {
							in = client.ZScore(s.ctx, key, s.push.ID).Err() == nil
						}
						if in {
							found = append(found, place)
						}
					}
					return found
				}
				if err := without(t, client, command, func() error { return move.run(s) }); err != nil {
					require.ErrorContains(t, err, "can't run this command")
					if name != "accepted" {
						require.NotEmpty(t, places())
					}
					require.NoError(t, move.run(s))
				}
				if name == "accepted" && command == "hset" {
					// Its id is in the queue more than once, which Begin sorts out.
					require.Contains(t, places(), move.to)
					return
				}
				require.Equal(t, []asynq.TaskState{move.to}, places())
				if command != "hset" || move.to == asynq.TaskStatePending { // else asynq sets it when it forwards the task, and the doctor before
					require.Equal(t, move.to, s.taskState())
				}
			})
		}
	}
}
