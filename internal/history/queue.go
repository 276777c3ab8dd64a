package history

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/jackc/pgx/v5"

	"pushq/tasks"
)

const (
	upsertPush = `
INSERT INTO push_notifications (id, channel, status, platform, message_prototype_key, push_key, message, cron_expression,
	time_zone, created_at, ended_at, attempt_count, budget_from, trace_id, user_id, template_code, notification)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
ON CONFLICT (id, created_at) DO UPDATE SET
	(status, ended_at, attempt_count, budget_from) = (excluded.status, excluded.ended_at, excluded.attempt_count, excluded.budget_from)
WHERE (excluded.status = 'SENT', excluded.attempt_count, excluded.budget_from, coalesce(excluded.ended_at, '-infinity'))
	> (push_notifications.status = 'SENT', push_notifications.attempt_count, push_notifications.budget_from,
		coalesce(push_notifications.ended_at, '-infinity'))`

	// An interrupted attempt has no millis, until its outcome comes late.
	upsertAttempt = `
INSERT INTO send_attempts (push_id, push_created_at, token, number, status, started_at, millis, error_type, error_code,
	error_message, stack_trace, maybe_delivered, replacement)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
ON CONFLICT (push_id, push_created_at, token) DO UPDATE SET
	(status, started_at, millis, error_type, error_code, error_message, stack_trace, maybe_delivered, replacement) =
	(excluded.status, excluded.started_at, excluded.millis, excluded.error_type, excluded.error_code, excluded.error_message,
		excluded.stack_trace, excluded.maybe_delivered, excluded.replacement)
WHERE send_attempts.status <> 'OK'
	AND (excluded.status = 'OK' OR send_attempts.millis IS NULL AND excluded.millis IS NOT NULL)`

	insertAudit = `
INSERT INTO audit_logs (push_id, ended_at, created_at, trace_id, user_id, notification_type, template_id, status, metadata)
VALUES ($1, $2, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT DO NOTHING`

	insertUnreadable = `
INSERT INTO unreadable_records (digest, channel, push_id, record, reason)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT DO NOTHING`
)

// queue adds what is to be written of a record, and reports whether it could be read.
func (s *Store) queue(batch *pgx.Batch, decoded decodedRow) (readable bool) {
	err := decoded.err
	if err == nil {
		err = queueRecord(batch, decoded.row.Channel, decoded.record)
	}
	if err != nil {
		s.queueUnreadable(batch, decoded.row, err, storable)
	}
	return err == nil
}

// queueRecord adds the push first: whoever writes of it has it locked.
func queueRecord(batch *pgx.Batch, channel string, record tasks.Record) error {
	push := record.Push
	// What cannot be read as a notification is none, and has no user.
	notification, _ := tasks.ParseNotification(push.Notification)
	message, err := storableJSON(push.Notification)
	if err != nil {
		return fmt.Errorf("read the notification: %w", err)
	}
	metadata, err := storableJSON(notification.Metadata)
	if err != nil {
		return fmt.Errorf("read the metadata: %w", err)
	}
	id, createdAt, endedAt := storable(push.ID), push.CreatedAt.Time(), timeOrNull(record.EndedAt)
	attempts, state := made(record.Attempts), string(stateOf(record))
	batch.Queue(upsertPush, id, storable(channel), state, textOrNull(push.Platform), textOrNull(push.MessagePrototypeKey),
		textOrNull(push.PushKey), textOrNull(push.Message), textOrNull(push.CronExpression), textOrNull(push.TimeZone),
		createdAt, endedAt, len(attempts), record.BudgetFrom,
		textOrNull(cmp.Or(notification.TraceID, push.Trace.Name())), textOrNull(notification.UserID), textOrNull(notification.TemplateCode), message)
	for place, attempt := range attempts {
		token := cmp.Or(storable(attempt.Token), strconv.Itoa(place+1))
		batch.Queue(upsertAttempt, id, createdAt, token, place+1, string(attempt.Status), timeOrNull(attempt.StartedAt),
			attempt.Millis, textOrNull(string(attempt.ErrorType)), numberOrNull(attempt.ErrorCode), textOrNull(attempt.ErrorMessage),
			textOrNull(attempt.StackTrace), attempt.MaybeDelivered, textOrNull(attempt.Replacement))
	}
	if len(push.Notification) > 0 && endedAt != nil {
		batch.Queue(insertAudit, id, endedAt, textOrNull(notification.TraceID), textOrNull(notification.UserID),
			textOrNull(notification.NotificationType), textOrNull(notification.TemplateCode), state, metadata)
	}
	return nil
}

// queueUnreadable keeps a record byte for byte. written says how texts about it are stored.
func (s *Store) queueUnreadable(batch *pgx.Batch, row Row, reason error, written func(string) string) {
	s.log.Error("history: a record cannot be stored and is kept in unreadable_records",
		slog.String("channel", row.Channel), slog.String("id", row.PushID), slog.Any("error", reason))
	digest := sha256.Sum256(bytes.Join([][]byte{[]byte(row.Channel), []byte(row.PushID), row.Record}, []byte{0}))
	record := row.Record
	if record == nil {
		record = []byte{}
	}
	batch.Queue(insertUnreadable, digest[:], written(row.Channel), written(row.PushID), record, written(reason.Error()))
}
