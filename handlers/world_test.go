package handlers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/handlers"
	"pushq/handlers/swrve"
	"pushq/internal/breaker"
	"pushq/internal/keytype"
	"pushq/internal/limiter"
	"pushq/internal/metrics"
	"pushq/internal/redisconn"
	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/scheduler"
	"pushq/tasks"
)

const (
	campaignKey = "canary-campaign-key"
	messageText = "canary message"
	userCanary  = "canary-user"

	retryDelay = time.Second
	patience   = 2 * time.Minute
)

// A world has everything that pushes need but workers: a Redis, the simulator,
// and the other ends of the queue.
type world struct {
	t         testing.TB
	redis     *testenv.Redis
	records   *tasks.Records // beside the workers' own
	reader    *tasks.Reader
	inspector *asynq.Inspector
	simulator *swrvesim.Simulator
	clients   *redisconn.Clients
	log       *testenv.Log
	metrics   *metrics.Metrics

	intake *tasks.Intake
	target string
}

var retention = tasks.Retention{Sent: time.Hour, Dead: time.Hour, Completed: time.Hour}

func newWorld(t testing.TB, simulated swrvesim.Config) *world {
	w := &world{t: t, redis: testenv.StartRedis(t), log: &testenv.Log{}, metrics: metrics.New("test", slog.New(slog.DiscardHandler))}
	var err error
	w.clients, err = redisconn.Open(w.redis.URL(), 32)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.clients.Close() })
	w.records = tasks.NewRecords(w.clients.Read, tasks.Swrve, retention)
	w.reader = tasks.NewReader(w.clients.Read, tasks.Swrve, w.records)
	w.intake = tasks.NewIntake(w.clients.Intake, tasks.Swrve, retention)
	w.inspector = asynq.NewInspectorFromRedisClient(w.clients.Read)
	require.NoError(t, tasks.RegisterQueues(t.Context(), w.clients.Read, tasks.Swrve))

	w.simulator = swrvesim.New(simulated)
	base, err := w.simulator.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.simulator.Close() })
	w.target = base + "/push"
	return w
}

// A workforce is how a process of workers is made; zero values are usual.
type workforce struct {
	maxAttempts     int           // 3
	pace            time.Duration // 4 ms
	timeout         time.Duration // 10 s
	shutdownTimeout time.Duration // long enough
	zone            *time.Location
	clock           handlers.Clock
	quiet           bool // logs warnings only

	recordsClient redis.UniversalClient
	policy        handlers.Policy  // fixed, retryDelay
	breaker       *breaker.Breaker // none
	deadLetter    bool
	provider      func(handlers.Provider) handlers.Provider
	slots         func(handlers.Slots) handlers.Slots
	handler       func(asynq.Handler) asynq.Handler
}

// work starts workers, wired as in the binary. They end when stop is called,
// which may be repeated, or with the test.
func (w *world) work(force workforce) (stop func()) {
	if force.maxAttempts == 0 {
		force.maxAttempts = 3
	}
	if force.pace == 0 {
		force.pace = 4 * time.Millisecond
	}
	if force.timeout == 0 {
		force.timeout = 10 * time.Second
	}
	if force.zone == nil {
		force.zone = time.UTC
	}
	if force.clock == nil {
		force.clock = redisconn.NewClock(w.clients.Read, time.Now)
	}
	if force.recordsClient == nil {
		force.recordsClient = w.clients.Records
	}
	if force.policy == nil {
		force.policy = scheduler.FixedDelay{Delay: retryDelay}
	}
	level := slog.LevelDebug
	if force.quiet {
		level = slog.LevelWarn
	}
	log := slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: level}))
	client := swrve.New(swrve.Config{
		URL: w.target, Timeout: force.timeout, Connections: 64,
		RetryStatuses: []int{429, 500, 502, 503, 504}, RetryNetworkErrors: true, MaxRetryAfter: 5 * time.Minute,
		PushKeys: map[string]map[string]string{"Hello": {tasks.IOS: campaignKey}},
	})
	pace := limiter.Start(w.clients.Control, limiter.Options{
		Keys: limiter.Keys{Pace: tasks.Swrve.PaceKey(), Brake: tasks.Swrve.BrakeKey(), Override: tasks.Swrve.PaceOverrideKey()}, Delay: force.pace, Log: log,
	})
	var provider handlers.Provider = client
	if force.provider != nil {
		provider = force.provider(provider)
	}
	var slots handlers.Slots = pace
	if force.slots != nil {
		slots = force.slots(slots)
	}
	if force.shutdownTimeout == 0 {
		force.shutdownTimeout = client.MaxDuration() + 5*time.Second
	}
	delivery := handlers.NewDelivery(handlers.Options{
		Channel: tasks.Swrve, MaxAttempts: force.maxAttempts, Policy: force.policy,
		Timeout: force.timeout, Breaker: force.breaker, DeadLetter: force.deadLetter, Zone: force.zone, Metrics: w.metrics.Channel(tasks.Swrve.Name), Log: log,
	}, provider, tasks.NewRecords(force.recordsClient, tasks.Swrve, retention), slots, w.reader, force.clock)
	var handler asynq.Handler = delivery
	if force.handler != nil {
		handler = force.handler(handler)
	}
	servers, err := handlers.StartServers(w.clients.Queue, w.clients.Records, handler, handlers.ServersOptions{
		Completed: delivery.Completed,
		Channel:   tasks.Swrve, OnFault: func() {}, Concurrency: 32, Pollers: 2, RetryInterval: retryDelay,
		ShutdownTimeout: force.shutdownTimeout, Log: log,
	})
	require.NoError(w.t, err)
	stop = sync.OnceFunc(func() {
		servers.Stop()
		pace.Stop()
		servers.Shutdown()
		delivery.Close()
		client.Close()
	})
	w.t.Cleanup(stop)
	return stop
}

// newPush returns a push that is due at once.
func newPush(user string) tasks.Push {
	return tasks.Push{
		ID: tasks.NewID(), Platform: tasks.IOS, MessagePrototypeKey: "Hello",
		PushKey: user + userCanary, Message: messageText, CreatedAt: tasks.MillisOf(time.Now()),
	}
}

func (w *world) accept(push tasks.Push) (id string) {
	w.t.Helper()
	// A busy machine may keep Redis from answering in time. The id meets only itself.
	testenv.EventuallyNoError(w.t, time.Minute, func() error {
		_, err := w.intake.Accept(w.t.Context(), push, false)
		return err
	})
	return push.ID
}

func (w *world) acceptFor(user string) (id string) {
	w.t.Helper()
	return w.accept(newPush(user))
}

// await waits until the push is in the state, after at least so many attempts.
func (w *world) await(id string, state tasks.State, attempts int) tasks.Report {
	w.t.Helper()
	var report tasks.Report
	testenv.EventuallyNoError(w.t, patience, func() (err error) {
		report, err = w.reader.Get(w.t.Context(), id)
		if err == nil && (report.State != state || len(report.Attempts) < attempts) {
			err = fmt.Errorf("%s is %s after %d attempts, not %s after %d: %+v",
				report.Push.PushKey, report.State, len(report.Attempts), state, attempts, report.Attempts)
		}
		return err
	})
	return report
}

// awaitText waits until asynq keeps an answer with that beginning.
func (w *world) awaitText(queue, id, beginning string) {
	w.t.Helper()
	testenv.EventuallyNoError(w.t, patience, func() error {
		text, err := w.reader.LastError(queue, id)
		if err == nil && !strings.HasPrefix(text, beginning) {
			err = fmt.Errorf("the last answer is %q, not %q", text, beginning)
		}
		return err
	})
}

// requests are those that the simulator got for a user, in order.
func (w *world) requests(user string) []swrvesim.Request {
	var found []swrvesim.Request
	for _, request := range w.simulator.Ledger() {
		if request.User == user+userCanary {
			found = append(found, request)
		}
	}
	return found
}

// begin makes an attempt in process of a run that is not among the workers'.
func (w *world) begin(push tasks.Push, token string, interrupted time.Duration) {
	w.t.Helper()
	begun, err := w.records.Begin(w.t.Context(), tasks.Attempting{
		Push: push, Token: token, Interrupted: interrupted, MaxAttempts: 3,
	})
	require.NoError(w.t, err)
	require.Equal(w.t, tasks.Go, begun.Answer)
}

// age makes the attempts of a record older, so that one in process is taken for
// interrupted.
func (w *world) age(id string) {
	w.t.Helper()
	key := tasks.Swrve.RecordKey(id)
	stored, err := w.clients.Read.Get(w.t.Context(), key).Bytes()
	require.NoError(w.t, err)
	var record map[string]any
	require.NoError(w.t, json.Unmarshal(stored, &record))
	for _, attempt := range record["attempts"].([]any) {
		attempt := attempt.(map[string]any)
		attempt["startedAt"] = int64(attempt["startedAt"].(float64)) - time.Hour.Milliseconds()
	}
	stored, err = json.Marshal(record)
	require.NoError(w.t, err)
	require.NoError(w.t, w.clients.Read.Set(w.t.Context(), key, stored, redis.KeepTTL).Err())
}

// loadScript makes Redis know a script of package tasks and returns its name
// on the wire.
func (w *world) loadScript(name string) (sha string) {
	w.t.Helper()
	source := keytype.Source
	for _, part := range map[string][]string{ // as tasks puts them together
		"begin.lua":  {"record.lua", "begin.lua"},
		"finish.lua": {"record.lua", "complete.lua", "finish.lua"},
	}[name] {
		text, err := os.ReadFile("../tasks/scripts/" + part)
		require.NoError(w.t, err)
		source += string(text)
	}
	sha, err := w.clients.Read.ScriptLoad(w.t.Context(), source).Result()
	require.NoError(w.t, err)
	return sha
}

// proxied returns a client for records behind a proxy.
func (w *world) proxied() (*testenv.Proxy, redis.UniversalClient) {
	proxy := testenv.NewProxy(w.t, w.redis.Addr())
	clients, err := redisconn.Open(proxy.URL(), 32)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = clients.Close() })
	return proxy, clients.Records
}

// loggedAttempts are the lines about attempts of a push.
func (w *world) loggedAttempts(id string) []map[string]any {
	w.t.Helper()
	var found []map[string]any
	for line := range strings.Lines(w.log.String()) {
		var entry map[string]any
		require.NoError(w.t, json.Unmarshal([]byte(line), &entry))
		if entry["msg"] == "attempt" && entry["id"] == id {
			found = append(found, entry)
		}
	}
	return found
}

// fixedClock always shows the same time.
type fixedClock time.Time

func (c fixedClock) Now() time.Time { return time.Time(c) }

// slowClock is behind the host's.
type slowClock time.Duration

func (c slowClock) Now() time.Time { return time.Now().Add(-time.Duration(c)) }

// A slotKeeper lets a test interfere with the limiter.
type slotKeeper struct {
	handlers.Slots
	mutex   sync.Mutex
	classes []limiter.Class // of all calls of Wait
	given   []limiter.Slot  // back
	dropped int
	// wait, if not nil, is asked before the limiter; call counts from 0. With
	// neither a slot nor an error the limiter is asked.
	wait func(call int) (limiter.Slot, error)
}

func (k *slotKeeper) over(slots handlers.Slots) handlers.Slots {
	k.Slots = slots
	return k
}

func (k *slotKeeper) Wait(ctx context.Context, class limiter.Class) (limiter.Slot, error) {
	k.mutex.Lock()
	call := len(k.classes)
	k.classes = append(k.classes, class)
	k.mutex.Unlock()
	if k.wait != nil {
		if slot, err := k.wait(call); err != nil || !slot.At.IsZero() {
			return slot, err
		}
	}
	return k.Slots.Wait(ctx, class)
}

func (k *slotKeeper) GiveBack(slot limiter.Slot) {
	k.mutex.Lock()
	k.given = append(k.given, slot)
	k.mutex.Unlock()
	k.Slots.GiveBack(slot)
}

func (k *slotKeeper) Drop() {
	k.mutex.Lock()
	k.dropped++
	k.mutex.Unlock()
	k.Slots.Drop()
}

func (k *slotKeeper) seen() (classes []limiter.Class, given []limiter.Slot, dropped int) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.classes, k.given, k.dropped
}

// errNone marks answers that a handler replaces.
var errNone = errors.New("none")

// afterwards replaces the handler's answers: instead is given the number of the
// run, from 0, and the answer, and returns errNone to leave it.
func afterwards(instead func(run int, answer error) error) func(asynq.Handler) asynq.Handler {
	return func(handler asynq.Handler) asynq.Handler {
		var mutex sync.Mutex
		runs := map[string]int{}
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			id, _ := asynq.GetTaskID(ctx)
			mutex.Lock()
			run := runs[id]
			runs[id]++
			mutex.Unlock()
			answer := handler.ProcessTask(ctx, task)
			if replaced := instead(run, answer); !errors.Is(replaced, errNone) {
				return replaced
			}
			return answer
		})
	}
}

// errorOf drops the end that Finish returns.
func errorOf(_ tasks.State, err error) error { return err }
