package tasks

import (
	"context"
	_ "embed" // the scripts
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"pushq/internal/keytype"
)

var (
	//go:embed scripts/record.lua
	recordSource string
	//go:embed scripts/begin.lua
	beginSource string
	//go:embed scripts/complete.lua
	completeSource string
	//go:embed scripts/finish.lua
	finishSource string
	//go:embed scripts/reopen.lua
	reopenSource string

	beginScript  = redis.NewScript(keytype.Source + recordSource + beginSource)
	finishScript = redis.NewScript(keytype.Source + recordSource + completeSource + finishSource)
	reopenScript = redis.NewScript(keytype.Source + recordSource + reopenSource)
)

// Retention says how long records and tasks live after a push has ended. All
// are whole seconds.
type Retention struct {
	Sent      time.Duration // the record after SENT
	Dead      time.Duration // the record after FAILED, GIVEN_UP and CANCELLED
	Completed time.Duration // asynq's completed task
}

// Records keeps the records of one channel. It is safe for concurrent use.
type Records struct {
	// Followers are those of this process' own configuration; Redis knows the others. They
	// may be set before the first use.
	Followers Followers

	redis     redis.UniversalClient
	channel   Channel
	retention Retention
}

// NewRecords returns the records of channel in the Redis behind client.
func NewRecords(client redis.UniversalClient, channel Channel, retention Retention) *Records {
	return &Records{redis: client, channel: channel, retention: retention}
}

// BeginAnswer says whether an attempt may be made.
type BeginAnswer string

// The answers to Begin.
const (
	Go               BeginAnswer = "GO"         // the attempt is recorded: send
	AlreadySent      BeginAnswer = "SENT"       // the push has been delivered: stop
	AlreadyCancelled BeginAnswer = "CANCELLED"  // somebody cancelled the push: stop
	Busy             BeginAnswer = "BUSY"       // another run has an attempt in process: come back later
	AlreadyEnded     BeginAnswer = "ENDED"      // the record is at its end: see Attempting.Again
	Superseded       BeginAnswer = "SUPERSEDED" // the idempotency key stands for another push by now: stop
	Spent            BeginAnswer = "SPENT"      // no attempts are left: give the push up
	Braked           BeginAnswer = "BRAKED"     // the provider has asked everybody to wait
)

// Attempting is what Begin needs to know of a handler's run.
type Attempting struct {
	Push  Push
	Token string // made once per handler run
	// Interrupted is the age from which an attempt in process is taken for
	// dead: see InterruptedAfter.
	Interrupted time.Duration
	MaxAttempts int
	// Again begins one more attempt although the record is at its end.
	Again bool
	// Request says that a request is to follow, which the channel's brake
	// forbids. Without it the attempt only records why there is none.
	Request bool
}

// InterruptedAfter returns the age from which an attempt in process belongs to a
// worker that has died. longest is how long a request to the provider may take.
func InterruptedAfter(longest time.Duration) time.Duration { return longest + 10*time.Second }

// Begun is Begin's result.
type Begun struct {
	Answer  BeginAnswer
	Attempt int  // number of the attempt, from 1
	Last    bool // no further attempt is allowed after this one
	// Counted is the attempt's number among those that count towards MaxAttempts.
	Counted int
	// Interrupted is the number of an earlier attempt that Begin found dead
	// and closed, or 0.
	Interrupted int
	// End is the end that the record has, for AlreadyEnded and Superseded.
	End State
	// Brake is how long nobody may send, for Braked.
	Brake time.Duration
}

// Begin records an attempt before its request is made, on Redis' clock. The
// same token gets the same answer, so the call may be repeated.
func (r *Records) Begin(ctx context.Context, attempting Attempting) (Begun, error) {
	push := attempting.Push
	content, err := push.content()
	if err != nil {
		return Begun{}, err
	}
	keys := []string{r.channel.RecordKey(push.ID), r.channel.DeadKey(), r.channel.BrakeKey()}
	if attempting.Again {
		keys = append(keys, r.channel.ClaimKey(push.claimID()))
	}
	reply, err := beginScript.Run(ctx, r.redis, keys,
		push.ID, content, attempting.Token, attempting.Interrupted.Milliseconds(), attempting.MaxAttempts,
		r.openSeconds(push), flag(attempting.Again), flag(attempting.Request),
	).Slice()
	if err != nil {
		return Begun{}, fmt.Errorf("begin an attempt of push %s: %w", push.ID, err)
	}
	if len(reply) != 6 {
		return Begun{}, fmt.Errorf("begin an attempt of push %s: unexpected reply %v", push.ID, reply)
	}
	answer, _ := reply[0].(string)
	number, _ := reply[1].(int64)
	last, _ := reply[2].(int64)
	interrupted, _ := reply[3].(int64)
	end, _ := reply[4].(string)
	counted, _ := reply[5].(int64)
	if BeginAnswer(answer) == Braked {
		return Begun{Answer: Braked, Brake: time.Duration(number) * time.Millisecond}, nil
	}
	return Begun{
		Answer: BeginAnswer(answer), Attempt: int(number), Last: last == 1, Counted: int(counted),
		Interrupted: int(interrupted), End: State(end),
	}, nil
}

// flag is a boolean as the scripts read it.
func flag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

// Finish records the outcome of an attempt, found by its token, and the end of
// the push if this is its end (or ""). It may be repeated. It returns the end
// that the record has now, which another run may have written.
func (r *Records) Finish(ctx context.Context, push Push, attempt Attempt, end State) (State, error) {
	recorded, _, err := r.finish(ctx, finishing{push: push, attempt: &attempt, end: end})
	return recorded, err
}

// FinishSent is Finish for an attempt that has delivered the push, by a run that
// holds the push's asynq task in the immediate queue. It completes the task as well, if
// it is still held, and reports whether it is complete: asynq need not do it then.
func (r *Records) FinishSent(ctx context.Context, push Push, attempt Attempt) (completed bool, err error) {
	_, completed, err = r.finish(ctx, finishing{push: push, attempt: &attempt, end: Sent, complete: true})
	return completed, err
}

// Withdraw closes an attempt whose request was never made. It does not count,
// and nothing happens if it was never recorded.
func (r *Records) Withdraw(ctx context.Context, push Push, token, reason string) error {
	none := int64(0)
	_, _, err := r.finish(ctx, finishing{push: push, withdraw: true, attempt: &Attempt{
		Token: token, Status: AttemptError, Millis: &none,
		ErrorType: ErrorOther, ErrorMessage: reason, Uncounted: true,
	}})
	return err
}

// End records the end of a push, or "" if only its content is to be kept, without an
// attempt.
func (r *Records) End(ctx context.Context, push Push, end State) error {
	_, _, err := r.finish(ctx, finishing{push: push, end: end})
	return err
}

// finishing is what finish.lua is to do.
type finishing struct {
	push     Push
	attempt  *Attempt // nil for none
	withdraw bool     // the attempt's request was never made
	end      State    // "" for none
	complete bool     // the push's task in the immediate queue too
}

// kind is what finish.lua needs to know of the attempt to be quick.
func (f finishing) kind() string {
	switch {
	case f.withdraw:
		return "withdraw"
	case f.attempt != nil && f.attempt.Status == AttemptOK && f.attempt.StartedAt != 0 && f.end == Sent:
		return "sent"
	default:
		return "record"
	}
}

func (r *Records) finish(ctx context.Context, f finishing) (recorded State, completed bool, err error) {
	push := f.push
	content, err := push.content()
	if err != nil {
		return "", false, err
	}
	var outcome []byte
	var token string
	if f.attempt != nil {
		if outcome, err = json.Marshal(f.attempt); err != nil {
			return "", false, fmt.Errorf("encode an attempt of push %s: %w", push.ID, err)
		}
		token = f.attempt.Token
	}
	keys := []string{r.channel.RecordKey(push.ID), r.channel.DeadKey(), r.channel.ClaimKey(push.claimID()), r.channel.FollowersKey()}
	arguments := []any{
		push.ID, content, outcome, token, f.kind(), string(f.end),
		r.openSeconds(push), seconds(r.retention.Sent), seconds(r.retention.Dead),
		seconds(push.sentClaimKept(r.retention)),
		r.Followers.argument(),
	}
	if f.complete {
		now := time.Now() // asynq completes tasks by the host's clock too
		keys = append(keys, completionKeys(r.channel.ImmediateQueue(), push.ID, now)...)
		arguments = append(arguments, completionArguments(r.retention.Completed, now)...)
	}
	reply, err := finishScript.Run(ctx, r.redis, keys, arguments...).Slice()
	if err != nil {
		return "", false, fmt.Errorf("finish an attempt of push %s: %w", push.ID, err)
	}
	if len(reply) != 2 {
		return "", false, fmt.Errorf("finish an attempt of push %s: unexpected reply %v", push.ID, reply)
	}
	ended, _ := reply[0].(string)
	done, _ := reply[1].(int64)
	return State(ended), done == 1, nil
}

// Reopen lets a push that is at its end FAILED or GIVEN_UP have one more attempt, as Begin
// with Again does, and begins none. It returns false if the push's idempotency key stands
// for another push by now. It may be repeated.
func (r *Records) Reopen(ctx context.Context, push Push) (reopened bool, err error) {
	content, err := push.content()
	if err != nil {
		return false, err
	}
	keys := []string{r.channel.RecordKey(push.ID), r.channel.DeadKey(), r.channel.ClaimKey(push.claimID())}
	reopened, err = reopenScript.Run(ctx, r.redis, keys, push.ID, content, r.openSeconds(push)).Bool()
	if err != nil {
		return false, fmt.Errorf("reopen the record of push %s: %w", push.ID, err)
	}
	return reopened, nil
}

// Keep makes the record and the claim of the idempotency key, if there are such, outlive a
// wait until the given time. Both live for the retention of dead pushes after the push is
// due, or longer; while that is far off, nothing is done.
func (r *Records) Keep(ctx context.Context, push Push, until time.Time) error {
	forgotten := push.due().Time().Add(r.retention.Dead)
	if until.Add(r.retention.Dead / 2).Before(forgotten) {
		return nil
	}
	lifetime := time.Duration(secondsKept(until, r.retention.Dead, time.Now())) * time.Second
	pipe := r.redis.Pipeline()
	pipe.Expire(ctx, r.channel.RecordKey(push.ID), lifetime)
	pipe.Expire(ctx, r.channel.ClaimKey(push.claimID()), lifetime)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("keep the record of push %s: %w", push.ID, err)
	}
	return nil
}

// Get returns the record of a push, or nil if there is none. The error is an
// *UnusableKeyError if what is stored is no record, or ErrUnreadable.
func (r *Records) Get(ctx context.Context, id string) (*Record, error) {
	stored, err := r.redis.Get(ctx, r.channel.RecordKey(id)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if isWrongType(err) {
		return nil, aboutKey(r.channel.RecordKey(id), fmt.Errorf("%w of push %s: %w", errUndecodable, id, err))
	}
	if err != nil {
		return nil, fmt.Errorf("read the record of push %s: %w: %w", id, ErrUnreadable, err)
	}
	record, err := decodeRecord(id, stored)
	return record, aboutKey(r.channel.RecordKey(id), err)
}

var errUndecodable = errors.New("cannot decode the record")

func decodeRecord(id string, stored []byte) (*Record, error) {
	record := &Record{}
	if err := json.Unmarshal(stored, record); err != nil {
		return nil, fmt.Errorf("%w of push %s: %w", errUndecodable, id, err)
	}
	if !record.wellFormed() {
		return nil, fmt.Errorf("%w of push %s: it is none of pushq's", errUndecodable, id)
	}
	record.Push.ID = id
	return record, nil
}

// openSeconds is how long the record of a push that has not ended lives.
func (r *Records) openSeconds(push Push) int64 {
	return secondsUntilForgotten(push, r.retention.Dead, time.Now())
}

// secondsUntilForgotten counts from now to the due time plus the retention of
// dead pushes, and never less than that retention: a push may wait long for
// its turn.
func secondsUntilForgotten(push Push, dead time.Duration, now time.Time) int64 {
	return secondsKept(push.due().Time(), dead, now)
}

// secondsKept counts from now to the given time, if that is to come, plus the retention of
// dead pushes.
func secondsKept(until time.Time, dead time.Duration, now time.Time) int64 {
	return seconds(max(until.Sub(now), 0) + dead)
}

func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
