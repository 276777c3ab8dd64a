package rabbitmq

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	_ "github.com/Shopify/toxiproxy/v2/toxics" // registers them
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// patience is for what happens at once on a machine at rest.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	backoff.Cap = time.Second // a server is away for some seconds only
	os.Exit(m.Run())
}

var silent = slog.New(slog.DiscardHandler)

// world is a RabbitMQ, and a queue of one test that does not exist at first.
type world struct {
	*testing.T
	server *testenv.RabbitMQ
	queue  string
	direct *amqp.Connection // past everything that is tested; nil until it is needed
}

func newWorld(t *testing.T, server *testenv.RabbitMQ) *world {
	return &world{T: t, server: server, queue: strings.NewReplacer("/", ".", " ", "_").Replace(t.Name())}
}

func (w *world) channel() *amqp.Channel {
	w.Helper()
	if w.direct == nil || w.direct.IsClosed() {
		w.direct = w.server.Connect(w.T)
	}
	channel, err := w.direct.Channel()
	require.NoError(w, err)
	return channel
}

func (w *world) declare(durable bool, arguments amqp.Table) {
	w.Helper()
	_, err := w.channel().QueueDeclare(w.queue, durable, false, false, false, arguments)
	require.NoError(w, err)
}

// put puts messages into the queue, which must exist.
func (w *world) put(messages ...amqp.Publishing) {
	w.Helper()
	channel := w.channel()
	require.NoError(w, channel.Confirm(false))
	for _, message := range messages {
		confirmation, err := channel.PublishWithDeferredConfirm("", w.queue, true, false, message)
		require.NoError(w, err)
		require.True(w, confirmation.Wait())
	}
}

// putNumbers puts messages with the bodies 0, 1, 2… into the queue.
func (w *world) putNumbers(count int) {
	w.Helper()
	w.declare(true, nil)
	messages := make([]amqp.Publishing, count)
	for i := range messages {
		messages[i] = amqp.Publishing{Body: fmt.Append(nil, i)}
	}
	w.put(messages...)
}

func (w *world) inspect() amqp.Queue {
	w.Helper()
	channel := w.channel()
	found, err := channel.QueueDeclarePassive(w.queue, true, false, false, false, nil)
	require.NoError(w, err)
	require.NoError(w, channel.Close())
	return found
}

// ready is the number of messages in the queue that nobody has.
func (w *world) ready() int {
	w.Helper()
	return w.inspect().Messages
}

// requireReady waits: RabbitMQ takes messages back when it hears of a connection's end.
func (w *world) requireReady(count int) {
	w.Helper()
	testenv.EventuallyNoError(w, patience, func() error {
		if ready := w.ready(); ready != count {
			return fmt.Errorf("%d messages in the queue, not %d", ready, count)
		}
		return nil
	})
}

// takeAll empties the queue.
func (w *world) takeAll() (messages []amqp.Delivery) {
	w.Helper()
	channel := w.channel()
	for {
		message, found, err := channel.Get(w.queue, true)
		require.NoError(w, err)
		if !found {
			require.NoError(w, channel.Close())
			return messages
		}
		messages = append(messages, message)
	}
}

// runningConsumer is a consumer that runs until stop, or the end of the test.
type runningConsumer struct {
	*Consumer
	stop func()
}

// run starts a consumer of the queue; change may be nil.
func (w *world) run(handle func(ctx context.Context, body []byte) error, change func(*ConsumerOptions)) *runningConsumer {
	w.Helper()
	options := ConsumerOptions{URL: w.server.URL(), Queue: w.queue, Prefetch: 10, Handle: handle, Log: silent}
	if change != nil {
		change(&options)
	}
	consumer, err := NewConsumer(options)
	require.NoError(w, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { consumer.Run(ctx) })
	stop := func() {
		cancel()
		running.Wait()
	}
	w.Cleanup(stop)
	return &runningConsumer{consumer, stop}
}

func (w *world) publisher(change func(*PublisherOptions)) *Publisher {
	w.Helper()
	options := PublisherOptions{URL: w.server.URL(), Log: silent}
	if change != nil {
		change(&options)
	}
	publisher, err := NewPublisher(options)
	require.NoError(w, err)
	w.Cleanup(publisher.Close)
	return publisher
}

// seen counts calls of Handle, by body.
type seen struct {
	mutex     sync.Mutex
	bodies    map[string]int
	calls     int
	now, peak int
}

func newSeen() *seen { return &seen{bodies: map[string]int{}} }

// in counts a call in, and returns how often the body was seen.
func (s *seen) in(body []byte) int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.bodies[string(body)]++
	s.calls++
	s.now++
	s.peak = max(s.peak, s.now)
	return s.bodies[string(body)]
}

func (s *seen) out() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.now--
}

// counts returns the number of different bodies, of calls, of calls under way, and of
// those at the worst time.
func (s *seen) counts() (bodies, calls, now, peak int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.bodies), s.calls, s.now, s.peak
}

func (s *seen) waitForBodies(w *world, count int) {
	w.Helper()
	testenv.EventuallyNoError(w, patience, func() error {
		if bodies, calls, _, _ := s.counts(); bodies < count {
			return fmt.Errorf("%d of %d messages, in %d calls", bodies, count, calls)
		}
		return nil
	})
}

// proxy is a network before the server that can be disturbed.
type proxy struct {
	*toxiproxy.Proxy
	w *world
}

func (w *world) proxy() *proxy {
	w.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(server, w.Name(), testenv.FreeAddress(w), w.server.Addr())
	require.NoError(w, p.Start())
	w.Cleanup(p.Stop)
	return &proxy{p, w}
}

func (p *proxy) url() string { return "amqp://guest:guest@" + p.Listen + "/" }

// swallowAnswers lets nothing of the server through, until cutAll.
func (p *proxy) swallowAnswers() {
	p.w.Helper()
	_, err := p.Toxics.AddToxicJson(strings.NewReader(`{"name":"swallow","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`))
	require.NoError(p.w, err)
}

// cutAll closes all connections, and swallows nothing any more.
func (p *proxy) cutAll() {
	p.w.Helper()
	p.Stop()
	p.Toxics.ResetToxics(p.w.Context())
	require.NoError(p.w, p.Start())
}

// silentServer accepts connections and never says anything.
func silentServer(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}
