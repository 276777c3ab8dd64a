package tasks

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// A notifier posts messages of the channel fcm, each time with the same key.
type notifier struct {
	t       *testing.T
	client  *redis.Client
	intake  *Intake
	records *Records
	inspect *asynq.Inspector
	message []byte
	key     string
}

func newNotifier(t *testing.T, client *redis.Client) *notifier {
	intake := NewIntake(client, FCM, testRetention)
	t.Cleanup(intake.Close)
	n := &notifier{
		t: t, client: client, intake: intake, records: NewRecords(client, FCM, testRetention),
		inspect: asynq.NewInspectorFromRedisClient(client), message: testenv.Notification(),
	}
	parsed, err := ParseNotification(n.message)
	require.NoError(t, err)
	n.key = parsed.IdempotencyKey
	return n
}

func (n *notifier) post() (id string, replayed bool) {
	n.t.Helper()
	parsed, err := ParseNotification(n.message)
	require.NoError(n.t, err)
	id, replayed, err = n.intake.Notify(n.t.Context(), parsed, n.message, time.Now())
	require.NoError(n.t, err)
	return id, replayed
}

// end ends the push as a worker does, and its task too.
func (n *notifier) end(id string, end State) {
	n.t.Helper()
	info, err := n.inspect.GetTaskInfo(FCM.ImmediateQueue(), id)
	require.NoError(n.t, err)
	push, err := DecodePush(id, info.Payload)
	require.NoError(n.t, err)
	_, err = n.records.Begin(n.t.Context(), Attempting{Push: push, Token: NewID(), Interrupted: time.Minute, MaxAttempts: 4})
	require.NoError(n.t, err)
	require.NoError(n.t, n.records.End(n.t.Context(), push, end))
	require.NoError(n.t, n.inspect.ArchiveTask(FCM.ImmediateQueue(), id))
}

// tell is what the follower of ends does.
func (n *notifier) tell(id string) {
	n.t.Helper()
	record, err := n.records.Get(n.t.Context(), id)
	require.NoError(n.t, err)
	require.NoError(n.t, WriteIdempotencyStates(n.t.Context(), n.client, FCM, []Record{*record}))
}

func (n *notifier) state() string {
	return n.client.Get(n.t.Context(), IdempotencyStateKey(n.key)).Val()
}

func TestAKeyStandsForOnePush(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		n := newNotifier(t, client)
		id, replayed := n.post()
		require.False(t, replayed)
		require.Equal(t, IdempotencyProcessing, n.state())
		require.InDelta(t, testRetention.Dead.Seconds(), client.TTL(t.Context(), IdempotencyStateKey(n.key)).Val().Seconds(), 5, "forgotten with the claim")
		task, err := n.inspect.GetTaskInfo(FCM.ImmediateQueue(), id)
		require.NoError(t, err)
		push, err := DecodePush(id, task.Payload)
		require.NoError(t, err)
		require.JSONEq(t, string(n.message), string(push.Notification))

		again, replayed := n.post()
		require.True(t, replayed)
		require.Equal(t, id, again)

		n.end(id, Sent)
		again, replayed = n.post()
		require.True(t, replayed, "others have not been told yet")
		require.Equal(t, id, again)
		n.tell(id)
		require.Equal(t, IdempotencySent, n.state())
		require.InDelta(t, 86_400, client.TTL(t.Context(), IdempotencyStateKey(n.key)).Val().Seconds(), 5)
		again, replayed = n.post()
		require.True(t, replayed)
		require.Equal(t, id, again)
	})
}

// There is a claim for every notification, so that of one that was sent is kept no longer
// than its key counts.
func TestTheClaimOfAPushThatHasEnded(t *testing.T) {
	for end, kept := range map[State]time.Duration{Sent: idempotencyKept, Failed: testRetention.Dead} {
		t.Run(string(end), func(t *testing.T) {
			onEachRedis(t, func(t *testing.T, client *redis.Client) {
				n := newNotifier(t, client)
				id, _ := n.post()
				n.end(id, end)
				claim := FCM.ClaimKey(notificationClaimID(n.key))
				require.Equal(t, id+claimEnded, client.Get(t.Context(), claim).Val())
				require.InDelta(t, kept.Seconds(), client.TTL(t.Context(), claim).Val().Seconds(), 5)
			})
		})
	}
}

// While its push is under way, a key must stand for it, however long that takes.
func TestAKeyIsNotForgottenBeforeItsPush(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		n := newNotifier(t, client)
		id, _ := n.post()
		info, err := n.inspect.GetTaskInfo(FCM.ImmediateQueue(), id)
		require.NoError(t, err)
		push, err := DecodePush(id, info.Payload)
		require.NoError(t, err)
		claim := FCM.ClaimKey(push.ClaimID)
		soonForgotten := func() { require.NoError(t, client.Expire(t.Context(), claim, time.Minute).Err()) }
		requireKept := func(after string) {
			t.Helper()
			require.InDelta(t, testRetention.Dead.Seconds(), client.TTL(t.Context(), claim).Val().Seconds(), 60, after)
		}

		soonForgotten()
		_, err = n.records.Begin(t.Context(), Attempting{Push: push, Token: "a", Interrupted: time.Minute, MaxAttempts: 4})
		require.NoError(t, err)
		require.NoError(t, errorOf(n.records.Finish(t.Context(), push, Attempt{Token: "a", Status: AttemptError, ErrorType: ErrorOther}, "")))
		requireKept("a failed attempt")

		soonForgotten()
		push.CreatedAt = MillisOf(time.Now().Add(-testRetention.Dead))
		require.NoError(t, n.records.Keep(t.Context(), push, time.Now()))
		requireKept("a wait")

		soonForgotten()
		require.NoError(t, client.Set(t.Context(), claim, NewID(), redis.KeepTTL).Err())
		_, err = n.records.Begin(t.Context(), Attempting{Push: push, Token: "b", Interrupted: time.Minute, MaxAttempts: 4})
		require.NoError(t, err)
		require.NoError(t, errorOf(n.records.Finish(t.Context(), push, Attempt{Token: "b", Status: AttemptError, ErrorType: ErrorOther}, "")))
		require.LessOrEqual(t, client.TTL(t.Context(), claim).Val(), time.Minute, "the claim of another push")
	})
}

func TestAKeyWhosePushDidNotArriveCanBeUsedAgain(t *testing.T) {
	for _, end := range []State{Failed, GivenUp, Cancelled} {
		t.Run(string(end), func(t *testing.T) {
			onEachRedis(t, func(t *testing.T, client *redis.Client) {
				n := newNotifier(t, client)
				first, _ := n.post()
				n.end(first, end)
				n.tell(first)
				require.Equal(t, IdempotencyFailed, n.state())

				second, replayed := n.post()
				require.False(t, replayed)
				require.NotEqual(t, first, second)
				require.Equal(t, IdempotencyProcessing, n.state())
				n.tell(first) // told again, late: the key stands for another push by now
				require.Equal(t, IdempotencyProcessing, n.state())
				third, replayed := n.post()
				require.True(t, replayed)
				require.Equal(t, second, third)
			})
		})
	}
}

// What another system, or an earlier one, has written under the key counts.
func TestStatesThatOthersHaveWritten(t *testing.T) {
	for state, replayed := range map[string]bool{
		IdempotencySent: true, IdempotencyFailed: false, IdempotencyProcessing: false, "something else": false,
	} {
		t.Run(state, func(t *testing.T) {
			onEachRedis(t, func(t *testing.T, client *redis.Client) {
				n := newNotifier(t, client)
				require.NoError(t, client.Set(t.Context(), IdempotencyStateKey(n.key), state, 0).Err())
				id, got := n.post()
				require.Equal(t, replayed, got)
				require.Equal(t, replayed, id == "")
			})
		})
	}
}

func TestAKeyIsForgottenADayAfterItsPushWasSent(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		n := newNotifier(t, client)
		first, _ := n.post()
		n.end(first, Sent)
		parsed, err := ParseNotification(n.message)
		require.NoError(t, err)
		second, replayed, err := n.intake.Notify(t.Context(), parsed, n.message, time.Now().Add(24*time.Hour+time.Second))
		require.NoError(t, err)
		require.False(t, replayed)
		require.NotEqual(t, first, second)
	})
}

// A process that dies between the claim and the task leaves a key that blocks nothing.
func TestACrashBetweenClaimAndTask(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		n := newNotifier(t, client)
		id := NewID()
		require.NoError(t, client.Set(t.Context(), FCM.ClaimKey(notificationClaimID(n.key)), id, time.Hour).Err())
		got, _ := n.post()
		require.Equal(t, id, got)
		_, err := n.inspect.GetTaskInfo(FCM.ImmediateQueue(), id)
		require.NoError(t, err)
	})
}

func TestFiftyAtOnceWithOneKeyAreOnePush(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		n := newNotifier(t, client)
		for round := range 5 {
			n.message = testenv.Notification("idempotency_key", fmt.Sprintf("%q", fmt.Sprintf("key-%d", round)))
			parsed, err := ParseNotification(n.message)
			require.NoError(t, err)
			const callers = 50
			var all sync.WaitGroup
			var mutex sync.Mutex
			ids, fresh := map[string]bool{}, 0
			for range callers {
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					id, replayed, err := n.intake.Notify(ctx, parsed, n.message, time.Now())
					mutex.Lock()
					defer mutex.Unlock()
					if err == nil {
						ids[id] = true
					} else {
						t.Error(err)
					}
					if !replayed {
						fresh++
					}
				})
			}
			all.Wait()
			require.Len(t, ids, 1)
			require.Equal(t, 1, fresh)
		}
		info, err := n.inspect.GetQueueInfo(FCM.ImmediateQueue())
		require.NoError(t, err)
		require.Equal(t, 5, info.Size)
	})
}

// retell posts a message with the same key and other fields, as testenv.Notification
// takes them.
func (n *notifier) retell(replaced ...string) (id string, replayed bool, err error) {
	n.t.Helper()
	message := testenv.Notification(append([]string{"idempotency_key", strconv.Quote(n.key)}, replaced...)...)
	parsed, err := ParseNotification(message)
	require.NoError(n.t, err)
	return n.intake.Notify(n.t.Context(), parsed, message, time.Now())
}

// A message is a repetition only if it asks for what the key's push does. Any other must
// not be taken for done: that push may fail, and then nothing would be left of it.
func TestAMessageOfOtherContentIsNoRepetition(t *testing.T) {
	others := map[string][]string{
		"user":      {"user_id", `"u2"`},
		"recipient": {"recipient", `"another-token"`},
		"template":  {"template_code", `"goodbye"`},
		"variable":  {"variables", `{"name":"Eve","link":"https://example.com/welcome"}`},
		"language":  {"language", `"de"`},
	}
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		n := newNotifier(t, client)
		first, _ := n.post()
		requireRefused := func(when string) {
			t.Helper()
			for name, other := range others {
				_, _, err := n.retell(other...)
				require.ErrorIs(t, err, ErrContentDiffers, "%s, other %s", when, name)
				require.ErrorContains(t, err, first)
			}
			again, replayed := n.post()
			require.True(t, replayed, when)
			require.Equal(t, first, again, when)
		}
		requireRefused("waits")
		n.end(first, Sent)
		requireRefused("sent")
		n.tell(first)
		requireRefused("sent, as others read too")
		require.NoError(t, n.inspect.DeleteTask(FCM.ImmediateQueue(), first))
		requireRefused("its task is gone")
		require.NoError(t, client.Del(t.Context(), FCM.RecordKey(first)).Err())
		_, replayed, err := n.retell(others["user"]...)
		require.NoError(t, err)
		require.True(t, replayed, "nothing is known of its content any more")
	})
}

func TestAMessageOfOtherContentAfterAFailure(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		n := newNotifier(t, client)
		first, _ := n.post()
		n.end(first, Failed)
		second, replayed, err := n.retell("recipient", `"another-token"`)
		require.NoError(t, err)
		require.False(t, replayed)
		require.NotEqual(t, first, second)
		_, _, err = n.intake.Notify(t.Context(), mustParse(t, n.message), n.message, time.Now())
		require.ErrorIs(t, err, ErrContentDiffers, "the key stands for the other one now")
	})
}

func mustParse(t *testing.T, message []byte) Notification {
	t.Helper()
	parsed, err := ParseNotification(message)
	require.NoError(t, err)
	return parsed
}

// What makes no difference to anybody makes none here.
func TestARepetitionMayBeWrittenInAnotherWay(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		n := newNotifier(t, client)
		n.message = testenv.Notification("variables", `{"name":"Ada","count":3,"first":true}`, "metadata", `{"a":{"b":[1,null]},"c":12345678901234567890}`)
		first, _ := n.post()
		for name, other := range map[string][]string{
			"order and blanks": {"variables", ` { "first" : true , "count":3,"name":"\u0041da" }`, "metadata", `{"c":12345678901234567890, "a":{"b":[1, null]}}`},
			"a number as text": {"variables", `{"name":"Ada","count":"3","first":"true"}`, "metadata", `{"a":{"b":[1,null]},"c":12345678901234567890}`},
			"trace":            {"variables", `{"name":"Ada","count":3,"first":true}`, "metadata", `{"a":{"b":[1,null]},"c":12345678901234567890}`, "trace_id", `"another"`},
			"metadata":         {"variables", `{"name":"Ada","count":3,"first":true}`, "metadata", `{"sent_at":"2026-01-04T12:00:01Z"}`},
			"unknown field":    {"variables", `{"name":"Ada","count":3,"first":true}`, "metadata", `{"a":{"b":[1,null]},"c":12345678901234567890}`, "try", `2`},
		} {
			id, replayed, err := n.retell(other...)
			require.NoError(t, err, name)
			require.True(t, replayed, name)
			require.Equal(t, first, id, name)
		}
		_, _, err := n.retell("variables", `{"name":"Ada","count":4,"first":true}`)
		require.ErrorIs(t, err, ErrContentDiffers)
	})
}

// Whoever has claimed the key may be slower than one who finds its claim: then the push
// has the other one's content.
func TestAClaimerWhoseKeyOthersHaveUsed(t *testing.T) {
	for _, sent := range []bool{false, true} {
		t.Run(fmt.Sprint("sent meanwhile: ", sent), func(t *testing.T) {
			onEachRedis(t, func(t *testing.T, client *redis.Client) {
				n := newNotifier(t, client)
				var others string
				n.afterTheClaim(func() {
					id, replayed, err := n.retell("recipient", `"another-token"`)
					require.NoError(t, err)
					require.False(t, replayed)
					others = id
					if sent {
						n.end(id, Sent)
						n.tell(id)
					}
				})
				_, _, err := n.intake.Notify(t.Context(), mustParse(t, n.message), n.message, time.Now())
				require.ErrorIs(t, err, ErrContentDiffers)
				require.ErrorContains(t, err, others)
			})
		})
	}
}

func TestAClaimIsReplacedOnlyAsItWasSeen(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		key := FCM.ClaimKey("k")
		replace := func(seen, id string) string {
			claim, err := claimReplaceScript.Run(t.Context(), client, []string{key}, seen, id, 60).Text()
			require.NoError(t, err)
			return claim
		}
		require.Equal(t, "A", replace("", "A"))
		require.Equal(t, "A", replace("", "B"), "somebody was quicker")
		require.Equal(t, "B", replace("A", "B"))
		require.Equal(t, "B", replace("A ended", "C"))
		require.InDelta(t, 60, client.TTL(t.Context(), key).Val().Seconds(), 2)
	})
}
