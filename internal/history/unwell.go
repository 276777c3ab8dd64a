package history

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// noticeUnwell drops all connections if the error of a call says that the database is not
// well: those that are made then are to whichever server takes writes by now. A server that
// has become a standby, or a proxy before it, may keep the old ones open for ever.
func (s *Store) noticeUnwell(caller context.Context, err error) {
	if saysUnwell(caller, err) {
		s.pool.Reset()
	}
}

// saysUnwell reports whether an error is about the database. A caller that did not wait for
// as long as the store does, such as a health check, says nothing of it: it may be busy.
func saysUnwell(caller context.Context, err error) bool {
	leftByCaller := caller.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
	return err != nil && !refusesData(err) && !leftByCaller
}

// A refusedWrite is a transaction for which the database had no room.
type refusedWrite struct {
	cause error
	at    time.Time
}

// refusalCounts is how long a database counts as full after a transaction was refused. Who
// has something to write tries again well before (package follow); who has not, because
// another process has taken it over, cannot know.
const refusalCounts = time.Minute

// noticeRoom remembers what no check finds that writes nothing: errors for want of disk or
// memory (class 53 of SQLSTATE), of the disk (58) and of the server itself (XX).
func (s *Store) noticeRoom(err error) {
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil:
		s.noRoom.Store(nil)
	case ok && slices.Contains([]string{"53", "58", "XX"}, classOf(refusal)):
		s.noRoom.Store(&refusedWrite{err, time.Now()})
	}
}

// noRoomLately is why the last transaction was refused, if it was for want of room.
func (s *Store) noRoomLately() error {
	if refused := s.noRoom.Load(); refused != nil && time.Since(refused.at) < refusalCounts {
		return refused.cause
	}
	return nil
}

// classOf is the class of an error's SQLSTATE.
func classOf(refusal *pgconn.PgError) string { return refusal.Code[:min(2, len(refusal.Code))] }
