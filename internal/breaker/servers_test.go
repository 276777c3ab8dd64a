package breaker

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

const patience = 2 * time.Minute

// options are those that pushq's users know, for a breaker of their own.
func options(service string) Options {
	return Options{
		Keys: Keys{
			Hash:      "pushq:{fcm}:breaker:" + service,
			Failing:   "pushq:{fcm}:breaker:" + service + ":failing",
			StateCopy: "circuit:push_worker:" + service + ":state", FailuresCopy: "circuit:push_worker:" + service + ":failures",
		},
		Service: service, Failures: 5, OpenFor: 30 * time.Second, Successes: 2, Forget: 100 * time.Second,
		Log: slog.New(slog.DiscardHandler),
	}
}

// A circuit drives the script for one breaker, by names of calls.
type circuit struct {
	t       require.TestingT
	ctx     context.Context
	breaker *Breaker
}

func newCircuit(t *testing.T, client redis.UniversalClient) *circuit {
	return &circuit{t: t, ctx: t.Context(), breaker: New(client, options("fcm"))}
}

// run is for calls about nothing.
func (c *circuit) run(act, call string) answer { return c.runFor("", act, call) }

func (c *circuit) runFor(subject, act, call string) answer {
	a, err := c.breaker.run(c.ctx, act, call, subject)
	require.NoError(c.t, err)
	return a
}

// ask asks for each call and returns the answers.
func (c *circuit) ask(calls ...string) (answers []string) {
	for _, call := range calls {
		answers = append(answers, c.run("ask", call).text)
	}
	return answers
}

// report reports each call and returns the state and the failures then.
func (c *circuit) report(result Result, calls ...string) (State, int) {
	var last answer
	for _, call := range calls {
		last = c.run(string(result), call)
		require.Equal(c.t, "DONE", last.text)
	}
	return last.state, int(last.failures)
}

// open makes the breaker an open one.
func (c *circuit) open() {
	for place := range c.breaker.Failures {
		call := "opening-" + strconv.Itoa(place)
		require.Equal(c.t, []string{"GO"}, c.ask(call))
		c.report(Bad, call)
	}
	state, _, err := c.breaker.Read(c.ctx)
	require.NoError(c.t, err)
	require.Equal(c.t, Open, state)
}

// openOnceMore makes the breaker one that may ask again, after it has done so in vain.
func (c *circuit) openOnceMore() {
	c.open()
	c.advance(c.breaker.OpenFor)
	require.Equal(c.t, []string{"GO", "GO"}, c.ask("first-look", "too"))
	state, _ := c.report(Bad, "first-look", "too")
	require.Equal(c.t, Open, state)
	c.advance(c.breaker.OpenFor)
}

// fieldsOfABreaker is how many its hash has without those of calls.
const fieldsOfABreaker = 13

// advance makes everything in the hash as much older: Redis' clock goes its own way.
func (c *circuit) advance(by time.Duration) {
	fields, err := c.breaker.redis.HGetAll(c.ctx, c.breaker.Hash).Result()
	require.NoError(c.t, err)
	older := func(text string) string {
		instant, err := strconv.ParseInt(text, 10, 64)
		require.NoError(c.t, err)
		return strconv.FormatInt(instant-by.Milliseconds(), 10)
	}
	for name, value := range fields {
		switch {
		case name == "opened", name == "swept":
			fields[name] = older(value)
		case name == "unproven", name == "suspects":
			calls := strings.Fields(value)
			for place, call := range calls {
				began, of, _ := strings.Cut(call, ":")
				calls[place] = older(began) + ":" + of
			}
			fields[name] = strings.Join(calls, " ")
		case strings.HasPrefix(name, "call:"):
			generation, began, _ := strings.Cut(value, " ")
			fields[name] = generation + " " + older(began)
		}
	}
	if len(fields) > 0 {
		require.NoError(c.t, c.breaker.redis.HSet(c.ctx, c.breaker.Hash, fields).Err())
	}
}
