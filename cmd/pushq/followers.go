package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"pushq/config"
	"pushq/internal/follow"
	"pushq/internal/history"
	"pushq/internal/rabbitmq"
	"pushq/tasks"
)

// Those who are told what becomes of pushes.
const (
	// idempotencyFollower tells others, under the names that they know, which
	// idempotency keys stand for a push that was sent.
	idempotencyFollower = "idempotency"
	// failedFollower puts the messages of pushes that did not arrive into a queue of
	// RabbitMQ.
	failedFollower = "failed"
	// historyFollower writes the history.
	historyFollower = "history"
)

// followers are those of a channel that this process is configured for. Other processes may
// know more, and Redis knows all of them.
func (s *service) followers(of tasks.Channel) tasks.Followers { return followers(s.settings, of) }

func followers(settings config.Config, of tasks.Channel) tasks.Followers {
	var told tasks.Followers
	if of == tasks.FCM {
		told.Ends = append(told.Ends, idempotencyFollower)
		if settings.RabbitMQ.URL != "" {
			told.Ends = append(told.Ends, failedFollower)
		}
	}
	if settings.History.PostgresURL != "" {
		told.Attempts = append(told.Attempts, historyFollower)
	}
	return told
}

// followerSettings say by which setting a process has a follower.
var followerSettings = map[string]string{
	idempotencyFollower: "fcm.enabled", failedFollower: "rabbitmq.url", historyFollower: "history.postgresUrl",
}

// addFollowers makes the followers of this process known to all that share the Redis.
func (s *service) addFollowers(ctx context.Context) error {
	for _, c := range s.channels {
		if err := tasks.AddFollowers(ctx, s.clients.Read, c.Channel, s.followers(c.Channel)); err != nil {
			return err
		}
	}
	return nil
}

// warnOfOtherFollowers tells of followers that other processes have, or had: what this
// process ends is told to them too, and waits in Redis if none of them runs any more.
func (s *service) warnOfOtherFollowers(ctx context.Context) error {
	for _, c := range s.channels {
		known, err := tasks.ReadFollowers(ctx, s.clients.Read, c.Channel)
		if err != nil {
			return err
		}
		own := s.followers(c.Channel).Names()
		for _, name := range known.Names() {
			if slices.Contains(own, name) {
				continue
			}
			// Each is a warning of its own: those that are alike but for their logger are told once.
			log := s.log.With(slog.String("channel", c.Name), slog.String("follower", name))
			log.Warn("other processes are configured to follow this channel and this one is not: what it ends waits in redis for one of them",
				slog.String("setting", followerSettings[name]),
				slog.String("if_none_is_any_more", fmt.Sprintf("redis-cli HDEL '%s' %s, and then redis-cli DEL '%s'", c.FollowersKey(), name, c.FollowKey(name))))
		}
	}
	return nil
}

// follow does what follows from what becomes of pushes, until ctx ends.
func (s *service) follow(ctx context.Context) {
	var following sync.WaitGroup
	defer following.Wait()
	each := func(stream string, handle func(context.Context, []follow.Entry) error) {
		follower := follow.New(s.clients.Read, follow.Options{Stream: stream, Handle: handle, Log: s.log})
		following.Go(func() { follower.Run(ctx) })
	}
	for _, c := range s.channels {
		if s.history != nil {
			each(c.FollowKey(historyFollower), func(ctx context.Context, entries []follow.Entry) error {
				return s.history.Write(ctx, historyRows(c.Channel, entries))
			})
		}
	}
	if s.channels.named(tasks.FCM.Name) == nil {
		return
	}
	each(tasks.FCM.FollowKey(idempotencyFollower), func(ctx context.Context, entries []follow.Entry) error {
		return tasks.WriteIdempotencyStates(ctx, s.clients.Read, tasks.FCM, s.decodeRecords(entries))
	})
	if s.publisher != nil {
		each(tasks.FCM.FollowKey(failedFollower), s.publishFailed)
	}
}

func historyRows(of tasks.Channel, entries []follow.Entry) []history.Row {
	rows := make([]history.Row, len(entries))
	for place, entry := range entries {
		rows[place] = history.Row{Channel: of.Name, PushID: entry.PushID, Record: entry.Record}
	}
	return rows
}

// publishFailed tells RabbitMQ of the pushes that did not arrive. Its error is about the
// others: a queue that has room for a few only would get those few each time.
func (s *service) publishFailed(ctx context.Context, entries []follow.Entry) error {
	for place, entry := range entries {
		for _, record := range s.decodeRecords([]follow.Entry{entry}) {
			if record.End != tasks.Failed && record.End != tasks.GivenUp {
				continue
			}
			message := rabbitmq.FailedMessage(record.Push.Notification, failureReason(record), record.EndedAt.Time())
			if err := s.publishFailure(ctx, message); err != nil {
				return &follow.PartError{Done: place, Cause: fmt.Errorf("publish the failure of push %s: %w", record.Push.ID, err)}
			}
			s.metrics.RabbitMQ.FailuresPublished.Inc()
		}
	}
	return nil
}

// failureReason is what the last attempt says, and how many before it have failed since
// the push was accepted, or retried by somebody.
func failureReason(record tasks.Record) string {
	var last tasks.Attempt
	for _, attempt := range record.Attempts {
		if !attempt.Uncounted {
			last = attempt
		}
	}
	reason := string(last.ErrorType)
	if last.ErrorCode != 0 {
		reason += fmt.Sprintf(" %d", last.ErrorCode)
	}
	if last.ErrorMessage != "" {
		reason += ": " + last.ErrorMessage
	}
	if record.End == tasks.GivenUp {
		reason += fmt.Sprintf(" after %d retries", max(record.Counted()-1, 0))
	}
	return reason
}

// decodeRecords leaves out what is no record: it would be none the next time either.
func (s *service) decodeRecords(entries []follow.Entry) []tasks.Record {
	records := make([]tasks.Record, 0, len(entries))
	for _, entry := range entries {
		var record tasks.Record
		if err := json.Unmarshal(entry.Record, &record); err != nil {
			s.log.Error("an end in the stream cannot be read", slog.String("id", entry.PushID), slog.Any("error", err))
			continue
		}
		record.Push.ID = entry.PushID
		records = append(records, record)
	}
	return records
}
