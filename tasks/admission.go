package tasks

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// RefuseFrom is the share of Redis' memory from which on new pushes are
	// refused. It leaves room for what the pushes in the queue still write:
	// their records, and asynq's own books.
	RefuseFrom = 0.80
	// acceptFrom is lower, so that a Redis at the limit does not flicker.
	acceptFrom = 0.75

	admissionInterval = time.Second
	admissionTimeout  = time.Second
	// probeLife is how long a probe of a process that has ended is left behind.
	probeLife = time.Minute

	refusedMemory = "memory" // RefuseFrom has been reached
	refusedOOM    = "oom"    // maxmemory has been reached
)

// Admission says whether new pushes may be accepted: Redis takes writes, and
// has memory left for the pushes that it holds already. It asks Redis every
// second, never for a single push. It is safe for concurrent use.
type Admission struct {
	redis    redis.UniversalClient
	channels []Channel
	memory   func(context.Context) (used float64, err error)
	log      *slog.Logger

	mutex   sync.Mutex
	refusal string // why pushes are refused, "" if they are not
	used    float64
	refused map[string]uint64
}

// AdmissionStats are an Admission's numbers so far.
type AdmissionStats struct {
	// Refusing is why pushes are refused now: "memory" (from 80 % of maxmemory
	// until 75 %), "oom", "readonly", "misconf", "noreplicas" or "loading", as
	// Redis names it; "" if they are accepted.
	Refusing string
	// Refused counts the pushes refused, by reason; every reason is there.
	Refused map[string]uint64
}

// NewAdmission accepts pushes of the channels until a Check has found a reason not to.
// memory returns the share of maxmemory that is used, 0 without a limit.
func NewAdmission(client redis.UniversalClient, channels []Channel, memory func(context.Context) (used float64, err error), log *slog.Logger) *Admission {
	refused := map[string]uint64{refusedMemory: 0}
	for _, text := range writeRefusals {
		refused[refusalName(text)] = 0
	}
	return &Admission{redis: client, channels: channels, memory: memory, log: log, refused: refused}
}

// Admit returns nil if a push may be given to the intake. Otherwise the error
// matches ErrNotStored, and ErrStoreFull if memory is the reason; the push is
// counted as refused.
func (a *Admission) Admit() error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.refusal == "" {
		return nil
	}
	a.refused[a.refusal]++
	return a.reason()
}

// Observe takes what the intake said about a push: a refusal of Redis counts,
// and holds for the next pushes until Redis has been asked again.
func (a *Admission) Observe(err error) {
	refusal := writeRefusal(err)
	if refusal == "" {
		return
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.refused[refusal]++
	a.turn(refusal, a.used)
}

// Refusing returns what Admit would, and counts nothing.
func (a *Admission) Refusing() error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.refusal == "" {
		return nil
	}
	return a.reason()
}

// Stats returns the numbers so far.
func (a *Admission) Stats() AdmissionStats {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return AdmissionStats{Refusing: a.refusal, Refused: maps.Clone(a.refused)}
}

// Run checks every second until ctx ends.
func (a *Admission) Run(ctx context.Context) {
	ticker := time.NewTicker(admissionInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := a.Check(ctx); err != nil && ctx.Err() == nil {
				a.log.Debug("admission stays as it is", slog.Any("error", err))
			}
		}
	}
}

// Check asks Redis once. If Redis cannot be asked, nothing changes: pushes fail
// by themselves then.
func (a *Admission) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, admissionTimeout)
	defer cancel()
	refusal, err := a.probe(ctx)
	if refusal != "" || err != nil {
		// The connection may have led to a former master; by now it is not used any more.
		refusal, err = a.probe(ctx)
	}
	if err != nil {
		return err
	}
	used, err := a.memory(ctx)
	if err != nil {
		return err
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if refusal == "" && full(used, a.refusal) {
		refusal = refusedMemory
	}
	a.turn(refusal, used)
	return nil
}

// full says whether the used share of memory is too large, with the reason why
// pushes were refused before.
func full(used float64, before string) bool {
	if before == refusedMemory || before == refusedOOM {
		return used > acceptFrom
	}
	return used >= RefuseFrom
}

// probe writes where pushes are written, and returns the refusal if there is
// one. INFO does not tell every reason, such as too few replicas.
func (a *Admission) probe(ctx context.Context) (refusal string, err error) {
	for _, channel := range a.channels {
		for _, key := range channel.ProbeKeys() {
			err := a.redis.Set(ctx, key, "", probeLife).Err()
			if refusal := writeRefusal(err); refusal != "" {
				return refusal, nil
			}
			if err != nil {
				return "", fmt.Errorf("probe whether redis takes writes: %w", err)
			}
		}
	}
	return "", nil
}

// turn is called with the mutex held.
func (a *Admission) turn(refusal string, used float64) {
	before := a.refusal
	a.refusal, a.used = refusal, used
	switch {
	case refusal == before:
	case refusal == "":
		a.log.Info("new pushes are accepted again", slog.String("memory_used", percent(used)))
	default:
		text := "new pushes are refused, queued ones go on"
		if refusal != refusedMemory {
			text = "redis takes no writes: new pushes are refused, queued ones wait until it does"
		}
		a.log.Warn(text, slog.String("reason", refusal), slog.String("memory_used", percent(used)))
	}
}

// reason is called with the mutex held, while pushes are refused.
func (a *Admission) reason() error {
	switch a.refusal {
	case refusedMemory:
		return fmt.Errorf("%w: %w: %s of its maxmemory is used, and from %s new pushes are refused until it is %s",
			ErrNotStored, ErrStoreFull, percent(a.used), percent(RefuseFrom), percent(acceptFrom))
	case refusedOOM:
		return fmt.Errorf("%w: %w: all of its maxmemory is used", ErrNotStored, ErrStoreFull)
	default:
		return fmt.Errorf("%w: it takes no writes (%s)", ErrNotStored, a.refusal)
	}
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }
