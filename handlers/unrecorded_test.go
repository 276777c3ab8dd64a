package handlers

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/limiter"
	"pushq/internal/metrics"
	"pushq/scheduler"
	"pushq/tasks"
)

// outage is a Redis that takes no outcomes until it is over.
type outage struct {
	over  atomic.Bool
	tried chan struct{}
}

func (o *outage) Begin(context.Context, tasks.Attempting) (tasks.Begun, error) {
	return tasks.Begun{Answer: tasks.Go, Attempt: 1}, nil
}

func (o *outage) Finish(context.Context, tasks.Push, tasks.Attempt, tasks.State) (tasks.State, error) {
	if o.over.Load() {
		return tasks.Sent, nil
	}
	select {
	case o.tried <- struct{}{}:
	default:
	}
	return "", errors.New("no redis")
}

func (o *outage) FinishSent(ctx context.Context, push tasks.Push, attempt tasks.Attempt) (bool, error) {
	_, err := o.Finish(ctx, push, attempt, tasks.Sent)
	return false, err
}

func (o *outage) Withdraw(context.Context, tasks.Push, string, string) error { return nil }
func (o *outage) Keep(context.Context, tasks.Push, time.Time) error          { return nil }
func (o *outage) Get(context.Context, string) (*tasks.Record, error)         { return nil, nil }
func (o *outage) Reopen(context.Context, tasks.Push) (bool, error)           { return true, nil }
func (o *outage) End(context.Context, tasks.Push, tasks.State) error         { return nil }

type promptSlots struct{ Slots }

func (promptSlots) Wait(context.Context, limiter.Class) (limiter.Slot, error) {
	now := time.Now()
	return limiter.Slot{At: now, RedisAt: now}, nil
}

type countingProvider struct{ sends atomic.Int64 }

func (p *countingProvider) Prepare(context.Context, tasks.Push) (func() Outcome, *Outcome) {
	return func() Outcome { p.sends.Add(1); return Outcome{} }, nil
}

type hostClock struct{}

func (hostClock) Now() time.Time { return time.Now() }

// After an outage of more than a minute asynq hands the push out again, and its
// attempt looks dead. The run that knows better is in this process, and has not
// been able to say so yet.
func TestAPushWithAnUnrecordedOutcomeIsNotSentAgain(t *testing.T) {
	t.Parallel()
	records, provider := &outage{tried: make(chan struct{}, 1)}, &countingProvider{}
	delivery := NewDelivery(Options{
		Channel: tasks.Swrve, MaxAttempts: 3, Policy: scheduler.FixedDelay{Delay: time.Second}, Timeout: time.Second,
		Zone: time.UTC, Log: slog.New(slog.DiscardHandler),
		Metrics: metrics.New("test", slog.New(slog.DiscardHandler)).Channel(tasks.Swrve.Name),
	}, provider, records, promptSlots{}, nil, hostClock{})
	defer delivery.Close()
	deliver := func() error {
		r := &run{Delivery: delivery, push: tasks.Push{ID: "push"}, queue: "swrve", token: "token"}
		return r.deliver(t.Context(), []byte(`{"platform":"IOS"}`))
	}
	first := make(chan error, 1)
	go func() { first <- deliver() }()
	<-records.tried

	var deferred *deferral
	require.ErrorAs(t, deliver(), &deferred)
	records.over.Store(true)
	require.NoError(t, <-first)
	require.EqualValues(t, 1, provider.sends.Load())
	require.NoError(t, deliver(), "nothing is left behind")
}
