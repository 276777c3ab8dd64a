package history

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"pushq/internal/testenv"
	"pushq/tasks"
)

func TestAwayAndBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.server.Stop()
	rows := []Row{row(tasks.FCM, "01", sent(fcmPush("user", "welcome")))}
	requireAway := func() {
		t.Helper()
		began := time.Now()
		require.Error(t, w.store.Write(t.Context(), rows))
		_, err := w.store.Search(t.Context(), Query{Limit: 1})
		require.ErrorIs(t, err, ErrUnavailable)
		require.Error(t, w.store.Check(t.Context()))
		require.Less(t, time.Since(began), time.Minute)
	}
	requireAway() // not there at the start
	require.Equal(t, Stats{Failures: 1}, w.store.Stats())
	w.server.Start()
	w.write(rows...)
	require.NoError(t, w.store.Check(t.Context()))
	require.Equal(t, Stats{Written: 1, Failures: 1}, w.store.Stats())

	w.server.Stop()
	requireAway()
	w.server.Start()
	testenv.EventuallyNoError(t, 10*time.Second, func() error { return w.store.Write(t.Context(), rows) })
	w.requireCounts(1, 1, 1, 0)
}

// Somebody who takes connections and says nothing is given up.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	store := openStore(t, "postgres://test@"+listener.Addr().String()+"/postgres?sslmode=disable", &testenv.Log{})
	began := time.Now()
	require.Error(t, store.Write(t.Context(), []Row{row(tasks.FCM, "01", sent(fcmPush("user", "welcome")))}))
	require.Less(t, time.Since(began), time.Minute)
}

// A transaction that does not come to its end is given up, and does no harm later.
func TestLockedTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(row(tasks.FCM, "01", sent(fcmPush("user", "welcome"))))
	w.store.timeout = 500 * time.Millisecond
	locking, err := w.database.Begin(t.Context())
	require.NoError(t, err)
	_, err = locking.Exec(t.Context(), "LOCK TABLE send_attempts IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	rows := []Row{row(tasks.FCM, "02", sent(fcmPush("user", "welcome")))}
	require.ErrorIs(t, w.store.Write(t.Context(), rows), context.DeadlineExceeded)
	_, err = w.store.Search(t.Context(), Query{Limit: 1})
	require.ErrorIs(t, err, ErrUnavailable)
	require.NoError(t, locking.Rollback(t.Context()))

	w.store.timeout = callTimeout
	w.write(rows...)
	w.requireCounts(2, 2, 2, 0)
}

// A health check has less patience than the store. Its end says nothing of a database that
// may only be busy, and leaves the connections of others alone; the store's own timeout drops
// them all.
func TestAnImpatientCallerDropsNoConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, w.store.Check(t.Context()))
	locking, err := w.database.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, locking.Rollback(context.WithoutCancel(t.Context()))) }()
	_, err = locking.Exec(t.Context(), "LOCK TABLE send_attempts IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	// idle fills the pool with connections that nobody uses, and returns their processes.
	idle := func() (processes []uint32) {
		held := make([]*pgxpool.Conn, 3)
		for place := range held {
			held[place], err = w.store.pool.Acquire(t.Context())
			require.NoError(t, err)
			processes = append(processes, held[place].Conn().PgConn().PID())
		}
		for _, connection := range held {
			connection.Release()
		}
		return processes
	}
	impatient := func(call func(ctx context.Context) error) {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, call(ctx), context.DeadlineExceeded)
	}

	before := idle()
	impatient(w.store.Check)
	impatient(func(ctx context.Context) error { return writeOne(ctx, w.store, "01") })
	require.Zero(t, w.store.Stats().Failures)
	after := idle()
	require.True(t, slices.ContainsFunc(after, func(process uint32) bool { return slices.Contains(before, process) }), "all were dropped")

	w.store.timeout = 500 * time.Millisecond
	require.ErrorIs(t, w.store.Check(t.Context()), context.DeadlineExceeded)
	for _, process := range idle() {
		require.NotContains(t, after, process)
	}
}

// Three crashes of PostgreSQL while several write: every row is there, once.
func TestCrashesUnderLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(row(tasks.FCM, "00", sent(fcmPush("user", "welcome"))))
	var crashed atomic.Bool
	var pushes, failures atomic.Int64
	var writing errgroup.Group
	const writers, batch = 3, 40
	for number := range writers {
		store := w.open()
		writing.Go(func() error {
			for round := 0; !crashed.Load(); round++ {
				var rows []Row
				for place := range batch {
					id, push := fmt.Sprintf("PUSH-%d-%d-%d", number, round, place), fcmPush("user", "welcome")
					rows = append(rows, row(tasks.FCM, id, tasks.Record{Push: push, Attempts: []tasks.Attempt{failed("zeroth", at(0))}}),
						row(tasks.FCM, id, tasks.Record{Push: push, Attempts: []tasks.Attempt{failed("zeroth", at(0)), succeeded("first", at(1))},
							End: tasks.Sent, EndedAt: at(2)}))
				}
				for store.Write(w.t.Context(), rows) != nil {
					failures.Add(1)
					select {
					case <-w.t.Context().Done():
						return w.t.Context().Err()
					case <-time.After(20 * time.Millisecond):
					}
				}
				pushes.Add(batch)
			}
			return nil
		})
	}
	for range 3 {
		before := pushes.Load()
		testenv.Eventually(t, 30*time.Second, "more pushes to be written", func() bool { return pushes.Load() > before+10*batch })
		w.server.Stop()
		w.server.Start()
	}
	crashed.Store(true)
	require.NoError(t, writing.Wait())
	t.Logf("%d pushes written, %d writes failed", pushes.Load(), failures.Load())
	require.NotZero(t, failures.Load(), "no crash was noticed")
	written := int(pushes.Load())
	testenv.EventuallyNoError(t, 10*time.Second, func() error { return w.database.Ping(t.Context()) })
	w.requireCounts(1+written, 1+2*written, 1+written, 0)
	require.Equal(t, []string{fmt.Sprintf("SENT %d", 1+written)}, w.values("SELECT format('%s %s', status, count(*)) FROM push_notifications GROUP BY status"))
}

// Errors name the server, and never the password or a part of it, whatever that has in it.
func TestPasswordStaysSecret(t *testing.T) {
	t.Parallel()
	for written, password := range map[string]string{
		"canary-password": "canary-password", "canary@canary-half": "canary@canary-half", "canary:@canary": "canary:@canary",
		"canary%40%2F%3F%23%25%20%2Bcanary": "canary@/?#% +canary", "canary+&=;,[]^ü": "canary+&=;,[]^ü",
	} {
		log := &testenv.Log{}
		store := openStore(t, "postgres://user:"+written+"@127.0.0.1:1,127.0.0.1:2/none", log)
		require.Equal(t, password, store.pool.Config().ConnConfig.Password)
		require.Equal(t, "127.0.0.1", store.pool.Config().ConnConfig.Host)
		writeError := writeOne(t.Context(), store, "01")
		_, searchError := store.Search(t.Context(), Query{Limit: 1})
		for _, err := range []error{writeError, searchError, store.Check(t.Context())} {
			require.ErrorContains(t, err, "127.0.0.1:1")
			require.ErrorContains(t, err, "127.0.0.1:2")
			require.NotContains(t, err.Error()+log.String(), "canary")
		}
	}
}

// Whatever a driver or a server says, the password is not in it.
func TestErrorsOfOthersAreWithoutSecrets(t *testing.T) {
	t.Parallel()
	store := openStore(t, "postgres://user@127.0.0.1:1/none?password=canary%40one&sslpassword=canary-two", &testenv.Log{})
	quoting := fmt.Errorf("cannot use canary@one, canary%%40one and canary-two: %w", context.DeadlineExceeded)
	require.EqualError(t, store.told(quoting), "cannot use [secret], [secret] and [secret]: context deadline exceeded")
	require.ErrorIs(t, store.told(quoting), context.DeadlineExceeded)
}
