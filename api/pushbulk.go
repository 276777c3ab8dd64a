package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"pushq/tasks"
)

// bulkTimeout is far more than a call needs: tasks bounds it by itself.
const bulkTimeout = 20 * time.Second

// bulkView is the answer to a bulk action. Skipped says why not all that
// matched are done.
type bulkView struct {
	DryRun  bool         `json:"dryRun,omitempty"`
	Matched int          `json:"matched"`
	Done    int          `json:"done"`
	Skipped *skippedView `json:"skipped,omitempty"`
	Next    string       `json:"next,omitempty"`
}

type skippedView struct {
	Closed int `json:"closed"` // may not be sent now
	Moved  int `json:"moved"`  // in another state by now, or another push has the idempotency key
	Failed int `json:"failed"` // a fault, which the log names
}

type bulkRequest struct {
	filter tasks.Filter
	cursor string
	limit  int
}

// retryPushes puts many pushes into the queue now.
func (s *Server) retryPushes(c echo.Context) error {
	return s.operateOnMany(c, "retry", tasks.RetryableStates(), s.Operator.RetryAll)
}

// cancelPushes cancels many pushes.
func (s *Server) cancelPushes(c echo.Context) error {
	return s.operateOnMany(c, "cancel", tasks.CancellableStates(), s.Operator.CancelAll)
}

// operateOnMany does something to many pushes, or only counts them, and logs who
// wanted it and what came of it.
func (s *Server) operateOnMany(c echo.Context, action string, states []tasks.State,
	do func(ctx context.Context, channel tasks.Channel, filter tasks.Filter, limit int, cursor string) (tasks.Bulk, error)) error {
	if _, err := requireMediaType(c.Request().Header, pushMediaTypes...); err != nil {
		return err
	}
	channel, err := s.channelOf(c)
	if err != nil {
		return err
	}
	body, err := readBody(c, s.MaxBodyBytes)
	if err != nil {
		return err
	}
	request, err := decodeBulk(body, states)
	if err != nil {
		return err
	}
	if request.filter.MessagePrototypeKey != "" && channel == tasks.FCM {
		return invalid("", fieldError{"messagePrototypeKey", "has no meaning for the channel fcm: its notifications have templates, by which nothing is chosen here"})
	}
	// Not the request's own context: see acceptPush.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request().Context()), bulkTimeout)
	defer cancel()
	sum, err := do(ctx, channel, request.filter, request.limit, request.cursor)
	if errors.Is(err, tasks.ErrCursor) {
		return invalid("", fieldError{"cursor", "is not one that the same action with the same channel, filter and dryRun has returned"})
	}
	s.logBulk(c, action, channel, request.filter, sum, err)
	if err != nil {
		return notDone(err)
	}
	shown := bulkView{DryRun: request.filter.DryRun, Matched: sum.Matched, Done: sum.Done, Next: sum.Next}
	if sum.Done < sum.Matched {
		shown.Skipped = &skippedView{sum.Closed, sum.Moved, sum.Failed}
	}
	return writeJSON(c, http.StatusOK, shown)
}

func (s *Server) logBulk(c echo.Context, action string, channel tasks.Channel, filter tasks.Filter, sum tasks.Bulk, err error) {
	details := []any{slog.String("action", action), slog.String("status", string(filter.State))}
	if channel != s.Channels[0] {
		details = append(details, slog.String("channel", channel.Name))
	}
	if filter.Since != 0 {
		details = append(details, slog.String("since", formatTime(filter.Since.Time())))
	}
	if filter.ErrorType != "" {
		details = append(details, slog.String("errorType", string(filter.ErrorType)))
	}
	if filter.ErrorCode != 0 {
		details = append(details, slog.Int("errorCode", filter.ErrorCode))
	}
	if filter.MessagePrototypeKey != "" {
		details = append(details, slog.String("messagePrototypeKey", loggedName(filter.MessagePrototypeKey)))
	}
	if filter.DryRun {
		details = append(details, slog.Bool("dryRun", true))
	}
	outcome := "done"
	if err = errors.Join(err, sum.Fault); err != nil {
		outcome = err.Error()
	}
	s.Log.Info("operator", append(details, slog.Int("matched", sum.Matched), slog.Int("done", sum.Done),
		slog.String("caller", caller(c)), slog.String("outcome", outcome))...)
}

// decodeBulk is as strict as decodePush: a mistyped filter that is ignored
// would choose all pushes.
func decodeBulk(body []byte, states []tasks.State) (bulkRequest, error) {
	request := bulkRequest{limit: tasks.MaxBulk}
	values, problems, err := readObject(body)
	if err != nil {
		return request, err
	}
	if _, given := values["status"]; !given {
		problems = append(problems, fieldError{"status", "is missing"})
	}
	for name, value := range values {
		if value.Kind() == 'n' && name != "status" {
			continue
		}
		if reason := request.read(name, value, states); reason != "" {
			problems = append(problems, fieldError{name, reason})
		}
	}
	if len(problems) > 0 {
		sortByField(problems)
		return request, invalid("", problems...)
	}
	return request, nil
}

// read takes one member of the body, or says what is wrong with it.
func (r *bulkRequest) read(name string, value jsontext.Value, states []tasks.State) (reason string) {
	switch name {
	case "errorCode":
		r.filter.ErrorCode, reason = readNumber(value, 100, 999)
		return reason
	case "dryRun":
		if value.Kind() != 't' && value.Kind() != 'f' {
			return "must be true or false"
		}
		r.filter.DryRun = value.Kind() == 't'
		return ""
	case "limit":
		r.limit, reason = readNumber(value, 1, tasks.MaxBulk)
		return reason
	case "status", "since", "errorType", "messagePrototypeKey", "cursor":
	default:
		return "is not a field of this action"
	}
	if value.Kind() != '"' {
		return "must be a text"
	}
	text, reason := readText(value)
	if reason != "" {
		return reason
	}
	switch name {
	case "status":
		if r.filter.State = tasks.State(text); !slices.Contains(states, r.filter.State) {
			return fmt.Sprintf("must be one of %v", states)
		}
	case "since":
		since, err := time.Parse(time.RFC3339, text)
		if err != nil || since.Unix() <= 0 {
			return "must be a time such as 2026-11-27T09:00:00Z (RFC 3339)"
		}
		r.filter.Since = tasks.MillisOf(since)
	case "errorType":
		if r.filter.ErrorType = tasks.ErrorType(text); !slices.Contains(tasks.ErrorTypes(), r.filter.ErrorType) {
			return fmt.Sprintf("must be one of %v", tasks.ErrorTypes())
		}
	case "messagePrototypeKey":
		r.filter.MessagePrototypeKey = text
	case "cursor":
		r.cursor = text
	}
	return ""
}

func readNumber(value jsontext.Value, least, most int) (number int, reason string) {
	number, err := strconv.Atoi(value.String())
	if err != nil || number < least || number > most {
		return 0, fmt.Sprintf("must be a number from %d to %d", least, most)
	}
	return number, ""
}
