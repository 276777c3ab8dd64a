package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

const (
	// recently is the time whose ends are judged, and earlier the time before it that they
	// are compared with.
	recently = 15 * time.Minute
	earlier  = 24 * time.Hour
	// fewFailures are too few to say anything.
	fewFailures = 10
	// manyFailed is the share of FAILED among the pushes that have ended from which
	// something must be wrong, leadingError that of one error.
	manyFailed   = 0.25
	leadingError = 0.1
	// suddenly is how many times as often as before an error must come to be new.
	suddenly = 5
)

// An endError is the error of a push's last attempt, as operators filter by it.
type endError struct {
	kind ErrorType
	code int // 0 for none
}

func (e endError) String() string {
	if e.code == 0 {
		return string(e.kind)
	}
	return fmt.Sprintf("%s %d", e.kind, e.code)
}

// flags choose the pushes with this error in pushq's commands.
func (e endError) flags() string {
	flags := " --error-type " + string(e.kind)
	if e.code != 0 {
		flags += " --error-code " + strconv.Itoa(e.code)
	}
	return flags
}

// failedPushes are those that ended FAILED or GIVEN_UP within some time.
type failedPushes struct {
	byState map[State][]string    // ids, newest first
	byError map[endError][]string // the same
	// failedByError are those that ended FAILED.
	failedByError map[endError][]string
	// part is how much of them was read: there may be too many.
	part float64
}

// mostFrequent returns the error of the most pushes.
func mostFrequent(byError map[endError][]string) endError {
	return slices.MaxFunc(slices.Collect(maps.Keys(byError)), func(a, b endError) int {
		return cmp.Or(cmp.Compare(len(byError[a]), len(byError[b])), cmp.Compare(b.String(), a.String()))
	})
}

// examineFailures says if many pushes have lately failed, or one error has suddenly become
// frequent. Nothing is mended: what is wrong is with the provider or the configuration.
func (d *Doctor) examineFailures(ctx context.Context) (findings []Finding, err error) {
	now, err := d.redis.Time(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("read the time of redis: %w: %w", ErrUnreadable, err)
	}
	// What was sent is told by asynq's completed tasks, which it may forget sooner.
	window := min(recently, d.retention.Completed)
	recent, err := d.readFailures(ctx, now.Add(-window), now)
	if err != nil || len(recent.byError) == 0 {
		return nil, err
	}
	sent, err := d.countSent(ctx, now, window)
	if err != nil {
		return nil, err
	}
	// Both counts are of the part that was read.
	failed := len(recent.byState[Failed])
	ended := float64(sent)*recent.part + float64(failed+len(recent.byState[GivenUp]))
	if share := float64(failed) / ended; failed >= fewFailures && share >= manyFailed {
		lead := mostFrequent(recent.failedByError)
		findings = append(findings, Finding{
			Fault: "many-failed", Queue: d.channel.Name, Count: failed, More: recent.part < 1,
			Examples: recent.byState[Failed][:min(failed, maxExamples)],
			Meaning: fmt.Sprintf("%.0f %% of the pushes that have ended within %s are FAILED, most of all with %s: the provider refuses them, or the configuration is wrong",
				100*share, since(window), lead),
			Repair: fmt.Sprintf("look at one (pushq push get %s) for what the provider says; pushq pause%s keeps more from failing meanwhile. When it is mended: pushq push retry --status FAILED --since %s%s%s",
				recent.byState[Failed][0], d.named(), since(window), lead.flags(), d.named()),
		})
	}
	before, err := d.readFailures(ctx, now.Add(-window-earlier), now.Add(-window))
	if err != nil {
		return findings, err
	}
	// usual is how often an error ended pushes in the same time before.
	usual := func(kind endError) float64 {
		return float64(len(before.byError[kind])) / before.part * float64(window) / float64(earlier)
	}
	maps.DeleteFunc(recent.byError, func(kind endError, ids []string) bool {
		count := float64(len(ids))
		return count < fewFailures || count < leadingError*ended || count/recent.part < suddenly*usual(kind)
	})
	if len(recent.byError) == 0 {
		return findings, nil
	}
	lead := mostFrequent(recent.byError)
	ids := recent.byError[lead]
	return append(findings, Finding{
		Fault: "leading-error", Queue: d.channel.Name, Count: len(ids), More: recent.part < 1, Examples: ids[:min(len(ids), maxExamples)],
		Meaning: fmt.Sprintf("%s has ended %.0f %% of the pushes that have ended within %s; in the 24 hours before, it ended %.1f in as long a time (many-failed may have the same cause)",
			lead, 100*float64(len(ids))/ended, since(window), usual(lead)),
		Repair: fmt.Sprintf("look at one (pushq push get %s) for what has changed. When it is mended: pushq push retry --status FAILED --since %s%s%s, and the same with --status GIVEN_UP",
			ids[0], since(window), lead.flags(), d.named()),
	}), nil
}

// since is a time as the flags of pushq's commands take it.
func since(window time.Duration) string { return strconv.Itoa(int(math.Ceil(window.Minutes()))) + "m" }

// countSent counts what has been sent within the window.
func (d *Doctor) countSent(ctx context.Context, now time.Time, window time.Duration) (int, error) {
	sum := 0
	for _, queue := range d.channel.Queues() {
		// A completed task is kept by the time at which it is to be forgotten.
		key, from := asynqStateKey(queue, asynq.TaskStateCompleted), now.Add(d.retention.Completed-window)
		count, err := d.redis.ZCount(ctx, key, strconv.FormatInt(from.Unix(), 10), "+inf").Result()
		if err != nil {
			return 0, fmt.Errorf("read %s: %w: %w", key, ErrUnreadable, err)
		}
		sum += int(count)
	}
	return sum, nil
}

// readFailures reads the newest pushes that failed within the time, at most maxSuspects.
func (d *Doctor) readFailures(ctx context.Context, from, to time.Time) (failedPushes, error) {
	found := failedPushes{byState: make(map[State][]string), byError: make(map[endError][]string), failedByError: make(map[endError][]string), part: 1}
	key := d.channel.DeadKey()
	within := &redis.ZRangeBy{
		Min: strconv.FormatInt(from.UnixMilli(), 10), Max: "(" + strconv.FormatInt(to.UnixMilli(), 10), Count: maxSuspects,
	}
	ids, err := d.redis.ZRevRangeByScore(ctx, key, within).Result()
	if err != nil {
		return failedPushes{}, fmt.Errorf("read %s: %w: %w", key, ErrUnreadable, err)
	}
	if len(ids) == maxSuspects {
		all, err := d.redis.ZCount(ctx, key, within.Min, within.Max).Result()
		if err != nil {
			return failedPushes{}, fmt.Errorf("read %s: %w: %w", key, ErrUnreadable, err)
		}
		found.part = float64(len(ids)) / float64(max(all, 1))
	}
	for page := range slices.Chunk(ids, doctorPage) {
		pipe := d.redis.Pipeline()
		stored := make([]*redis.StringCmd, len(page))
		for place, id := range page {
			stored[place] = pipe.Get(ctx, d.channel.RecordKey(id))
		}
		// A record may be gone, or of another type: that costs this one only.
		if _, err := pipe.Exec(ctx); err != nil && !answered(err) {
			return failedPushes{}, fmt.Errorf("read the records of failed pushes: %w: %w", ErrUnreadable, err)
		}
		for place, id := range page {
			record, err := decodeRecord(id, []byte(stored[place].Val()))
			if err != nil || record.End != Failed && record.End != GivenUp || len(record.Attempts) == 0 {
				continue
			}
			last := record.Attempts[len(record.Attempts)-1]
			kind := endError{last.ErrorType, last.ErrorCode}
			found.byState[record.End] = append(found.byState[record.End], id)
			found.byError[kind] = append(found.byError[kind], id)
			if record.End == Failed {
				found.failedByError[kind] = append(found.failedByError[kind], id)
			}
		}
	}
	return found, nil
}

// answered reports whether Redis itself said the error, perhaps of one key alone.
func answered(err error) bool {
	_, said := errors.AsType[redis.Error](err)
	return said
}
