// Command riverqueue is the same service on River and PostgreSQL, without a
// rate limit, which River does not have.
package main

import (
	"context"
	"flag"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"pushq/bench/baseline"
)

// A job is a push as River keeps it.
type job struct {
	baseline.Push
}

func (job) Kind() string { return "push" }

type worker struct {
	river.WorkerDefaults[job]
	sender *baseline.Sender
}

func (w *worker) Work(ctx context.Context, work *river.Job[job]) error {
	return w.sender.Send(ctx, work.Args.Push)
}

func main() {
	role := flag.String("role", "", "api or worker")
	database := flag.String("database", "", "postgres:// URL")
	swrveURL := flag.String("swrve", "", "where the provider takes pushes")
	concurrency := flag.Int("concurrency", 600, "pushes in work at a time")
	cooldown := flag.Duration("fetch-cooldown", river.FetchCooldownDefault, "least time between two fetches of jobs")
	pool := flag.Int("pool", 64, "connections to PostgreSQL")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *role, *database, *swrveURL, *concurrency, *pool, *cooldown); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, role, database, swrveURL string, concurrency, connections int, cooldown time.Duration) error {
	options, err := pgxpool.ParseConfig(database)
	if err != nil {
		return err
	}
	options.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(ctx, options)
	if err != nil {
		return err
	}
	defer pool.Close()
	driver := riverpgxv5.New(pool)

	if role == "api" {
		migrator, err := rivermigrate.New(driver, nil)
		if err != nil {
			return err
		}
		if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return err
		}
		client, err := river.NewClient(driver, &river.Config{Logger: warnings()})
		if err != nil {
			return err
		}
		return baseline.Serve(ctx, accept(client))
	}

	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{sender: baseline.NewSender(swrveURL, concurrency)})
	client, err := river.NewClient(driver, &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: concurrency}},
		FetchCooldown: cooldown,
		Workers:       workers,
		Logger:        warnings(),
	})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	return baseline.Serve(ctx, nil)
}

func accept(client *river.Client[pgx.Tx]) func(context.Context, baseline.Push, time.Time) (string, error) {
	return func(ctx context.Context, push baseline.Push, due time.Time) (string, error) {
		inserted, err := client.Insert(ctx, job{push}, &river.InsertOpts{ScheduledAt: due})
		if err != nil {
			return "", err
		}
		return strconv.FormatInt(inserted.Job.ID, 10), nil
	}
}

func warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
