package handlers

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"pushq/tasks"
)

const (
	// taskCheckInterval is short because queueClient does the waiting.
	taskCheckInterval        = time.Millisecond
	delayedTaskCheckInterval = 500 * time.Millisecond
)

// ServersOptions says how a channel's queues are served.
type ServersOptions struct {
	Channel tasks.Channel
	// Concurrency is the number of pushes handled at once, of each queue.
	Concurrency int
	// Pollers is the number of asynq servers of each queue, at most Concurrency.
	Pollers int
	// RetryInterval is for errors that are not the pipeline's own.
	RetryInterval time.Duration
	// ShutdownTimeout must be longer than the longest send: asynq hands a
	// running push to another worker after it.
	ShutdownTimeout time.Duration
	// Completed reports, once, whether a task of the immediate queue that the handler
	// has ended well is completed in Redis already. It may be nil.
	Completed func(id string) bool
	// OnFault is called when Redis has failed a command of the pipeline.
	OnFault func()
	Log     *slog.Logger
}

// Servers are the asynq servers of a channel: those of each queue have their
// own, because a priority inside one server reserves nothing for anybody.
type Servers struct {
	servers       []*asynq.Server
	announcements *announcements
	fetchers      map[string]*fetcher // by queue
}

// StartServers starts handing tasks to handler. client is asynq's, but for what it does
// for every single task, which goes through pipeline (redisconn.Clients.Records).
// The servers are returned also with an error:
// those that have started must be stopped.
func StartServers(client, pipeline redis.UniversalClient, handler asynq.Handler, options ServersOptions) (*Servers, error) {
	s := &Servers{announcements: listenToAnnouncements(client, options.Channel), fetchers: map[string]*fetcher{}}
	for _, queue := range options.Channel.Queues() {
		s.fetchers[queue] = newFetcher(pipeline, queue, options.Concurrency, options.Log)
	}
	mux := asynq.NewServeMux()
	mux.Handle(options.Channel.TaskType(), handler)
	pollers := min(options.Pollers, options.Concurrency) // a server handles at least one push
	for _, queue := range options.Channel.Queues() {
		for poller := range pollers {
			poll := &queueClient{
				UniversalClient: client, fetcher: s.fetchers[queue], pipeline: pipeline, onFault: options.OnFault,
				announcements: s.announcements, queue: queue,
			}
			if queue == options.Channel.ImmediateQueue() {
				poll.completed = options.Completed
			}
			server := asynq.NewServerFromRedisClient(poll, asynq.Config{
				Queues:                   map[string]int{queue: 1},
				Concurrency:              share(options.Concurrency, pollers, poller),
				TaskCheckInterval:        taskCheckInterval,
				DelayedTaskCheckInterval: delayedTaskCheckInterval,
				ShutdownTimeout:          options.ShutdownTimeout,
				RetryDelayFunc: func(_ int, err error, _ *asynq.Task) (delay time.Duration) {
					// asynq recovers panics of handlers only (processor.go: perform).
					defer func() {
						if recover() != nil {
							delay = options.RetryInterval
						}
					}()
					return retryDelay(err, options.RetryInterval)
				},
				IsFailure: func(err error) (failure bool) {
					defer func() {
						if recover() != nil {
							failure = true
						}
					}()
					return isFailure(err)
				},
				Logger:   asynqLog{options.Log.With(slog.String("queue", queue))},
				LogLevel: asynq.WarnLevel,
			})
			if err := server.Start(counted(mux, s.fetchers)); err != nil {
				return s, fmt.Errorf("serve queue %s: %w", queue, err)
			}
			s.servers = append(s.servers, server)
		}
	}
	return s, nil
}

// Stop ends the fetching of new tasks. It may be repeated.
func (s *Servers) Stop() {
	s.announcements.release()
	s.each((*asynq.Server).Stop)
	for _, fetcher := range s.fetchers {
		fetcher.close()
	}
}

// Shutdown returns when all handlers have ended, or ShutdownTimeout has passed
// and their tasks have been put back.
func (s *Servers) Shutdown() {
	s.Stop()
	s.announcements.stop()
	s.each((*asynq.Server).Shutdown)
}

// each acts on all servers at once: each call waits.
func (s *Servers) each(act func(*asynq.Server)) {
	var all sync.WaitGroup
	for _, server := range s.servers {
		all.Go(func() { act(server) })
	}
	all.Wait()
}

// share divides the concurrency of a queue among its pollers.
func share(concurrency, pollers, poller int) int {
	part := concurrency / pollers
	if poller < concurrency%pollers {
		part++
	}
	return part
}

// asynqLog passes asynq's lines on. What asynq warns about is what the pipeline
// asked for (archived tasks), or is repeated until it succeeds.
type asynqLog struct {
	log *slog.Logger
}

func (l asynqLog) line(level slog.Level, args []any) {
	l.log.Log(context.Background(), level, "asynq", slog.String("text", fmt.Sprint(args...)))
}

func (l asynqLog) Debug(args ...any) { l.line(slog.LevelDebug, args) }
func (l asynqLog) Info(args ...any)  { l.line(slog.LevelDebug, args) }
func (l asynqLog) Warn(args ...any)  { l.line(slog.LevelDebug, args) }
func (l asynqLog) Error(args ...any) { l.line(slog.LevelError, args) }
func (l asynqLog) Fatal(args ...any) { l.line(slog.LevelError, args) }
