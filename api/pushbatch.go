package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/attribute"

	"pushq/internal/tracing"
	"pushq/tasks"
)

const (
	// maxBatchItems is how many pushes a batch may hold.
	maxBatchItems = 10_000
	// maxBatches bounds the memory for batches: so many at a time, from when their
	// body comes until their answer is taken.
	maxBatches = 8
	// batchConcurrency is how many pushes of a batch are on their way to Redis
	// at a time.
	batchConcurrency = 128
	// firstPiece is how much of a batch may come before it has a slot: as much as
	// of a push.
	firstPiece = 16 << 10
	// batchPatience is how long Redis may take nothing.
	batchPatience = time.Second
	// batchTimeout ends the acceptance of a batch, with items left over.
	batchTimeout = 20 * time.Second
)

// batchResult is the answer to one item: its id, or why it was not accepted.
type batchResult struct {
	ID       string   `json:"id,omitempty"`
	Replayed bool     `json:"replayed,omitempty"`
	Error    *problem `json:"error,omitempty"`
}

// acceptBatch answers with one result per push, in their order. Nothing is
// accepted before the whole body has come.
func (s *Server) acceptBatch(c echo.Context) error {
	header := c.Request().Header
	mediaType, err := requireMediaType(header, append([]string{ndjsonMediaType}, pushMediaTypes...)...)
	if err != nil {
		return err
	}
	if len(header.Values(idempotencyKeyHeader)) > 0 {
		return invalid("", fieldError{idempotencyKeyHeader, "has no meaning for a batch: give each push its own idempotencyKey"})
	}
	started := time.Now()
	body, leave, err := s.receiveBatch(c)
	if err != nil {
		return err
	}
	defer leave()
	if err := http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(batchTimeout + writeTimeout)); err != nil {
		return fmt.Errorf("give a batch its time: %w", err)
	}
	results, err := s.takeBatch(c, body, mediaType, started)
	if err != nil {
		return err
	}
	return s.streamJSON(c, func(out io.Writer) error {
		if err := writeArray(out, len(results), func(place int) any { return results[place] }); err != nil {
			return err
		}
		_, err := io.WriteString(out, "\n")
		return err
	})
}

// receiveBatch reads the whole body. A caller who sends next to nothing keeps no other
// batch out: the slot is taken when more than the first piece comes, or all is there.
func (s *Server) receiveBatch(c echo.Context) (body []byte, leave func(), err error) {
	if err := refuseLongBody(c, s.MaxBatchBytes); err != nil {
		return nil, nil, err
	}
	request := c.Request()
	coming := http.MaxBytesReader(c.Response(), request.Body, s.MaxBatchBytes)
	first, err := io.ReadAll(io.LimitReader(coming, firstPiece))
	if err != nil {
		return nil, nil, bodyProblem(c, err)
	}
	if leave, err = s.batches.enter(request.Context(), caller(c)); err != nil {
		answerAtOnce(c)
		return nil, nil, err
	}
	if len(first) < firstPiece {
		return first, leave, nil
	}
	var whole bytes.Buffer
	whole.Grow(int(max(request.ContentLength, 0)) + bytes.MinRead)
	whole.Write(first)
	if _, err := whole.ReadFrom(&arrival{s.beginTransfer(c.Response()), coming}); err != nil {
		leave()
		return nil, nil, bodyProblem(c, err)
	}
	return whole.Bytes(), leave, nil
}

// takeBatch is done when every push has its result.
func (s *Server) takeBatch(c echo.Context, body []byte, mediaType string, started time.Time) ([]batchResult, error) {
	items, err := splitBatch(body, mediaType)
	if err != nil {
		return nil, err
	}
	// Not the request's own context: the caller may be gone after the upload.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request().Context()), batchTimeout)
	defer cancel()
	accepting := s.Tracer.Serve(tracing.FromRequest(c.Request().Header), "POST /push/batch", started)
	b := batch{server: s, timeout: s.RedisTimeout, caller: caller(c), trace: accepting.Trace(), results: make([]batchResult, len(items))}
	b.accept(ctx, items)
	err = b.failure()
	accepting.Set(attribute.Int("pushq.pushes", len(items)))
	endAccepting(accepting, "", err)
	if err != nil {
		return nil, err
	}
	return b.results, nil
}

func splitBatch(body []byte, mediaType string) ([][]byte, error) {
	split := splitArray
	if mediaType == ndjsonMediaType {
		split = splitLines
	}
	items, err := split(withoutMark(body), maxBatchItems)
	switch {
	case err != nil:
		return nil, err
	case len(items) == 0:
		return nil, invalid("The batch is empty.")
	case len(items) > maxBatchItems:
		return nil, newProblem(http.StatusRequestEntityTooLarge, "too-large", "Too large",
			fmt.Sprintf("The batch has more than %d pushes.", maxBatchItems))
	}
	return items, nil
}

// A batch is one under way. Each item writes its own result.
type batch struct {
	server  *Server
	timeout time.Duration // of each item
	caller  string
	trace   tracing.Trace // of all pushes
	results []batchResult

	accepted atomic.Int64
	// failingSince is when Redis failed, if it has taken nothing since; 0 while
	// it works.
	failingSince atomic.Int64
	// unstored and unknown are the first of the items' errors of their kind.
	unstored, unknown atomic.Pointer[error]
}

// accept takes the items in their order, many at a time. Those with the same
// idempotency key come one after the other, so that the first of them is the
// one that is accepted.
func (b *batch) accept(ctx context.Context, items [][]byte) {
	// Goroutines that stay have stacks that need not grow for each push.
	work := make(chan func(context.Context), batchConcurrency)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer close(work) // before the wait, and after a panic too
	for range min(batchConcurrency, len(items)) {
		workers.Go(func() { acceptEach(ctx, b.timeout, work) })
	}
	latest := make(map[string]chan struct{}) // by id, of keyed items
	for place, item := range items {
		push, keyed, err := b.server.decodeItem(item, b.caller)
		if err != nil {
			b.results[place] = batchResult{Error: problemFor(err)}
			continue
		}
		push.Trace = b.trace
		var before, done chan struct{}
		if keyed {
			before, done = latest[push.ID], make(chan struct{})
			latest[push.ID] = done
		}
		work <- func(ctx context.Context) {
			if before != nil {
				<-before
			}
			b.results[place] = b.acceptItem(ctx, push, keyed)
			if done != nil {
				close(done)
			}
		}
	}
}

// acceptEach gives each push a context that ends after the timeout, or a little
// earlier: a timer for every one would be a tenth of what a push costs.
func acceptEach(ctx context.Context, timeout time.Duration, work <-chan func(context.Context)) {
	renewal := timeout / 10
	var latest struct {
		context.Context
		cancel context.CancelFunc
		made   time.Time
	}
	latest.cancel = func() {}
	defer func() { latest.cancel() }()
	for accept := range work {
		if now := time.Now(); now.Sub(latest.made) > renewal {
			latest.cancel()
			latest.Context, latest.cancel = context.WithTimeout(ctx, timeout)
			latest.made = now
		}
		accept(latest.Context)
	}
}

func (b *batch) acceptItem(ctx context.Context, push tasks.Push, keyed bool) (result batchResult) {
	defer func() {
		if cause := recover(); cause != nil { // no other goroutine would catch it
			result = batchResult{Error: problemFor(b.server.panicked("/push/batch", cause))}
		}
	}()
	replayed, err := false, b.untried()
	if ctx.Err() == nil && !b.givenUp() {
		replayed, err = b.server.accept(ctx, push, keyed)
	}
	switch {
	case err == nil:
		b.failingSince.Store(0)
		b.accepted.Add(1)
		return batchResult{ID: push.ID, Replayed: replayed}
	case errors.Is(err, tasks.ErrOutcomeUnknown):
		b.failingSince.CompareAndSwap(0, time.Now().UnixMilli())
		b.unknown.CompareAndSwap(nil, &err)
	case errors.Is(err, tasks.ErrNotStored), errors.Is(err, tasks.ErrUnreadable):
		b.failingSince.CompareAndSwap(0, time.Now().UnixMilli())
		b.unstored.CompareAndSwap(nil, &err)
	default:
		if problemFor(err).Status == http.StatusInternalServerError {
			b.server.Log.Error("push of a batch failed", push.LogAttr(), slog.Any("error", err))
		}
	}
	return batchResult{Error: problemFor(err)}
}

// givenUp reports whether Redis is taken to be away: the items that are left
// are not tried.
func (b *batch) givenUp() bool {
	since := b.failingSince.Load()
	return since != 0 && time.Since(time.UnixMilli(since)) > batchPatience
}

// untried is the error of an item that is not tried: what befell others that
// were certainly not stored, if there are any.
func (b *batch) untried() error {
	if first := b.unstored.Load(); first != nil {
		return *first
	}
	return tasks.ErrNotStored
}

// failure is the answer to the whole batch if Redis took nothing of it. If it
// took some, the log says that it did not take all.
func (b *batch) failure() error {
	first := b.unknown.Load()
	if first == nil {
		first = b.unstored.Load()
	}
	switch {
	case first == nil:
		return nil
	case b.accepted.Load() == 0:
		return *first
	}
	b.server.Log.Error("batch not accepted in full", slog.Int("items", len(b.results)),
		slog.Int64("accepted", b.accepted.Load()), slog.Any("error", *first))
	return nil
}
