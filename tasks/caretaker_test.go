package tasks

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

const day = 24 * time.Hour

// caretaker returns one with small limits.
func (d *desk) caretaker() *Caretaker {
	c := NewCaretaker(d.client, d.channel, d.records, slog.New(slog.DiscardHandler))
	c.MaxArchived, c.KeptArchived, c.Batch, c.BatchTime = 20, 10, 4, time.Minute
	return c
}

// tidy makes rounds until nothing is left to do.
func (d *desk) tidy(c *Caretaker) {
	for range 1000 {
		taken, err := c.tidy(d.t.Context())
		require.NoError(d.t, err)
		require.LessOrEqual(d.t, taken, 2*c.Batch)
		if taken == 0 {
			return
		}
	}
	require.Fail(d.t, "the caretaker has no end")
}

// archivedHash lets a worker archive a push with the given text, or an operator
// if there is none, and returns what asynq keeps of it. Nothing stays behind.
func (d *desk) archivedHash(text string) map[string]string {
	push := d.accept(pushSaying(text))
	if text == "" {
		require.NoError(d.t, d.inspector.ArchiveTask(d.channel.ImmediateQueue(), push.ID))
	} else {
		startWorker(d.t, d.server, time.Now())
	}
	testenv.Eventually(d.t, 10*time.Second, "the push to be archived", func() bool {
		task, err := d.inspector.GetTaskInfo(d.channel.ImmediateQueue(), push.ID)
		require.NoError(d.t, err)
		return task.State == asynq.TaskStateArchived
	})
	hash, err := d.client.HGetAll(d.t.Context(), asynqTaskKey(d.channel.ImmediateQueue(), push.ID)).Result()
	require.NoError(d.t, err)
	require.NoError(d.t, d.inspector.DeleteTask(d.channel.ImmediateQueue(), push.ID))
	return hash
}

// seedArchive puts count tasks with such a hash into an archive, the first one
// age old and the others a second younger each, and returns their ids.
func (d *desk) seedArchive(queue string, hash map[string]string, count int, age time.Duration) []string {
	ids := make([]string, count)
	oldest := time.Now().Add(-age).Unix()
	_, err := d.client.Pipelined(d.t.Context(), func(pipe redis.Pipeliner) error {
		for number := range ids {
			ids[number] = NewID()
			pipe.HSet(d.t.Context(), asynqTaskKey(queue, ids[number]), hash)
			pipe.ZAdd(d.t.Context(), asynqStateKey(queue, asynq.TaskStateArchived),
				redis.Z{Score: float64(oldest + int64(number)), Member: ids[number]})
		}
		return nil
	})
	require.NoError(d.t, err)
	return ids
}

func (d *desk) archived(queue string) []string {
	ids, err := d.client.ZRange(d.t.Context(), asynqStateKey(queue, asynq.TaskStateArchived), 0, -1).Result()
	require.NoError(d.t, err)
	return ids
}

// requireNothingLeaked wants as many tasks as asynq's lists and sets name.
func (d *desk) requireNothingLeaked() {
	for _, queue := range d.channel.Queues() {
		info, err := d.inspector.GetQueueInfo(queue)
		require.NoError(d.t, err)
		hashes, err := d.client.Keys(d.t.Context(), asynqTaskKey(queue, "*")).Result()
		require.NoError(d.t, err)
		require.Len(d.t, hashes, info.Size+info.Completed, queue)
	}
}

func TestCaretakerTrimsByCount(t *testing.T) {
	onEachChannel(t, func(t *testing.T, channel Channel) {
		d := newDeskOf(t, channel)
		hash := d.archivedHash("failed: no push key")
		for _, queue := range channel.Queues() {
			ids := d.seedArchive(queue, hash, 20, time.Hour)
			for number, id := range ids {
				if number%2 == 0 || number >= 11 { // the others lack their end
					push := d.own(newPush())
					push.ID = id
					require.NoError(t, d.records.End(t.Context(), push, Failed))
				}
			}
			c := d.caretaker()
			d.tidy(c)
			require.Equal(t, ids, d.archived(queue), "20 are not too many")

			push := d.own(newPush())
			push.ID = d.seedArchive(queue, hash, 1, time.Minute)[0]
			require.NoError(t, d.records.End(t.Context(), push, Failed))
			ids = append(ids, push.ID)
			d.tidy(c)
			require.Equal(t, ids[11:], d.archived(queue), "the newest ten stay")
			for _, id := range ids {
				require.Equal(t, Failed, d.get(id).State)
			}
			require.Subset(t, d.list(Failed, MaxPage), ids)
		}
		require.Len(t, d.list(Failed, MaxPage), 42)
		d.requireNothingLeaked()
	})
}

func TestCaretakerTrimsByAge(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.records.retention.Dead = 60 * day
	hash := d.archivedHash("given up: no attempts are left")
	old := d.seedArchive(Swrve.ImmediateQueue(), hash, 9, 30*day+time.Minute)
	young := d.seedArchive(Swrve.ImmediateQueue(), hash, 9, 30*day-time.Minute)
	d.tidy(d.caretaker())
	require.Equal(t, young, d.archived(Swrve.ImmediateQueue()))
	require.ElementsMatch(t, old, d.list(GivenUp, MaxPage))
	d.requireNothingLeaked()
}

// Their records have expired with them: they must not come back as new ends.
func TestCaretakerForgetsWithTheRecords(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ids := d.seedArchive(Swrve.ImmediateQueue(), d.archivedHash("failed: no push key"), 3, 31*day)
	d.tidy(d.caretaker())
	for _, id := range ids {
		_, err := d.reader.Get(t.Context(), id)
		require.ErrorIs(t, err, ErrNotFound)
	}
	require.Empty(t, d.list(Failed, MaxPage))
	d.requireNothingLeaked()
}

func TestCaretakerWritesTheEndThatARecordLacks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		text string // "" for an operator's archiving
		want State
	}{
		{"operator", "", Cancelled},
		{"failed", "failed: no push key", Failed},
		{"given up", "given up: no attempts are left", GivenUp},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			hash := d.archivedHash(test.text)
			ids := d.seedArchive(Swrve.WindowQueue(), hash, 3, time.Hour)
			begun := newPush()
			begun.ID = ids[1]
			d.attempt(begun, AttemptError, "")
			ended := newPush()
			ended.ID = ids[2]
			d.attempt(ended, AttemptError, GivenUp)
			before, err := d.records.Get(t.Context(), ended.ID)
			require.NoError(t, err)

			c := d.caretaker()
			c.MaxArchived, c.KeptArchived = 0, 0
			d.tidy(c)
			require.Empty(t, d.archived(Swrve.WindowQueue()))
			for number, attempts := range []int{0, 1} {
				record, err := d.records.Get(t.Context(), ids[number])
				require.NoError(t, err)
				require.Equal(t, test.want, record.End)
				require.Equal(t, "Hello", record.Push.MessagePrototypeKey)
				require.Len(t, record.Attempts, attempts)
				require.Contains(t, d.list(test.want, MaxPage), ids[number])
			}
			after, err := d.records.Get(t.Context(), ended.ID)
			require.NoError(t, err)
			require.Equal(t, before, after, "an end stays as it is")
			d.requireNothingLeaked()
		})
	}
}

func TestCaretakerTakesWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	queue := Swrve.ImmediateQueue()
	garbage := NewID()
	_, err := asynq.NewClientFromRedisClient(d.client).Enqueue(asynq.NewTask(Swrve.TaskType(), []byte("{")), asynq.TaskID(garbage), asynq.Queue(queue))
	require.NoError(t, err)
	require.NoError(t, d.inspector.ArchiveTask(queue, garbage))
	ghost := d.seedArchive(queue, d.archivedHash(""), 1, time.Hour)[0]
	require.NoError(t, d.client.Del(t.Context(), asynqTaskKey(queue, ghost)).Err())

	c := d.caretaker()
	c.MaxArchived, c.KeptArchived = 0, 0
	d.tidy(c)
	require.Empty(t, d.archived(queue))
	require.Equal(t, Report{Push: Push{ID: garbage}, State: Cancelled, ended: true}, d.get(garbage))
	_, err = d.reader.Get(t.Context(), ghost)
	require.ErrorIs(t, err, ErrNotFound)
	d.requireNothingLeaked()
}

// beforeCommand sees each command before Redis does.
type beforeCommand func(redis.Cmder)

func (h beforeCommand) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h beforeCommand) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h beforeCommand) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		h(command)
		return next(ctx, command)
	}
}

func TestATaskRequeuedBetweenTheLookAndTheTakeSurvives(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"archived by an operator": "", "failed": "failed: no push key"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			hash := d.archivedHash(text)
			require.NoError(t, d.inspector.PauseQueue(Swrve.ImmediateQueue()))
			id := d.seedArchive(Swrve.ImmediateQueue(), hash, 1, time.Hour)[0]
			client := d.server.Client(t)
			requeue := sync.OnceFunc(func() { require.NoError(t, d.inspector.RunTask(Swrve.ImmediateQueue(), id)) })
			client.AddHook(beforeCommand(func(command redis.Cmder) {
				if slices.Contains(command.Args(), any(archiveTakeScript.Hash())) {
					requeue()
				}
			}))
			c := NewCaretaker(client, Swrve, d.records, slog.New(slog.DiscardHandler))
			c.MaxArchived, c.KeptArchived = 0, 0
			taken, err := c.tidy(t.Context())
			require.NoError(t, err)
			require.Zero(t, taken)
			require.Equal(t, Pending, d.get(id).State)
			d.requireNothingLeaked()

			push := newPush()
			push.ID = id
			begun, err := d.records.Begin(t.Context(), Attempting{Push: push, Token: "a", Interrupted: time.Hour, MaxAttempts: 3, Again: true, Request: true})
			require.NoError(t, err)
			require.Equal(t, Go, begun.Answer, "the operator's requeue gives it an attempt")
		})
	}
}

// asynq v0.26.0 alone deletes and forgets all of it, and its script fails
// half-way: the next push to be archived hangs for ever.
func TestAsynqArchivesAfterManyHaveGrownOld(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	queue := Swrve.ImmediateQueue()
	d.seedArchive(queue, d.archivedHash(""), 8200, 100*day)
	NewCaretaker(d.client, d.channel, d.records, slog.New(slog.DiscardHandler)).CatchUp(t.Context())
	require.Empty(t, d.archived(queue))

	startWorker(t, d.server, time.Now())
	failed := d.accept(pushSaying("failed: no push key"))
	d.requireState(Failed, failed.ID)
	require.NoError(t, d.inspector.PauseQueue(queue))
	archived := d.accept(newPush())
	require.NoError(t, d.inspector.ArchiveTask(queue, archived.ID))
	require.ElementsMatch(t, []string{failed.ID, archived.ID}, d.archived(queue))
	d.requireNothingLeaked()
}

func TestTwoCaretakersAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ids := d.seedArchive(Swrve.ImmediateQueue(), d.archivedHash("failed: no push key"), 300, time.Hour)
	var both sync.WaitGroup
	for range 2 {
		c := d.caretaker()
		c.Batch = 40
		both.Go(func() { c.CatchUp(t.Context()) })
	}
	both.Wait()
	d.tidy(d.caretaker())
	require.Equal(t, ids[290:], d.archived(Swrve.ImmediateQueue()))
	require.ElementsMatch(t, ids[:290], d.list(Failed, MaxPage))
	d.requireNothingLeaked()
}

func TestARoundIsBoundedInTime(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.seedArchive(Swrve.ImmediateQueue(), d.archivedHash(""), 50, time.Hour)
	c := d.caretaker()
	c.Batch, c.BatchTime = 50, -time.Second
	taken, err := c.tidy(t.Context())
	require.NoError(t, err)
	require.Zero(t, taken)
}

func TestCaretakerRunsThroughAnOutageUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	log := &testenv.Log{}
	client := redis.NewClient(&redis.Options{Addr: d.server.Addr(), MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	var rounds atomic.Int64
	client.AddHook(beforeCommand(func(command redis.Cmder) {
		if command.Name() == "sadd" { // each round begins with it
			rounds.Add(1)
		}
	}))
	c := NewCaretaker(client, Swrve, d.records, slog.New(slog.NewTextHandler(log, nil)))
	c.Interval = 5 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stopped := make(chan struct{})
	go func() { defer close(stopped); c.Run(ctx) }()

	for outage := range 2 {
		d.server.Stop()
		testenv.Eventually(t, 10*time.Second, "the outage to be noticed", func() bool { return strings.Count(log.String(), "cannot care") == outage+1 })
		noticed := rounds.Load()
		testenv.Eventually(t, 10*time.Second, "more rounds", func() bool { return rounds.Load() > noticed+5 })
		require.Equal(t, outage+1, strings.Count(log.String(), "cannot care"), "an outage is logged once")
		d.server.Start() // empty
		testenv.Eventually(t, 10*time.Second, "the queues to be registered", func() bool {
			queues, err := d.inspector.Queues()
			return err == nil && len(queues) == 2
		})
		testenv.Eventually(t, 10*time.Second, "the recovery to be logged", func() bool { return strings.Count(log.String(), "queues again") == outage+1 })
	}
	stop()
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		require.Fail(t, "the caretaker did not stop")
	}
}

func TestArchiveTake(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		c := NewCaretaker(client, Swrve, NewRecords(client, Swrve, testRetention), slog.New(slog.DiscardHandler))
		archive := asynqStateKey(Swrve.ImmediateQueue(), asynq.TaskStateArchived)
		for _, test := range []struct {
			name               string
			state              string // "" for no hash
			member             bool
			gone               bool
			memberLeft, exists bool
		}{
			{"archived", "archived", true, true, false, false},
			{"requeued", "pending", false, false, false, true},
			{"another state, but in the archive", "active", true, false, true, true},
			{"archived, but not in the archive", "archived", false, false, false, true},
			{"only an id", "", true, true, false, false},
			{"nothing", "", false, true, false, false},
		} {
			id := NewID()
			key := asynqTaskKey(Swrve.ImmediateQueue(), id)
			if test.state != "" {
				require.NoError(t, client.HSet(t.Context(), key, "state", test.state, "msg", "x").Err())
			}
			if test.member {
				require.NoError(t, client.ZAdd(t.Context(), archive, redis.Z{Score: 1, Member: id}).Err())
			}
			gone, err := c.remove(t.Context(), Swrve.ImmediateQueue(), id)
			require.NoError(t, err)
			require.Equal(t, test.gone, gone, test.name)
			members, err := client.ZRange(t.Context(), archive, 0, -1).Result()
			require.NoError(t, err)
			require.Equal(t, test.memberLeft, slices.Contains(members, id), test.name)
			exists, err := client.Exists(t.Context(), key).Result()
			require.NoError(t, err)
			require.Equal(t, test.exists, exists == 1, test.name)
		}
	})
}
