package tasks

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

func TestNothingIsWrittenOverSent(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		key := IdempotencyStateKey("k")
		write := func(state string, seconds int) string {
			told, err := idempotencyStateScript.Run(t.Context(), client, []string{key}, state, seconds).Text()
			require.NoError(t, err)
			require.Equal(t, told, client.Get(t.Context(), key).Val())
			return told
		}
		lives := func() float64 { return client.TTL(t.Context(), key).Val().Seconds() }
		for _, state := range []string{IdempotencyProcessing, IdempotencyFailed, IdempotencyProcessing} {
			require.Equal(t, state, write(state, 60))
			require.InDelta(t, 60, lives(), 2)
		}
		require.Equal(t, IdempotencySent, write(IdempotencySent, 90))
		for _, state := range []string{IdempotencyProcessing, IdempotencyFailed, IdempotencySent} {
			require.Equal(t, IdempotencySent, write(state, 1000))
			require.InDelta(t, 90, lives(), 2)
		}
		require.NoError(t, client.Del(t.Context(), key).Err())
		require.NoError(t, client.HSet(t.Context(), key, "of", "others").Err())
		require.Equal(t, IdempotencyFailed, write(IdempotencyFailed, 60))
	})
}

// Two workers may deal with two ends of a push in any order.
func TestALateFailureLeavesSentAlone(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		n := newNotifier(t, client)
		id, _ := n.post()
		n.end(id, Failed)
		failed, err := n.records.Get(t.Context(), id)
		require.NoError(t, err)
		n.answerLate(id)
		n.tell(id)
		require.Equal(t, IdempotencySent, n.state())
		require.NoError(t, WriteIdempotencyStates(t.Context(), client, FCM, []Record{*failed}))
		require.Equal(t, IdempotencySent, n.state())
	})
}

// answerLate is the OK of an attempt of a push that was taken for dead.
func (n *notifier) answerLate(id string) {
	record, err := n.records.Get(n.t.Context(), id)
	require.NoError(n.t, err)
	end, err := n.records.Finish(n.t.Context(), record.Push, Attempt{Token: record.Attempts[0].Token, Status: AttemptOK}, Sent)
	require.NoError(n.t, err)
	require.Equal(n.t, Sent, end)
}

// A process stalls after it has claimed a key, and others store its push, send it, and say
// so meanwhile.
func TestALateClaimerLeavesSentAlone(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		n := newNotifier(t, client)
		var others string
		n.afterTheClaim(func() {
			others, _ = n.post()
			n.end(others, Sent)
			n.tell(others)
		})
		id, replayed := n.post()
		require.True(t, replayed)
		require.Equal(t, others, id)
		require.Equal(t, IdempotencySent, n.state())
		require.Empty(t, n.waiting())
	})
}

func TestALateRetryLeavesSentAlone(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		n := newNotifier(t, client)
		id, _ := n.post()
		n.end(id, Failed)
		n.tell(id)
		n.afterTheClaim(func() {
			n.answerLate(id)
			n.tell(id)
		})
		require.NoError(t, n.retry(id))
		require.Equal(t, IdempotencySent, n.state())
	})
}

// afterTheClaim does something once a script has written the claim of the key.
func (n *notifier) afterTheClaim(do func()) {
	var done atomic.Bool // what is done asks Redis too
	claim := FCM.ClaimKey(notificationClaimID(n.key))
	n.client.AddHook(afterCommand(func(command redis.Cmder) {
		script := command.Name() == "evalsha" || command.Name() == "eval"
		if script && slices.Contains(command.Args(), any(claim)) && done.CompareAndSwap(false, true) {
			do()
		}
	}))
}

// afterCommand sees each command that Redis has done.
type afterCommand func(redis.Cmder)

func (h afterCommand) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h afterCommand) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h afterCommand) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		err := next(ctx, command)
		if err == nil {
			h(command)
		}
		return err
	}
}

// What Redis is asked for a batch takes two round trips, however many pushes it has.
func TestManyStatesAreWrittenTogether(t *testing.T) {
	t.Parallel()
	servers := map[string]func(t *testing.T) redis.UniversalClient{
		"a server":  func(t *testing.T) redis.UniversalClient { return testenv.StartRedis(t).Client(t) },
		"a cluster": func(t *testing.T) redis.UniversalClient { return testenv.StartCluster(t).Client(t) },
	}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := start(t)
			var ended []Record
			want := map[string]string{}
			for number := range 100 {
				key := fmt.Sprint("key-", number)
				message := testenv.Notification("idempotency_key", fmt.Sprintf("%q", key))
				notification, err := ParseNotification(message)
				require.NoError(t, err)
				push := newNotificationPush(notification, message, NewID())
				record := Record{Push: push, End: []State{Sent, Failed, GivenUp, Cancelled}[number%4]}
				want[key] = IdempotencyFailed
				if record.End == Sent {
					want[key] = IdempotencySent
				}
				claim := push.ID + claimEnded
				if number >= 80 { // the key stands for another push by now
					claim, want[key] = NewID(), ""
				}
				if number%3 > 0 || number >= 80 {
					require.NoError(t, client.Set(t.Context(), FCM.ClaimKey(push.ClaimID), claim, time.Hour).Err())
				}
				ended = append(ended, record)
			}
			seen := &pipelines{}
			client.AddHook(seen)
			ended = append(ended, Record{Push: newPush(), End: Sent}, Record{Push: ended[0].Push}) // no key, no end
			require.NoError(t, WriteIdempotencyStates(t.Context(), client, FCM, ended))
			require.Equal(t, []int{100, 80}, seen.lengths)
			require.Zero(t, seen.single)
			for key, state := range want {
				require.Equal(t, state, client.Get(t.Context(), IdempotencyStateKey(key)).Val(), key)
			}
			require.NoError(t, WriteIdempotencyStates(t.Context(), client, FCM, nil))
		})
	}
}

// pipelines counts what one goroutine asks, but for the greetings of new connections.
type pipelines struct {
	lengths []int
	single  int
}

func (p *pipelines) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if command.Name() != "hello" {
			p.single++
		}
		return next(ctx, command)
	}
}

func (p *pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if commands[0].Name() != "client" {
			p.lengths = append(p.lengths, len(commands))
		}
		return next(ctx, commands)
	}
}

// Who could not tell says so, and may tell again.
func TestStatesAreNotWrittenWithoutRedis(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	n := newNotifier(t, server.Client(t))
	id, _ := n.post()
	n.end(id, Failed)
	record, err := n.records.Get(t.Context(), id)
	require.NoError(t, err)
	server.Stop()
	require.Error(t, WriteIdempotencyStates(t.Context(), n.client, FCM, []Record{*record}))
	server.Start()
	testenv.EventuallyNoError(t, 10*time.Second, func() error {
		return WriteIdempotencyStates(t.Context(), n.client, FCM, []Record{*record})
	})
	require.Equal(t, IdempotencyFailed, n.state())
}
