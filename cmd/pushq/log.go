package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"pushq/internal/redisconn"
	"pushq/internal/repeats"
)

// newLog writes structured lines to stderr, at the level of --log-level. Warnings and
// errors that are alike are told once a second; what has not been told yet, flush tells.
func newLog(command *cobra.Command) (log *slog.Logger, flush func(), err error) {
	text, _ := command.Flags().GetString("log-level") // the root command has it
	var level slog.Level
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return nil, nil, fmt.Errorf("--log-level %q: use debug, info, warn or error", text)
	}
	handler := repeats.New(slog.NewTextHandler(command.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
	log = slog.New(handler)
	redis.SetLogger(redisLog{log})
	return log, handler.Close, nil
}

// redisLog takes the lines of go-redis, which has one logger for the process.
// Every error in them reaches a caller too, who logs it if it matters.
type redisLog struct {
	log *slog.Logger
}

func (l redisLog) Printf(ctx context.Context, format string, values ...any) {
	l.log.DebugContext(ctx, "go-redis", slog.String("text", redisconn.WithoutArguments(fmt.Sprintf(format, values...))))
}
