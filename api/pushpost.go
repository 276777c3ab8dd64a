package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"pushq/internal/tracing"
	"pushq/scheduler"
	"pushq/scheduler/quartz"
	"pushq/tasks"
)

const (
	idempotencyKeyHeader = "Idempotency-Key"
	replayedHeader       = "Idempotent-Replayed"
	maxIdempotencyKey    = 255
)

// acceptPush answers 202 only after Redis has the push.
func (s *Server) acceptPush(c echo.Context) error {
	started := time.Now()
	request := c.Request()
	if _, err := requireMediaType(request.Header, pushMediaTypes...); err != nil {
		return err
	}
	key, keyed, err := idempotencyKey(request.Header)
	if err != nil {
		return err
	}
	body, err := readBody(c, s.MaxBodyBytes)
	if err != nil {
		return err
	}
	push, err := decodePush(body)
	if err != nil {
		return err
	}
	push.ID = tasks.NewID()
	if keyed {
		push.ID = tasks.KeyedID(caller(c), key)
	}
	accepting := s.Tracer.Serve(tracing.FromRequest(request.Header), "POST /push", started)
	push.Trace = accepting.Trace()

	// Not the request's own context: it also ends when the client has closed
	// only its sending side and waits for the answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(request.Context()), s.RedisTimeout)
	defer cancel()
	replayed, err := s.accept(ctx, push, keyed)
	s.Metrics.Intake.Took(time.Since(started))
	endAccepting(accepting, push.ID, err)
	if err != nil {
		return err
	}
	if replayed {
		c.Response().Header().Set(replayedHeader, "true")
	}
	c.Response().Header().Set(echo.HeaderLocation, "/push/"+push.ID)
	return c.NoContent(http.StatusAccepted)
}

// accept plans and stores a push. After it returns nil, Redis has it: replayed,
// if an earlier call with the same idempotency key has stored it.
func (s *Server) accept(ctx context.Context, push tasks.Push, keyed bool) (replayed bool, err error) {
	if err = s.plan(&push, s.Clock.Now()); err == nil {
		replayed, err = s.Intake.Accept(ctx, push, keyed)
	} else if keyed && isTooLate(err) {
		replayed, err = s.acceptedBefore(ctx, push, err)
	}
	switch {
	case err != nil:
		s.Metrics.Intake.NotReceived(err)
	case replayed:
		s.Metrics.Intake.Replayed.Inc()
	default:
		s.received(push)
	}
	return replayed, err
}

func isTooLate(err error) bool {
	var known *problem
	return errors.As(err, &known) && known.tooLate
}

// acceptedBefore reports whether a keyed push that cannot be planned was
// accepted when it still could: the repeated POST gets the first one's answer.
// Otherwise the error is why it cannot be planned, or that the key was used for
// other content.
func (s *Server) acceptedBefore(ctx context.Context, push tasks.Push, planning error) (bool, error) {
	claim, err := s.Intake.Claim(ctx, push)
	switch {
	case err != nil:
		return false, err
	case claim == tasks.ClaimEnded:
		return true, nil
	case claim == tasks.ClaimOther:
		return false, &tasks.ReusedKeyError{Push: push.ID}
	case claim == tasks.ClaimNew:
		return false, planning
	}
	_, err = s.Reader.Get(ctx, push.ID)
	if errors.Is(err, tasks.ErrNotFound) {
		return false, planning // claimed, but never stored
	}
	return err == nil, err
}

// plan works out when the push is due.
func (s *Server) plan(push *tasks.Push, now time.Time) error {
	push.CreatedAt = tasks.MillisOf(now)
	if !push.Windowed() {
		if push.TimeZone != "" {
			return invalid("", fieldError{"timeZone", "has no meaning without cronExpression"})
		}
		return nil
	}
	zone := s.Zone
	if push.TimeZone != "" {
		var err error
		if zone, err = scheduler.TimeZone(push.TimeZone); err != nil {
			return invalid("", fieldError{"timeZone", "must be a name of the IANA database such as Europe/Stockholm or UTC"})
		}
	}
	window, err := scheduler.ParseWindow(push.CronExpression, zone)
	if err != nil {
		return invalid("", fieldError{"cronExpression", err.Error()})
	}
	due, held, err := window.Due(now)
	if errors.Is(err, quartz.ErrNever) {
		never := invalid("", fieldError{"cronExpression", "never fires again"})
		never.tooLate = true
		return never
	}
	if err != nil {
		return invalid("", fieldError{"cronExpression", err.Error()})
	}
	if due.Sub(now) > s.MaxSchedule {
		far := invalid("", fieldError{"cronExpression", fmt.Sprintf("next fires at %s, which is later than push.maxScheduleDays allows (%d days)",
			due.UTC().Format(time.RFC3339), int(s.MaxSchedule/(24*time.Hour)))})
		far.tooLate = true
		return far
	}
	push.DueAt, push.Held = tasks.MillisOf(due), held
	return nil
}

// idempotencyKey reads the header of that name, which may be absent.
func idempotencyKey(header http.Header) (key string, keyed bool, err error) {
	values := header.Values(idempotencyKeyHeader)
	if len(values) == 0 {
		return "", false, nil
	}
	if len(values) > 1 || !isIdempotencyKey(values[0]) {
		return "", false, invalid("", fieldError{idempotencyKeyHeader,
			fmt.Sprintf("must be there once, with 1 to %d visible ASCII characters", maxIdempotencyKey)})
	}
	return values[0], true, nil
}

func isIdempotencyKey(key string) bool {
	invisible := func(r rune) bool { return r < '!' || r > '~' }
	return key != "" && len(key) <= maxIdempotencyKey && !strings.ContainsFunc(key, invisible)
}
