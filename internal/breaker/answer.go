package breaker

import (
	"context"
	_ "embed" // the script
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"pushq/internal/keytype"
)

var (
	//go:embed scripts/breaker.lua
	source string

	script = redis.NewScript(keytype.Source + source)
)

// An answer of the script.
type answer struct {
	text                     string
	wait                     time.Duration
	state, stateBefore       State
	failures, failuresBefore int64
	generation               int64 // counts the changes of state
	suspect                  bool  // the subject
	goods                    int64 // answers so far, about all subjects
}

// What is remembered of subjects that fail.
const (
	rememberedSubjects = 10_000
	rememberedFor      = time.Hour // without a failure of another one
)

// run asks for the permission of a call, or reports it. The same again changes nothing.
func (b *Breaker) run(ctx context.Context, act, call, subject string) (answer, error) {
	reply, err := script.Run(ctx, b.redis, []string{b.Hash, b.Failing}, act, call, subject,
		b.Failures, b.OpenFor.Milliseconds(), b.Successes, b.Forget.Milliseconds(),
		rememberedSubjects, int(rememberedFor.Seconds())).Slice()
	if err != nil {
		return answer{}, fmt.Errorf("circuit breaker of %s: %w", b.Service, err)
	}
	if len(reply) != 9 {
		return answer{}, fmt.Errorf("circuit breaker of %s: unexpected reply %v", b.Service, reply)
	}
	var a answer
	a.text, _ = reply[0].(string)
	wait, _ := reply[1].(int64)
	a.wait = time.Duration(wait) * time.Millisecond
	state, _ := reply[2].(string)
	a.failures, _ = reply[3].(int64)
	before, _ := reply[4].(string)
	a.failuresBefore, _ = reply[5].(int64)
	a.generation, _ = reply[6].(int64)
	a.state, a.stateBefore = State(state), State(before)
	suspect, _ := reply[7].(int64)
	a.suspect = suspect == 1
	a.goods, _ = reply[8].(int64)
	if act == string(Refused) && a.state == Open && a.stateBefore != Open {
		b.Log.Error("the provider refuses pushq itself: mend the configuration",
			slog.String("service", b.Service), slog.String("subject", subject))
	}
	b.see(ctx, a)
	return a, nil
}

// see tells others what has changed. Permits of a state that is over lapse: what is
// reported of them counts no more, and a service that has died must not be called with
// them.
func (b *Breaker) see(ctx context.Context, a answer) {
	if a.state != a.stateBefore {
		b.Log.Warn("circuit breaker", slog.String("service", b.Service), slog.String("state", string(a.state)), slog.Int64("failures", a.failures))
	}
	if a.state == Open && a.stateBefore != Open && b.OnOpen != nil {
		b.OnOpen()
	}
	b.mutex.Lock()
	if a.generation != b.generation { // smaller after a failover, or of an answer overtaken
		b.generation = a.generation
		clear(b.permits)
	}
	behind := !b.copied || a.state != a.stateBefore || a.failures != a.failuresBefore
	b.copied = true
	b.mutex.Unlock()
	if behind {
		b.copy(ctx, a.state, a.failures)
	}
}
