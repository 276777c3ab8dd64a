package main

import (
	"fmt"
	"net/http"
	"os/exec"
	"time"

	"pushq/internal/testenv"
)

// A contender is a service that takes POST /push and delivers to Swrve, as one
// process that accepts (api) and others that deliver (worker).
type contender struct {
	name  string
	start func(t *stage, w *world, role string, s settings) *testenv.Process
}

// settings are the same for all contenders of a comparison.
type settings struct {
	// concurrency is the number of pushes in work at a time, of each worker.
	concurrency int
	// perSecond is the provider's limit, 0 for none.
	perSecond int
}

const (
	// What pushq sets (handlers/workers.go): asynq tuned like ours has the same.
	taskCheckInterval        = "1ms"
	delayedTaskCheckInterval = "500ms"

	// delayMillis at a limit of 300 a second leaves 2 % to it; see README.
	roomLeft = 0.98
	// pushq's smallest delay, 10,000 a second, which is more than any contender
	// reaches.
	noLimitDelay = "0.1"
)

func (s settings) delayMillis() string {
	if s.perSecond == 0 {
		return noLimitDelay
	}
	return fmt.Sprintf("%.2f", 1000/(float64(s.perSecond)*roomLeft))
}

var pushq = contender{"pushq", func(t *stage, w *world, role string, s settings) *testenv.Process {
	return startPushq(t, w, role, s)
}}

func startPushq(t *stage, w *world, role string, s settings, more ...string) *testenv.Process {
	return testenv.StartProgram(t, t.bench.programs.pushq, []string{role, "--listen", "127.0.0.1:0"}, append([]string{
		"PUSHQ_REDIS_URL=" + w.redisURL,
		"PUSHQ_SWRVE_URL=" + w.swrve.push,
		`PUSHQ_SWRVE_MESSAGEPROTOTYPEPUSHKEYS={"Hello":{"IOS":"ios-key"}}`,
		"PUSHQ_SWRVE_DELAYMILLIS=" + s.delayMillis(),
		fmt.Sprintf("PUSHQ_SWRVE_CONCURRENCY=%d", s.concurrency),
	}, more...)...)
}

// afternoon has asynq's own defaults, and redis_rate's.
var afternoon = contender{"asynq", func(t *stage, w *world, role string, s settings) *testenv.Process {
	return testenv.StartProgram(t, t.bench.programs.afternoon, []string{
		"-role", role, "-redis", w.redisURL, "-swrve", w.swrve.push,
		"-concurrency", fmt.Sprint(s.concurrency), "-rate", fmt.Sprint(s.perSecond),
	})
}}

// afternoonTuned has pushq's intervals, pools and pace.
var afternoonTuned = contender{"asynq, tuned", func(t *stage, w *world, role string, s settings) *testenv.Process {
	return testenv.StartProgram(t, t.bench.programs.afternoon, []string{
		"-role", role, "-redis", w.redisURL, "-swrve", w.swrve.push,
		"-concurrency", fmt.Sprint(s.concurrency), "-rate", fmt.Sprint(int(float64(s.perSecond) * roomLeft)), "-burst", "1",
		"-tuned", "-task-check", taskCheckInterval, "-delayed-task-check", delayedTaskCheckInterval,
		"-pool", fmt.Sprint(max(callers, 2*(16+s.concurrency/4))), // pushq's clients of one worker together
	})
}}

var river = riverContender("River")

// riverTuned fetches as often as River allows.
var riverTuned = riverContender("River, tuned", "-fetch-cooldown", "1ms")

func riverContender(name string, more ...string) contender {
	return contender{name, func(t *stage, w *world, role string, s settings) *testenv.Process {
		return testenv.StartProgram(t, t.bench.programs.river, append([]string{
			"-role", role, "-database", w.database(t), "-swrve", w.swrve.push, "-concurrency", fmt.Sprint(s.concurrency),
		}, more...))
	}}
}

var bullmq = contender{"BullMQ", func(t *stage, w *world, role string, s settings) *testenv.Process {
	script, err := bullmqScript()
	t.check(err)
	node, err := exec.LookPath("node")
	t.check(err)
	return testenv.StartProgram(t, node, []string{
		script, role, w.redisURL, w.swrve.push, fmt.Sprint(s.concurrency), fmt.Sprint(s.perSecond),
	})
}}

// startReady starts a process of a contender and returns when it is ready.
func (c contender) startReady(t *stage, w *world, role string, s settings) *testenv.Process {
	process := c.start(t, w, role, s)
	url := process.URL() + "/health/ready"
	testenv.EventuallyNoError(t, 30*time.Second, func() error {
		response, err := http.Get(url)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s is not ready: %d", c.name, response.StatusCode)
		}
		return nil
	})
	return process
}
