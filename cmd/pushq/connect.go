package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"pushq/internal/redisconn"
	"pushq/tasks"
)

const (
	connectInterval = 500 * time.Millisecond
	connectTimeout  = 2 * time.Second
)

// connect repeats until Redis has been reached, checked and told of our queues and followers.
func (s *service) connect(ctx context.Context) error {
	for tries := 0; ; tries++ {
		err := s.connectOnce(ctx)
		if err == nil || errors.Is(err, redisconn.ErrUnfit) {
			return err
		}
		if tries%20 == 0 {
			s.log.Warn("waiting for redis", slog.Any("error", redisconn.Explain(err)))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(connectInterval):
		}
	}
}

// checkAgain looks at a Redis that may be another server by now, or may have
// come back empty. One that would lose pushes is given none until it is mended.
func (s *service) checkAgain(ctx context.Context) error {
	if s.checkServer {
		_, err := s.clients.CheckServer(ctx)
		if errors.Is(err, redisconn.ErrUnfit) {
			s.redisChecked.Store(false)
		}
		if err != nil {
			return err
		}
		s.redisChecked.Store(true)
	}
	return s.register(ctx)
}

func (s *service) connectOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if s.checkServer {
		warnings, err := s.clients.CheckServer(ctx)
		if err != nil {
			return err
		}
		for _, warning := range warnings {
			s.log.Warn("redis", slog.String("text", warning.String()))
		}
		// Before others are asked to tell the followers of this process.
		for _, c := range s.channels {
			if err := checkRights(ctx, s.clients.Read, c.Channel, s.followers(c.Channel)); err != nil {
				return err
			}
		}
	}
	if err := s.clock.Measure(ctx); err != nil {
		return err
	}
	if err := s.register(ctx); err != nil {
		return err
	}
	return s.warnOfOtherFollowers(ctx)
}

// register makes this process, its queues and its followers known to others.
func (s *service) register(ctx context.Context) error {
	for _, c := range s.channels {
		if err := tasks.RegisterQueues(ctx, s.clients.Read, c.Channel); err != nil {
			return err
		}
	}
	return errors.Join(s.addFollowers(ctx), tasks.Announce(ctx, s.clients.Read, s.name, s.clock.Now()))
}

// checkRights looks whether the user of Redis has the rights that the work for a channel needs:
// those to streams as soon as anybody follows it, be it another process.
func checkRights(ctx context.Context, client redis.UniversalClient, channel tasks.Channel, own tasks.Followers) error {
	followed := len(own.Names()) > 0
	if !followed {
		known, err := tasks.ReadFollowers(ctx, client, channel)
		followed = err == nil && len(known.Names()) > 0
	}
	return redisconn.CheckRights(ctx, client, followed, channel.UnusedKey(), channel.UnusedKeysOfOthers()...)
}
