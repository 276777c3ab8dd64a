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
	failing    bool      // the last reservation was an error
	brakeUntil time.Time
	brakeSeen  time.Time // when the brake was last heard of
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
		// One reading of the clock for both: what reserve puts off, nextEvent
		// must wake up for.
		now := time.Now()
		d.reserve(ctx, now)
		alarm.Reset(time.Until(d.nextEvent(now)))
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
	d.lines[w.class].push(w, int(d.waiting[w.class].Load()))
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

// together is the time within which slots are given out at once, so that a fast
// pace needs no wake-up for each.
const together = time.Millisecond

// dispatch gives every slot whose time is near to a waiter.
func (d *dispatcher) dispatch() {
	lead := d.clock.lead() + together
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
	d.givenBack.Add(1)
	if time.Now().Before(d.brakeUntil) {
		d.dropped.Add(1)
		return
	}
	d.keep(slot)
}

// keep puts slots in their places.
func (d *dispatcher) keep(slots ...Slot) {
	d.slots = append(d.slots, slots...)
	slices.SortFunc(d.slots, func(a, b Slot) int { return a.At.Compare(b.At) })
}

// reserve asks Redis for slots, in the background, when there are fewer than
// the waiters can use soon. It also tells Redis every five seconds that this
// process exists and how it is configured.
func (d *dispatcher) reserve(ctx context.Context, now time.Time) {
	if d.reserving || now.Before(d.tryAgain) {
		return
	}
	horizon, waiters := d.clock.horizon(d.pace()), d.waiters()
	wanted := min(waiters, horizon) - len(d.slots)
	// Several at a time, where there is demand for them, need fewer calls.
	if several := max(2, horizon/4); wanted < min(several, waiters) || wanted <= 0 {
		if now.Before(d.nextAnnouncement(now)) {
			return
		}
		wanted = 0
	}
	d.reserving = true
	d.announced = now
	ahead := d.clock.ahead()
	go func() {
		d.reserved <- reserveSlots(ctx, d.Limiter, wanted, ahead)
	}()
}

func (d *dispatcher) receive(r reservation) {
	d.reserving = false
	if r.err != nil {
		d.tryAgain = time.Now().Add(retryAfterError)
		if !d.failing {
			d.log.Warn("no slots from redis; asking again until it answers", slog.Any("error", r.err))
		}
		d.failing = true
		return
	}
	d.failing = false
	d.clock.observe(r)
	if r.delay < d.pace() {
		d.giveUpBeyond(time.Now().Add(d.clock.reach(r.delay)))
	}
	d.setPace(r.delay, r.override)
	if r.brake > 0 {
		d.brake(r.brake)
		return
	}
	if r.sent.Before(d.brakeSeen) {
		d.dropped.Add(int64(len(r.slots))) // handed out before the brake, perhaps
		return
	}
	d.brakeUntil = time.Time{}
	if r.wanted > 0 && len(r.slots) == 0 { // others hold all there are for now
		d.tryAgain = time.Now().Add(retryWhenNone)
	}
	slots := make([]Slot, 0, len(r.slots))
	for _, start := range r.slots {
		slots = append(slots, Slot{At: d.clock.local(start), RedisAt: start})
	}
	d.keep(slots...)
}

// giveUpBeyond drops slots that were reserved at a slower pace and lie further
// ahead than anybody should wait at the one now in force.
func (d *dispatcher) giveUpBeyond(limit time.Time) {
	near := slices.IndexFunc(d.slots, func(slot Slot) bool { return slot.At.After(limit) })
	if near < 0 {
		return
	}
	d.dropped.Add(int64(len(d.slots) - near))
	d.slots = d.slots[:near]
}

// brake forgets the reserved slots; under a long brake nobody is kept waiting.
func (d *dispatcher) brake(remaining time.Duration) {
	if remaining <= 0 {
		return
	}
	d.slots = nil
	d.brakeSeen = time.Now()
	d.brakeUntil = d.brakeSeen.Add(remaining)
	d.tryAgain = earlier(d.brakeUntil, d.brakeSeen.Add(brakeCheck))
	if remaining <= longBrake {
		return
	}
	for w := d.next(); w != nil; w = d.next() {
		w.give(answer{err: &BrakedError{Remaining: remaining}})
	}
}

func (d *dispatcher) pace() time.Duration { return time.Duration(d.inForce.Load()) }

// setPace says in the log that another process slows this one down. Of what operators do,
// every process tells, also those without a limiter.
func (d *dispatcher) setPace(delay, override time.Duration) {
	d.inForce.Store(int64(delay))
	if slower := delay > max(d.delay, override); slower != d.warned {
		d.warned = slower
		if slower {
			d.log.Warn("another process on this redis is configured with a slower pace, which wins",
				slog.Duration("configured", d.delay), slog.Duration("in_force", delay))
		}
	}
}

// nextAnnouncement is when Redis is asked next although no slot is wanted. Under
// a brake that is when it may have been lifted.
func (d *dispatcher) nextAnnouncement(now time.Time) time.Time {
	if now.Before(d.brakeUntil) {
		return d.announced.Add(brakeCheck)
	}
	return d.announced.Add(announceEvery)
}

// nextEvent is when the dispatcher has something to do if nothing happens.
func (d *dispatcher) nextEvent(now time.Time) time.Time {
	next := later(d.nextAnnouncement(now), d.tryAgain)
	if d.reserving {
		next = now.Add(time.Hour) // the reply comes before
	} else if d.waiters() > 0 && now.Before(d.tryAgain) {
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
