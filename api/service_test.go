package api

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/metrics"
	"pushq/internal/redisconn"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// What tests send as message, push key and API key begins with these, so that
// logs and answers can be searched for them.
const (
	canaryMessage = "canary-message"
	canaryPushKey = "canary-push-key"
	canaryAPIKey  = "canary-api-key"
)

var retention = tasks.Retention{Sent: time.Hour, Dead: 2 * time.Hour, Completed: time.Hour}

// A testService is a Server over a real Redis, wired like the binary. Options
// and timeouts may be changed before start.
type testService struct {
	t           testing.TB
	redis       *testenv.Redis
	client      *redis.Client
	records     *tasks.Records
	options     Options
	closeIntake func()        // returns when all its calls to Redis have ended
	readTimeout time.Duration // 0 for the server's own
	narrow      bool          // its connections take next to nothing that is not read

	server  *Server
	address string
	log     *testenv.Log
	http    *http.Client
}

func prepareService(t testing.TB) *testService {
	t.Helper()
	server := testenv.StartRedis(t)
	return prepareServiceBehind(t, server, server.URL())
}

// prepareServiceBehind reaches its Redis under another address, such as that
// of a proxy.
func prepareServiceBehind(t testing.TB, server *testenv.Redis, url string) *testService {
	t.Helper()
	// Less than callers wait, and enough for a busy machine.
	clients, err := redisconn.Server{URL: url, Patience: 2 * time.Second}.Open(0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, clients.Close()) })
	clock := redisconn.NewClock(clients.Read, time.Now)
	require.NoError(t, clock.Measure(context.Background()))
	intake := tasks.NewIntake(clients.Intake, tasks.Swrve, retention)
	t.Cleanup(intake.Close)
	channels := make(testChannels)
	for _, channel := range tasks.Channels() {
		require.NoError(t, tasks.RegisterQueues(context.Background(), clients.Read, channel))
		reader := tasks.NewReader(clients.Read, channel, tasks.NewRecords(clients.Read, channel, retention))
		channels[channel] = testChannel{reader, tasks.NewOperator(clients.Read, channel, retention, reader, time.UTC, clock)}
	}
	log := &testenv.Log{}
	return &testService{
		t:           t,
		redis:       server,
		client:      server.Client(t),
		records:     tasks.NewRecords(clients.Control, tasks.Swrve, retention),
		log:         log,
		closeIntake: intake.Close,
		options: Options{
			Intake:        intake,
			Reader:        channels,
			Operator:      channels,
			Channels:      []tasks.Channel{tasks.Swrve},
			Clock:         clock,
			Checks:        []Check{{Name: "redis", Run: func(ctx context.Context) error { return clients.Read.Ping(ctx).Err() }}},
			Metrics:       metrics.New("test", slog.New(slog.DiscardHandler)),
			MaxBodyBytes:  16384,
			MaxBatchBytes: 32 << 20,
			Zone:          time.UTC,
			MaxSchedule:   366 * 24 * time.Hour,
			Mapped:        func(prototype, _ string) bool { return prototype == "Hello" },
			Log:           slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		},
	}
}

// testChannels read and operate as those of the binary do.
type testChannels map[tasks.Channel]testChannel

type testChannel struct {
	reader   *tasks.Reader
	operator *tasks.Operator
}

func (c testChannels) Get(ctx context.Context, id string) (report tasks.Report, err error) {
	err = c.each(func(one testChannel) (err error) {
		report, err = one.reader.Get(ctx, id)
		return err
	})
	return report, err
}

func (c testChannels) Retry(ctx context.Context, id string) error {
	return c.each(func(one testChannel) error { return one.operator.Retry(ctx, id) })
}

func (c testChannels) Cancel(ctx context.Context, id string) error {
	return c.each(func(one testChannel) error { return one.operator.Cancel(ctx, id) })
}

// each asks the channels until one knows the push.
func (c testChannels) each(ask func(testChannel) error) error {
	for _, channel := range tasks.Channels() {
		if err := ask(c[channel]); !errors.Is(err, tasks.ErrNotFound) {
			return err
		}
	}
	return tasks.ErrNotFound
}

func (c testChannels) List(ctx context.Context, of tasks.Channel, state tasks.State, limit int, cursor string) (tasks.Page, error) {
	return c[of].reader.List(ctx, state, limit, cursor)
}

func (c testChannels) Count(ctx context.Context, of tasks.Channel) ([]tasks.Count, error) {
	return c[of].reader.Count(ctx)
}

func (c testChannels) RetryAll(ctx context.Context, of tasks.Channel, filter tasks.Filter, limit int, cursor string) (tasks.Bulk, error) {
	return c[of].operator.RetryAll(ctx, filter, limit, cursor)
}

func (c testChannels) CancelAll(ctx context.Context, of tasks.Channel, filter tasks.Filter, limit int, cursor string) (tasks.Bulk, error) {
	return c[of].operator.CancelAll(ctx, filter, limit, cursor)
}

// start serves until the test ends. Whatever the test asks for, no secret may
// be in the log then.
func (s *testService) start() *testService {
	s.t.Helper()
	s.server = New(s.options)
	if s.readTimeout > 0 {
		s.server.http.ReadTimeout = s.readTimeout
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s.t, err)
	s.address = listener.Addr().String()
	if s.narrow {
		listener = narrowListener{listener}
	}
	transport := &http.Transport{}
	s.http = &http.Client{Transport: description.Transport(transport), Timeout: time.Minute}

	served := make(chan error, 1)
	go func() { served <- s.server.Serve(listener) }()
	s.t.Cleanup(func() {
		transport.CloseIdleConnections()
		require.NoError(s.t, s.server.Stop())
		require.NoError(s.t, <-served)
		requireNoCanary(s.t, s.log.String(), "the log")
	})
	return s
}

// A narrowListener has the smallest buffers that the system gives to connections.
type narrowListener struct{ net.Listener }

func (l narrowListener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	if err == nil {
		err = connection.(*net.TCPConn).SetWriteBuffer(1)
	}
	return connection, err
}

func startService(t *testing.T) *testService {
	t.Helper()
	return prepareService(t).start()
}

func requireNoCanary(t testing.TB, text, where string) {
	t.Helper()
	for _, canary := range []string{canaryMessage, canaryPushKey, canaryAPIKey} {
		require.NotContains(t, text, canary, "%s has a secret in it", where)
	}
}

// queued counts the pushes that wait in both queues.
func (s *testService) queued() int {
	s.t.Helper()
	inspector := asynq.NewInspectorFromRedisClient(s.client)
	count := 0
	for _, queue := range tasks.Swrve.Queues() {
		info, err := inspector.GetQueueInfo(queue)
		require.NoError(s.t, err)
		count += info.Size
	}
	return count
}

// errorOf drops the end that Finish returns.
func errorOf(_ tasks.State, err error) error { return err }
