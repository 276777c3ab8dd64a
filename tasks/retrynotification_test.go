package tasks

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// operator is one of the channel fcm.
func (n *notifier) operator() *Operator {
	require.NoError(n.t, RegisterQueues(n.t.Context(), n.client, FCM))
	reader := NewReader(n.client, FCM, n.records)
	return NewOperator(n.client, FCM, testRetention, reader, time.UTC, fixedClock(time.Now()))
}

func (n *notifier) retry(id string) error { return n.operator().Retry(n.t.Context(), id) }

// requireSuperseded wants a refusal because of another push.
func requireSuperseded(t *testing.T, err error, want SupersededError) {
	t.Helper()
	var superseded *SupersededError
	require.ErrorAs(t, err, &superseded)
	require.Equal(t, want, *superseded)
}

// waiting are the pushes that are about to be sent.
func (n *notifier) waiting() (ids []string) {
	tasks, err := n.inspect.ListPendingTasks(FCM.ImmediateQueue(), asynq.PageSize(1000))
	require.NoError(n.t, err)
	for _, task := range tasks {
		ids = append(ids, task.ID)
	}
	return ids
}

func TestARetriedPushHasItsKeyAgain(t *testing.T) {
	for _, end := range []State{Failed, GivenUp, Cancelled} {
		t.Run(string(end), func(t *testing.T) {
			onEachRedis(t, func(t *testing.T, client *redis.Client) {
				n := newNotifier(t, client)
				id, _ := n.post()
				n.end(id, end)
				n.tell(id)
				ended, err := n.records.Get(t.Context(), id)
				require.NoError(t, err)
				require.NoError(t, n.retry(id))
				require.Equal(t, IdempotencyProcessing, n.state())
				require.NoError(t, WriteIdempotencyStates(t.Context(), client, FCM, []Record{*ended}))
				require.Equal(t, IdempotencyProcessing, n.state(), "others are told of the end late")
				require.Equal(t, []string{id}, n.waiting())

				again, replayed := n.post()
				require.True(t, replayed, "it is under way")
				require.Equal(t, id, again)
				require.Equal(t, []string{id}, n.waiting())

				n.end(id, Sent)
				n.tell(id)
				require.Equal(t, IdempotencySent, n.state())
				again, replayed = n.post()
				require.True(t, replayed)
				require.Equal(t, id, again)
			})
		})
	}
}

func TestAPushWhoseKeyStandsForAnotherIsNotRetried(t *testing.T) {
	for _, end := range []State{"", Failed, Sent} { // of the other
		t.Run(string(end), func(t *testing.T) {
			onEachRedis(t, func(t *testing.T, client *redis.Client) {
				n := newNotifier(t, client)
				first, _ := n.post()
				n.end(first, Failed)
				second, _ := n.post()
				if end != "" {
					n.end(second, end)
				}
				before, err := n.records.Get(t.Context(), first)
				require.NoError(t, err)
				waiting := n.waiting()
				requireSuperseded(t, n.retry(first), SupersededError{State: Failed, By: second})
				after, err := n.records.Get(t.Context(), first)
				require.NoError(t, err)
				require.Equal(t, before, after)
				require.Equal(t, waiting, n.waiting())
				if end == Sent { // nothing is different when others have been told
					n.tell(second)
					requireSuperseded(t, n.retry(first), SupersededError{State: Failed, By: second})
				}

				sum, err := n.operator().RetryAll(t.Context(), Filter{State: Failed}, MaxBulk, "")
				require.NoError(t, err)
				require.Equal(t, 1, sum.Moved)
				require.Zero(t, sum.Failed)
				if end == Failed {
					require.Equal(t, 1, sum.Done, "the other one is retried")
				}
			})
		})
	}
}

// What has been told to others, by whomever, counts as it does for a message.
func TestAPushWhoseMessageWasSentIsNotRetried(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		n := newNotifier(t, client)
		id, _ := n.post()
		n.end(id, GivenUp)
		require.NoError(t, client.Set(t.Context(), IdempotencyStateKey(n.key), IdempotencySent, 0).Err())
		requireSuperseded(t, n.retry(id), SupersededError{State: GivenUp})
		require.Equal(t, IdempotencySent, n.state())
		require.Empty(t, n.waiting())
	})
}

// The claim may have expired, or the task may be gone.
func TestARetryWithoutAClaimOrATask(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		n := newNotifier(t, client)
		id, _ := n.post()
		n.end(id, Failed)
		require.NoError(t, client.Del(t.Context(), FCM.ClaimKey(notificationClaimID(n.key))).Err())
		require.NoError(t, n.inspect.DeleteTask(FCM.ImmediateQueue(), id))
		require.NoError(t, n.retry(id))
		require.Equal(t, []string{id}, n.waiting())
		again, replayed := n.post()
		require.True(t, replayed)
		require.Equal(t, id, again)
	})
}

// The message is the same to the last byte, whatever is in it: Redis would write some
// of it in another way.
func TestARetryLeavesTheMessageAlone(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		n := newNotifier(t, client)
		n.message = testenv.Notification("variables", `{"amount":12345678901234567,"share":1.0,"link":"https://example.com"}`, "metadata", `{"none":[],"deep":{"e":1e2}}`)
		id, _ := n.post()
		n.end(id, Failed)
		require.NoError(t, n.inspect.DeleteTask(FCM.ImmediateQueue(), id))
		operator := n.operator()
		report, err := operator.reader.Get(t.Context(), id)
		require.NoError(t, err)
		record, err := n.records.Get(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, operator.takeBack(t.Context(), report, record, operator.openSeconds(report.Push, time.Time{}))) // and then the process dies
		require.NoError(t, operator.Retry(t.Context(), id))
		task, err := n.inspect.GetTaskInfo(FCM.ImmediateQueue(), id)
		require.NoError(t, err)
		push, err := DecodePush(id, task.Payload)
		require.NoError(t, err)
		require.Equal(t, string(n.message), string(push.Notification))
	})
}

// However a retry and messages with the same key meet, one push is sent.
func TestARetryAndMessagesAtOnceAreOnePush(t *testing.T) {
	for name, prepare := range map[string]func(n *notifier, id string){
		"archived": func(*notifier, string) {},
		"forgotten by asynq": func(n *notifier, id string) {
			require.NoError(n.t, n.inspect.DeleteTask(FCM.ImmediateQueue(), id))
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEachRedis(t, func(t *testing.T, client *redis.Client) {
				n := newNotifier(t, client)
				operator := n.operator()
				retried, superseded := 0, 0
				for range 40 {
					n.message = testenv.Notification("idempotency_key", `"`+NewID()+`"`)
					parsed, err := ParseNotification(n.message)
					require.NoError(t, err)
					first, _ := n.post()
					n.end(first, Failed)
					prepare(n, first)
					var all sync.WaitGroup
					var retryErr error
					ids := make([]string, 3)
					all.Go(func() { retryErr = operator.Retry(context.Background(), first) })
					for place := range ids {
						all.Go(func() {
							time.Sleep(rand.N(4 * time.Millisecond)) // a retry asks more before it claims
							id, _, err := n.intake.Notify(context.Background(), parsed, n.message, time.Now())
							if err != nil {
								t.Error(err)
							}
							ids[place] = id
						})
					}
					all.Wait()
					waiting := n.waiting()
					require.Len(t, waiting, 1, "%v", ids)
					require.Equal(t, []string{waiting[0], waiting[0], waiting[0]}, ids)
					var other *SupersededError
					var moved *StateError
					switch {
					case errors.As(retryErr, &other):
						superseded++
						require.Equal(t, waiting[0], other.By)
						require.NotEqual(t, first, waiting[0])
					case errors.As(retryErr, &moved): // a message has stored the task again
						require.Equal(t, Pending, moved.State)
						require.Equal(t, first, waiting[0])
					default:
						retried++
						require.NoError(t, retryErr)
						require.Equal(t, first, waiting[0])
					}
					require.NoError(t, n.inspect.DeleteTask(FCM.ImmediateQueue(), waiting[0]))
				}
				t.Logf("%d were retried, %d superseded", retried, superseded)
			})
		})
	}
}

// asynq's tools run a push after its end without asking.
func TestAPushThatIsRunAgainHasItsKeyAgain(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		n := newNotifier(t, client)
		id, _ := n.post()
		n.end(id, Failed)
		run := func(id string) Begun {
			record, err := n.records.Get(t.Context(), id)
			require.NoError(t, err)
			begun, err := n.records.Begin(t.Context(), Attempting{Push: record.Push, Token: NewID(), MaxAttempts: 4, Again: true})
			require.NoError(t, err)
			return begun
		}
		begun := run(id)
		require.Equal(t, Go, begun.Answer)
		again, replayed := n.post()
		require.True(t, replayed)
		require.Equal(t, id, again)

		record, err := n.records.Get(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, n.records.End(t.Context(), record.Push, Failed))
		second, replayed := n.post()
		require.False(t, replayed)
		before, err := n.records.Get(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, Begun{Answer: Superseded, End: Failed}, run(id))
		reopened, err := n.records.Reopen(t.Context(), before.Push)
		require.NoError(t, err)
		require.False(t, reopened)
		after, err := n.records.Get(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, before, after)
		again, replayed = n.post()
		require.True(t, replayed)
		require.Equal(t, second, again)
	})
}

// A late answer to an earlier push must not end the claim of the one that has the key.
func TestALateEndLeavesTheClaimOfAnotherPushAlone(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		n := newNotifier(t, client)
		first, _ := n.post()
		n.end(first, Failed)
		second, _ := n.post()
		record, err := n.records.Get(t.Context(), first)
		require.NoError(t, err)
		_, err = n.records.Finish(t.Context(), record.Push, Attempt{Token: record.Attempts[0].Token, Status: AttemptOK}, Sent)
		require.NoError(t, err)
		record, err = n.records.Get(t.Context(), first)
		require.NoError(t, err)
		require.Equal(t, Sent, record.End)
		require.Equal(t, second, client.Get(t.Context(), FCM.ClaimKey(notificationClaimID(n.key))).Val())
		again, replayed := n.post()
		require.True(t, replayed)
		require.Equal(t, second, again)
	})
}
