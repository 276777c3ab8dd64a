package breaker

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/redistest"
	"pushq/internal/testenv"
)

// askFor asks for a call about the subject, whose name is that of the subject and the number.
func (c *circuit) askFor(subject string, number int) string {
	return c.runFor(subject, "ask", subject+"-"+strconv.Itoa(number)).text
}

func (c *circuit) reportFor(result Result, subject string, number int) answer {
	return c.runFor(subject, string(result), subject+"-"+strconv.Itoa(number))
}

// call asks for a call about the subject that must be permitted, and reports it.
func (c *circuit) call(result Result, subject string, number int) answer {
	require.Equal(c.t, "GO", c.askFor(subject, number))
	return c.reportFor(result, subject, number)
}

// What fails for one subject while others are served says nothing of the service.
func TestASubjectThatFailsAloneDoesNotOpenIt(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		c := newCircuit(t, client)
		require.EqualValues(t, 1, c.call(Bad, "ann", 1).failures, "nobody has been served since")
		require.False(t, c.call(Bad, "ann", 2).suspect)
		for number := range 20 {
			c.call(Good, "bob", number)
			got := c.call(Bad, "ann", 10+number)
			require.True(t, got.suspect)
			require.Equal(t, Closed, got.state)
			require.Zero(t, got.failures)
		}
		c.call(Good, "bob", 50)
		for number := range 4 {
			c.call(Bad, "eve"+strconv.Itoa(number), 1)
		}
		require.Equal(t, Closed, c.call(Bad, "ann", 50).state, "nor the last of those that open it")
		require.Equal(t, Open, c.call(Bad, "eve", 1).state, "of the others it does, that have failed once")
	})
}

// One good answer to others excuses one more failure of a subject, and not all that follow:
// the service may have died since.
func TestASubjectThatFailsAfterOthersWereServedOpensItInTheEnd(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		c := newCircuit(t, client)
		c.call(Bad, "ann", 1)
		c.call(Good, "bob", 1)
		got := c.call(Bad, "ann", 2)
		require.True(t, got.suspect)
		require.Zero(t, got.failures)
		for number := range threshold {
			got = c.call(Bad, "ann", 3+number)
			require.False(t, got.suspect, "nobody was served since it failed")
			require.EqualValues(t, number+1, got.failures)
		}
		require.Equal(t, Open, got.state)
		require.Equal(t, "OPEN", c.askFor("ann", 50))
	})
}

// Whoever reports a call hears how many have been good.
func TestAReportTellsHowManyWereServed(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		c := newCircuit(t, client)
		for number, served := range []int64{1, 1, 2, 2, 2, 3} {
			permit, err := c.breaker.Allow(t.Context(), fmt.Sprintf("subject-%d", number))
			require.NoError(t, err)
			require.Nil(t, permit.Served)
			result := []Result{Good, Void, Good, Bad, Refused, Good}[number]
			require.NoError(t, permit.Report(t.Context(), result))
			require.Equal(t, served, *permit.Served)
		}
	})
}

// Suspects take no place from others, and have as many of their own.
func TestSuspectsHavePlacesOfTheirOwn(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		c := newCircuit(t, client)
		var suspects []string
		for number := range 8 {
			suspects = append(suspects, "suspect"+strconv.Itoa(number))
			c.call(Bad, suspects[number], 1)
			c.call(Good, "bob", number)
		}
		for _, suspect := range suspects[:5] {
			require.Equal(t, "GO", c.askFor(suspect, 2))
		}
		got := c.runFor(suspects[5], "ask", "no-place")
		require.Equal(t, "LATER", got.text)
		require.Equal(t, 3*time.Second, got.wait, "a tenth of the time that it stays open")
		c.call(Good, "bob", 20)
		require.Equal(t, "LATER", c.askFor(suspects[5], 2), "a good answer to others makes no room")
		for number := range 5 {
			require.Equal(t, "GO", c.askFor("other"+strconv.Itoa(number), 1))
		}
		require.Equal(t, "WAIT", c.askFor("other", 1))
		c.reportFor(Bad, suspects[0], 2)
		require.Equal(t, "GO", c.askFor(suspects[5], 2))
		require.Equal(t, "WAIT", c.askFor("other", 1))

		// Those of dead workers are forgotten like all others.
		c.advance(60 * time.Second)
		c.run("renew", suspects[1]+"-2")
		c.advance(60 * time.Second)
		for number := range 4 {
			require.Equal(t, "GO", c.askFor(suspects[6], 10+number))
		}
		require.Equal(t, "LATER", c.askFor(suspects[6], 20), "one lives")
	})
}

func TestAGoodAnswerClearsASubject(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		c := newCircuit(t, client)
		c.call(Bad, "ann", 1)
		c.call(Good, "bob", 1)
		require.False(t, c.call(Good, "ann", 2).suspect)
		require.EqualValues(t, 1, c.call(Bad, "ann", 3).failures)

		// Also a good one from before the breaker opened.
		require.Equal(t, "GO", c.askFor("eve", 1))
		c.call(Good, "bob", 2)
		for number := range 5 {
			c.call(Bad, "dead"+strconv.Itoa(number), 1)
		}
		got := c.reportFor(Good, "eve", 1)
		require.Equal(t, Open, got.state)
		c.advance(45 * time.Second)
		require.True(t, c.call(Bad, "dead0", 2).suspect, "somebody was served since")
	})
}

// What is reported after the breaker has changed its state says as much of its subject.
func TestLateFailuresAreRemembered(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		c := newCircuit(t, client)
		require.Equal(t, "GO", c.askFor("late", 1))
		c.call(Good, "bob", 1)
		for number := range 5 {
			c.call(Bad, "dead"+strconv.Itoa(number), 1)
		}
		require.Equal(t, Open, c.reportFor(Bad, "late", 1).state)
		c.advance(30 * time.Second)
		got := c.runFor("late", "ask", "late-2")
		require.Equal(t, "LATER", got.text, "those that have not failed come first")
		require.InDelta(t, 15*time.Second, got.wait, float64(10*time.Second))
		require.Equal(t, "GO", c.askFor("fresh", 1))
	})
}

// The same subject is not asked about twice in a row while another one waits, and those
// that have not failed come first.
func TestWhoShowsWhetherTheServiceWorksAgain(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		c := newCircuit(t, client)
		for _, subject := range []string{"a", "b", "c", "d", "e"} {
			c.call(Bad, subject, 1)
		}
		c.advance(20 * time.Second)
		require.Equal(t, "OPEN", c.askFor("fresh", 1))
		require.Equal(t, "OPEN", c.askFor("a", 1))
		c.advance(10 * time.Second)
		require.Equal(t, "LATER", c.askFor("a", 2), "it is open no longer for those that have not failed")
		c.advance(15 * time.Second)
		require.Equal(t, HalfOpen, c.call(Bad, "a", 3).state)
		require.Equal(t, "LATER", c.askFor("a", 4), "the two of the first look are different ones")
		got := c.runFor("b", "ask", "b-4")
		require.Equal(t, "LATER", got.text, "it is half open")
		require.InDelta(t, 45*time.Second, got.wait, float64(10*time.Second))
		require.Equal(t, Open, c.call(Bad, "fresh", 2).state)

		c.advance(30 * time.Second)
		require.Equal(t, "LATER", c.askFor("a", 5))
		c.advance(15 * time.Second)
		require.Equal(t, "LATER", c.askFor("fresh", 5), "it was the latest")
		require.Equal(t, Open, c.call(Bad, "b", 5).state)
		c.advance(45 * time.Second)
		require.Equal(t, "LATER", c.askFor("b", 6))
		c.advance(15 * time.Second)
		require.Equal(t, Open, c.call(Bad, "b", 7).state, "nobody else has come")

		c.advance(30 * time.Second)
		c.call(Good, "new", 1)
		got = c.call(Bad, "a", 10)
		require.Equal(t, HalfOpen, got.state, "it is known to work for others")
		require.True(t, got.suspect)
		require.Equal(t, Closed, c.call(Good, "newer", 1).state)
	})
}

// What fails in a look in which another one is served is about its subject from then on,
// whichever is reported first.
func TestASubjectThatFailsWhileAnotherOneShowsThatItWorks(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		c := newCircuit(t, client)
		require.Equal(t, "GO", c.askFor("slow", 1))
		c.call(Good, "first", 1)
		for _, subject := range []string{"a", "b", "c", "d", "e"} {
			c.call(Bad, subject, 1)
		}
		c.advance(30 * time.Second)
		require.Equal(t, "GO", c.askFor("bad", 1))
		c.call(Good, "bob", 1)
		got := c.reportFor(Bad, "bad", 1)
		require.Equal(t, HalfOpen, got.state)
		require.False(t, got.suspect, "it was a probe")
		got = c.call(Bad, "bad", 2)
		require.Equal(t, HalfOpen, got.state)
		require.True(t, got.suspect)

		require.Equal(t, Closed, c.call(Good, "bob", 2).state)
		require.True(t, c.call(Bad, "bad", 3).suspect)
		c.reportFor(Bad, "slow", 1)
		require.True(t, c.call(Bad, "slow", 2).suspect)
		got = c.call(Bad, "slow", 3)
		require.False(t, got.suspect)
		require.EqualValues(t, 1, got.failures)
	})
}

// The service dies while the breaker is half open, when one good answer has been given: the
// failures that follow open it again, also those of a subject that has failed before.
func TestAServiceThatDiesAfterOneGoodAnswerInALook(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		c := newCircuit(t, client)
		for number := range threshold {
			c.call(Bad, "ann", number)
		}
		c.advance(30 * time.Second)
		require.Equal(t, HalfOpen, c.call(Good, "bob", 1).state)
		require.True(t, c.call(Bad, "ann", 10).suspect)
		require.Equal(t, "LATER", c.askFor("ann", 11), "others come first")
		c.advance(15 * time.Second)
		got := c.call(Bad, "ann", 12)
		require.Equal(t, HalfOpen, got.state, "two have to fail in the first look")
		require.False(t, got.suspect)
		require.Equal(t, Open, c.call(Bad, "zoe", 1).state)
	})
}

// A suspect that finds the service dead leaves it alone like all others.
func TestASuspectThatShowsThatTheServiceIsDead(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		c := newCircuit(t, client)
		c.call(Bad, "ann", 1)
		c.call(Good, "bob", 1)
		for number := range 5 {
			c.call(Bad, "dead"+strconv.Itoa(number), 1)
		}
		require.Equal(t, "OPEN", c.askFor("ann", 2))
		c.advance(45 * time.Second)
		c.call(Bad, "dead0", 2)
		c.advance(45 * time.Second)
		got := c.call(Bad, "ann", 3)
		require.Equal(t, Open, got.state)
		require.True(t, got.suspect, "it pays: others have been served since it failed")
		c.advance(45 * time.Second)
		require.False(t, c.call(Bad, "dead1", 2).suspect)
	})
}

// A refusal counts like any other failure: one may be about its subject after all.
func TestRefusalsOpenIt(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		var log testenv.Log
		c := newCircuit(t, client)
		c.breaker.Log = slog.New(slog.NewTextHandler(&log, nil))
		refused := func() bool {
			statuses, err := ReadStatuses(t.Context(), client, c.breaker.Hash)
			require.NoError(t, err)
			return statuses[0].Refused
		}
		for number := range threshold {
			require.Equal(t, Closed, c.call(Refused, "alone", number).state)
			require.False(t, refused())
			c.call(Good, "bob", number)
		}
		for number := range threshold - 1 {
			require.Equal(t, Closed, c.call(Refused, "push", number).state)
		}
		require.False(t, refused())
		require.Equal(t, Open, c.call(Refused, "push", threshold).state)
		require.True(t, refused())
		require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"), log.String())
		require.Contains(t, log.String(), `msg="the provider refuses pushq itself: mend the configuration" service=fcm subject=push`)
		c.advance(45 * time.Second)
		require.Equal(t, HalfOpen, c.call(Refused, "ann", 1).state)
		require.Equal(t, Open, c.call(Refused, "zoe", 1).state)
		require.Equal(t, 2, strings.Count(log.String(), "level=ERROR"))

		// Others are served: it is about that push.
		c.advance(30 * time.Second)
		c.call(Good, "bob", 1)
		require.False(t, refused())
		require.Equal(t, Closed, c.call(Good, "bob", 2).state)
		got := c.call(Refused, "ann", 2)
		require.Equal(t, Closed, got.state)
		require.True(t, got.suspect)
		require.False(t, refused())

		for number := range threshold {
			c.call(Refused, "eve", number)
		}
		require.True(t, refused())
		c.advance(30 * time.Second)
		c.call(Bad, "xia", 1)
		require.Equal(t, Open, c.call(Bad, "yve", 1).state)
		require.False(t, refused(), "it does not work at all now")
	})
}

func TestSubjectsAreForgotten(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, testenv.StartRedis(t).URL())
	c := newCircuit(t, client)
	c.call(Bad, "oldest", 1)
	c.call(Good, "bob", 1)
	crowd := make([]redis.Z, rememberedSubjects)
	for number := range crowd {
		crowd[number] = redis.Z{Score: 1, Member: fmt.Sprint("crowd-", number)}
	}
	require.NoError(t, client.ZAdd(t.Context(), c.breaker.Failing, crowd...).Err())
	c.call(Good, "bob", 2)
	c.call(Bad, "newest", 1)
	require.EqualValues(t, rememberedSubjects, client.ZCard(t.Context(), c.breaker.Failing).Val())
	require.ErrorIs(t, client.ZScore(t.Context(), c.breaker.Failing, "oldest").Err(), redis.Nil)
	require.Equal(t, 2.0, client.ZScore(t.Context(), c.breaker.Failing, "newest").Val())
	require.Greater(t, client.PTTL(t.Context(), c.breaker.Failing).Val(), rememberedFor/2)

	// The answers are counted anew, so that what they are compared with must not stay.
	require.NoError(t, client.Del(t.Context(), c.breaker.Hash).Err())
	c.call(Bad, "newest", 2)
	require.Equal(t, 0.0, client.ZScore(t.Context(), c.breaker.Failing, "newest").Val())
	require.EqualValues(t, 1, client.ZCard(t.Context(), c.breaker.Failing).Val())
}

// A permit says whether its subject is suspect, as far as is known when it is reported.
func TestAPermitKnowsOfItsSubject(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		b := New(client, options("fcm"))
		permit := func(subject string) *Permit {
			permit, err := b.Allow(t.Context(), subject)
			require.NoError(t, err)
			return permit
		}
		tell(t, permit("ann"), Bad)
		again := permit("ann")
		require.False(t, again.Suspect)
		tell(t, permit("bob"), Good)
		tell(t, again, Bad)
		require.True(t, again.Suspect)
		tell(t, permit("bob"), Good)
		var out []*Permit
		for range b.Failures {
			out = append(out, permit("ann"))
			require.True(t, out[0].Suspect)
		}
		_, err := b.Allow(t.Context(), "ann")
		var later *LaterError
		require.ErrorAs(t, err, &later)
		require.Equal(t, "fcm", later.Service)
		require.Equal(t, b.OpenFor/10, later.After)
		require.EqualError(t, err, "fcm has failed for it, and is called for others first")
		tell(t, out[0], Good)
		require.False(t, out[0].Suspect)
	})
}
