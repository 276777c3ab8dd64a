package testenv

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// clientOf returns a client through the proxy that tries everything once.
func clientOf(t testing.TB, p *Proxy) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(p.URL())
	require.NoError(t, err)
	options.MaxRetries = -1
	client := redis.NewClient(options)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// rawConnection is for what a client library does not let a test see.
type rawConnection struct {
	*net.TCPConn
	t      testing.TB
	reader *bufio.Reader
}

func connect(t testing.TB, p *Proxy) *rawConnection {
	t.Helper()
	connection, err := net.DialTimeout("tcp", p.Addr(), patience)
	require.NoError(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	require.NoError(t, connection.SetDeadline(time.Now().Add(patience)))
	return &rawConnection{connection.(*net.TCPConn), t, bufio.NewReader(connection)}
}

func (c *rawConnection) send(requests ...string) {
	c.t.Helper()
	_, err := io.WriteString(c, strings.Join(requests, ""))
	require.NoError(c.t, err)
}

func (c *rawConnection) receive() string {
	c.t.Helper()
	reply, err := readValue(c.reader)
	require.NoError(c.t, err)
	return string(reply)
}

// requireEnd checks that nothing more arrives than the end of the connection.
func (c *rawConnection) requireEnd() {
	c.t.Helper()
	rest, err := io.ReadAll(c.reader)
	require.Empty(c.t, string(rest))
	require.NotErrorIs(c.t, err, os.ErrDeadlineExceeded, "still open")
}

func request(words ...string) string {
	text := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	return text
}

func TestProxyPassesEverythingOn(t *testing.T) {
	t.Parallel()
	server := StartRedis(t)
	client := clientOf(t, NewProxy(t, server.Addr()))
	ctx := t.Context()

	large := strings.Repeat("0123456789\r\n", 100_000)
	require.NoError(t, client.Set(ctx, "large", large, 0).Err())
	require.Equal(t, large, client.Get(ctx, "large").Val())
	require.NoError(t, client.HSet(ctx, "hash", "a", 1, "b", 2).Err())
	require.Equal(t, map[string]string{"a": "1", "b": "2"}, client.HGetAll(ctx, "hash").Val())

	replies, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for range 1000 {
			pipe.Incr(ctx, "counter")
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, int64(1000), replies[999].(*redis.IntCmd).Val())

	subscription := client.Subscribe(ctx, "channel")
	defer subscription.Close()
	_, err = subscription.Receive(ctx)
	require.NoError(t, err)
	require.NoError(t, server.Client(t).Publish(ctx, "channel", "news").Err())
	require.Equal(t, "news", (<-subscription.Channel()).Payload)
}

func TestCutReplyToACommand(t *testing.T) {
	t.Parallel()
	server := StartRedis(t)
	proxy := NewProxy(t, server.Addr())
	client, direct := clientOf(t, proxy), server.Client(t)
	ctx := t.Context()

	proxy.CutReplyTo("incr", 2)
	require.NoError(t, client.Set(ctx, "other", "incr it", 0).Err())
	for lost := 1; lost <= 2; lost++ {
		require.Error(t, client.Incr(ctx, "counter").Err())
		require.Equal(t, lost, proxy.Cut())
		require.Equal(t, fmt.Sprint(lost), direct.Get(ctx, "counter").Val(), "the request was not executed")
	}
	require.Equal(t, int64(3), client.Incr(ctx, "counter").Val())
	require.Equal(t, 2, proxy.Cut())

	proxy.CutReplyTo("incr", 2)
	proxy.CutReplyTo("incr", 0)
	require.Equal(t, int64(4), client.Incr(ctx, "counter").Val())
}

func TestCutReplyToAScript(t *testing.T) {
	t.Parallel()
	server := StartRedis(t)
	proxy := NewProxy(t, server.Addr())
	client, direct := clientOf(t, proxy), server.Client(t)
	ctx := t.Context()
	script := redis.NewScript(`return redis.call("incr", KEYS[1])`)
	proxy.CutReplyTo(script.Hash(), 1)

	require.Equal(t, int64(1), script.Run(ctx, client, []string{"counter"}).Val(), "NOSCRIPT was not passed on")
	require.Zero(t, proxy.Cut())

	require.Error(t, script.Run(ctx, client, []string{"counter"}).Err())
	require.Equal(t, 1, proxy.Cut())
	require.Equal(t, "2", direct.Get(ctx, "counter").Val())

	require.Equal(t, int64(3), script.Run(ctx, client, []string{"counter"}).Val())
}

func TestCutReplyWhenTheMarkerIsSplit(t *testing.T) {
	t.Parallel()
	server := StartRedis(t)
	proxy := NewProxy(t, server.Addr())
	proxy.CutReplyTo("incr", 1)
	connection := connect(t, proxy)
	for _, letter := range request("incr", "counter") {
		connection.send(string(letter))
		// So that the proxy reads each by itself; if not, the test is weaker.
		time.Sleep(time.Millisecond)
	}
	connection.requireEnd()
	require.Equal(t, 1, proxy.Cut())
	require.Equal(t, "1", server.Client(t).Get(t.Context(), "counter").Val())
}

func TestCutReplyInAPipeline(t *testing.T) {
	t.Parallel()
	for _, latency := range []time.Duration{0, 20 * time.Millisecond} {
		t.Run(latency.String(), func(t *testing.T) {
			t.Parallel()
			server := StartRedis(t)
			proxy := NewProxy(t, server.Addr())
			proxy.SetLatency(latency)
			proxy.CutReplyTo("incr", 1)
			connection := connect(t, proxy)
			connection.send(request("set", "a", "1"), request("get", "a"), request("incr", "a"), request("set", "b", "2"))

			require.Equal(t, "+OK\r\n", connection.receive())
			require.Equal(t, "$1\r\n1\r\n", connection.receive())
			connection.requireEnd()
			require.Equal(t, 1, proxy.Cut())
			require.Equal(t, "2", server.Client(t).Get(t.Context(), "a").Val())
		})
	}
}

func TestCutRepliesOfManyConnections(t *testing.T) {
	t.Parallel()
	server := StartRedis(t)
	proxy := NewProxy(t, server.Addr())
	client := clientOf(t, proxy)
	proxy.CutReplyTo("incr", 5)
	var lost atomic.Int64
	var running sync.WaitGroup
	for range 20 {
		running.Go(func() {
			if client.Incr(t.Context(), "counter").Err() != nil {
				lost.Add(1)
			}
		})
	}
	running.Wait()
	require.Equal(t, int64(5), lost.Load())
	require.Equal(t, 5, proxy.Cut())
	require.Equal(t, "20", server.Client(t).Get(t.Context(), "counter").Val())
}

func TestCutReplyIsTakenBackIfTheServerDies(t *testing.T) {
	t.Parallel()
	server := StartRedis(t)
	proxy := NewProxy(t, server.Addr())
	proxy.CutReplyTo("incr", 1)
	connection := connect(t, proxy)
	connection.send(request("ping"))
	require.Equal(t, "+PONG\r\n", connection.receive())

	server.Freeze()
	connection.send(request("incr", "counter"))
	Eventually(t, patience, "the proxy to see the request", func() bool {
		proxy.mutex.Lock()
		defer proxy.mutex.Unlock()
		return proxy.cuttings["incr"].left == 0
	})
	server.Stop()
	connection.requireEnd()
	require.Zero(t, proxy.Cut())

	server.Start()
	// A new connection may be quicker than the end of the old one.
	Eventually(t, patience, "a cut", func() bool { return clientOf(t, proxy).Incr(t.Context(), "counter").Err() != nil })
	require.Equal(t, 1, proxy.Cut())
}

// Were each request held back by itself, 200 of them would take 200 times the
// delay of one direction: 6 s.
func TestLatencyDoesNotReduceThroughput(t *testing.T) {
	t.Parallel()
	const requests, latency = 60, 500 * time.Millisecond // half a minute, one after the other
	proxy := NewProxy(t, StartRedis(t).Addr())
	proxy.SetLatency(latency)
	connection := connect(t, proxy)

	began := time.Now()
	sent := make(chan time.Time, requests)
	var sending sync.WaitGroup
	sending.Go(func() {
		for range requests {
			sent <- time.Now()
			_, _ = io.WriteString(connection, request("ping"))
			// So that requests arrive one by one, as from many callers.
			time.Sleep(time.Millisecond)
		}
	})
	for range requests {
		require.Equal(t, "+PONG\r\n", connection.receive())
		require.GreaterOrEqual(t, time.Since(<-sent), latency)
	}
	sending.Wait()
	require.Less(t, time.Since(began), requests*latency)
}

func TestLatencyCanBeChangedAndKeepsOrder(t *testing.T) {
	t.Parallel()
	proxy := NewProxy(t, StartRedis(t).Addr())
	connection := connect(t, proxy)
	proxy.SetLatency(200 * time.Millisecond)
	began := time.Now()
	connection.send(request("incr", "counter"))
	Eventually(t, patience, "the first request to be under way", func() bool { return proxy.requestsRead() == 1 })
	proxy.SetLatency(0)
	connection.send(request("incr", "counter"))
	require.Equal(t, ":1\r\n", connection.receive())
	require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond)
	require.Equal(t, ":2\r\n", connection.receive())
}

// requestsRead counts the requests that open connections have brought.
func (p *Proxy) requestsRead() int {
	p.mutex.Lock()
	connections := slices.Collect(maps.Keys(p.connections))
	p.mutex.Unlock() // a connection that holds its own lock takes this one
	requests := 0
	for _, connection := range connections {
		connection.mutex.Lock()
		requests += connection.requests
		connection.mutex.Unlock()
	}
	return requests
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	proxy := NewProxy(t, StartRedis(t).Addr())
	connection := connect(t, proxy)
	connection.send(request("ping"))
	require.Equal(t, "+PONG\r\n", connection.receive())

	proxy.Refuse(true)
	connection.requireEnd()
	_, err := net.DialTimeout("tcp", proxy.Addr(), patience)
	require.ErrorContains(t, err, "connection refused")
	proxy.Refuse(true)

	proxy.Refuse(false)
	proxy.Refuse(false)
	require.NoError(t, clientOf(t, proxy).Ping(t.Context()).Err())
}

func TestBlackhole(t *testing.T) {
	t.Parallel()
	server := StartRedis(t)
	direct := server.Client(t)
	proxy := NewProxy(t, server.Addr())
	opened := connect(t, proxy)
	opened.send(request("ping"))
	require.Equal(t, "+PONG\r\n", opened.receive())

	proxy.Blackhole(true)
	proxy.Blackhole(true)
	fresh := connect(t, proxy)
	for _, connection := range []*rawConnection{opened, fresh} {
		connection.send(request("incr", "counter"))
		require.NoError(t, connection.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
		_, err := connection.reader.ReadByte()
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NoError(t, connection.SetReadDeadline(time.Now().Add(patience)))
	}
	require.ErrorIs(t, direct.Get(t.Context(), "counter").Err(), redis.Nil, "a request got through")

	proxy.Blackhole(false)
	proxy.Blackhole(false)
	require.ElementsMatch(t, []string{":1\r\n", ":2\r\n"}, []string{opened.receive(), fresh.receive()})
}

func TestBlackholeEndsWithItsTest(t *testing.T) {
	t.Parallel()
	proxy := NewProxy(t, StartRedis(t).Addr())
	connect(t, proxy).send(request("ping"))
	proxy.Blackhole(true)
	connect(t, proxy).send(request("ping"))
}

func TestProxyWithoutAServer(t *testing.T) {
	t.Parallel()
	server := StartRedis(t)
	proxy := NewProxy(t, server.Addr())
	connection := connect(t, proxy)
	connection.send(request("ping"))
	require.Equal(t, "+PONG\r\n", connection.receive())

	server.Stop()
	connection.requireEnd()
	connect(t, proxy).requireEnd()

	server.Start()
	require.NoError(t, clientOf(t, proxy).Ping(t.Context()).Err())
}

func TestProxyClosesTheServersSideToo(t *testing.T) {
	t.Parallel()
	server := StartRedis(t)
	direct := server.Client(t)
	proxy := NewProxy(t, server.Addr())
	connected := func() int { return strings.Count(direct.ClientList(t.Context()).Val(), "id=") }
	before := connected()

	proxy.CutReplyTo("incr", 1)
	cut, left := connect(t, proxy), connect(t, proxy)
	cut.send(request("incr", "counter"))
	cut.requireEnd()
	left.send(request("ping"))
	require.Equal(t, "+PONG\r\n", left.receive())
	require.NoError(t, left.Close())
	Eventually(t, patience, "Redis to be rid of both connections", func() bool { return connected() == before })
}

func BenchmarkPipelineThroughProxy(b *testing.B) {
	for _, latency := range []time.Duration{0, 5 * time.Millisecond} {
		b.Run(latency.String(), func(b *testing.B) {
			proxy := NewProxy(b, StartRedis(b).Addr())
			proxy.SetLatency(latency)
			connection := connect(b, proxy)
			require.NoError(b, connection.SetDeadline(time.Time{}))
			var sending sync.WaitGroup
			b.ResetTimer()
			sending.Go(func() {
				writer := bufio.NewWriter(connection)
				for range b.N {
					_, _ = writer.WriteString("*1\r\n$4\r\nping\r\n")
				}
				_ = writer.Flush()
			})
			for range b.N {
				connection.receive()
			}
			sending.Wait()
		})
	}
}

func BenchmarkRoundTripThroughProxy(b *testing.B) {
	for _, latency := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond} {
		b.Run(latency.String(), func(b *testing.B) {
			proxy := NewProxy(b, StartRedis(b).Addr())
			proxy.SetLatency(latency)
			connection := connect(b, proxy)
			require.NoError(b, connection.SetDeadline(time.Time{}))
			for b.Loop() {
				connection.send("*1\r\n$4\r\nping\r\n")
				connection.receive()
			}
		})
	}
}
