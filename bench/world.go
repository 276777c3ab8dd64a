package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
)

// A world is what contenders live in: a Redis and a provider of their own, new
// for each measurement.
type world struct {
	redis *testenv.Redis
	// redisURL is the address that contenders are given; a slow link may lie
	// before the Redis.
	redisURL string
	swrve    *simulator

	databaseURL string
}

// A provider is how the simulated Swrve behaves.
type provider struct {
	latency string // as `pushq sim swrve --latency` takes it
	rate    int    // requests allowed in any sliding second, 0 for any number
}

// newWorld starts a Redis and a simulator. delay is added to the round trip
// between contenders and their Redis.
func newWorld(t *stage, p provider, delay time.Duration) *world {
	w := &world{redis: testenv.StartRedis(t), swrve: startSimulator(t, p)}
	w.redisURL = w.redis.URL()
	if delay > 0 {
		w.redisURL = "redis://" + startLink(t, w.redis.Addr(), delay) + "/0"
	}
	return w
}

// database returns the URL of an empty PostgreSQL database.
func (w *world) database(t *stage) string {
	if w.databaseURL == "" {
		// It keeps nothing safe, as the Redis here.
		w.databaseURL = testenv.StartPostgres(t, "-c", "synchronous_commit=off", "-c", "max_connections=400", "-c", "shared_buffers=256MB").URL()
	}
	return w.databaseURL
}

// usedMemory is how many bytes Redis has in use.
func (w *world) usedMemory(t *stage) float64 {
	bytes, err := usedMemory(w.redis.Client(t))
	t.check(err)
	return bytes
}

func usedMemory(client *redis.Client) (bytes float64, err error) {
	info := client.InfoMap(context.Background(), "memory")
	if err := info.Err(); err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(info.Item("Memory", "used_memory"), &bytes)
	return bytes, err
}

// A simulator is a simulated Swrve in a process of its own, so that nothing
// else holds it up.
type simulator struct {
	url, push string
}

func startSimulator(t *stage, p provider) *simulator {
	process := testenv.StartProgram(t, t.bench.programs.pushq, []string{
		"sim", "swrve", "--listen", "127.0.0.1:0", "--latency", p.latency, "--rate", fmt.Sprint(p.rate),
	})
	return &simulator{process.URL(), process.URL() + "/push"}
}

func (s *simulator) stats(t *stage) swrvesim.Stats {
	var stats swrvesim.Stats
	getJSON(t, s.url+"/stats", &stats)
	return stats
}

// requests are all requests so far, in order.
func (s *simulator) requests(t *stage) []swrvesim.Request {
	var ledger struct {
		Dropped  int                `json:"dropped"`
		Requests []swrvesim.Request `json:"requests"`
	}
	getJSON(t, s.url+"/ledger", &ledger)
	if ledger.Dropped > 0 {
		t.Fatalf("the simulator has forgotten %d requests", ledger.Dropped)
	}
	return ledger.Requests
}

// await waits until so many requests have arrived.
func (s *simulator) await(t *stage, requests int, timeout time.Duration) {
	deadline := time.Now().Add(timeout)
	for {
		arrived := s.stats(t).Requests
		if arrived >= requests {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d pushes have arrived within %s", arrived, requests, timeout)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func getJSON(t *stage, url string, into any) {
	response, err := http.Get(url)
	t.check(err)
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %d", url, response.StatusCode)
	}
	t.check(json.NewDecoder(response.Body).Decode(into))
}
