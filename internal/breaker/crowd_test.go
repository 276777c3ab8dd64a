package breaker

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/redistest"
	"pushq/internal/testenv"
)

// A service works or does not, and knows who has reached it.
type service struct {
	mutex  sync.Mutex
	dead   bool
	served int
	failed []time.Time // when calls reached it that failed
}

func (s *service) call() error {
	s.mutex.Lock()
	dead := s.dead
	if dead {
		s.failed = append(s.failed, time.Now())
	} else {
		s.served++
	}
	s.mutex.Unlock()
	time.Sleep(rand.N(5 * time.Millisecond)) // as answers do
	if dead {
		return errors.New("no service")
	}
	return nil
}

func (s *service) set(dead bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.dead, s.failed = dead, nil
}

func (s *service) count() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.served
}

func (s *service) failures() []time.Time {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.failed)
}

// deliver calls the service until it has worked once for each of so many pushes, from
// many goroutines of several processes.
func deliver(t *testing.T, s *service, breakers []*Breaker, goroutines, pushes int) (all *sync.WaitGroup) {
	all = new(sync.WaitGroup)
	t.Cleanup(all.Wait)
	var left atomic.Int64
	left.Store(int64(pushes))
	for place := range goroutines {
		b := breakers[place%len(breakers)]
		all.Go(func() {
			for number := left.Add(-1); number >= 0; number = left.Add(-1) {
				for delivered := false; !delivered; {
					permit, err := b.Allow(t.Context(), strconv.FormatInt(number, 10))
					var open *OpenError
					var later *LaterError
					if errors.As(err, &open) {
						time.Sleep(open.After)
						continue
					}
					if errors.As(err, &later) {
						time.Sleep(later.After)
						continue
					}
					if t.Context().Err() != nil {
						return // it has failed
					}
					if err != nil {
						t.Errorf("allow: %v", err)
						return
					}
					delivered = s.call() == nil
					result := Bad
					if delivered {
						result = Good
					}
					if err := permit.Report(t.Context(), result); err != nil && t.Context().Err() == nil {
						t.Errorf("report: %v", err)
					}
				}
			}
		})
	}
	return all
}

func TestADeadServiceIsHardlyCalled(t *testing.T) {
	t.Parallel()
	const processes, goroutines, pushes = 4, 40, 400
	const openFor = 500 * time.Millisecond
	const apart = openFor - time.Millisecond // the script counts whole ones
	server := testenv.StartRedis(t)
	var breakers []*Breaker
	for range processes {
		b := New(redistest.Connect(t, server.URL()), options("fcm"))
		b.OpenFor = openFor
		breakers = append(breakers, b)
	}

	s := &service{}
	s.set(true)
	waiting := deliver(t, s, breakers, goroutines, pushes)
	testenv.Eventually(t, patience, "three looks", func() bool { return len(s.failures()) >= 5+2+1+1 })
	reached := s.failures()
	require.Less(t, reached[4].Sub(reached[0]), openFor)
	require.GreaterOrEqual(t, reached[5].Sub(reached[4]), apart)
	for place := 7; place < len(reached); place++ {
		require.GreaterOrEqual(t, reached[place].Sub(reached[place-1]), apart, "call %d", place+1)
	}
	s.set(false)
	waiting.Wait()
	require.Equal(t, pushes, s.count())

	// It dies again while many calls are under way, each of which may still reach it.
	waiting = deliver(t, s, breakers, goroutines, 10*pushes)
	testenv.Eventually(t, patience, "many calls", func() bool { return s.count() >= 3*pushes })
	s.set(true)
	died := time.Now()
	testenv.Eventually(t, patience, "some probes", func() bool { return time.Since(died) > 4*openFor })
	probes := int(time.Since(died)/apart) + 2
	require.LessOrEqual(t, len(s.failures()), goroutines+breakers[0].Failures+probes)
	s.set(false)
	waiting.Wait()
	require.Equal(t, 11*pushes, s.count())
}
