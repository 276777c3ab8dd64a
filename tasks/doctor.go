package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// A Finding is one fault, or one thing that an operator should know, and what
// to do about it.
type Finding struct {
	// Fault is its name, such as "ghost".
	Fault string `json:"fault"`
	Queue string `json:"queue,omitempty"`
	// Count is how many tasks, claims or queues have it.
	Count int `json:"count"`
	// More says that there are more than were counted.
	More bool `json:"more,omitempty"`
	// Examples are at most ten ids.
	Examples []string `json:"examples,omitempty"`
	// Meaning says what it is and what it does to pushes, Repair what to do:
	// a command to copy, where there is one.
	Meaning string `json:"meaning"`
	Repair  string `json:"repair"`
	// Fixed is how many have been put right.
	Fixed int `json:"fixed"`
}

// Left reports whether anything of the finding remains.
func (f Finding) Left() bool { return f.More || f.Fixed < f.Count }

const (
	maxExamples = 10
	// maxSuspects bounds what one examination judges of each fault.
	maxSuspects = 10_000
	// doctorPage is how many ids are read at once.
	doctorPage = 500

	fixCommand = "pushq doctor --fix"
)

// A Doctor looks for what is wrong with the queues of a channel, and mends what
// can be mended without sending a push twice or losing one. It reads page by
// page, never a whole set at once.
//
// Most of what looks wrong is only on its way: therefore Examine looks twice,
// and what it judges or mends, it judges or mends in one script. The fields may
// be changed before the first use; a Doctor itself is for one goroutine.
type Doctor struct {
	// Pause is the time between the two looks: longer than a worker needs to
	// report what it has in hand (asynq: every 5 s), and than an enqueue takes.
	Pause time.Duration
	// ClaimIdle is how long nobody has touched a claim that is taken for
	// stranded.
	ClaimIdle time.Duration
	// Interrupted is the age from which an attempt in process is taken for
	// dead, as a handler's run takes it.
	Interrupted time.Duration
	// Streams are those of the channel's followers, Unread the age from which nobody
	// seems to read their entries.
	Streams []FollowedStream
	Unread  time.Duration

	channel   Channel
	retention Retention
	redis     redis.UniversalClient
	records   *Records
	inspector *asynq.Inspector
	asynq     *asynq.Client
}

// NewDoctor returns a doctor for the queues of channel in the Redis behind
// client. timeout is the longest that a request to the provider takes.
func NewDoctor(client redis.UniversalClient, channel Channel, retention Retention, timeout time.Duration) *Doctor {
	return &Doctor{
		Pause: 6 * time.Second, ClaimIdle: 10 * time.Second, Interrupted: InterruptedAfter(timeout),
		Unread: 5 * time.Minute,

		channel: channel, retention: retention, redis: client,
		records:   NewRecords(client, channel, retention),
		inspector: asynq.NewInspectorFromRedisClient(client), asynq: asynq.NewClientFromRedisClient(client),
	}
}

// A check looks for one fault in one place.
type check struct {
	finding Finding // without numbers
	// look returns what may have the fault, and judge decides, with fix set
	// after mending it, if that is safe.
	look  func(context.Context) ([]suspect, error)
	judge func(ctx context.Context, one suspect, fix bool) (verdict, error)
}

// A suspect may have a fault.
type suspect struct {
	id   string
	seen string // what the fault needs to remember of the first look
}

type verdict string

// The verdicts, as the scripts give them.
const (
	well   verdict = "WELL"
	wrong  verdict = "WRONG"
	mended verdict = "MENDED"
)

// Examine returns what it has found, and with fix set mends what is safe to
// mend. After an error it returns what it has found until then.
func (d *Doctor) Examine(ctx context.Context, fix bool) ([]Finding, error) {
	findings, err := d.examineQueues(ctx, fix)
	if err != nil {
		return findings, err
	}
	var failures []error
	unread, err := d.examineStreams(ctx)
	findings = append(findings, unread...)
	failures = append(failures, err)
	failed, err := d.examineFailures(ctx)
	findings = append(findings, failed...)
	failures = append(failures, err)
	checks := d.checks()
	suspects := make([][]suspect, len(checks))
	anything := false
	for place, one := range checks {
		// Why one fault cannot be looked for may be another fault.
		if suspects[place], err = one.look(ctx); err != nil {
			failures = append(failures, fmt.Errorf("look for %s: %w", one.finding.Fault, err))
		}
		anything = anything || len(suspects[place]) > 0
	}
	if anything {
		select {
		case <-time.After(d.Pause):
		case <-ctx.Done():
			return findings, context.Cause(ctx)
		}
	}
	for place, one := range checks {
		finding, err := one.judgeAll(ctx, suspects[place], fix)
		if finding.Count > 0 {
			findings = append(findings, finding)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("judge %s: %w", one.finding.Fault, err))
		}
	}
	return findings, errors.Join(failures...)
}

// checks are in this order because a ghost that is mended leaves nothing
// misplaced.
func (d *Doctor) checks() []check {
	var all []check
	for _, queue := range d.channel.Queues() {
		all = append(all, d.unusableTaskCheck(queue), d.leaselessCheck(queue))
		for _, place := range taskPlaces {
			all = append(all, d.ghostCheck(queue, place))
		}
		all = append(all, d.misplacedCheck(queue))
	}
	return append(all, d.claimCheck())
}

// judgeAll goes on after what concerns one suspect only, and tells the first
// errors.
func (c check) judgeAll(ctx context.Context, suspects []suspect, fix bool) (Finding, error) {
	finding := c.finding
	finding.More = len(suspects) > maxSuspects
	var failures []error
	for _, one := range suspects[:min(len(suspects), maxSuspects)] {
		verdict, err := c.judge(ctx, one, fix)
		if verdict != well {
			finding.Count++
			if len(finding.Examples) < maxExamples {
				finding.Examples = append(finding.Examples, one.id)
			}
		}
		if verdict == mended {
			finding.Fixed++
		}
		if err != nil && len(failures) < maxExamples {
			failures = append(failures, err)
		}
		if errors.Is(err, ErrUnreadable) || ctx.Err() != nil {
			break
		}
	}
	return finding, errors.Join(failures...)
}

// asVerdict reads the reply of a script. What Redis itself answers may concern
// this task only, such as a key of another type; all else is ErrUnreadable.
func asVerdict(reply *redis.Cmd, doing string) (verdict, error) {
	text, err := reply.Text()
	if err != nil && !answered(err) {
		err = fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if err != nil {
		return well, fmt.Errorf("%s: %w", doing, err)
	}
	return verdict(text), nil
}

// mode is what the scripts call fix.
func mode(fix bool) string {
	if fix {
		return "fix"
	}
	return "look"
}
