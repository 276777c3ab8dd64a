package limiter

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// The dispatcher owns the waiters and the reserved slots of one process. All
// its state belongs to the goroutine of run.
type dispatcher struct {
	*Limiter
	lines [classes]line
	slots []Slot // reserved, by time

	reserving  bool
	reserved   chan reservation
	tryAgain   time.Time // no reservation before this: an error or a brake
	brakeUntil time.Time
	announced  time.Time
	clock      redisClock
	warned     bool
}

func newDispatcher(l *Limiter) *dispatcher {
	return &dispatcher{Limiter: l, reserved: make(chan reservation, 1)}
}

func (d *dispatcher) run() {
	defer close(d.done)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	for {
		d.dispatch()
		d.reserve(ctx)
		alarm.Reset(time.Until(d.nextEvent()))
		select {
		case <-d.stopping:
			if d.reserving { // its goroutine ends with the context
				cancel()
				<-d.reserved
			}
			return
		case w := <-d.join:
			d.joined(w)
		case slot := <-d.returned:
			d.takeBack(slot)
		case remaining := <-d.braked:
			d.brake(remaining)
		case r := <-d.reserved:
			d.receive(r)
		case <-alarm.C:
		}
	}
}

func (d *dispatcher) joined(w *waiter) {
	if remaining := time.Until(d.brakeUntil); remaining > longBrake {
		w.give(answer{err: &BrakedError{Remaining: remaining}})
		return
	}
	d.lines[w.class] = append(d.lines[w.class], w)
}

// waiters is how many wait, leavers excluded.
func (d *dispatcher) waiters() int {
	count := 0
	for class := range d.lines {
		count += min(len(d.lines[class]), int(d.waiting[class].Load()))
	}
	return count
}

func (d *dispatcher) next() *waiter {
	for class := range d.lines {
		if w := d.lines[class].pop(); w != nil {
			return w
		}
	}
	return nil
}

// dispatch gives every slot whose time is near to a waiter.
func (d *dispatcher) dispatch() {
	lead := d.clock.lead()
	for len(d.slots) > 0 && time.Until(d.slots[0].At) <= lead {
		slot := d.slots[0]
		if time.Until(slot.At) < 0 {
			d.dropped.Add(1)
			d.slots = d.slots[1:]
			continue
		}
		w := d.next()
		if w == nil {
			return // somebody may still come in time
		}
		d.slots = d.slots[1:]
		if w.give(answer{slot: slot}) {
			d.used.Add(1)
		} else {
			d.keep(slot)
		}
	}
}

func (d *dispatcher) takeBack(slot Slot) {
	d.used.Add(-1)
	d.keep(slot)
}

// keep puts a slot back in its place.
func (d *dispatcher) keep(slot Slot) {
	d.slots = append(d.slots, slot)
	slices.SortFunc(d.slots, func(a, b Slot) int { return a.At.Compare(b.At) })
}

// reserve asks Redis for slots, in the background, when there are fewer than
// the waiters can use soon. It also tells Redis every five seconds that this
// process exists and how it is configured.
func (d *dispatcher) reserve(ctx context.Context) {
	if d.reserving || time.Now().Before(d.tryAgain) {
		return
	}
	wanted := min(d.waiters(), d.clock.horizon(d.pace())) - len(d.slots)
	// Two at a time, where there is demand for two, halve the calls.
	if wanted < min(2, d.waiters()) || wanted <= 0 {
		if time.Since(d.announced) < announceEvery {
			return
		}
		wanted = 0
	}
	d.reserving = true
	d.announced = time.Now()
	ahead := d.clock.ahead()
	go func() {
		d.reserved <- reserveSlots(ctx, d.Limiter, wanted, ahead)
	}()
}

func (d *dispatcher) receive(r reservation) {
	d.reserving = false
	if r.err != nil {
		d.tryAgain = time.Now().Add(retryAfterError)
		d.log.Warn("no slots from redis", slog.Any("error", r.err))
		return
	}
	d.clock.observe(r)
	d.setPace(r.delay)
	if r.brake > 0 {
		d.brake(r.brake)
		return
	}
	d.brakeUntil = time.Time{}
	for _, start := range r.slots {
		d.slots = append(d.slots, Slot{At: d.clock.local(start), RedisAt: start})
	}
}

// brake forgets the reserved slots; under a long brake nobody is kept waiting.
func (d *dispatcher) brake(remaining time.Duration) {
	if remaining <= 0 {
		return
	}
	d.slots = nil
	d.brakeUntil = time.Now().Add(remaining)
	d.tryAgain = earlier(d.brakeUntil, time.Now().Add(brakeCheck))
	if remaining <= longBrake {
		return
	}
	for w := d.next(); w != nil; w = d.next() {
		w.give(answer{err: &BrakedError{Remaining: remaining}})
	}
}

func (d *dispatcher) pace() time.Duration { return time.Duration(d.inForce.Load()) }

func (d *dispatcher) setPace(delay time.Duration) {
	d.inForce.Store(int64(delay))
	if slower := delay > d.delay; slower != d.warned {
		d.warned = slower
		if slower {
			d.log.Warn("another process on this redis is configured with a slower pace, which wins",
				slog.Duration("configured", d.delay), slog.Duration("in_force", delay))
		}
	}
}

// nextEvent is when the dispatcher has something to do if nothing happens.
func (d *dispatcher) nextEvent() time.Time {
	next := later(d.announced.Add(announceEvery), d.tryAgain)
	if d.reserving {
		next = time.Now().Add(time.Hour) // the reply comes before
	} else if d.waiters() > 0 && time.Now().Before(d.tryAgain) {
		next = d.tryAgain
	}
	if len(d.slots) > 0 {
		due := d.slots[0].At.Add(-d.clock.lead())
		if d.waiters() == 0 {
			due = d.slots[0].At.Add(time.Millisecond) // to be dropped
		}
		next = earlier(next, due)
	}
	return next
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
