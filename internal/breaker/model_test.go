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

	goods, looks, failedInLook int
	last                       string         // subject of the latest that failed in a look
	failing                    map[string]int // the good answers until the latest failure of each subject
	refused                    bool
}

type modelCall struct {
	generation, began int // or was renewed
	subject           string
	proven            bool // there was a good one since
	suspect           bool // when it was permitted
}

const (
	step      = 7500 * time.Millisecond
	openFor   = 4 // steps
	threshold = 5
	closing   = 2
)

func (m *model) become(state State) {
	m.state, m.successes, m.failedInLook = state, 0, 0
	m.generation++
	switch state {
	case Open:
		m.opened = m.now
	case HalfOpen:
		m.looks++
	case Closed:
		m.failures, m.looks, m.last = 0, 0, ""
	}
}

func (m *model) suspect(subject string) bool {
	goods, fails := m.failing[subject]
	return fails && m.goods > goods
}

// works says whether what suspects do tells nothing of the service.
func (m *model) works() bool {
	return m.state == Closed || m.state == HalfOpen && m.successes > 0
}

func (m *model) mayFail() int {
	if m.looks <= 1 {
		return 2
	}
	return 1
}

// turn is how many steps the breaker must have been open for a call about the subject.
func (m *model) turn(subject string) int {
	switch _, fails := m.failing[subject]; {
	case subject != "" && subject == m.last:
		return 2 * openFor
	case fails:
		return openFor * 3 / 2
	case m.state == Open:
		return openFor
	default:
		return 0
	}
}

func (m *model) forgotten(call *modelCall) bool { return m.now-call.began >= m.forgetting }

// underWay counts the calls of this state for suspects, or those of others that are not
// proven.
func (m *model) underWay(suspects bool) (count int) {
	for _, call := range m.calls {
		if call.generation == m.generation && call.suspect == suspects && !call.proven && !m.forgotten(call) {
			count++
		}
	}
	return count
}

func (m *model) ask(name, subject string) string {
	if call := m.calls[name]; call != nil && call.generation == m.generation {
		return "GO"
	}
	suspect := m.suspect(subject) && m.works()
	if suspect {
		if m.underWay(true) >= threshold {
			return "LATER"
		}
		return m.permit(name, subject, true)
	}
	if m.state != Closed && m.now-m.opened < m.turn(subject) {
		if m.state == Open && m.now-m.opened < openFor {
			return "OPEN"
		}
		return "LATER"
	}
	if m.state == Open {
		m.become(HalfOpen)
	}
	most := m.mayFail() - m.failedInLook
	if m.state == Closed {
		most = threshold - m.failures
	}
	if m.underWay(false) >= most {
		return "WAIT"
	}
	return m.permit(name, subject, false)
}

func (m *model) permit(name, subject string, suspect bool) string {
	if m.now-m.swept >= m.forgetting {
		for name, call := range m.calls {
			if m.forgotten(call) {
				delete(m.calls, name)
			}
		}
		m.swept = m.now
	}
	m.calls[name] = &modelCall{generation: m.generation, began: m.now, subject: subject, suspect: suspect}
	return "GO"
}

// report returns whether the subject is suspect.
func (m *model) report(result Result, name, subject string) (suspect bool) {
	reported := m.calls[name]
	suspect = m.suspect(subject)
	if reported == nil {
		return suspect
	}
	delete(m.calls, name)
	switch failedAt, fails := m.failing[subject]; {
	case result == Good:
		m.goods++
		m.refused, suspect = false, false
		delete(m.failing, subject)
	case result != Void && subject != "":
		goods := m.goods
		if late := reported.generation != m.generation; late && m.state == Closed || !late && !fails && m.state == HalfOpen && m.successes > 0 {
			goods-- // others were served meanwhile
		}
		m.failing[subject] = max(goods, failedAt)
	}
	if reported.generation != m.generation {
		return suspect
	}
	switch {
	case result == Void, result != Good && suspect && m.works():
	case result == Good && m.state == HalfOpen:
		if m.successes++; m.successes == closing {
			m.become(Closed)
		}
	case result == Good:
		m.failures = 0
		for _, call := range m.calls {
			call.proven = call.proven || !call.suspect
		}
	default:
		m.failures++
		if m.state == HalfOpen {
			m.failedInLook++
			m.opened, m.last = m.now, subject
		}
		if m.state == HalfOpen && m.failedInLook >= m.mayFail() || m.state == Closed && m.failures >= threshold {
			m.refused = result == Refused
			m.become(Open)
		}
	}
	return suspect
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
		m := &model{state: Closed, calls: map[string]*modelCall{}, failing: map[string]int{}}
		m.forgetting = rapid.SampledFrom([]int{1, 2, 10}).Draw(check, "forgetting")
		m.swept = -m.forgetting
		c.breaker.Forget = time.Duration(m.forgetting) * step
		var names []string
		subjects := map[string]string{} // of calls, by their names
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
			a := c.runFor(subjects[name], string(result), name)
			require.Equal(check, m.report(result, name, subjects[name]), a.suspect)
			require.Equal(check, "DONE", a.text)
			same(a)
		}
		reportOne := func(result Result) func(*rapid.T) {
			return func(check *rapid.T) { report(result, known(check)) }
		}
		ask := func(name string) {
			a := c.runFor(subjects[name], "ask", name)
			require.Equal(check, m.ask(name, subjects[name]), a.text)
			require.Equal(check, m.suspect(subjects[name]), a.suspect)
			require.Equal(check, a.text == "GO", a.wait == 0)
			require.LessOrEqual(check, a.wait, max(c.breaker.Forget, 2*c.breaker.OpenFor))
			same(a)
		}
		askNew := func(subject string) string {
			name := fmt.Sprint("call-", len(names))
			names = append(names, name)
			subjects[name] = subject
			ask(name)
			return name
		}
		anySubject := func(check *rapid.T) string {
			// One of few, which have often failed, or one of its own.
			own := fmt.Sprint("subject of call-", len(names))
			return rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e", "f", "g", own, own, own}).Draw(check, "subject")
		}
		pass := func(steps int) {
			m.now += steps
			c.advance(time.Duration(steps) * step)
		}
		check.Repeat(map[string]func(*rapid.T){
			"ask": func(check *rapid.T) {
				for range 3 {
					askNew(anySubject(check))
				}
			},
			"ask again": func(check *rapid.T) { ask(known(check)) },
			"good":      reportOne(Good),
			"bad":       reportOne(Bad),
			"void":      reportOne(Void),
			"refused":   reportOne(Refused),
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
			"the service dies": func(check *rapid.T) {
				for range threshold {
					report(Bad, askNew(anySubject(check)))
				}
			},
			"a probe": func(check *rapid.T) {
				pass(rapid.SampledFrom([]int{openFor, openFor * 3 / 2, 2 * openFor}).Draw(check, "steps"))
				report(rapid.SampledFrom([]Result{Good, Good, Good, Bad, Bad, Refused, Void}).Draw(check, "result"), askNew(anySubject(check)))
			},
			"some subjects fail and others do not": func(check *rapid.T) {
				for range rapid.IntRange(1, 6).Draw(check, "subjects") {
					report(rapid.SampledFrom([]Result{Good, Bad}).Draw(check, "result"), askNew(anySubject(check)))
				}
			},
			"read": func(check *rapid.T) {
				statuses, err := ReadStatuses(t.Context(), client, c.breaker.Hash)
				require.NoError(check, err)
				require.Equal(check, []Status{{State: m.state, Refused: m.refused, Opened: statuses[0].Opened}}, statuses)
			},
			"time passes": func(check *rapid.T) {
				pass(rapid.SampledFrom([]int{1, 1, 1, 2, 3, 10}).Draw(check, "steps"))
			},
		})
	})
}
