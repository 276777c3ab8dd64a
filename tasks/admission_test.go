package tasks

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/redisconn"
	"pushq/internal/testenv"
)

// memoryGauge is a Redis' memory as a test sets it.
type memoryGauge struct {
	used float64
	err  error
}

func (g *memoryGauge) read(context.Context) (float64, error) { return g.used, g.err }

func newAdmission(t *testing.T, server *testenv.Redis) (*Admission, *memoryGauge) {
	t.Helper()
	gauge := &memoryGauge{}
	return NewAdmission(server.Client(t), []Channel{Swrve}, gauge.read, slog.New(slog.NewTextHandler(io.Discard, nil))), gauge
}

func TestAdmissionByMemory(t *testing.T) {
	t.Parallel()
	admission, gauge := newAdmission(t, testenv.StartRedis(t))
	require.NoError(t, admission.Admit(), "before the first check")
	for _, step := range []struct {
		used     float64
		err      error
		refusing string
	}{
		{0, nil, ""}, {0.799, nil, ""}, {0.80, nil, "memory"}, {0.99, nil, "memory"}, {0.76, nil, "memory"},
		{0, errors.New("no answer"), "memory"}, {0.75, nil, ""}, {0.79, nil, ""}, {0.79, errors.New("no answer"), ""}, {1.2, nil, "memory"}, {0, nil, ""},
	} {
		gauge.used, gauge.err = step.used, step.err
		require.ErrorIs(t, admission.Check(t.Context()), step.err)
		require.Equal(t, step.refusing, admission.Stats().Refusing, step)
		refused := admission.Stats().Refused["memory"]
		err := admission.Admit()
		if step.refusing == "" {
			require.NoError(t, err)
			require.NoError(t, admission.Refusing())
			continue
		}
		require.ErrorIs(t, err, ErrStoreFull)
		require.ErrorIs(t, err, ErrNotStored)
		require.ErrorIs(t, admission.Refusing(), ErrStoreFull)
		require.Equal(t, refused+1, admission.Stats().Refused["memory"])
	}
}

func TestAdmissionToARedisThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := server.Client(t)
	admission, gauge := newAdmission(t, server)
	set := func(name, value string) { require.NoError(t, client.ConfigSet(t.Context(), name, value).Err()) }
	for _, refusal := range []struct {
		reason     string
		begin, end func()
		full       bool
	}{
		{"oom", func() { set("maxmemory", "1") }, func() { set("maxmemory", "0") }, true},
		{"noreplicas", func() { set("min-replicas-to-write", "1") }, func() { set("min-replicas-to-write", "0") }, false},
		{"readonly",
			func() { require.NoError(t, client.Do(t.Context(), "replicaof", "127.0.0.1", "1").Err()) },
			func() { require.NoError(t, client.Do(t.Context(), "replicaof", "no", "one").Err()) }, false},
	} {
		refusal.begin()
		require.NoError(t, admission.Check(t.Context()), refusal.reason)
		require.Equal(t, refusal.reason, admission.Stats().Refusing)
		err := admission.Admit()
		require.ErrorIs(t, err, ErrNotStored)
		require.Equal(t, refusal.full, errors.Is(err, ErrStoreFull))
		require.EqualValues(t, 1, admission.Stats().Refused[refusal.reason])
		refusal.end()
		require.NoError(t, admission.Check(t.Context()), refusal.reason)
		require.NoError(t, admission.Admit())
	}
	set("maxmemory", "1")
	require.NoError(t, admission.Check(t.Context()))
	set("maxmemory", "0")
	gauge.used = 0.79
	require.NoError(t, admission.Check(t.Context()))
	require.Equal(t, "memory", admission.Stats().Refusing, "after oom as after memory")
}

func TestARefusalOfRedisHoldsUntilTheNextCheck(t *testing.T) {
	t.Parallel()
	admission, _ := newAdmission(t, testenv.StartRedis(t))
	for _, harmless := range []error{nil, ErrContentDiffers, storeError(io.EOF), storeError(errors.New("dial tcp: refused"))} {
		admission.Observe(harmless)
		require.NoError(t, admission.Admit())
	}
	admission.Observe(storeError(errors.New("UNKNOWN: redis eval error: OOM command not allowed")))
	require.ErrorIs(t, admission.Admit(), ErrStoreFull)
	require.Equal(t, AdmissionStats{Refusing: "oom", Refused: map[string]uint64{
		"memory": 0, "oom": 2, "readonly": 0, "misconf": 0, "noreplicas": 0, "loading": 0,
	}}, admission.Stats())
	require.NoError(t, admission.Check(t.Context()))
	require.NoError(t, admission.Admit())
}

func TestAdmissionLooksAtEveryChannel(t *testing.T) {
	t.Parallel()
	client := testenv.StartRedis(t).Client(t)
	admission := NewAdmission(client, []Channel{Swrve, FCM}, (&memoryGauge{}).read, slog.New(slog.DiscardHandler))
	require.NoError(t, admission.Check(t.Context()))
	for _, channel := range []Channel{Swrve, FCM} {
		for _, key := range channel.ProbeKeys() {
			require.EqualValues(t, 1, client.Exists(t.Context(), key).Val(), key)
		}
	}
}

// Admission is asked once a second, and there may be dozens of connections that lead
// to the former master yet.
func TestAdmissionLeavesAFormerMasterWithOneCheck(t *testing.T) {
	t.Parallel()
	for _, refusal := range []string{"READONLY You can't write against a read only replica.", "ERR this instance is in read only mode", "upstream failure"} {
		former, next := testenv.StartRedis(t), testenv.StartRedis(t)
		proxy := testenv.NewProxy(t, former.Addr())
		proxy.Reword("READONLY", refusal)
		clients, err := redisconn.Open(proxy.URL(), 0)
		require.NoError(t, err)
		t.Cleanup(func() { _ = clients.Close() })
		admission := NewAdmission(clients.Read, []Channel{Swrve}, (&memoryGauge{}).read, slog.New(slog.DiscardHandler))
		proxy.SetLatency(20 * time.Millisecond) // so that those who ask at the same time have a connection each
		var asking sync.WaitGroup
		for range 16 {
			asking.Go(func() { clients.Read.Ping(t.Context()) })
		}
		asking.Wait()
		require.NoError(t, admission.Check(t.Context()))

		host, port, err := net.SplitHostPort(next.Addr())
		require.NoError(t, err)
		require.NoError(t, former.Client(t).Do(t.Context(), "replicaof", host, port).Err())
		proxy.LeadTo(next.Addr())
		require.NoError(t, admission.Check(t.Context()), refusal)
		require.NoError(t, admission.Admit(), refusal)
	}
}
