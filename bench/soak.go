package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
)

const (
	soakPerSecond = 250
	// soakLimit leaves room for a machine that does something else besides.
	soakLimit   = 400
	soakWorkers = 2
	soakRestart = time.Minute
	// soakRetention makes Redis hold as many pushes after a minute as at the end.
	soakRetention = "1m"
	soakGrowth    = 1.1
	// soakJudged is the shortest time of which memory is judged: the middle third
	// has to begin when Redis forgets as much as comes.
	soakJudged = 4 * time.Minute
)

// soaked is pushq with a short memory.
var soaked = contender{pushq.name, func(t *stage, w *world, role string, s settings) *testenv.Process {
	return startPushq(t, w, role, s, "PUSHQ_PUSH_RETENTION_SENT="+soakRetention, "PUSHQ_PUSH_RETENTION_COMPLETED="+soakRetention)
}}

// soak is no comparison with others, but one of pushq with itself: its memory
// at the end of a long time with that in the middle.
func (b *bench) soak(duration time.Duration) []result {
	const once = 1
	found := b.sideBySide("soak", once, func(t *stage, c contender) measurement { return measureSoak(t, c, duration) }, soaked)
	return b.judgeSoak(found, duration)
}

func (b *bench) judgeSoak(found rounds, duration time.Duration) []result {
	var lines []result
	show := func(p promise) { lines = append(lines, b.judge(found, p, contender{})) }
	ofMemory := *b
	ofMemory.judges = b.judges && duration >= soakJudged
	for _, memory := range []string{soakedAPI, soakedWorkers, soakedRedis} {
		for _, third := range thirds {
			show(promise{text: "memory of " + memory + ": median of the " + third + " third", value: memory + third, unit: "MB"})
		}
		growth := promise{text: fmt.Sprintf("memory of %s: last third ≤ %g x middle third", memory, soakGrowth), value: memory, unit: "x", rule: atMost(soakGrowth)}
		lines = append(lines, ofMemory.judge(found, growth, contender{}))
	}
	show(promise{text: "worker processes replaced", value: "restarts"})
	for _, count := range []string{"accepted", "not accepted", "SENT", "FAILED", "GIVEN_UP", "still queued", "delivered twice"} {
		show(promise{text: "pushes " + count, value: count})
	}
	show(promise{text: "accepted pushes of which nobody knows = 0", value: "lost", rule: atMost(0)})
	show(promise{text: "delivered twice, and no attempt says that it may be = 0", value: "unexplained", rule: atMost(0)})
	return lines
}

// measureSoak posts at a steady rate for some time while one worker after the
// other is replaced, and looks at the memory every second.
func measureSoak(t *stage, c contender, duration time.Duration) measurement {
	pushes := int(duration.Seconds() * soakPerSecond)
	provider := swrvesim.New(swrvesim.Config{Rate: soakLimit, Latency: swrvesim.OriginalLatency(1), LedgerSize: 2 * pushes})
	url, err := provider.Start("127.0.0.1:0")
	t.check(err)
	t.Cleanup(func() { _ = provider.Close() })
	w := &world{redis: testenv.StartRedis(t), swrve: &simulator{url, url + "/push"}}
	w.redisURL = w.redis.URL()

	s := settings{concurrency: inWork, perSecond: providerLimit}
	api := c.startReady(t, w, "api", s)
	workers := make([]*testenv.Process, soakWorkers)
	for place := range workers {
		workers[place] = c.startReady(t, w, "worker", s)
	}
	watched := watchMemory(w.redis.Client(t), api, workers)
	followed := make(chan *soakAccount, 1)
	began := time.Now()
	go func() { followed <- followPushes(api.URL(), pushes) }()

	values := map[string]float64{}
	for next := began.Add(soakRestart); next.Before(began.Add(duration)); next = next.Add(soakRestart) {
		time.Sleep(time.Until(next))
		place := int(values["restarts"]) % soakWorkers
		workers[place].Terminate()
		if code := workers[place].Wait(time.Minute); code != 0 {
			t.Fatalf("a worker that was asked to end answered %d", code)
		}
		workers[place] = c.startReady(t, w, "worker", s)
		watched.replace(place, workers[place])
		values["restarts"]++
		t.bench.progress("soak: %s of %s, worker %d replaced", time.Since(began).Round(time.Second), duration, place+1)
	}
	time.Sleep(time.Until(began.Add(duration)))
	t.check(watched.stop(values))
	account := <-followed
	account.report(values, provider.Ledger())
	for why, count := range account.refused {
		t.bench.progress("soak: %d pushes not accepted: %s", count, why)
	}
	return measurement{values: values}
}

const (
	soakedAPI     = "the api process"
	soakedWorkers = "all worker processes"
	soakedRedis   = "Redis"
)

var thirds = []string{"first", "middle", "last"}

// watchedMemory is the memory of all processes, second by second, in bytes.
type watchedMemory struct {
	end, ended chan struct{}

	mutex   sync.Mutex
	workers []int // process ids
	series  map[string][]float64
	failure error
}

func watchMemory(client *redis.Client, api *testenv.Process, workers []*testenv.Process) *watchedMemory {
	m := &watchedMemory{end: make(chan struct{}), ended: make(chan struct{}), series: map[string][]float64{}}
	for _, worker := range workers {
		m.workers = append(m.workers, worker.Pid())
	}
	go func() {
		defer close(m.ended)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-m.end:
				return
			case <-ticker.C:
				m.look(client, api.Pid())
			}
		}
	}()
	return m
}

func (m *watchedMemory) look(client *redis.Client, api int) {
	inRedis, err := usedMemory(client)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if err != nil {
		m.failure = err
	}
	workers := 0.0
	for _, worker := range m.workers {
		workers += residentBytes(worker)
	}
	for name, bytes := range map[string]float64{soakedAPI: residentBytes(api), soakedWorkers: workers, soakedRedis: inRedis} {
		m.series[name] = append(m.series[name], bytes)
	}
}

func (m *watchedMemory) replace(place int, worker *testenv.Process) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.workers[place] = worker.Pid()
}

// stop writes the medians of the thirds, in megabytes, and the growth.
func (m *watchedMemory) stop(values map[string]float64) error {
	close(m.end)
	<-m.ended
	for name, series := range m.series {
		medians := mediansOfThirds(series)
		for place, third := range thirds {
			values[name+third] = medians[place] / 1e6
		}
		values[name] = medians[2] / medians[1]
	}
	return m.failure
}

func mediansOfThirds(series []float64) [3]float64 {
	length := len(series)
	return [3]float64{median(series[:length/3]), median(series[length/3 : 2*length/3]), median(series[2*length/3:])}
}

// residentBytes is the memory that a process occupies, 0 if it has ended; see
// proc(5).
func residentBytes(pid int) float64 {
	text := fieldOf(fmt.Sprintf("/proc/%d/status", pid), "VmRSS")
	kilobytes, _ := strconv.ParseFloat(strings.TrimSuffix(text, " kB"), 64)
	return kilobytes * 1024
}
