// Package redisconn opens pushq's connections to Redis, checks that the server
// can be trusted with pushes, and follows its clock.
package redisconn

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Clients are the connections of one process, apart by use, so that one use
// cannot hold up another.
type Clients struct {
	// Intake is the accept path's: an auto-pipeline that never repeats a
	// command and gives up after 800 ms.
	Intake redis.UniversalClient
	// Queue is for asynq's servers.
	Queue redis.UniversalClient
	// Control is for the limiter and the records.
	Control redis.UniversalClient
	// Read is for lookups and health checks; it obeys contexts.
	Read redis.UniversalClient

	intakeBase *redis.Client
}

const intakeTimeout = 800 * time.Millisecond

// Open prepares the clients; nothing is dialled before the first command.
// concurrency is the number of pushes that the process handles at once, 0 for
// one without workers.
func Open(url string, concurrency int) (*Clients, error) {
	intakeOptions, err := parse(url)
	if err != nil {
		return nil, err
	}
	intakeOptions.DialTimeout = intakeTimeout
	intakeOptions.ReadTimeout = intakeTimeout
	intakeOptions.WriteTimeout = intakeTimeout
	intakeOptions.PoolTimeout = intakeTimeout
	intakeOptions.DialerRetries = 1
	intakeOptions.MaxRetries = -1 // a repeat could only blur what became of a push
	base := redis.NewClient(intakeOptions)
	pipeline, err := base.AutoPipeline()
	if err != nil {
		_ = base.Close()
		return nil, fmt.Errorf("start the pipeline to redis: %w", err)
	}

	clients := &Clients{Intake: pipeline, intakeBase: base}
	for _, one := range []struct {
		target      *redis.UniversalClient
		pool        int
		timeout     time.Duration
		repeats     int
		obeyContext bool
	}{
		// asynq's servers poll with a few connections and report results with
		// one per finishing handler.
		{&clients.Queue, 16 + concurrency/4, 2 * time.Second, 1, false},
		{&clients.Control, 16 + concurrency/4, 2 * time.Second, 2, true},
		{&clients.Read, 64, 2 * time.Second, -1, true},
	} {
		options, _ := parse(url) // has been parsed before
		options.PoolSize = one.pool
		options.DialTimeout, options.ReadTimeout, options.WriteTimeout = one.timeout, one.timeout, one.timeout
		options.PoolTimeout = one.timeout
		options.MaxRetries = one.repeats
		options.DialerRetries = 1
		options.ContextTimeoutEnabled = one.obeyContext
		*one.target = redis.NewClient(options)
	}
	clients.Queue.AddHook(errorPause{})
	return clients, nil
}

// Close closes the pipeline first, then the clients. The users of all clients
// must have stopped.
func (c *Clients) Close() error {
	return errors.Join(c.Intake.Close(), c.intakeBase.Close(), c.Queue.Close(), c.Control.Close(), c.Read.Close())
}
