package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A Row is a record as a channel's followers are told of it (tasks.Followers).
type Row struct {
	Channel string
	PushID  string
	Record  []byte // a tasks.Record, as JSON
}

// Write stores what the records tell that the history does not know yet. It may be
// repeated, and records of a push may come in any order: a push goes only forward, an
// attempt is there once, and each end of a notification has one row in the audit log. An
// idempotency key that is used again long after gives another push the same id: a push is
// its id and the time at which it was accepted.
//
// What cannot be stored is kept in unreadable_records, so an error means that the database
// is away or not well. Then some of the records may be stored, and all are to be written
// again.
func (s *Store) Write(ctx context.Context, rows []Row) error {
	if len(rows) == 0 {
		return nil
	}
	ordered := make([]decodedRow, len(rows))
	for place, row := range rows {
		record, err := decode(row)
		ordered[place] = decodedRow{row, record, err}
	}
	// In the same order everywhere, so that writers wait for each other without a deadlock.
	slices.SortStableFunc(ordered, func(a, b decodedRow) int {
		return cmp.Or(strings.Compare(a.row.PushID, b.row.PushID), cmp.Compare(a.record.Push.CreatedAt, b.record.Push.CreatedAt))
	})
	if err := s.write(ctx, ordered); err != nil {
		return fmt.Errorf("write to the history: %w", s.told(err))
	}
	return nil
}

// write leaves out what the database refuses, which it finds by halving.
func (s *Store) write(ctx context.Context, rows []decodedRow) error {
	batch := &pgx.Batch{}
	putAside := 0
	for _, row := range rows {
		if !s.queue(batch, row) {
			putAside++
		}
	}
	err := s.run(ctx, batch)
	if err != nil && refusesData(err) && len(rows) == 1 {
		batch, putAside = &pgx.Batch{}, 1
		s.queueUnreadable(batch, rows[0].row, err, asciiText)
		err = s.run(ctx, batch)
	}
	switch {
	case err == nil:
		s.written.Add(int64(len(rows) - putAside))
		s.putAside.Add(int64(putAside))
		return nil
	case !refusesData(err) || len(rows) == 1:
		return err
	}
	half := len(rows) / 2
	if err := s.write(ctx, rows[:half]); err != nil {
		return err
	}
	return s.write(ctx, rows[half:])
}

// run runs the batch as one transaction.
func (s *Store) run(caller context.Context, batch *pgx.Batch) (err error) {
	defer func() {
		if saysUnwell(caller, err) {
			s.failures.Add(1)
		}
		s.noticeRoom(err)
		s.noticeUnwell(caller, err)
	}()
	ctx, cancel := context.WithTimeout(caller, s.timeout)
	defer cancel()
	if err := s.migrate(ctx); err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, s.pool, func(transaction pgx.Tx) error {
		return transaction.SendBatch(ctx, batch).Close()
	})
	s.noticeMissing(err)
	return err
}

// refusesData reports whether the database is well and will not take what it was given:
// data that cannot be (class 22 of SQLSTATE), that break a rule (23) or are too much (54).
func refusesData(err error) bool {
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains([]string{"22", "23", "54"}, classOf(refusal))
}
