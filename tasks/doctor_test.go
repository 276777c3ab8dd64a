package tasks

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// A ward is a desk with a doctor that does not wait long.
type ward struct {
	*desk
	doctor *Doctor
}

func newWard(t *testing.T) *ward { return newWardOf(t, Swrve) }

func newWardOf(t *testing.T, channel Channel) *ward {
	d := newDeskOf(t, channel)
	doctor := NewDoctor(d.client, channel, testRetention, 15*time.Second)
	doctor.Pause, doctor.ClaimIdle = 10*time.Millisecond, 0
	return &ward{desk: d, doctor: doctor}
}

// serve starts a worker for both queues.
func (w *ward) serve() {
	worker := asynq.NewServerFromRedisClient(w.server.Client(w.t), asynq.Config{
		Queues: map[string]int{w.channel.ImmediateQueue(): 1, w.channel.WindowQueue(): 1}, LogLevel: asynq.FatalLevel,
	})
	require.NoError(w.t, worker.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })))
	w.t.Cleanup(worker.Shutdown)
}

func (w *ward) examine(fix bool) map[string]Finding {
	w.t.Helper()
	findings, err := w.doctor.Examine(w.t.Context(), fix)
	require.NoError(w.t, err)
	others, err := ExamineOtherQueues(w.t.Context(), w.client)
	require.NoError(w.t, err)
	findings = append(findings, others...)
	byName := make(map[string]Finding)
	for _, finding := range findings {
		require.NotEmpty(w.t, finding.Meaning)
		require.NotEmpty(w.t, finding.Repair)
		if finding.Fault == "unserved-queue" && finding.Queue != "other" {
			continue // of its own test
		}
		name := finding.Fault
		if finding.Queue != "" {
			name += " " + finding.Queue
		}
		byName[name] = finding
	}
	return byName
}

// requireFaultMended shows a fault three times: seen, mended, gone.
func (w *ward) requireFaultMended(name string, ids ...string) {
	w.t.Helper()
	seen := w.examine(false)
	require.Len(w.t, seen, 1, "%v", seen)
	require.Equal(w.t, len(ids), seen[name].Count, "%v", seen)
	require.ElementsMatch(w.t, ids, seen[name].Examples)
	require.True(w.t, seen[name].Left())
	again := w.examine(false)
	require.Equal(w.t, seen, again, "looking changes nothing")
	mended := w.examine(true)[name]
	require.Equal(w.t, len(ids), mended.Fixed)
	require.False(w.t, mended.Left())
	require.Empty(w.t, w.examine(false))
}

// take has a worker that dies at once take the next pushes of a queue.
func (w *ward) take(queue string, lease time.Time, ids ...string) {
	for range ids {
		id, err := w.client.LMove(w.t.Context(), asynqStateKey(queue, asynq.TaskStatePending), asynqStateKey(queue, asynq.TaskStateActive), "RIGHT", "LEFT").Result()
		require.NoError(w.t, err)
		require.Contains(w.t, ids, id)
		require.NoError(w.t, w.client.HSet(w.t.Context(), asynqTaskKey(queue, id), "state", "active").Err())
		if !lease.IsZero() {
			require.NoError(w.t, w.client.ZAdd(w.t.Context(), asynqLeaseKey(queue), redis.Z{Score: float64(lease.Unix()), Member: id}).Err())
		}
	}
}

func TestHealthyQueuesHaveNoFindings(t *testing.T) {
	onEachChannel(t, func(t *testing.T, channel Channel) {
		w := newWardOf(t, channel)
		for _, state := range []State{GivenUp, Failed, Cancelled, Sent, Retry, Scheduled, InMemory} { // its worker takes what is ready
			w.inState(state)
		}
		w.accept(newWindowedPush(time.Now().Add(time.Hour)))
		require.Empty(t, w.examine(true))
	})
}

func TestActiveTasksWithoutALeaseGoBackToTheQueue(t *testing.T) {
	onEachChannel(t, func(t *testing.T, channel Channel) {
		queue := channel.ImmediateQueue()
		w := newWardOf(t, channel)
		first, second := w.accept(newPush()), w.accept(newPush())
		windowed := newWindowedPush(time.Now().Add(-time.Minute))
		windowed.CreatedAt = windowed.DueAt
		w.accept(windowed)
		w.take(queue, time.Time{}, first.ID, second.ID)
		w.take(channel.WindowQueue(), time.Now().Add(time.Hour), windowed.ID)
		require.Equal(t, InMemory, w.get(first.ID).State)

		w.requireFaultMended("leaseless-active "+queue, first.ID, second.ID)
		require.Equal(t, Pending, w.get(first.ID).State)
		require.Equal(t, Pending, w.get(second.ID).State)
		require.Equal(t, InMemory, w.get(windowed.ID).State, "one with a lease is left alone")
		w.inspectable()
	})
}

// inspectable shows that asynq's own statistics work.
func (w *ward) inspectable() {
	for _, queue := range w.channel.Queues() {
		_, err := w.inspector.GetQueueInfo(queue)
		require.NoError(w.t, err)
	}
}

func TestAPushThatMayBeOnItsWayIsNotRequeued(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	push := w.accept(newPush())
	w.take("swrve", time.Time{}, push.ID)
	_, err := w.records.Begin(t.Context(), Attempting{Push: push, Token: "run", Interrupted: time.Hour, MaxAttempts: 3})
	require.NoError(t, err)
	left := w.examine(true)["leaseless-active swrve"]
	require.Equal(t, 1, left.Count)
	require.Zero(t, left.Fixed)
	require.Equal(t, InMemory, w.get(push.ID).State)

	w.doctor.Interrupted = 0 // as if it had begun long ago
	require.Equal(t, 1, w.examine(true)["leaseless-active swrve"].Fixed)
	require.Equal(t, Pending, w.get(push.ID).State)
}

func TestAPushThatAWorkerHasInHandIsNotRequeued(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	push := w.inState(InMemory)
	testenv.Eventually(t, 20*time.Second, "the worker to report what it has", func() bool { // it reports at once and then every five seconds
		inHand, err := w.doctor.inHand()
		return err == nil && inHand[push.ID]
	})
	require.NoError(t, w.client.ZRem(t.Context(), asynqLeaseKey("swrve"), push.ID).Err())
	left := w.examine(true)["leaseless-active swrve"]
	require.Equal(t, 1, left.Count)
	require.Zero(t, left.Fixed)
	require.Equal(t, InMemory, w.get(push.ID).State)
}

// One that cannot be judged does not keep the others from being mended.
func TestOneUndecodableRecordHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for fault, damage := range map[string]func(*ward, string){
		"leaseless-active": func(*ward, string) {},
		"ghost": func(w *ward, id string) {
			require.NoError(w.t, w.client.Del(w.t.Context(), asynqTaskKey("swrve", id)).Err())
		},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			var ids []string
			for range 3 {
				ids = append(ids, w.accept(newPush()).ID)
			}
			w.take("swrve", time.Time{}, ids...)
			for _, id := range ids {
				damage(w, id)
				require.NoError(t, w.client.Set(t.Context(), Swrve.RecordKey(id), "no JSON", 0).Err())
			}
			require.NoError(t, w.client.Del(t.Context(), Swrve.RecordKey(ids[1])).Err())
			findings, err := w.doctor.Examine(t.Context(), true)
			require.ErrorIs(t, err, errUndecodable)
			require.ErrorContains(t, err, ids[0])
			require.ErrorContains(t, err, ids[2])
			fixed := map[string]int{"leaseless-active": 1, "ghost": 3}[fault] // the ids of ghosts are gone, whatever the record is
			require.Contains(t, numbers(findings), [3]any{fault, 3, fixed})
		})
	}
}

// numbers are the fault, count and fixed of each finding.
func numbers(findings []Finding) (all [][3]any) {
	for _, finding := range findings {
		all = append(all, [3]any{finding.Fault, finding.Count, finding.Fixed})
	}
	return all
}

func TestARedisThatIsGoneEndsTheJudging(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.server.Stop()
	judged := 0
	check := w.doctor.ghostCheck("swrve", asynq.TaskStatePending)
	judge := check.judge
	check.judge = func(ctx context.Context, one suspect, fix bool) (verdict, error) {
		judged++
		return judge(ctx, one, fix)
	}
	_, err := check.judgeAll(t.Context(), []suspect{{id: "a"}, {id: "b"}}, true)
	require.ErrorIs(t, err, ErrUnreadable)
	require.Equal(t, 1, judged)
}

func TestMoreLeaselessThanAreJudged(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	ids := make([]any, maxSuspects+1)
	for place := range ids {
		ids[place] = "leaseless-" + strconv.Itoa(place)
	}
	require.NoError(t, w.client.LPush(t.Context(), asynqStateKey("swrve", asynq.TaskStateActive), ids...).Err())
	check := w.doctor.leaselessCheck("swrve")
	suspects, err := check.look(t.Context())
	require.NoError(t, err)
	check.judge = func(context.Context, suspect, bool) (verdict, error) { return mended, nil }
	finding, err := check.judgeAll(t.Context(), suspects, true)
	require.NoError(t, err)
	require.Equal(t, maxSuspects, finding.Fixed)
	require.True(t, finding.More)
	require.True(t, finding.Left())
}

func TestGhostsAreRemoved(t *testing.T) {
	onEachChannel(t, func(t *testing.T, channel Channel) {
		for _, state := range []State{Scheduled, Pending, InMemory, Retry, Sent, Failed} {
			t.Run(string(state), func(t *testing.T) {
				t.Parallel()
				w := newWardOf(t, channel)
				push := w.own(newPush())
				if state == InMemory {
					w.accept(push)
					w.take(channel.queue(push), time.Now().Add(time.Hour), push.ID)
				} else {
					push = w.inState(state)
				}
				queue := channel.queue(push)
				require.NoError(t, w.client.Del(t.Context(), asynqTaskKey(queue, push.ID)).Err())
				if state == InMemory { // as asynq's dequeue leaves it
					require.NoError(t, w.client.HSet(t.Context(), asynqTaskKey(queue, push.ID), "state", "active").Err())
				}
				w.requireFaultMended("ghost "+queue, push.ID)
				w.inspectable()
				switch state {
				case Retry: // its record has what is to be sent
					report := w.get(push.ID)
					require.Equal(t, Pending, report.State)
					require.Equal(t, push.Message, report.Push.Message)
					require.Len(t, report.Attempts, 1)
				case Sent, Failed:
					require.Equal(t, state, w.get(push.ID).State)
				default:
					_, err := w.reader.Get(t.Context(), push.ID)
					require.ErrorIs(t, err, ErrNotFound, "nothing is left of it")
				}
			})
		}
	})
}

func TestMisplacedTasksGoWhereTheyBelong(t *testing.T) {
	onEachChannel(t, func(t *testing.T, channel Channel) {
		for _, state := range []State{Scheduled, Pending, Retry, Sent, Failed} {
			t.Run(string(state)+" nowhere", func(t *testing.T) {
				t.Parallel()
				w := newWardOf(t, channel)
				push := w.inState(state)
				queue := channel.queue(push)
				for _, place := range taskPlaces {
					require.NoError(t, w.client.Del(t.Context(), asynqStateKey(queue, place)).Err())
				}
				w.requireFaultMended("misplaced-task "+queue, push.ID)
				want := state
				if state == Scheduled || state == Retry {
					want = Pending // the handler looks at the window
				}
				require.Equal(t, want, w.get(push.ID).State)
				w.inspectable()
				if state == Failed {
					require.NoError(t, w.inspector.RunTask(queue, push.ID), "asynq's tools work again")
				}
			})
		}
		// An archive that broke half-way leaves a task that says that it is active.
		t.Run("active in the archive", func(t *testing.T) {
			t.Parallel()
			w := newWardOf(t, channel)
			push := w.inState(Failed)
			queue := channel.queue(push)
			require.NoError(t, w.client.HSet(t.Context(), asynqTaskKey(queue, push.ID), "state", "active").Err())
			require.Error(t, w.inspector.RunTask(queue, push.ID))
			w.requireFaultMended("misplaced-task "+queue, push.ID)
			require.Equal(t, Failed, w.get(push.ID).State)
			require.NoError(t, w.inspector.RunTask(queue, push.ID))
		})
		t.Run("the remains of a ghost", func(t *testing.T) {
			t.Parallel()
			w := newWardOf(t, channel)
			id, queue := NewID(), channel.ImmediateQueue()
			require.NoError(t, w.client.HSet(t.Context(), asynqTaskKey(queue, id), "state", "active").Err())
			w.requireFaultMended("misplaced-task "+queue, id)
			_, err := w.reader.Get(t.Context(), id)
			require.ErrorIs(t, err, ErrNotFound)
		})
	})
}

func TestStrandedClaimsAreReleased(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	keyed := func() Push {
		push := newPush()
		push.ID = KeyedID("caller", push.ID)
		return push
	}
	stored, ended, stranded := keyed(), keyed(), keyed()
	for _, push := range []Push{stored, ended} {
		_, err := w.intake.Accept(t.Context(), push, true)
		require.NoError(t, err)
	}
	w.attempt(ended, AttemptError, Failed)
	require.NoError(t, w.inspector.DeleteTask("swrve", ended.ID))
	require.NoError(t, w.client.Del(t.Context(), Swrve.RecordKey(ended.ID)).Err()) // after its time
	_, err := w.intake.claim(t.Context(), stranded, 3600)
	require.NoError(t, err)
	changed := stranded
	changed.Message = "other"
	_, err = w.intake.Accept(t.Context(), changed, true)
	require.ErrorIs(t, err, ErrContentDiffers)

	w.requireFaultMended("stranded-claim", stranded.ID)
	_, err = w.intake.Accept(t.Context(), changed, true)
	require.NoError(t, err)
	require.Equal(t, "other", w.get(stranded.ID).Push.Message)
	replayed, err := w.intake.Accept(t.Context(), ended, true)
	require.NoError(t, err)
	require.True(t, replayed, "the claim of a push that has ended stays")
}

// A caller that has found its claim is about to store its push.
func TestAClaimThatSomebodyLooksAtIsKept(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	push := newPush()
	push.ID = KeyedID("caller", "key")
	_, err := w.intake.claim(t.Context(), push, 3600)
	require.NoError(t, err)
	w.doctor.Pause = 10 * time.Second // so that nine seconds without a look are asked for: a busy machine may pause this test
	examined := make(chan map[string]Finding)
	go func() { examined <- w.examine(true) }()
	for {
		select {
		case findings := <-examined:
			require.Empty(t, findings)
			require.EqualValues(t, 1, w.client.Exists(t.Context(), Swrve.ClaimKey(push.ID)).Val())
			return
		case <-time.After(50 * time.Millisecond):
			_, err := w.intake.Claim(t.Context(), push)
			require.NoError(t, err)
		}
	}
}

func TestQueuesThatAreNotAsTheyShouldBe(t *testing.T) {
	onEachChannel(t, func(t *testing.T, channel Channel) {
		queue := channel.ImmediateQueue()
		t.Run("unregistered", func(t *testing.T) {
			t.Parallel()
			w := newWardOf(t, channel)
			push := w.accept(newPush())
			require.NoError(t, w.client.SRem(t.Context(), asynqQueuesKey, queue).Err())
			_, err := w.reader.Get(t.Context(), push.ID)
			require.ErrorIs(t, err, ErrUnreadable)
			require.True(t, w.examine(false)["unregistered-queue "+queue].Left())
			require.False(t, w.examine(true)["unregistered-queue "+queue].Left())
			require.Empty(t, w.examine(false))
			require.Equal(t, Pending, w.get(push.ID).State)
		})
		t.Run("paused", func(t *testing.T) {
			t.Parallel()
			w := newWardOf(t, channel)
			_, err := Pause(t.Context(), w.client, channel, OperatorNote{Action: "pause", By: "alice", At: MillisOf(time.Now())}, 0)
			require.NoError(t, err)
			found := w.examine(true) // somebody did it on purpose
			require.True(t, found["paused "+queue].Left())
			require.Equal(t, map[Channel]string{Swrve: "pushq resume", FCM: "pushq resume --channel fcm"}[channel], found["paused "+channel.WindowQueue()].Repair)
			_, err = Resume(t.Context(), w.client, channel, OperatorNote{Action: "resume", By: "alice", At: MillisOf(time.Now())})
			require.NoError(t, err)
			require.Empty(t, w.examine(false))
		})
		t.Run("a full archive", func(t *testing.T) {
			t.Parallel()
			w := newWardOf(t, channel)
			pipe := w.client.Pipeline()
			for number := range fullArchive + 1 {
				id := fmt.Sprintf("old-%d", number)
				pipe.HSet(t.Context(), asynqTaskKey(queue, id), "state", "archived", "msg", "")
				pipe.ZAdd(t.Context(), asynqStateKey(queue, asynq.TaskStateArchived), redis.Z{Score: float64(time.Now().Unix()), Member: id})
			}
			_, err := pipe.Exec(t.Context())
			require.NoError(t, err)
			require.Equal(t, fullArchive+1, w.examine(true)["archive-near-cap "+queue].Count)
			NewCaretaker(w.client, channel, w.records, slog.New(slog.DiscardHandler)).CatchUp(t.Context())
			require.Empty(t, w.examine(false))
		})
		t.Run("workers that died, and one that lives", func(t *testing.T) {
			t.Parallel()
			w := newWardOf(t, channel)
			push := w.accept(newPush())
			w.take(queue, time.Now().Add(-time.Minute), push.ID)
			// One without a task is for no worker to take back.
			require.NoError(t, w.client.ZAdd(t.Context(), asynqLeaseKey(queue), redis.Z{Score: 1, Member: "gone"}).Err())
			found := w.examine(true)["expired-lease "+queue]
			require.Equal(t, []string{push.ID}, found.Examples)
			require.Equal(t, 1, found.Count)
			require.Contains(t, found.Repair, "start a worker")
			findings, err := w.doctor.Examine(t.Context(), true)
			require.NoError(t, err)
			require.Len(t, findings, 3, "and nobody serves the two queues")
			require.Equal(t, "unserved-queue", findings[0].Fault)

			require.NoError(t, w.client.SAdd(t.Context(), asynqQueuesKey, "other").Err())
			require.True(t, w.examine(false)["unserved-queue other"].Left())
			require.NoError(t, w.client.SRem(t.Context(), asynqQueuesKey, "other").Err())

			w.serve() // asynq looks for lost leases when a worker starts
			testenv.Eventually(t, 20*time.Second, "nothing to be found", func() bool {
				findings, err := w.doctor.Examine(t.Context(), false)
				return err == nil && len(findings) == 0
			})
		})
	})
}

func TestFindingsAreCountedAndBounded(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	const ghosts = 1200 // more than two pages
	ids := make([]any, ghosts)
	for place := range ids {
		ids[place] = "ghost-" + strconv.Itoa(place)
	}
	good := w.accept(newPush())
	require.NoError(t, w.client.LPush(t.Context(), asynqStateKey("swrve", asynq.TaskStatePending), ids...).Err())
	found := w.examine(false)["ghost swrve"]
	require.Equal(t, ghosts, found.Count)
	require.Len(t, found.Examples, maxExamples)
	require.Equal(t, ghosts, w.examine(true)["ghost swrve"].Fixed)
	require.Empty(t, w.examine(false))
	require.Equal(t, Pending, w.get(good.ID).State)
	w.inspectable()
}

// The claims of notifications name their pushes.
func TestStrandedClaimsOfNotificationsAreReleased(t *testing.T) {
	t.Parallel()
	w := newWardOf(t, FCM)
	post := func(key string) (id string, replayed bool) {
		text := testenv.Notification("idempotency_key", strconv.Quote(key))
		parsed, err := ParseNotification(text)
		require.NoError(t, err)
		id, replayed, err = w.intake.Notify(t.Context(), parsed, text, time.Now())
		require.NoError(t, err)
		return id, replayed
	}
	waiting, _ := post("waiting")
	ended, _ := post("ended")
	report := w.get(ended)
	w.attempt(report.Push, AttemptError, Failed)
	require.NoError(t, w.inspector.DeleteTask("fcm", ended))
	again, _ := post("retried")
	w.attempt(w.get(again).Push, AttemptError, Failed)
	require.NoError(t, w.inspector.ArchiveTask("fcm", again))
	require.NoError(t, w.operator(time.Now()).Retry(t.Context(), again))
	stranded := notificationClaimID("stranded")
	never := NewID()
	require.NoError(t, w.client.Set(t.Context(), FCM.ClaimKey(stranded), never, time.Hour).Err())

	w.requireFaultMended("stranded-claim", stranded)
	for key, id := range map[string]string{"waiting": waiting, "retried": again} {
		got, replayed := post(key)
		require.True(t, replayed, key)
		require.Equal(t, id, got, key)
	}
	got, replayed := post("stranded")
	require.False(t, replayed)
	require.NotEqual(t, never, got)
}

// What makes a follower panic is put aside, and should not be forgotten there.
func TestStreamsOfWhatIsPutAside(t *testing.T) {
	onEachChannel(t, func(t *testing.T, channel Channel) {
		w := newWardOf(t, channel)
		w.serve()
		w.doctor.Streams = []FollowedStream{{Follower: "history", Does: "write the history"}, {Follower: "other"}}
		key := channel.FollowKey("history") + ":aside"
		require.NoError(t, w.client.XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: []string{"id", "push"}}).Err())
		found := w.examine(true)
		require.Len(t, found, 1)
		aside := found["aside-stream"]
		require.Equal(t, 1, aside.Count)
		require.True(t, aside.Left(), "nothing of it is mended")
		require.Contains(t, aside.Meaning, "1 entries are in "+key+", the oldest for ")
		require.Contains(t, aside.Meaning, "each time that it was to write the history")
		require.Contains(t, aside.Meaning, "The newest 1000 or so are kept")
		require.Contains(t, aside.Repair, "redis-cli XRANGE '"+key+"' - + COUNT 10")
		require.Contains(t, aside.Repair, "redis-cli DEL '"+key+"'")
		require.EqualValues(t, 1, w.client.XLen(t.Context(), key).Val())
		require.NoError(t, w.client.XTrimMaxLen(t.Context(), key, 0).Err())
		require.Empty(t, w.examine(false), "it is empty")
	})
}

// Entries that nobody deals with stay; those of a moment are on their way.
func TestStreamsThatNobodyReads(t *testing.T) {
	onEachChannel(t, func(t *testing.T, channel Channel) {
		w := newWardOf(t, channel)
		w.serve()
		key := channel.FollowKey("history")
		w.doctor.Streams = []FollowedStream{
			{Follower: "history", Does: "write the history", Needs: "a worker with history.postgresUrl"}, {Follower: "other"},
		}
		add := func(age time.Duration) {
			id := strconv.FormatInt(time.Now().Add(-age).UnixMilli(), 10)
			require.NoError(t, w.client.XAdd(t.Context(), &redis.XAddArgs{Stream: key, ID: id + "-*", Values: []string{"id", "push"}}).Err())
		}
		require.Empty(t, w.examine(false), "there is no stream")
		add(4 * time.Minute)
		add(time.Second)
		require.Empty(t, w.examine(false))
		require.NoError(t, w.client.Del(t.Context(), key).Err())
		add(6 * time.Minute)
		add(time.Second)
		found := w.examine(true)
		require.Len(t, found, 1)
		unread := found["unread-stream"]
		require.Equal(t, 2, unread.Count)
		require.True(t, unread.Left(), "nothing of it is mended")
		require.Contains(t, unread.Meaning, "2 entries wait in "+key+", the oldest for 6m")
		require.Contains(t, unread.Meaning, "nobody reads them to write the history")
		require.Contains(t, unread.Repair, "it needs a worker with history.postgresUrl")
		require.Contains(t, unread.Repair, "redis-cli HDEL '"+channel.FollowersKey()+"' history, and then redis-cli DEL '"+key+"'")
		require.EqualValues(t, 2, w.client.XLen(t.Context(), key).Val())
		require.NoError(t, w.client.XTrimMaxLen(t.Context(), key, 0).Err())
		require.Empty(t, w.examine(false), "it is empty")
	})
}
