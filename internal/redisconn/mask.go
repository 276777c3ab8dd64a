package redisconn

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"pushq/internal/secreturl"
)

// A maskHook takes passwords out of the errors of a client. A server that does not know AUTH
// quotes it in its refusal, with what follows: the password.
type maskHook struct {
	mask secreturl.Mask
}

func (maskHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h maskHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		err := h.error(next(ctx, command))
		if err != nil {
			command.SetErr(err)
		}
		return err
	}
}

func (h maskHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		err := next(ctx, commands)
		if err == nil {
			return nil
		}
		for _, command := range commands {
			if failed := command.Err(); failed != nil {
				command.SetErr(h.error(failed))
			}
		}
		return h.error(err)
	}
}

func (h maskHook) error(err error) error {
	if err == nil {
		return nil
	}
	if clean := WithoutArguments(err.Error()); clean != err.Error() {
		err = &quotingError{clean, err}
	}
	return h.mask.Error(err)
}

// quotes is what Redis says before the arguments of a command that it does not know
// (server.c: rejectCommandFormat, "unknown command"). It cuts them off somewhere, and with
// them a long password.
const quotes = ", with args beginning with:"

// WithoutArguments is what Redis or its client says, without the arguments of commands that
// it quotes.
func WithoutArguments(text string) string {
	said, _, quoted := strings.Cut(text, quotes)
	if !quoted {
		return text
	}
	return said
}

// A quotingError is an error without the arguments that it quotes.
type quotingError struct {
	text  string
	cause error
}

func (e *quotingError) Error() string { return e.text }
func (e *quotingError) Unwrap() error { return e.cause }
