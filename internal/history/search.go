package history

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"pushq/tasks"
)

// MaxPage is the largest page that Search returns.
const MaxPage = 200

// ErrUnavailable means that the database is away or not well.
var ErrUnavailable = errors.New("the history cannot be read")

// States are those in which the history knows pushes.
func States() []tasks.State {
	return []tasks.State{tasks.Retry, tasks.Sent, tasks.GivenUp, tasks.Failed, tasks.Cancelled}
}

// A Query chooses pushes. What is empty chooses nothing.
type Query struct {
	User         string    // user_id of a notification, pushKey of a Swrve push
	Since        time.Time // accepted then or after
	Until        time.Time // accepted before
	Status       tasks.State
	TraceID      string
	TemplateCode string

	Limit  int    // 1 to MaxPage
	Cursor string // Next of the page before, "" for the first
}

// A Page is what a Query has found, newest first.
type Page struct {
	Entries []Entry
	Next    string // "" if there are no more
}

// An Entry is a push of the past. Its attempts are those that have an outcome, without those
// that were withdrawn before their request.
type Entry struct {
	Channel string
	Report  tasks.Report
	EndedAt time.Time // zero while it is tried again
}

// Search returns a page of the pushes that the query chooses. Pushes that come meanwhile
// are not on later pages. ErrCursor if Cursor is not of a Search, ErrUnavailable if the
// database cannot be asked.
func (s *Store) Search(ctx context.Context, query Query) (Page, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	text, arguments, err := query.sql()
	if err != nil {
		return Page{}, err
	}
	page, err := s.search(ctx, text, arguments, query.Limit)
	switch {
	case isUntranslatable(err):
		return Page{}, nil // what the database cannot have is not in it
	case err != nil:
		return Page{}, fmt.Errorf("%w: %w", ErrUnavailable, s.told(err))
	}
	return page, nil
}

// sql is the query in PostgreSQL's words. It asks for one push more than the page has.
func (q Query) sql() (text string, arguments pgx.NamedArgs, err error) {
	arguments = pgx.NamedArgs{"limit": q.Limit + 1}
	var conditions []string
	only := func(condition, name string, value any) {
		conditions = append(conditions, condition)
		arguments[name] = value
	}
	if q.User != "" {
		// The first half is what the index has.
		only("left(coalesce(user_id, push_key), 200) = left(@user, 200) AND coalesce(user_id, push_key) = @user", "user", storable(q.User))
	}
	if !q.Since.IsZero() {
		only("created_at >= @since", "since", q.Since)
	}
	if !q.Until.IsZero() {
		only("created_at < @until", "until", q.Until)
	}
	if q.Status != "" {
		only("status = @status", "status", storable(string(q.Status)))
	}
	if q.TraceID != "" {
		only("trace_id = @trace", "trace", storable(q.TraceID))
	}
	if q.TemplateCode != "" {
		only("template_code = @template", "template", storable(q.TemplateCode))
	}
	if q.Cursor != "" {
		after, err := decodeCursor(q.Cursor)
		if err != nil {
			return "", nil, err
		}
		only("(created_at, id) < (@createdAt, @id)", "createdAt", after.CreatedAt.Time())
		arguments["id"] = after.ID
	}
	where := ""
	if len(conditions) > 0 {
		where = "WHERE " + strings.Join(conditions, "\n\tAND ")
	}
	return `
SELECT id, channel, status, coalesce(platform, ''), coalesce(message_prototype_key, ''), coalesce(push_key, ''),
	coalesce(message, ''), coalesce(cron_expression, ''), coalesce(time_zone, ''), created_at, ended_at, notification, coalesce(trace_id, '')
FROM push_notifications
` + where + `
ORDER BY created_at DESC, id DESC
LIMIT @limit`, arguments, nil
}

func (s *Store) search(ctx context.Context, text string, arguments pgx.NamedArgs, limit int) (Page, error) {
	var page Page
	err := s.migrate(ctx)
	if err == nil {
		page, err = readPage(ctx, s.pool, text, arguments, limit)
	}
	if takesNoWrites(err) {
		page, err = readPage(ctx, s.anyServer, text, arguments, limit)
	}
	s.noticeMissing(err)
	return page, err
}

// isUntranslatable reports whether the error is about a character that the encoding of the
// database does not have.
func isUntranslatable(err error) bool {
	const untranslatableCharacter = "22P05"
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refusal.Code == untranslatableCharacter
}

func readPage(ctx context.Context, pool *pgxpool.Pool, text string, arguments pgx.NamedArgs, limit int) (Page, error) {
	rows, err := pool.Query(ctx, text, arguments)
	if err != nil {
		return Page{}, err
	}
	entries, err := pgx.CollectRows(rows, scanEntry)
	if err != nil {
		return Page{}, err
	}
	page := Page{Entries: entries}
	if len(entries) > limit {
		page.Entries = entries[:limit]
		page.Next = encodeCursor(page.Entries[limit-1].Report.Push)
	}
	return page, addAttempts(ctx, pool, page.Entries)
}

func scanEntry(row pgx.CollectableRow) (Entry, error) {
	var entry Entry
	push := &entry.Report.Push
	var createdAt time.Time
	var endedAt *time.Time
	var notification []byte
	err := row.Scan(&push.ID, &entry.Channel, &entry.Report.State, &push.Platform, &push.MessagePrototypeKey, &push.PushKey,
		&push.Message, &push.CronExpression, &push.TimeZone, &createdAt, &endedAt, &notification, &push.Trace.ID)
	push.CreatedAt, push.Notification = tasks.MillisOf(createdAt), notification
	if endedAt != nil {
		entry.EndedAt = endedAt.UTC()
	}
	return entry, err
}

// attemptsOf sorts by time first: numbers are places in records, which may leave out old
// attempts, so that two attempts may have the same one.
const attemptsOf = `
SELECT push_id, push_created_at, token, status, started_at, millis, coalesce(error_type, ''), coalesce(error_code, 0),
	coalesce(error_message, ''), coalesce(stack_trace, ''), maybe_delivered, coalesce(replacement, '')
FROM send_attempts
WHERE (push_id, push_created_at) IN (SELECT * FROM unnest(@ids::text[], @times::timestamptz[]))
ORDER BY push_id, push_created_at, started_at, number`

// addAttempts reads the attempts of all entries at once.
func addAttempts(ctx context.Context, pool *pgxpool.Pool, entries []Entry) error {
	type push struct {
		id        string
		createdAt tasks.Millis
	}
	places := make(map[push]int, len(entries))
	ids, times := make([]string, len(entries)), make([]time.Time, len(entries))
	for place, entry := range entries {
		found := entry.Report.Push
		ids[place], times[place] = found.ID, found.CreatedAt.Time()
		places[push{found.ID, found.CreatedAt}] = place
	}
	rows, err := pool.Query(ctx, attemptsOf, pgx.NamedArgs{"ids": ids, "times": times})
	if err != nil {
		return err
	}
	var id string
	var createdAt time.Time
	var startedAt *time.Time
	var attempt tasks.Attempt
	_, err = pgx.ForEachRow(rows, []any{&id, &createdAt, &attempt.Token, &attempt.Status, &startedAt, &attempt.Millis, &attempt.ErrorType,
		&attempt.ErrorCode, &attempt.ErrorMessage, &attempt.StackTrace, &attempt.MaybeDelivered, &attempt.Replacement}, func() error {
		attempt.StartedAt = 0
		if startedAt != nil {
			attempt.StartedAt = tasks.MillisOf(*startedAt)
		}
		report := &entries[places[push{id, tasks.MillisOf(createdAt)}]].Report
		report.Attempts = append(report.Attempts, attempt)
		return nil
	})
	return err
}
