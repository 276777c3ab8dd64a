package handlers_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/handlers"
	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// Each attempt has one line in the log and is counted once, whatever came of it.
func TestEveryAttemptIsLoggedAndCountedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	noKey, oneDied, allDied := newPush("no key-"), newPush("one died-"), newPush("all died-")
	noKey.MessagePrototypeKey = "Unknown"
	w.begin(oneDied, "first", time.Minute)
	w.age(oneDied.ID)
	for _, token := range []string{"first", "second", "third"} {
		w.begin(allDied, token, time.Minute)
		w.age(allDied.ID)
	}
	w.work(workforce{timeout: time.Second, provider: func(inner handlers.Provider) handlers.Provider {
		return provider{Provider: inner, send: map[string]func() handlers.Outcome{
			"panic-": func() handlers.Outcome { panic("boom") },
			"odd-": func() handlers.Outcome {
				return handlers.Outcome{Verdict: handlers.Permanent, ErrorType: tasks.ErrorSwrve, ErrorCode: 599}
			},
		}}
	}})
	total := 0
	for _, scripted := range []struct {
		push     tasks.Push
		state    tasks.State
		outcomes string
	}{
		{newPush("ann-"), tasks.Sent, "ok"},
		{newPush("500x2-"), tasks.Sent, "retry retry ok"},
		{newPush("503-"), tasks.GivenUp, "retry retry give_up"},
		{newPush("429x1-"), tasks.Sent, "retry ok"},
		{newPush("400-"), tasks.Failed, "fail"},
		{newPush("hangx1-"), tasks.Sent, "retry ok"},
		{newPush("panic-"), tasks.Failed, "fail"},
		{newPush("odd-"), tasks.Failed, "fail"},
		{noKey, tasks.Failed, "fail"},
		{oneDied, tasks.Sent, "interrupted ok"},
		{allDied, tasks.GivenUp, "interrupted"}, // the dead workers counted two of them
	} {
		w.accept(scripted.push)
		report := w.await(scripted.push.ID, scripted.state, 1)
		var outcomes []string
		for _, line := range w.loggedAttempts(scripted.push.ID) {
			number := line["attempt"].(float64)
			require.Equal(t, "swrve", line["channel"])
			require.Equal(t, "INFO", line["level"])
			if line["outcome"] != "interrupted" {
				require.EqualValues(t, *report.Attempts[int(number)-1].Millis, line["millis"])
			}
			outcomes = append(outcomes, line["outcome"].(string))
		}
		require.Equal(t, scripted.outcomes, strings.Join(outcomes, " "), scripted.push.PushKey)
		total += len(outcomes)
	}
	require.Equal(t, total, strings.Count(w.log.String(), `"msg":"attempt"`))
	require.NotContains(t, w.log.String(), messageText)

	// Counted when asynq has its answer, a moment after the record.
	var scrape testenv.Scrape
	testenv.Eventually(t, patience, "all ends to be counted", func() bool {
		scrape = testenv.ScrapeHandler(t, w.metrics.Handler())
		ends := 0.0
		for _, count := range scrape.Family("pushq_pushes_finished_total") {
			ends += count
		}
		return ends == 11
	})
	for name, want := range map[string]map[string]float64{
		"pushq_pushes_finished_total": {
			`channel="swrve",state="SENT"`: 5, `channel="swrve",state="FAILED"`: 4, `channel="swrve",state="GIVEN_UP"`: 2,
		},
		"pushq_attempts_total": {
			`channel="swrve",outcome="ok"`: 5, `channel="swrve",outcome="retry"`: 6, `channel="swrve",outcome="fail"`: 4,
			`channel="swrve",outcome="give_up"`: 1, `channel="swrve",outcome="interrupted"`: 2,
		},
		"pushq_attempt_errors_total": {
			`channel="swrve",final="false",type="SWRVE"`: 5, `channel="swrve",final="true",type="SWRVE"`: 3,
			`channel="swrve",final="false",type="OTHER"`: 2, `channel="swrve",final="true",type="OTHER"`: 2,
			`channel="swrve",final="true",type="MESSAGE_PROTOTYPE_KEY"`: 1,
		},
		"pushq_attempts_unknown_total": {`channel="swrve"`: 4}, // hangs, panics, two dead workers
		"pushq_provider_responses_total": {
			`channel="swrve",code="2xx"`: 5, `channel="swrve",code="500"`: 2, `channel="swrve",code="503"`: 3,
			`channel="swrve",code="429"`: 1, `channel="swrve",code="400"`: 1, `channel="swrve",code="5xx"`: 1,
			`channel="swrve",code="none"`: 2, // hangs, panics
		},
		"pushq_sending_seconds_count": {
			`channel="swrve",outcome="ok"`: 5, `channel="swrve",outcome="retry"`: 6,
			`channel="swrve",outcome="fail"`: 3, `channel="swrve",outcome="give_up"`: 1,
		},
		"pushq_sending_in_flight":  {},
		"pushq_store_errors_total": {},
	} {
		require.Equal(t, want, scrape.Family(name), name)
	}
}

func TestRequestsInFlightAndStoreErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	release, finished := make(chan struct{}), make(chan struct{})
	proxy, client := w.proxied()
	w.work(workforce{recordsClient: client, provider: func(inner handlers.Provider) handlers.Provider {
		return provider{Provider: inner, send: map[string]func() handlers.Outcome{"slow-": func() handlers.Outcome {
			defer close(finished)
			<-release
			return handlers.Outcome{Verdict: handlers.Delivered}
		}}}
	}})
	id := w.acceptFor("slow-")
	inFlight := func() float64 {
		return testenv.ScrapeHandler(t, w.metrics.Handler()).Series[`pushq_sending_in_flight{channel="swrve"}`]
	}
	testenv.Eventually(t, patience, "the request to be in flight", func() bool { return inFlight() == 1 })
	proxy.Refuse(true)
	close(release)
	<-finished
	testenv.Eventually(t, patience, "errors to be counted", func() bool {
		return testenv.ScrapeHandler(t, w.metrics.Handler()).Series[`pushq_store_errors_total{stage="attempt"}`] >= 2
	})
	proxy.Refuse(false)
	w.await(id, tasks.Sent, 1)
	require.Zero(t, inFlight())
}

// A push that somebody has ended meanwhile was counted by them.
func TestAnEndIsCountedByWhoeverWroteIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	push := newPush("meanwhile-")
	w.work(workforce{provider: func(inner handlers.Provider) handlers.Provider {
		return provider{Provider: inner, send: map[string]func() handlers.Outcome{"meanwhile-": func() handlers.Outcome {
			if err := w.records.End(t.Context(), push, tasks.Cancelled); err != nil {
				panic(err)
			}
			return handlers.Outcome{Verdict: handlers.Permanent, ErrorType: tasks.ErrorSwrve, ErrorCode: 400}
		}}}
	}})
	w.accept(push)
	w.await(push.ID, tasks.Cancelled, 1)
	w.awaitText("swrve", push.ID, tasks.FailedPrefix)
	scrape := testenv.ScrapeHandler(t, w.metrics.Handler())
	require.Equal(t, map[string]float64{`channel="swrve",outcome="fail"`: 1}, scrape.Family("pushq_attempts_total"))
	require.Empty(t, scrape.Family("pushq_pushes_finished_total"))
}

func TestDeadTokensAndAlarmsAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	refusal := handlers.Outcome{Verdict: handlers.Permanent, ErrorType: tasks.ErrorFCM, ErrorCode: 404}
	dead, alarm := refusal, refusal
	dead.DropToken, alarm.Alarm = true, true
	untold := alarm
	untold.ErrorType = tasks.ErrorTemplate
	w.work(workforce{provider: func(inner handlers.Provider) handlers.Provider {
		return provider{Provider: inner, send: map[string]func() handlers.Outcome{
			"dead-":    func() handlers.Outcome { return dead },
			"alarm-":   func() handlers.Outcome { return alarm },
			"untold-":  func() handlers.Outcome { return untold },
			"refused-": func() handlers.Outcome { return refusal },
			"foreign-": func() handlers.Outcome {
				return handlers.Outcome{Verdict: handlers.Permanent, ErrorType: tasks.ErrorOther, Alarm: true}
			},
			"new-": func() handlers.Outcome { return handlers.Outcome{Replacement: "the-new-token"} },
		}}
	}})
	require.Equal(t, 0.0, testenv.ScrapeHandler(t, w.metrics.Handler()).Series[`pushq_alarms_total{channel="swrve"}`])
	for user, count := range map[string]int{"dead-": 3, "alarm-": 2, "untold-": 1, "foreign-": 1, "refused-": 1} {
		for range count {
			w.await(w.acceptFor(user), tasks.Failed, 1)
		}
	}
	replaced := w.acceptFor("new-")
	require.Equal(t, "the-new-token", w.await(replaced, tasks.Sent, 1).Attempts[0].Replacement)
	require.Equal(t, true, w.loggedAttempts(replaced)[0]["replaced_token"])
	require.NotContains(t, w.log.String(), "the-new-token")
	scrape := testenv.ScrapeHandler(t, w.metrics.Handler())
	require.Equal(t, map[string]float64{`channel="swrve"`: 3}, scrape.Family("pushq_dropped_tokens_total"))
	require.Equal(t, map[string]float64{`channel="swrve"`: 4}, scrape.Family("pushq_alarms_total"))
	require.Equal(t, map[string]float64{`channel="swrve"`: 1}, scrape.Family("pushq_replaced_tokens_total"))
	// A line stands for all of its kind.
	for _, what := range []string{"the provider does not answer as one", "the provider refuses pushq itself", "the template service does not answer as one"} {
		require.Equal(t, 1, strings.Count(w.log.String(), what+": mend"), what)
	}
}
