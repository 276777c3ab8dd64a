package breaker

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/redistest"
	"pushq/internal/testenv"
)

// numbered returns names of calls.
func numbered(count int) []string {
	names := make([]string, count)
	for place := range names {
		names[place] = "call-" + strconv.Itoa(place)
	}
	return names
}

func TestFailuresInARowOpenIt(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		c := newCircuit(t, client)
		for want, call := range numbered(4) {
			require.Equal(t, []string{"GO"}, c.ask(call))
			state, failures := c.report(Bad, call)
			require.Equal(t, Closed, state)
			require.Equal(t, want+1, failures)
		}
		c.ask("a-good-one")
		state, failures := c.report(Good, "a-good-one")
		require.Equal(t, Closed, state)
		require.Zero(t, failures, "not in a row")

		c.open()
		got := c.run("ask", "next")
		require.Equal(t, "OPEN", got.text)
		require.InDelta(t, 30*time.Second, got.wait, float64(10*time.Second))
		require.LessOrEqual(t, got.wait, 30*time.Second)
	})
}

// However many ask at once, no more are permitted than failures open it.
func TestCallsUnderWayMayAllFail(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		c := newCircuit(t, client)
		calls := numbered(20)
		require.Equal(t, []string{"GO", "GO", "GO", "GO", "GO", "WAIT", "WAIT"}, c.ask(calls[:7]...))
		got := c.run("ask", calls[5])
		require.InDelta(t, 100*time.Second, got.wait, float64(10*time.Second), "until the first is forgotten")

		c.report(Bad, calls[0], calls[1])
		require.Equal(t, []string{"WAIT"}, c.ask(calls[5]), "two have failed and three may fail")
		c.report(Void, calls[2])
		require.Equal(t, []string{"GO", "WAIT"}, c.ask(calls[5], calls[6]), "in the place of the one that was not made")

		// A good one proves that the others that it was permitted with were no burst into
		// a dead service.
		state, failures := c.report(Good, calls[3])
		require.Equal(t, Closed, state)
		require.Zero(t, failures)
		require.Equal(t, []string{"GO", "GO", "GO", "GO", "GO", "WAIT"}, c.ask(calls[6:12]...))

		// They count nevertheless when they fail.
		_, failures = c.report(Bad, calls[4], calls[5])
		require.Equal(t, 2, failures)
		require.Equal(t, []string{"WAIT"}, c.ask(calls[12]))
		state, _ = c.report(Bad, calls[6], calls[7])
		require.Equal(t, Closed, state)
		state, failures = c.report(Bad, calls[8])
		require.Equal(t, Open, state)
		require.Equal(t, 5, failures)
	})
}

func TestReportsAndQuestionsMayBeRepeated(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		c := newCircuit(t, client)
		calls := numbered(8)
		require.Equal(t, []string{"GO", "GO", "GO"}, c.ask(calls[0], calls[0], calls[0]))
		require.Equal(t, []string{"GO", "GO", "GO", "GO", "WAIT", "GO"}, c.ask(calls[1], calls[2], calls[3], calls[4], calls[5], calls[4]), "a repeated one took no place")
		for range 5 {
			state, failures := c.report(Bad, calls[0])
			require.Equal(t, Closed, state)
			require.Equal(t, 1, failures)
		}
		_, failures := c.report(Good, calls[0])
		require.Equal(t, 1, failures, "it was reported")
		c.report(Good, calls[1])
		_, failures = c.report(Bad, calls[1], calls[2])
		require.Equal(t, 1, failures)
		_, failures = c.report(Good, calls[1])
		require.Equal(t, 1, failures, "the same good one is no news")
		_, failures = c.report(Bad, "nobody-knows-it")
		require.Equal(t, 1, failures)
	})
}

func TestOneAtATimeShowsWhetherTheServiceWorksAgain(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		c := newCircuit(t, client)
		c.open()
		c.advance(20 * time.Second)
		require.Equal(t, []string{"OPEN"}, c.ask("early"))
		c.advance(10 * time.Second)
		require.Equal(t, []string{"GO", "GO", "WAIT", "GO"}, c.ask("probe", "second", "another", "probe"), "two, the first time")
		state, failures, err := c.breaker.Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, HalfOpen, state)
		require.Equal(t, 5, failures)

		state, _ = c.report(Bad, "probe")
		require.Equal(t, HalfOpen, state, "the other one has still to show it")
		require.Equal(t, []string{"WAIT"}, c.ask("another"))
		state, failures = c.report(Bad, "second")
		require.Equal(t, Open, state)
		require.Equal(t, 7, failures)
		c.advance(20 * time.Second)
		require.Equal(t, []string{"OPEN"}, c.ask("other"), "it is open as long again")
		c.advance(10 * time.Second)
		require.Equal(t, []string{"GO", "WAIT"}, c.ask("other", "another"), "one, from then on")
		state, _ = c.report(Void, "other")
		require.Equal(t, HalfOpen, state, "no word about the service")
		require.Equal(t, []string{"GO", "WAIT"}, c.ask("another", "next"))

		state, _ = c.report(Good, "another", "another")
		require.Equal(t, HalfOpen, state, "one is not enough, and it is only one")
		require.Equal(t, []string{"GO", "WAIT"}, c.ask("next", "last"))
		state, failures = c.report(Good, "next")
		require.Equal(t, Closed, state)
		require.Zero(t, failures)
		require.Equal(t, []string{"GO", "GO", "GO", "GO", "GO", "WAIT"}, c.ask(numbered(6)...))
	})
}

func TestAFailureBetweenSuccessesOpensItAgain(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		c := newCircuit(t, client)
		c.open()
		c.advance(30 * time.Second)
		c.ask("probe")
		c.report(Good, "probe")
		c.ask("second")
		state, _ := c.report(Bad, "second")
		require.Equal(t, HalfOpen, state, "the first time two have to fail")
		c.ask("third")
		state, _ = c.report(Bad, "third")
		require.Equal(t, Open, state)
		c.advance(30 * time.Second)
		c.ask("fourth")
		state, _ = c.report(Good, "fourth")
		require.Equal(t, HalfOpen, state, "the one before does not count")
		c.ask("fifth")
		state, _ = c.report(Bad, "fifth")
		require.Equal(t, Open, state)
	})
}

// What was permitted before the breaker changed its state is reported too late to count.
func TestLateReportsCountForNothing(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		c := newCircuit(t, client)
		calls := numbered(10)
		c.ask(calls[:5]...)
		c.report(Good, calls[0])
		c.ask(calls[5:10]...) // nine are under way
		c.report(Bad, calls[1:6]...)
		state, failures := c.report(Good, calls[6])
		require.Equal(t, Open, state)
		require.Equal(t, 5, failures)
		state, failures = c.report(Bad, calls[7])
		require.Equal(t, Open, state)
		require.Equal(t, 5, failures)
		c.advance(30 * time.Second)
		require.Equal(t, []string{"GO"}, c.ask("probe"))
		state, failures = c.report(Bad, calls[8])
		require.Equal(t, HalfOpen, state)
		require.Equal(t, 5, failures)
		c.report(Good, "probe")
		require.Equal(t, []string{"GO"}, c.ask("second"))
		state, _ = c.report(Good, calls[9])
		require.Equal(t, HalfOpen, state)
		state, _ = c.report(Good, "second")
		require.Equal(t, Closed, state)
		_, failures = c.report(Bad, "probe", calls[9])
		require.Zero(t, failures)
	})
}

// Workers that die take their calls with them, not the places of these.
func TestCallsOfDeadWorkersAreForgotten(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		c := newCircuit(t, client)
		calls := numbered(20)
		c.ask(calls[:3]...)
		c.advance(40 * time.Second)
		c.ask(calls[3:5]...)
		require.Equal(t, []string{"WAIT"}, c.ask(calls[5]))
		c.advance(50 * time.Second)
		require.Equal(t, []string{"WAIT"}, c.ask(calls[5]))
		c.advance(10 * time.Second)
		require.Equal(t, []string{"GO", "GO", "GO", "WAIT"}, c.ask(calls[5:9]...))
		_, failures := c.report(Bad, calls[0], calls[3])
		require.Equal(t, 1, failures, "only the one that is remembered")
		c.report(Good, calls[4:8]...)

		c.openOnceMore()
		require.Equal(t, []string{"GO", "WAIT"}, c.ask("probe", "next"))
		c.advance(100 * time.Second)
		require.Equal(t, []string{"GO"}, c.ask("next"), "the probe has died")

		// Nothing is left behind of them.
		c.report(Good, "next")
		c.advance(100 * time.Second)
		require.Equal(t, []string{"GO"}, c.ask("last"))
		fields := client.HKeys(t.Context(), c.breaker.Hash).Val()
		var remembered []string
		for _, name := range fields {
			if call, found := strings.CutPrefix(name, "call:"); found {
				remembered = append(remembered, call)
			}
		}
		require.Equal(t, []string{"last"}, remembered)
	})
}

// A call that takes long keeps its place as long as its worker lives.
func TestCallsThatAreRenewedAreNotForgotten(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		c := newCircuit(t, client)
		calls := numbered(10)
		c.ask(calls[:5]...)
		c.advance(60 * time.Second)
		require.Equal(t, "DONE", c.run("renew", calls[0]+" nobody-knows-it "+calls[3]).text)
		c.advance(60 * time.Second)
		require.Equal(t, []string{"GO", "GO", "GO", "WAIT"}, c.ask(calls[5:9]...))
		got := c.run("ask", calls[8])
		require.InDelta(t, 40*time.Second, got.wait, float64(10*time.Second), "until the first that was renewed is forgotten")

		c.run("renew", strings.Join(calls[:5], " "))
		c.advance(50 * time.Second)
		require.Equal(t, []string{"WAIT"}, c.ask(calls[8]), "the others stay forgotten")
		_, failures := c.report(Bad, calls[0], calls[3])
		require.Equal(t, 2, failures)
		c.advance(50 * time.Second)
		require.Equal(t, []string{"GO", "GO", "GO", "WAIT"}, c.ask("a", "b", "c", "d"), "those are, too, that nobody has renewed")

		c.run("good", "a")
		c.openOnceMore()
		require.Equal(t, []string{"GO", "WAIT"}, c.ask("probe", "next"))
		for range 5 {
			c.advance(90 * time.Second)
			c.run("renew", "probe")
			require.Equal(t, []string{"WAIT"}, c.ask("next"))
		}
		state, _ := c.report(Good, "probe")
		require.Equal(t, HalfOpen, state)
		require.Equal(t, []string{"GO"}, c.ask("next"))
		c.run("renew", "probe")
		require.Equal(t, []string{"WAIT"}, c.ask("last"))
		c.report(Good, "next")

		require.NoError(t, client.Del(t.Context(), c.breaker.Hash).Err())
		c.ask("first")
		c.advance(30 * time.Second)
		c.ask("second", "third", "fourth", "fifth")
		c.advance(30 * time.Second)
		c.run("renew", "first")
		got = c.run("ask", "sixth")
		require.InDelta(t, 70*time.Second, got.wait, float64(10*time.Second), "until the second is forgotten")
		c.advance(70 * time.Second)
		c.run("renew", "second")
		require.Equal(t, []string{"GO"}, c.ask("sixth"))
		_, failures = c.report(Bad, "second")
		require.Zero(t, failures, "it was not renewed any more")

		require.NoError(t, client.Del(t.Context(), c.breaker.Hash).Err())
		c.run("renew", "next last")
		require.Zero(t, client.Exists(t.Context(), c.breaker.Hash).Val(), "there is nothing to renew")
	})
}

// After a failover, the clock may show an earlier time than what is kept.
func TestTheClockJumpsBack(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		c := newCircuit(t, client)
		c.ask(numbered(5)...)
		c.advance(-time.Hour)
		require.Equal(t, []string{"GO"}, c.ask("next"))
		c.report(Void, "next")
		c.open()
		c.advance(-10 * time.Second)
		got := c.run("ask", "probe")
		require.Equal(t, "OPEN", got.text)
		require.LessOrEqual(t, got.wait, 40*time.Second)
		c.advance(-time.Hour)
		require.Equal(t, []string{"GO"}, c.ask("probe"))
	})
}

// A process that is configured with fewer failures does not wait for what cannot come.
func TestFewerFailuresThanThereWere(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		c := newCircuit(t, client)
		for _, call := range numbered(4) {
			c.ask(call)
			c.report(Bad, call)
		}
		c.breaker.Failures = 2
		require.Equal(t, []string{"GO", "WAIT"}, c.ask("a", "b"))
		state, failures := c.report(Bad, "a")
		require.Equal(t, Open, state)
		require.Equal(t, 5, failures)
	})
}

// Many calls under way cost no more than few: they are looked through once in a while.
func TestManyCallsUnderWay(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, testenv.StartRedis(t).URL())
	c := newCircuit(t, client)
	calls := numbered(2000)
	for place := 0; place < len(calls); place += 5 {
		require.Equal(t, []string{"GO", "GO", "GO", "GO", "GO"}, c.ask(calls[place:place+5]...))
		c.report(Good, calls[place])
	}
	require.EqualValues(t, 1600, len(client.HKeys(t.Context(), c.breaker.Hash).Val())-fieldsOfABreaker)
	require.Empty(t, client.HGet(t.Context(), c.breaker.Hash, "unproven").Val())
	c.report(Bad, calls[1:5]...)
	state, failures := c.report(Good, calls[6])
	require.Equal(t, Closed, state)
	require.Zero(t, failures)
	state, _ = c.report(Bad, calls[1001], calls[1002], calls[1003], calls[1004], calls[1006])
	require.Equal(t, Open, state)
}
