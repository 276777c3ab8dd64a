package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

func TestUnknownAddresses(t *testing.T) {
	t.Parallel()
	s := startService(t)
	for _, path := range []string{"/", "/pushes", "/Push", "/push/a/b", "//push", "/health/dead", "/push%2F", "/%00", "/.env"} {
		got := s.exchange("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		require.Equal(t, http.StatusNotFound, got.status, path)
		require.Equal(t, "not-found", got.kind())
	}
}

func TestWrongMethods(t *testing.T) {
	t.Parallel()
	s := startService(t)
	for _, request := range []struct {
		method, path string
		allow        []string
	}{
		{"PUT", "/push", []string{"GET", "HEAD", "POST"}},
		{"DELETE", "/push", []string{"GET", "HEAD", "POST"}},
		{"PURGE", "/push", []string{"GET", "HEAD", "POST"}},
		{"post", "/push", []string{"GET", "HEAD", "POST"}},
		{"POST", "/push/01JB0000000000000000000000", []string{"GET", "HEAD", "DELETE"}},
		{"GET", "/push/01JB0000000000000000000000/retry", []string{"POST"}},
		{"POST", "/health", []string{"GET", "HEAD"}},
		{"POST", "/health/live", []string{"GET", "HEAD"}},
	} {
		got := s.send(request.method, request.path, nil)
		require.Equal(t, http.StatusMethodNotAllowed, got.status, request)
		require.Equal(t, "method-not-allowed", got.kind())
		allowed := strings.Split(got.header.Get("Allow"), ", ")
		require.Subset(t, allowed, request.allow)
		require.NotContains(t, allowed, request.method)
	}
}

func TestHead(t *testing.T) {
	t.Parallel()
	s := startService(t)
	id := s.accept(push())
	for path, status := range map[string]int{
		"/health/live": 200, "/health/ready": 200, "/health": 200, "/push?status=PENDING": 200, "/push/" + id: 200,
		"/push": 400, "/push/x": 404, "/nothing": 404,
	} {
		got := s.send(http.MethodHead, path, nil)
		require.Equal(t, status, got.status, path)
		require.Empty(t, got.body)
	}
}

func TestHugeHeaders(t *testing.T) {
	t.Parallel()
	s := startService(t)
	connection := s.dial()
	// The server answers before it has read all of it, and may then close.
	_, _ = io.WriteString(connection, "GET /push HTTP/1.1\r\nHost: localhost\r\nX-Huge: "+strings.Repeat("x", 1<<20)+"\r\n\r\n")
	status := make([]byte, len("HTTP/1.1 431"))
	_, err := io.ReadFull(connection, status)
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 431", string(status))
}

func TestTooLargeIsSaidBeforeTheBodyComes(t *testing.T) {
	t.Parallel()
	s := startService(t)
	for _, length := range []int{16385, 200_000, 1 << 40} {
		for _, expect := range []string{"", "Expect: 100-continue\r\n"} {
			started := time.Now()
			got := s.exchange(fmt.Sprintf("POST /push HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n", expect, length))
			require.Equal(t, http.StatusRequestEntityTooLarge, got.status)
			require.Less(t, time.Since(started), readTimeout, "waited for a body of %d bytes", length)
		}
	}
}

func TestEndlessBodyIsCutOff(t *testing.T) {
	t.Parallel()
	s := startService(t)
	connection := s.dial()
	_, err := io.WriteString(connection, "POST /push HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
	require.NoError(t, err)
	written := 0
	for chunk := "1000\r\n" + strings.Repeat(" ", 0x1000) + "\r\n"; err == nil; written += len(chunk) {
		require.Less(t, written, 64<<20, "the server reads on")
		_, err = io.WriteString(connection, chunk)
	}
	var timeout net.Error
	require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "the connection was not closed")
}

func TestServerHasTimeouts(t *testing.T) {
	t.Parallel()
	s := New(prepareService(t).options)
	require.NotZero(t, s.http.ReadHeaderTimeout)
	require.NotZero(t, s.http.ReadTimeout)
	require.NotZero(t, s.http.WriteTimeout)
	require.NotZero(t, s.http.IdleTimeout)
}

// Not parallel, since it counts goroutines.
func TestOddClientsLeaveNothingBehind(t *testing.T) {
	s := prepareService(t)
	s.readTimeout = 2 * time.Second // the body would take five
	s.start()
	s.accept(push())
	s.http.CloseIdleConnections()
	before := settledGoroutines()

	// A body that trickles in is cut off and says so.
	slow := s.dial()
	head := "POST /push HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
	_, err := io.WriteString(slow, head)
	require.NoError(t, err)
	stop := make(chan struct{})
	trickled := make(chan struct{})
	go func() {
		defer close(trickled)
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				if _, err := slow.Write([]byte(" ")); err != nil {
					return
				}
			}
		}
	}()
	started := time.Now()
	got := s.answerOn(slow, head)
	require.Equal(t, http.StatusRequestTimeout, got.status)
	require.Equal(t, "timeout", got.kind())
	require.Less(t, time.Since(started), time.Minute)
	close(stop)
	<-trickled
	require.NoError(t, slow.Close())

	for number := range 200 {
		connection := s.dial()
		text := []string{
			"",
			"GET /pu",
			"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
			"POST /push HTTP/1.1\r\nHost: localhost\r\n",
			rawPost(push())[:150],
			rawPost(padded(20_000)),
			rawPost("{"),
			"POST /push HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
			"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
			"GET /push?status=SENT HTTP/1.1\r\nHost: localhost\r\n\r\n",
		}[number%10]
		_, err := io.WriteString(connection, text)
		require.NoError(t, err)
		if number%3 == 0 {
			require.NoError(t, connection.CloseWrite())
		} else {
			require.NoError(t, connection.Close())
		}
	}
	testenv.Eventually(t, 10*time.Second, "the goroutines of odd requests end", func() bool { return runtime.NumGoroutine() <= before })
	require.Equal(t, http.StatusAccepted, s.post(push()).status)
}

// settledGoroutines waits until their number stays the same for a while.
func settledGoroutines() int {
	count, same := runtime.NumGoroutine(), 0
	for ; same < 20; time.Sleep(5 * time.Millisecond) {
		if now := runtime.NumGoroutine(); now == count {
			same++
		} else {
			count, same = now, 0
		}
	}
	return count
}

// panickingIntake and panickingReader stand for a fault in the code behind the
// API.
type panickingIntake struct{ cause any }

func (i panickingIntake) Accept(context.Context, tasks.Push, bool) (bool, error) { panic(i.cause) }

func (i panickingIntake) Claim(context.Context, tasks.Push) (tasks.Claim, error) { panic(i.cause) }

type panickingReader struct{ cause any }

func (r panickingReader) Get(context.Context, string) (tasks.Report, error) { panic(r.cause) }

func (r panickingReader) List(context.Context, tasks.Channel, tasks.State, int, string) (tasks.Page, error) {
	panic(r.cause)
}

func (r panickingReader) Count(context.Context, tasks.Channel) ([]tasks.Count, error) { panic(r.cause) }

func TestPanic(t *testing.T) {
	t.Parallel()
	for _, cause := range []any{"broken inside", errors.New("broken inside")} {
		s := prepareService(t)
		s.options.Reader, s.options.Intake = panickingReader{cause}, panickingIntake{cause}
		s.start()
		for _, got := range []answer{s.get("/push/01JB0000000000000000000000"), s.get("/push?status=SENT"), s.get("/push/count"), s.post(push())} {
			require.Equal(t, http.StatusInternalServerError, got.status)
			require.Equal(t, "internal", got.kind())
			require.NotContains(t, got.body, "broken inside")
			require.NotContains(t, got.body, ".go")
		}
		require.Contains(t, s.log.String(), "broken inside")
		require.Contains(t, s.log.String(), "panickingReader.Get", "the stack is logged")
		require.Contains(t, s.log.String(), "panickingReader.List", "the stack is logged")
		require.Contains(t, s.log.String(), "panickingIntake.Accept", "the stack is logged")
		require.Equal(t, http.StatusOK, s.get("/health/ready").status)
	}
}

// failingReader returns what the API cannot know.
type failingReader struct{ panickingReader }

func (failingReader) Get(context.Context, string) (tasks.Report, error) {
	return tasks.Report{}, errors.New("inner workings")
}

func TestUnknownErrorIsLoggedAndNotShown(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.options.Reader = failingReader{}
	s.start()
	got := s.get("/push/01JB0000000000000000000000")
	require.Equal(t, http.StatusInternalServerError, got.status)
	require.Equal(t, "internal", got.kind())
	require.NotContains(t, got.body, "inner workings")
	require.Contains(t, s.log.String(), "inner workings")
}

func TestStopAnswersWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, redis.Addr())
	s := prepareServiceBehind(t, redis, proxy.URL()).start()
	s.accept(push())
	proxy.SetLatency(300 * time.Millisecond)
	connection := s.dial()
	_, err := io.WriteString(connection, rawPost(push()))
	require.NoError(t, err)
	testenv.Eventually(t, 5*time.Second, "the second push is queued", func() bool { return s.queued() == 2 })
	require.NoError(t, s.server.Stop())
	require.Equal(t, http.StatusAccepted, s.answerOn(connection, rawPost(push())).status)
	_, err = net.Dial("tcp", s.address)
	require.Error(t, err)
}
