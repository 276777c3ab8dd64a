package limiter

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// newIdleDispatcher returns a dispatcher that no goroutine runs, whose Redis
// cannot be reached, and that hands out slots two seconds ahead.
func newIdleDispatcher(t testing.TB) *dispatcher {
	client := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("unreachable") },
	})
	t.Cleanup(func() { _ = client.Close() })
	d := newDispatcher(&Limiter{redis: client, delay: 4 * time.Millisecond, log: slog.New(slog.DiscardHandler)})
	d.inForce.Store(int64(d.delay))
	d.clock.typical = time.Second
	return d
}

func (d *dispatcher) add(class Class) *waiter {
	w := &waiter{class: class, answer: make(chan answer, 1)}
	d.waiting[class].Add(1)
	d.joined(w)
	return w
}

// leave is what a waiter does whose context has ended.
func (d *dispatcher) left(w *waiter) {
	w.settle()
	d.waiting[w.class].Add(-1)
}

func (w *waiter) got() (answer, bool) {
	select {
	case a := <-w.answer:
		return a, true
	default:
		return answer{}, false
	}
}

func slotIn(d time.Duration) Slot {
	at := time.Now().Add(d)
	return Slot{At: at, RedisAt: at}
}

func TestSlotsAreGivenShortlyBeforeTheirTime(t *testing.T) {
	t.Parallel()
	d := newIdleDispatcher(t)
	first, second := d.add(Immediate), d.add(Immediate)
	soon, later := slotIn(time.Second), slotIn(5*time.Second)
	d.keep(later, slotIn(-time.Millisecond), soon)
	d.dispatch()
	answer, ok := first.got()
	require.True(t, ok)
	require.Equal(t, soon, answer.slot)
	_, ok = second.got()
	require.False(t, ok, "the time of the other slot is not near")
	require.Equal(t, []Slot{later}, d.slots)
	require.EqualValues(t, 1, d.Stats().Used)
	require.EqualValues(t, 1, d.Stats().Dropped, "the time of one was over")
}

func TestClassesAreServedInOrder(t *testing.T) {
	t.Parallel()
	d := newIdleDispatcher(t)
	var order []*waiter
	for range 500 {
		order = append(order, d.add(Windowed))
	}
	order = append([]*waiter{d.add(Immediate), d.add(Immediate)}, order...)
	order = append([]*waiter{d.add(Resumed), d.add(Resumed)}, order...)
	for i, w := range order {
		slot := slotIn(time.Second)
		d.keep(slot)
		d.dispatch()
		answer, ok := w.got()
		require.True(t, ok, "waiter %d", i)
		require.Equal(t, slot, answer.slot)
		d.waiting[w.class].Add(-1)
	}
	require.Zero(t, d.waiters())
}

func TestLeaversGetNothing(t *testing.T) {
	t.Parallel()
	d := newIdleDispatcher(t)
	leaver, stayer, last := d.add(Immediate), d.add(Immediate), d.add(Windowed)
	d.left(leaver)
	d.left(last)
	require.Equal(t, 1, d.waiters())
	d.keep(slotIn(time.Second), slotIn(time.Second))
	d.dispatch()
	_, ok := leaver.got()
	require.False(t, ok)
	_, ok = stayer.got()
	require.True(t, ok)
	require.Len(t, d.slots, 1, "nobody is left for the other")
	require.EqualValues(t, 1, d.Stats().Used)
}

func TestLeaversDoNotFillTheLine(t *testing.T) {
	t.Parallel()
	d := newIdleDispatcher(t)
	stayer := d.add(Windowed)
	for range 10_000 {
		d.left(d.add(Windowed))
	}
	require.Less(t, len(d.lines[Windowed]), 100)
	require.Same(t, stayer, d.next())
}

func TestAReturnedSlotGoesToTheNext(t *testing.T) {
	t.Parallel()
	d := newIdleDispatcher(t)
	first, second := d.add(Immediate), d.add(Immediate)
	slot := slotIn(time.Second)
	d.keep(slot)
	d.dispatch()
	_, ok := first.got()
	require.True(t, ok)
	d.keep(slotIn(5 * time.Second))
	d.takeBack(slot)
	d.dispatch()
	answer, ok := second.got()
	require.True(t, ok)
	require.Equal(t, slot, answer.slot, "in its place before the later ones")
	require.EqualValues(t, 1, d.Stats().Used)
}

func TestAReturnedSlotIsLostUnderTheBrake(t *testing.T) {
	t.Parallel()
	d := newIdleDispatcher(t)
	w := d.add(Immediate)
	d.brake(5 * time.Second)
	d.takeBack(slotIn(time.Second))
	d.dispatch()
	_, ok := w.got()
	require.False(t, ok)
	require.EqualValues(t, 1, d.Stats().Dropped)
}

func (d *dispatcher) reply(sent time.Time, brake time.Duration, slots ...time.Time) {
	d.reserving = true
	d.receive(reservation{wanted: len(slots), sent: sent, received: time.Now(), now: time.Now(), delay: d.delay, brake: brake, slots: slots})
}

func TestTheBrakeVoidsTheSlotsInHandAndOnTheirWay(t *testing.T) {
	t.Parallel()
	d := newIdleDispatcher(t)
	w := d.add(Immediate)
	d.keep(slotIn(3 * time.Second))
	sent := time.Now()
	d.brake(8 * time.Second)
	require.Empty(t, d.slots)
	d.reply(sent, 0, time.Now().Add(time.Second)) // Redis ran it before the 429
	require.Empty(t, d.slots)
	require.False(t, d.reserving)
	require.True(t, time.Now().Before(d.brakeUntil), "the brake is still known")
	d.dispatch()
	_, ok := w.got()
	require.False(t, ok)

	d.reply(time.Now(), 0, time.Now().Add(time.Second)) // the brake was lifted
	require.Len(t, d.slots, 1)
	require.False(t, time.Now().Before(d.brakeUntil))
}

func TestALongBrakeSendsEverybodyAway(t *testing.T) {
	t.Parallel()
	d := newIdleDispatcher(t)
	before := []*waiter{d.add(Immediate), d.add(Windowed), d.add(Resumed)}
	d.brake(30 * time.Second)
	for _, w := range append(before, d.add(Immediate)) {
		answer, ok := w.got()
		require.True(t, ok)
		var braked *BrakedError
		require.ErrorAs(t, answer.err, &braked)
		require.InDelta(t, 30*time.Second, braked.Remaining, float64(2*time.Second))
	}
}

// The clock of Redis may have jumped between two reservations.
func TestSlotsAreKeptInOrder(t *testing.T) {
	t.Parallel()
	d := newIdleDispatcher(t)
	d.keep(slotIn(5 * time.Second))
	d.reply(time.Now(), 0, time.Now().Add(3*time.Second), time.Now().Add(4*time.Second))
	require.Len(t, d.slots, 3)
	require.True(t, d.slots[0].At.Before(d.slots[1].At) && d.slots[1].At.Before(d.slots[2].At))
}

func TestNoSlotsForNowAreNotAskedForAtOnce(t *testing.T) {
	t.Parallel()
	d := newIdleDispatcher(t)
	d.add(Immediate)
	now := time.Now()
	d.reserving = true
	d.receive(reservation{wanted: 2, sent: now, received: now, now: now, delay: d.delay})
	require.True(t, d.tryAgain.After(now.Add(50*time.Millisecond)))
}

func TestAWaiterThatJoinsDuringAReservation(t *testing.T) {
	t.Parallel()
	d := newIdleDispatcher(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d.add(Immediate)
	d.reserve(ctx, time.Now())
	require.True(t, d.reserving)
	<-d.reserved
	late := d.add(Immediate)
	d.reply(time.Now(), 0, time.Now().Add(minLead/2)) // for the first one, at once
	d.dispatch()
	_, ok := late.got()
	require.False(t, ok)
	d.reserve(ctx, time.Now())
	require.True(t, d.reserving, "it asks for the one that is still missing")
	<-d.reserved
}

// Whatever the state is, the dispatcher sleeps, and not for longer than until
// somebody can be served.
func TestNextEventNeitherSpinsNorOversleeps(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	rapid.Check(t, func(r *rapid.T) {
		d := newIdleDispatcher(t)
		d.clock.typical = rapid.SampledFrom([]time.Duration{0, 20 * time.Millisecond, time.Second}).Draw(r, "typical")
		offset := rapid.SampledFrom([]time.Duration{-time.Hour, -time.Second, -50 * time.Millisecond, 50 * time.Millisecond, time.Second})
		past := rapid.SampledFrom([]time.Duration{-time.Hour, -3 * time.Second, -500 * time.Millisecond})
		slotOffset := rapid.SampledFrom([]time.Duration{-time.Second, 500 * time.Millisecond, time.Second, 5 * time.Second})
		start := time.Now()
		for range rapid.IntRange(0, 4).Draw(r, "waiters") {
			w := d.add(rapid.SampledFrom([]Class{Resumed, Immediate, Windowed}).Draw(r, "class"))
			if rapid.Bool().Draw(r, "left") {
				d.left(w)
			}
		}
		for range rapid.IntRange(0, 4).Draw(r, "slots") {
			d.keep(slotIn(slotOffset.Draw(r, "slot")))
		}
		d.announced = start.Add(past.Draw(r, "announced"))
		d.tryAgain = start.Add(offset.Draw(r, "tryAgain"))
		d.brakeUntil = start.Add(offset.Draw(r, "brakeUntil"))
		d.reserving = rapid.Bool().Draw(r, "reserving")
		inFlight := d.reserving

		d.dispatch()
		now := time.Now()
		d.reserve(ended, now)
		next := d.nextEvent(now)
		if d.reserving && !inFlight {
			<-d.reserved
		}
		if !next.After(start) {
			r.Fatalf("it would spin: next event %s ago", start.Sub(next))
		}
		if d.reserving {
			return
		}
		if next.After(now.Add(announceEvery)) {
			r.Fatalf("it would not announce for %s", next.Sub(now))
		}
		if d.waiters() > 0 && len(d.slots) == 0 && next.After(d.tryAgain) {
			r.Fatalf("a waiter without a slot waits for %s, but Redis can be asked in %s", next.Sub(now), d.tryAgain.Sub(now))
		}
		if d.waiters() > 0 && len(d.slots) > 0 && next.After(d.slots[0].At) {
			r.Fatal("it would miss a slot")
		}
	})
}

// Between the two the moment may pass from which Redis can be asked again.
func TestNextEventAndReserveReadTheSameClock(t *testing.T) {
	t.Parallel()
	d := newIdleDispatcher(t)
	d.add(Immediate)
	now := time.Now()
	d.announced, d.tryAgain = now, now.Add(time.Millisecond)
	d.reserve(t.Context(), now)
	require.False(t, d.reserving)
	time.Sleep(time.Until(d.tryAgain))
	require.Equal(t, d.tryAgain, d.nextEvent(now))
}

// A process with a slower pace has gone: the slots that were reserved at its
// pace lie minutes ahead, and nobody should wait for them.
func TestSlotsOfASlowerPaceAreGivenUp(t *testing.T) {
	t.Parallel()
	d := newIdleDispatcher(t)
	now := time.Now()
	d.inForce.Store(int64(time.Minute))
	near, far := slotIn(20*time.Millisecond), slotIn(2*time.Minute)
	d.keep(near, far)
	d.reserving = true
	d.receive(reservation{sent: now, received: now, now: now, delay: d.delay})
	require.Equal(t, []Slot{near}, d.slots)
	require.EqualValues(t, 1, d.Stats().Dropped)
}
