package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
)

// balancer passes requests on to the processes that were ready when it last looked,
// which it does once a second.
type balancer struct {
	*httptest.Server
	transport *http.Transport

	mutex     sync.Mutex
	processes map[string]bool // whether it is ready, by address
	turn      int
	refused   []string // requests to which a process gave no answer, or there was none to ask
}

func startBalancer(t *testing.T, processes ...*testenv.Process) *balancer {
	t.Helper()
	b := &balancer{transport: &http.Transport{MaxIdleConnsPerHost: 100}, processes: map[string]bool{}}
	for _, process := range processes {
		b.processes[process.URL()] = true
	}
	b.Server = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(request *httputil.ProxyRequest) {
			if address := b.choose(); address != nil {
				request.SetURL(address)
			}
		},
		Transport: b.transport,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			b.mutex.Lock()
			b.refused = append(b.refused, err.Error())
			b.mutex.Unlock()
			w.WriteHeader(http.StatusBadGateway)
		},
	})
	stopped := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-stopped:
				return
			case <-ticker.C:
				b.look()
			}
		}
	})
	t.Cleanup(func() {
		close(stopped)
		looking.Wait()
		b.Close()
		b.transport.CloseIdleConnections()
	})
	return b
}

// choose returns an address in turn, nil if no process is ready.
func (b *balancer) choose() *url.URL {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	var ready []string
	for address, isReady := range b.processes {
		if isReady {
			ready = append(ready, address)
		}
	}
	if len(ready) == 0 {
		return nil
	}
	b.turn++
	address, err := url.Parse(ready[b.turn%len(ready)])
	if err != nil {
		panic(err)
	}
	return address
}

func (b *balancer) look() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for address := range b.processes {
		response, err := client.Get(address + "/health/ready")
		b.processes[address] = err == nil && response.StatusCode == http.StatusOK
		if err == nil {
			_ = response.Body.Close()
		}
	}
}

// replace puts a process in the place of one that has ended.
func (b *balancer) replace(address string, by *testenv.Process) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	delete(b.processes, address)
	b.processes[by.URL()] = true
}

func (b *balancer) refusals() []string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.refused
}

func TestARollingUpdateRefusesNothing(t *testing.T) {
	t.Parallel()
	const delay = "HTTP_SHUTDOWNDELAY=5s"
	w := newWorld(t, swrvesim.Config{})
	processes := []*testenv.Process{w.startReady("api", delay), w.startReady("api", delay)}
	balancer := startBalancer(t, processes...)

	stop := make(chan struct{})
	var posting sync.WaitGroup
	var mutex sync.Mutex
	answers := map[int]int{}
	posting.Go(func() {
		ticker := time.NewTicker(5 * time.Millisecond) // 200 a second
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				posting.Go(func() {
					status, _, _, err := tryPost(balancer.URL, pushBody("user"))
					if err != nil {
						t.Error(err)
					}
					mutex.Lock()
					defer mutex.Unlock()
					answers[status]++
				})
			}
		}
	})
	for _, process := range processes {
		address := process.URL()
		process.Terminate()
		require.Zero(t, process.Wait(60*time.Second))
		balancer.replace(address, w.startReady("api", delay))
	}
	close(stop)
	posting.Wait()
	t.Logf("answers by status: %v", answers)
	require.Empty(t, balancer.refusals())
	require.Len(t, answers, 1)
	require.Greater(t, answers[http.StatusAccepted], 1000)
}

// With a delay, readiness goes first, then the port; workers do not wait.
func TestADelayedShutdown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	serve := w.startReady("serve", "HTTP_SHUTDOWNDELAY=1m")
	keepAlive := &http.Client{Transport: &http.Transport{}}
	get := func(path string) *http.Response {
		response, err := keepAlive.Get(serve.URL() + path)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response
	}
	response := get("/health/ready")
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.False(t, response.Close)

	serve.Terminate()
	testenv.Eventually(t, 20*time.Second, "the process not to be ready", func() bool {
		return get("/health/ready").StatusCode == http.StatusServiceUnavailable
	})
	require.True(t, get("/health/live").Close, "the answer says Connection: close")
	testenv.Eventually(t, 30*time.Second, "the workers to stop", func() bool {
		response, err := client.Get(serve.URL() + "/health")
		require.NoError(t, err)
		report, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return strings.Contains(string(report), "the workers are not running")
	})
	accept(t, serve, "user")
	require.Empty(t, w.Swrve.Ledger(), "nobody sends any more")

	time.Sleep(sameRequest) // until then it would be the first signal again
	serve.Interrupt()
	require.Equal(t, 130, serve.Wait(20*time.Second))
}

// Nobody balances between workers.
func TestAWorkerStopsWithoutDelay(t *testing.T) {
	t.Parallel()
	worker := newWorld(t, swrvesim.Config{}).startReady("worker", "HTTP_SHUTDOWNDELAY=5m")
	worker.Terminate()
	require.Zero(t, worker.Wait(60*time.Second))
}
