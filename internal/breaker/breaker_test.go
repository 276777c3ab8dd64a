package breaker

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/redistest"
	"pushq/internal/testenv"
)

func allow(t testing.TB, b *Breaker) *Permit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	permit, err := b.Allow(ctx, "")
	require.NoError(t, err)
	return permit
}

func tell(t testing.TB, permit *Permit, result Result) {
	t.Helper()
	require.NoError(t, permit.Report(t.Context(), result))
}

// trip opens a breaker.
func trip(t testing.TB, b *Breaker) {
	t.Helper()
	for range b.Failures {
		tell(t, allow(t, b), Bad)
	}
}

func TestAnOpenBreakerSaysWhenToAskAgain(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		b := New(client, options("fcm"))
		b.OpenFor = 500 * time.Millisecond
		trip(t, b)
		var open *OpenError
		_, err := b.Allow(t.Context(), "")
		require.ErrorAs(t, err, &open)
		require.Equal(t, "fcm", open.Service)
		require.Positive(t, open.After)
		require.LessOrEqual(t, open.After, b.OpenFor)
		require.Contains(t, err.Error(), "the circuit breaker of fcm is open for another ")

		time.Sleep(open.After) // it is what is tested
		tell(t, allow(t, b), Good)
		tell(t, allow(t, b), Good)
		state, failures, err := b.Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, Closed, state)
		require.Zero(t, failures)
	})
}

func TestAllowWaitsForCallsUnderWay(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		b := New(client, options("fcm"))
		var underWay []*Permit
		for range b.Failures {
			underWay = append(underWay, allow(t, b))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := b.Allow(ctx, "")
		require.ErrorIs(t, err, context.DeadlineExceeded)

		permitted := make(chan error, 1)
		go func() {
			_, err := New(client, options("fcm")).Allow(t.Context(), "") // another process
			permitted <- err
		}()
		select {
		case err := <-permitted:
			t.Fatalf("it did not wait: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		tell(t, underWay[0], Good)
		require.NoError(t, <-permitted)
	})
}

func TestOneThatWaitsLearnsThatTheBreakerHasOpened(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		b := New(client, options("fcm"))
		var underWay []*Permit
		for range b.Failures {
			underWay = append(underWay, allow(t, b))
		}
		refused := make(chan error, 1)
		go func() {
			_, err := b.Allow(t.Context(), "")
			refused <- err
		}()
		for _, permit := range underWay {
			tell(t, permit, Bad)
		}
		var open *OpenError
		require.ErrorAs(t, <-refused, &open)
	})
}

func TestAllowEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := New(redistest.Connect(t, testenv.StartRedis(t).URL()), options("fcm"))
	for range b.Failures {
		allow(t, b)
	}
	ctx, cancel := context.WithCancel(t.Context())
	refused := make(chan error, 1)
	go func() {
		_, err := b.Allow(ctx, "")
		refused <- err
	}()
	cancel()
	require.ErrorIs(t, <-refused, context.Canceled)
	_, err := b.Allow(ctx, "")
	require.ErrorIs(t, err, context.Canceled, "it has ended before")
}

// go-redis repeats what has got no answer.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	b := New(redistest.Connect(t, proxy.URL()), options("fcm"))
	tell(t, allow(t, b), Bad) // loads the script
	proxy.CutReplyTo(script.Hash(), 1)
	permit := allow(t, b)
	proxy.CutReplyTo(script.Hash(), 1)
	tell(t, permit, Bad)
	require.Equal(t, 2, proxy.Cut())
	_, failures, err := b.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, failures)
	for range 3 {
		allow(t, b)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = b.Allow(ctx, "")
	require.Error(t, err, "as many are under way as may fail, and no fewer")
}

// What Redis did not take, or not with an answer, is told it again: places for calls that
// are not made, and failures.
func TestRedisIsAway(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	b := New(redistest.Connect(t, proxy.URL()), options("fcm"))
	good, bad := allow(t, b), allow(t, b)
	proxy.CutReplyTo(script.Hash(), 3)
	_, err := b.Allow(t.Context(), "")
	require.Error(t, err, "permitted, and nobody knows")
	proxy.CutReplyTo(script.Hash(), 0)
	proxy.Refuse(true)
	require.Error(t, bad.Report(t.Context(), Bad))
	require.Error(t, good.Report(t.Context(), Good), "it may have been answered before the other failed")
	_, err = b.Allow(t.Context(), "")
	require.ErrorContains(t, err, "circuit breaker of fcm: ")
	_, _, err = b.Read(t.Context())
	require.ErrorContains(t, err, "circuit breaker of fcm: ")
	proxy.Refuse(false)

	for range b.Failures - 1 {
		allow(t, b)
	}
	_, failures, err := b.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, failures)
}

func TestCopiesForOthers(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		b := New(client, options("template_service"))
		b.OpenFor = 100 * time.Millisecond
		requireCopies := func(state State, failures string) {
			t.Helper()
			require.Equal(t, string(state), client.Get(t.Context(), "circuit:push_worker:template_service:state").Val())
			require.Equal(t, failures, client.Get(t.Context(), "circuit:push_worker:template_service:failures").Val())
		}
		permit := allow(t, b)
		requireCopies(Closed, "0")
		tell(t, permit, Bad)
		requireCopies(Closed, "1")
		tell(t, allow(t, b), Good)
		requireCopies(Closed, "0")
		trip(t, b)
		requireCopies(Open, "5")
		testenv.Eventually(t, patience, "a probe", func() bool {
			var err error
			permit, err = b.Allow(t.Context(), "")
			return err == nil
		})
		requireCopies(HalfOpen, "5")
		tell(t, permit, Good)
		tell(t, allow(t, b), Good)
		requireCopies(Closed, "0")

		// Whoever is late writes what is so by then.
		require.NoError(t, b.writeCopies(t.Context(), HalfOpen, 5))
		requireCopies(Closed, "0")
	})
}

// Copies that Redis did not take are written when it takes them.
func TestCopiesThatWereNotTaken(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, server.Addr())
	b := New(redistest.Connect(t, proxy.URL()), options("fcm"))
	permit := allow(t, b)
	state := func() string { return server.Client(t).Get(t.Context(), b.StateCopy).Val() }
	require.Equal(t, "closed", state())
	require.NoError(t, server.Client(t).Del(t.Context(), b.StateCopy).Err())

	proxy.Refuse(true)
	b.copy(t.Context(), Closed, 1)
	proxy.Refuse(false)
	require.Empty(t, state())
	tell(t, permit, Void)
	require.Equal(t, "closed", state())
}

func TestRead(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		b := New(client, options("fcm"))
		state, failures, err := b.Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, Closed, state, "nobody has called yet")
		require.Zero(t, failures)
		trip(t, b)
		state, failures, err = b.Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, Open, state)
		require.Equal(t, 5, failures)
		require.NoError(t, client.HSet(t.Context(), b.Hash, "failures", "many").Err())
		_, _, err = b.Read(t.Context())
		require.ErrorContains(t, err, "circuit breaker of fcm: failures: ")
	})
}

// The copies are in other slots than the breaker.
func TestOnACluster(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, testenv.StartCluster(t).URL())
	for _, service := range []string{"fcm", "template_service"} {
		b := New(client, options(service))
		trip(t, b)
		var open *OpenError
		_, err := b.Allow(t.Context(), "")
		require.ErrorAs(t, err, &open)
		require.Equal(t, "open", client.Get(t.Context(), b.StateCopy).Val())
		require.Equal(t, "5", client.Get(t.Context(), b.FailuresCopy).Val())
	}
}

// Whoever opens it is one process, and each probe that fails opens it again.
func TestAnOpeningIsToldInOneProcess(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		var opened [2]int
		var processes [2]*Breaker
		for place := range processes {
			watching := options("fcm")
			watching.OpenFor = 100 * time.Millisecond
			watching.OnOpen = func() { opened[place]++ }
			processes[place] = New(client, watching)
		}
		tell(t, allow(t, processes[1]), Bad)
		for range processes[0].Failures - 1 {
			tell(t, allow(t, processes[0]), Bad)
		}
		var open *OpenError
		_, err := processes[1].Allow(t.Context(), "")
		require.ErrorAs(t, err, &open)
		require.Equal(t, [2]int{1, 0}, opened)
		testenv.Eventually(t, patience, "a probe", func() bool {
			probe, err := processes[1].Allow(t.Context(), "")
			if err == nil {
				tell(t, probe, Bad)
				tell(t, allow(t, processes[0]), Void)
				tell(t, allow(t, processes[1]), Bad)
			}
			return err == nil
		})
		require.Equal(t, [2]int{1, 1}, opened)
	})
}

func TestReadStatuses(t *testing.T) {
	redistest.OnEveryServer(t, func(t *testing.T, client redis.UniversalClient) {
		one, other := New(client, options("fcm")), New(client, options("template_service"))
		trip(t, other)
		statuses, err := ReadStatuses(t.Context(), client, one.Hash, other.Hash)
		require.NoError(t, err)
		require.Equal(t, []Status{{State: Closed}, {State: Open, Opened: statuses[1].Opened}}, statuses)
		require.WithinDuration(t, time.Now(), statuses[1].Opened, time.Minute)
		for range one.Failures {
			tell(t, allow(t, one), Refused)
		}
		statuses, err = ReadStatuses(t.Context(), client, one.Hash)
		require.NoError(t, err)
		require.Equal(t, []Status{{State: Open, Refused: true, Opened: statuses[0].Opened}}, statuses)
		for _, status := range statuses {
			require.Contains(t, States(), status.State)
		}
		require.NoError(t, client.Set(t.Context(), "text", "no hash", 0).Err())
		_, err = ReadStatuses(t.Context(), client, one.Hash, "text")
		require.ErrorContains(t, err, "read the circuit breaker text: ")
	})
}
