package main

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
)

func TestGrowthIsOfTheLastThird(t *testing.T) {
	t.Parallel()
	m := &watchedMemory{end: make(chan struct{}), ended: make(chan struct{}), series: map[string][]float64{
		"a": {1e6, 5e6, 9e6, 20e6, 10e6, 10e6, 12e6, 13e6, 1e6},
	}}
	close(m.ended)
	values := map[string]float64{}
	require.NoError(t, m.stop(values))
	require.Equal(t, map[string]float64{"afirst": 5, "amiddle": 10, "alast": 12, "a": 1.2}, values)
}

func TestSoakAccountsForEveryPush(t *testing.T) {
	t.Parallel()
	push := func(status string, attempts ...string) (found soakedPush) {
		found.Status = status
		for _, attempt := range attempts {
			found.Attempts = append(found.Attempts, soakedAttempt{Status: "ERROR", MaybeDelivered: attempt == "maybe"})
			if attempt == "OK" {
				found.Attempts[len(found.Attempts)-1].Status = attempt
			}
		}
		return found
	}
	account := newSoakAccount()
	account.add("once", push("SENT", "OK"), true)
	account.add("marked", push("SENT", "maybe", "OK"), true)
	account.add("unmarked", push("SENT", "no", "OK"), true)
	account.add("waits", push("RETRY", "no"), true)
	account.add("forgotten", push("PENDING"), false)
	account.addRefused("503 Service Unavailable")
	var requests []swrvesim.Request
	for _, user := range []string{"once", "marked", "unmarked", "marked", "unmarked"} {
		requests = append(requests, swrvesim.Request{User: user, Delivered: true})
	}
	requests = append(requests, swrvesim.Request{User: "waits"})
	values := map[string]float64{}
	account.report(values, requests)
	require.Equal(t, map[string]float64{
		"accepted": 5, "not accepted": 1, "SENT": 3, "still queued": 1, "lost": 1, "delivered twice": 2, "unexplained": 1,
	}, values)
}

func TestShortSoakDoesNotJudgeMemory(t *testing.T) {
	t.Parallel()
	found := rounds{map[string][]measurement{pushq.name: {{values: map[string]float64{soakedRedis: 1.5}}}}, nil}
	verdictOf := func(judges bool, duration time.Duration, promise string) verdict {
		lines := (&bench{judges: judges}).judgeSoak(found, duration)
		place := slices.IndexFunc(lines, func(r result) bool { return r.Promise == promise })
		require.GreaterOrEqual(t, place, 0)
		return lines[place].Verdict
	}
	const growth, lost = "memory of Redis: last third ≤ 1.1 x middle third", "accepted pushes of which nobody knows = 0"
	require.Equal(t, fails, verdictOf(true, soakJudged, growth))
	require.Equal(t, notJudged, verdictOf(true, soakJudged-time.Second, growth))
	require.Equal(t, notJudged, verdictOf(false, soakJudged, growth))
	require.Equal(t, holds, verdictOf(true, soakJudged-time.Second, lost))
	require.Contains(t, shortSoakNote(soakJudged-time.Second), "less than 4 minutes")
	require.Empty(t, shortSoakNote(soakJudged))
}
