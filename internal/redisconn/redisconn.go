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
	// command and gives up 800 ms after it was sent.
	Intake redis.UniversalClient
	// Queue is for what asynq's servers do now and then.
	Queue redis.UniversalClient
	// Records is for what is done about every single push: taking it from its queue,
	// the records of its attempts, and its completion. It is an auto-pipeline in both
	// directions at once, because one that waits for the answers to a batch before it
	// sends the next would cost an attempt up to two round trips. It obeys no contexts,
	// repeats a command once, and gives up after four seconds: to dial and to wait,
	// both twice.
	Records redis.UniversalClient
	// Control is for the limiter.
	Control redis.UniversalClient
	// Read is for lookups and health checks; it obeys contexts.
	Read redis.UniversalClient

	intakeBase, recordsBase redis.UniversalClient
	target                  target
}

const (
	intakeTimeout  = 800 * time.Millisecond
	recordsTimeout = time.Second
)

// Open is Server.Open for a Redis that a URL alone describes.
func Open(url string, concurrency int) (*Clients, error) {
	return Server{URL: url}.Open(concurrency)
}

// Open prepares the clients; nothing is dialled before the first command.
// concurrency is the number of pushes that the process handles at once, 0 for
// one without workers.
func (s Server) Open(concurrency int) (*Clients, error) {
	target, err := s.target()
	if err != nil {
		return nil, err
	}
	// A repeat could only blur what became of a push: an answer that was lost
	// would be forgotten over a second one that says "not here".
	base := target.open(use{timeout: intakeTimeout, repeats: -1, redirects: -1})
	pipeline, err := base.AutoPipeline()
	if err != nil {
		_ = base.Close()
		return nil, fmt.Errorf("start the pipeline to redis: %w", err)
	}
	recordsBase := target.open(use{timeout: recordsTimeout, repeats: 1, redirects: 3})
	records, err := recordsBase.AutoPipelineWithOptions(&redis.AutoPipelineOptions{FullDuplex: true, FullDuplexMaxHold: recordsHold})
	if err != nil {
		_ = errors.Join(pipeline.Close(), base.Close(), recordsBase.Close())
		return nil, fmt.Errorf("start the pipeline of the records to redis: %w", err)
	}
	clients := &Clients{
		Intake: pipeline, intakeBase: base, Records: records, recordsBase: recordsBase, target: target,
		Queue:   target.open(use{pool: 16 + concurrency/4, timeout: 2 * time.Second, repeats: 1, redirects: 3}),
		Control: target.open(use{pool: 16 + concurrency/4, timeout: 2 * time.Second, repeats: 2, redirects: 3, obeyContext: true}),
		Read:    target.open(use{pool: 64, timeout: 2 * time.Second, repeats: -1, redirects: 1, obeyContext: true}),
	}
	return clients, nil
}

// Close closes each pipeline first, then its client. The users of all clients
// must have stopped.
func (c *Clients) Close() error {
	return errors.Join(c.Intake.Close(), c.intakeBase.Close(), c.Records.Close(), c.recordsBase.Close(), c.Queue.Close(), c.Control.Close(), c.Read.Close())
}
