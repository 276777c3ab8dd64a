// Command afternoon is what a careful Go programmer would write in an afternoon
// instead of pushq: echo in front, asynq as the queue, redis_rate as the limit.
// It keeps no record of a push and makes no promise about duplicates.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"pushq/bench/baseline"
)

const (
	taskType = "push"
	// A push that may be sent at once does not wait behind those with a window.
	immediateQueue, windowQueue = "push", "window"
)

type settings struct {
	role, redisURL, swrveURL string
	concurrency              int
	limit                    redis_rate.Limit // none if Rate is 0
	tuned                    bool
	taskCheck, delayedCheck  time.Duration // when tuned
	pool                     int           // when tuned
}

func main() {
	var s settings
	flag.StringVar(&s.role, "role", "", "api or worker")
	flag.StringVar(&s.redisURL, "redis", "", "redis:// URL")
	flag.StringVar(&s.swrveURL, "swrve", "", "where the provider takes pushes")
	flag.IntVar(&s.concurrency, "concurrency", 600, "pushes in work at a time")
	flag.IntVar(&s.limit.Rate, "rate", 0, "pushes a second over all workers, 0 for no limit")
	flag.IntVar(&s.limit.Burst, "burst", 0, "pushes that may start at once; 0 for as many as the rate, as redis_rate.PerSecond has it")
	flag.BoolVar(&s.tuned, "tuned", false, "use the three settings below instead of asynq's defaults")
	flag.DurationVar(&s.taskCheck, "task-check", 0, "asynq's TaskCheckInterval")
	flag.DurationVar(&s.delayedCheck, "delayed-task-check", 0, "asynq's DelayedTaskCheckInterval")
	flag.IntVar(&s.pool, "pool", 0, "connections to Redis")
	flag.Parse()
	if s.limit.Burst == 0 {
		s.limit = redis_rate.PerSecond(s.limit.Rate)
	}
	s.limit.Period = time.Second

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, s settings) error {
	options, err := redis.ParseURL(s.redisURL)
	if err != nil {
		return err
	}
	if s.tuned {
		options.PoolSize = s.pool
	}
	client := redis.NewClient(options)
	defer client.Close()
	if s.role == "api" {
		return baseline.Serve(ctx, accept(asynq.NewClientFromRedisClient(client)))
	}

	config := asynq.Config{
		Concurrency: s.concurrency,
		Queues:      map[string]int{immediateQueue: 6, windowQueue: 1},
		LogLevel:    asynq.WarnLevel,
	}
	if s.tuned {
		config.TaskCheckInterval, config.DelayedTaskCheckInterval = s.taskCheck, s.delayedCheck
	}
	server := asynq.NewServerFromRedisClient(client, config)
	mux := asynq.NewServeMux()
	mux.HandleFunc(taskType, deliver(baseline.NewSender(s.swrveURL, s.concurrency), redis_rate.NewLimiter(client), s.limit))
	if err := server.Start(mux); err != nil {
		return err
	}
	defer server.Shutdown()
	return baseline.Serve(ctx, nil)
}

func accept(client *asynq.Client) func(context.Context, baseline.Push, time.Time) (string, error) {
	return func(ctx context.Context, push baseline.Push, due time.Time) (string, error) {
		payload, err := json.Marshal(push)
		if err != nil {
			return "", err
		}
		options := []asynq.Option{asynq.Queue(immediateQueue), asynq.MaxRetry(3), asynq.Timeout(time.Minute), asynq.Retention(time.Hour)}
		if !due.IsZero() {
			options = append(options, asynq.Queue(windowQueue), asynq.ProcessAt(due))
		}
		task, err := client.EnqueueContext(ctx, asynq.NewTask(taskType, payload), options...)
		if err != nil {
			return "", err
		}
		return task.ID, nil
	}
}

func deliver(sender *baseline.Sender, limiter *redis_rate.Limiter, limit redis_rate.Limit) func(context.Context, *asynq.Task) error {
	return func(ctx context.Context, task *asynq.Task) error {
		var push baseline.Push
		if err := json.Unmarshal(task.Payload(), &push); err != nil {
			return err
		}
		for limit.Rate > 0 {
			answer, err := limiter.Allow(ctx, "swrve", limit)
			if err != nil {
				return err
			}
			if answer.Allowed > 0 {
				break
			}
			select {
			case <-time.After(answer.RetryAfter):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return sender.Send(ctx, push)
	}
}
