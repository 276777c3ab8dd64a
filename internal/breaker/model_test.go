package breaker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pushq/internal/redistest"
	"pushq/internal/testenv"
)

// A model is what the script must do, without Redis. Its time goes in steps.
type model struct {
	state               State
	failures, successes int
	opened, generation  int
	swept, now          int
	forgetting          int                   // steps
	calls               map[string]*modelCall // that have not been reported
}

type modelCall struct {
	generation, began int  // or was renewed
	proven            bool // there was a good one since
}

const (
	step      = 10 * time.Second
	openFor   = 3 // steps
	threshold = 5
	closing   = 2
)

func (m *model) become(state State) {
	m.state, m.successes = state, 0
	m.generation++
	switch state {
	case Open:
		m.opened = m.now
	case Closed:
		m.failures = 0
	}
}

func (m *model) forgotten(call *modelCall) bool { return m.now-call.began >= m.forgetting }

func (m *model) unproven() (count int) {
	for _, call := range m.calls {
		if call.generation == m.generation && !call.proven && !m.forgotten(call) {
			count++
		}
	}
	return count
}

func (m *model) ask(name string) string {
	if call := m.calls[name]; call != nil && call.generation == m.generation {
		return "GO"
	}
	if m.state == Open {
		if m.now-m.opened < openFor {
			return "OPEN"
		}
		m.become(HalfOpen)
	}
	most := 1
	if m.state == Closed {
		most = threshold - m.failures
	}
	if m.unproven() >= most {
		return "WAIT"
	}
	if m.now-m.swept >= m.forgetting {
		for name, call := range m.calls {
			if m.forgotten(call) {
				delete(m.calls, name)
			}
		}
		m.swept = m.now
	}
	m.calls[name] = &modelCall{generation: m.generation, began: m.now}
	return "GO"
}

func (m *model) report(result Result, name string) {
	reported := m.calls[name]
	delete(m.calls, name)
	if reported == nil || reported.generation != m.generation {
		return
	}
	switch {
	case result == Good && m.state == HalfOpen:
		if m.successes++; m.successes == closing {
			m.become(Closed)
		}
	case result == Good:
		m.failures = 0
		for _, call := range m.calls {
			call.proven = true
		}
	case result == Bad:
		if m.failures++; m.state == HalfOpen || m.failures >= threshold {
			m.become(Open)
		}
	}
}

func (m *model) renew(names ...string) {
	for _, name := range names {
		if call := m.calls[name]; call != nil && !m.forgotten(call) {
			call.began = m.now
		}
	}
}

func TestTheScriptDoesWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, testenv.StartRedis(t).URL())
	rapid.Check(t, func(check *rapid.T) {
		c := &circuit{t: check, ctx: t.Context(), breaker: New(client, options("fcm"))}
		require.NoError(check, client.FlushAll(t.Context()).Err())
		m := &model{state: Closed, calls: map[string]*modelCall{}}
		m.forgetting = rapid.SampledFrom([]int{1, 2, 10}).Draw(check, "forgetting")
		m.swept = -m.forgetting
		c.breaker.Forget = time.Duration(m.forgetting) * step
		var names []string
		known := func(check *rapid.T) string {
			if len(names) == 0 {
				check.Skip("nobody has asked")
			}
			// Mostly one of the last: they are under way.
			back := rapid.IntRange(1, min(len(names), rapid.SampledFrom([]int{1, 6, 6, 6, 50}).Draw(check, "reach"))).Draw(check, "back")
			return names[len(names)-back]
		}
		same := func(a answer) {
			require.Equal(check, m.state, a.state)
			require.EqualValues(check, m.failures, a.failures)
		}
		report := func(result Result, name string) {
			a := c.run(string(result), name)
			m.report(result, name)
			require.Equal(check, "DONE", a.text)
			same(a)
		}
		reportOne := func(result Result) func(*rapid.T) {
			return func(check *rapid.T) { report(result, known(check)) }
		}
		ask := func(name string) {
			a := c.run("ask", name)
			require.Equal(check, m.ask(name), a.text)
			require.Equal(check, a.text == "GO", a.wait == 0)
			require.LessOrEqual(check, a.wait, max(c.breaker.Forget, c.breaker.OpenFor))
			same(a)
		}
		askNew := func() string {
			names = append(names, fmt.Sprint("call-", len(names)))
			ask(names[len(names)-1])
			return names[len(names)-1]
		}
		pass := func(steps int) {
			m.now += steps
			c.advance(time.Duration(steps) * step)
		}
		check.Repeat(map[string]func(*rapid.T){
			"ask": func(*rapid.T) {
				for range 3 {
					askNew()
				}
			},
			"ask again": func(check *rapid.T) { ask(known(check)) },
			"good":      reportOne(Good),
			"bad":       reportOne(Bad),
			"void":      reportOne(Void),
			"renew": func(check *rapid.T) {
				var renewed []string
				for range rapid.IntRange(1, 6).Draw(check, "calls") {
					renewed = append(renewed, known(check))
				}
				a := c.run("renew", strings.Join(renewed, " "))
				m.renew(renewed...)
				require.Equal(check, "DONE", a.text)
				same(a)
			},
			"the service dies": func(*rapid.T) {
				for range threshold {
					report(Bad, askNew())
				}
			},
			"a probe": func(check *rapid.T) {
				pass(openFor)
				report(rapid.SampledFrom([]Result{Good, Good, Good, Bad, Void}).Draw(check, "result"), askNew())
			},
			"time passes": func(check *rapid.T) {
				pass(rapid.SampledFrom([]int{1, 1, 1, 2, 3, 10}).Draw(check, "steps"))
			},
		})
	})
}
