package tasks

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

const (
	// fullArchive is beyond what a caretaker leaves in an archive; asynq
	// deletes what is beyond 9,999.
	fullArchive = 8500
	// overdueLease is how long after its end a live worker must have taken a
	// task back: caretakers look every second for leases that have run out.
	overdueLease = time.Minute
)

// RegisteredQueues returns the queues that asynq's tools see, in their order.
func RegisteredQueues(ctx context.Context, client redis.UniversalClient) ([]string, error) {
	registered, err := client.SMembers(ctx, asynqQueuesKey).Result()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", asynqQueuesKey, ErrUnreadable, err)
	}
	slices.Sort(registered)
	return registered, nil
}

// servedQueues are those from which live workers take tasks.
func servedQueues(client redis.UniversalClient) (map[string]bool, error) {
	servers, err := asynq.NewInspectorFromRedisClient(client).Servers()
	if err != nil {
		return nil, fmt.Errorf("list the workers: %w: %w", ErrUnreadable, err)
	}
	served := make(map[string]bool)
	for _, server := range servers {
		for queue := range server.Queues {
			served[queue] = true
		}
	}
	return served, nil
}

// ExamineOtherQueues looks at the queues that belong to no channel.
func ExamineOtherQueues(ctx context.Context, client redis.UniversalClient) (findings []Finding, err error) {
	registered, err := RegisteredQueues(ctx, client)
	if err != nil {
		return nil, err
	}
	served, err := servedQueues(client)
	if err != nil {
		return nil, err
	}
	for _, queue := range registered {
		ours := slices.ContainsFunc(Channels(), func(channel Channel) bool { return slices.Contains(channel.Queues(), queue) })
		if ours || served[queue] {
			continue
		}
		status, err := ReadQueueStatus(ctx, client, queue)
		if err != nil {
			return findings, err
		}
		findings = append(findings, unserved(queue, status))
	}
	return findings, nil
}

// examineQueues looks at what is true of whole queues.
func (d *Doctor) examineQueues(ctx context.Context, fix bool) (findings []Finding, err error) {
	registered, err := RegisteredQueues(ctx, d.redis)
	if err != nil {
		return nil, err
	}
	served, err := servedQueues(d.redis)
	if err != nil {
		return nil, err
	}

	for _, queue := range d.channel.Queues() {
		if !slices.Contains(registered, queue) {
			finding := unregistered(queue)
			if fix { // as every process does by itself
				if err := RegisterQueues(ctx, d.redis, d.channel); err != nil {
					return findings, err
				}
				finding.Fixed = 1
			}
			findings = append(findings, finding)
		}
		status, err := ReadQueueStatus(ctx, d.redis, queue)
		if err != nil {
			return findings, err
		}
		if status.Paused {
			findings = append(findings, Finding{
				Fault: "paused", Queue: queue, Count: 1,
				Meaning: d.pausedBy(ctx, status) + fmt.Sprintf(": nothing of it is sent, %d pushes are ready", status.Pending),
				Repair:  "pushq resume" + d.named(),
			})
		}
		if status.Archived > fullArchive {
			findings = append(findings, Finding{
				Fault: "archive-near-cap", Queue: queue, Count: int(status.Archived),
				Meaning: "asynq deletes archived tasks beyond 9,999; every worker process takes more than 8,000 down to 7,000, so none is doing that. " +
					"The records keep what became of the pushes",
				Repair: "start a worker: pushq worker --config FILE",
			})
		}
		if !served[queue] {
			findings = append(findings, unserved(queue, status))
		}
		expired, err := d.expiredLeases(ctx, queue, served[queue])
		if err != nil {
			return findings, err
		}
		findings = append(findings, expired...)
	}
	return findings, nil
}

// named is how a command is told the doctor's channel.
func (d *Doctor) named() string {
	if d.channel == Swrve {
		return ""
	}
	return " --channel " + d.channel.Name
}

func unregistered(queue string) Finding {
	return Finding{
		Fault: "unregistered-queue", Queue: queue, Count: 1,
		Meaning: "the queue is not in " + asynqQueuesKey + ": asynq's tools do not see it, and pushes cannot be looked up (503)",
		Repair:  fixCommand + " (or: redis-cli SADD " + asynqQueuesKey + " " + queue + ")",
	}
}

func unserved(queue string, status QueueStatus) Finding {
	repair := "start a worker: pushq worker --config FILE"
	if !slices.ContainsFunc(Channels(), func(c Channel) bool { return slices.Contains(c.Queues(), queue) }) {
		repair += " (if the queue is of no use any more and empty: asynq queue rm " + queue + ")"
	}
	return Finding{
		Fault: "unserved-queue", Queue: queue, Count: 1,
		Meaning: fmt.Sprintf("no live worker serves the queue: %d ready, %d scheduled, %d to be tried again, %d in memory wait for one",
			status.Pending, status.Scheduled, status.Retry, status.Active),
		Repair: repair,
	}
}

// expiredLeases finds tasks of workers that have died and that nobody takes
// back.
func (d *Doctor) expiredLeases(ctx context.Context, queue string, served bool) ([]Finding, error) {
	now, err := d.redis.Time(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("read the time of redis: %w", err)
	}
	meaning, repair := "the workers that held these pushes have died, and no live one takes them back", "start a worker, which takes them back at once: pushq worker --config FILE"
	if served {
		now = now.Add(-overdueLease)
		meaning, repair = "the workers that held these pushes have died, and the live ones have not taken them back", "restart a worker, and look at its log"
	}
	leases := asynqLeaseKey(queue)
	until := strconv.FormatInt(now.Unix(), 10)
	count, err := d.redis.ZCount(ctx, leases, "-inf", until).Result()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", leases, ErrUnreadable, err)
	}
	if count == 0 {
		return nil, nil
	}
	ids, err := d.redis.ZRange(ctx, leases, 0, min(count, maxSuspects)-1).Result()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", leases, ErrUnreadable, err)
	}
	// Those without a task are nobody's to take back; asynq passes them over.
	gone := make(map[string]bool)
	for page := range slices.Chunk(ids, doctorPage) {
		without, err := d.without(ctx, queue, page)
		if err != nil {
			return nil, err
		}
		for _, one := range without {
			gone[one.id] = true
		}
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return gone[id] })
	if len(ids) == 0 {
		return nil, nil
	}
	return []Finding{{
		Fault: "expired-lease", Queue: queue, Count: int(count) - len(gone), Examples: ids[:min(len(ids), maxExamples)],
		Meaning: meaning, Repair: repair,
	}}, nil
}

// pausedBy says who has paused a queue, if that is known, and until when.
func (d *Doctor) pausedBy(ctx context.Context, status QueueStatus) string {
	text := "somebody has paused the queue"
	note, noteErr := ReadOperatorNote(ctx, d.redis, d.channel, NotePause)
	pauses, err := Pauses(ctx, d.redis, d.channel)
	for _, pause := range pauses {
		if noteErr == nil && err == nil && pause.Queue == status.Queue && pause.IsNotedBy(note) {
			text = fmt.Sprintf("%s has paused the queue at %s", note.By, note.At.Time().Format(time.RFC3339))
		}
	}
	if status.Lasts > 0 {
		text += ", for another " + status.Lasts.Round(time.Second).String()
	}
	return text
}
