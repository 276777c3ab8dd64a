package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

func TestAcceptedPush(t *testing.T) {
	t.Parallel()
	s := startService(t)
	got := s.post(push())
	require.Equal(t, http.StatusAccepted, got.status)
	require.Empty(t, got.body)
	require.Equal(t, "0", got.header.Get("Content-Length"))
	require.Empty(t, got.header.Get(replayedHeader))
	id := strings.TrimPrefix(got.header.Get("Location"), "/push/")
	require.True(t, tasks.ValidID(id), id)
	require.Equal(t, http.StatusOK, s.get(got.header.Get("Location")).status)
	require.NotEqual(t, id, s.accept(push()), "without an idempotency key every push is its own")
	require.Equal(t, 2, s.queued())
}

func TestUnmappedPrototypeIsAcceptedAndLogged(t *testing.T) {
	t.Parallel()
	s := startService(t)
	s.accept(push())
	require.NotContains(t, s.log.String(), "no push key is configured")
	id := s.accept(push("messagePrototypeKey", `"Later"`))
	require.Contains(t, s.log.String(), "no push key is configured")
	require.Contains(t, s.log.String(), id)
}

func TestBadSchedules(t *testing.T) {
	t.Parallel()
	s := startService(t)
	for _, test := range []struct{ name, cron, zone, mistake string }{
		{"empty", "", "", "cronExpression must not be empty"},
		{"blank", " ", "", "cronExpression is empty"},
		{"two fields", "* *", "", "cronExpression has 2 fields"},
		{"no expression", "tomorrow", "", "cronExpression has one field"},
		{"hour 24", "0 0 24 * * ?", "", "cronExpression has a mistake in hours"},
		{"30 February", "0 0 0 30 2 ?", "", "cronExpression never fires again"},
		{"a year gone by", "0 0 9 * * ? 2020", "", "cronExpression never fires again"},
		{"10 KB of commas", strings.Repeat(",", 10_000), "", "cronExpression is 10000 bytes long"},
		{"too far ahead", fmt.Sprintf("0 0 9 1 1 ? %d", time.Now().Year()+3), "", "cronExpression next fires at"},
		{"unknown zone", "0 0 9 * * ?", "Mars/Olympus", "timeZone must be a name of the IANA database such as Europe/Stockholm or UTC"},
		{"zone in lower case", "0 0 9 * * ?", "europe/stockholm", "timeZone must be a name of the IANA database such as Europe/Stockholm or UTC"},
		{"Local", "0 0 9 * * ?", "Local", "timeZone must be a name of the IANA database such as Europe/Stockholm or UTC"},
		{"path as zone", "0 0 9 * * ?", "../../etc/passwd", "timeZone must be a name of the IANA database such as Europe/Stockholm or UTC"},
		{"offset as zone", "0 0 9 * * ?", "+02:00", "timeZone must be a name of the IANA database such as Europe/Stockholm or UTC"},
	} {
		t.Run(test.name, func(t *testing.T) {
			fields := []string{"cronExpression", fmt.Sprintf("%q", test.cron)}
			if test.zone != "" {
				fields = append(fields, "timeZone", fmt.Sprintf("%q", test.zone))
			}
			got := s.post(push(fields...))
			got.requireMistakes(t, test.mistake)
			require.Less(t, len(got.body), 1000, "no echo of long texts")
		})
	}
	s.post(push("timeZone", `"Europe/Stockholm"`)).requireMistakes(t, "timeZone has no meaning without cronExpression")
	s.post(push("timeZone", `""`)).requireMistakes(t, "timeZone must not be empty")
	s.post(push("cronExpression", `"0 0 9 * * ?"`, "timeZone", `""`)).requireMistakes(t, "timeZone must not be empty")
	require.Zero(t, s.queued())
}

func TestScheduleUpToTheLimitIsAccepted(t *testing.T) {
	t.Parallel()
	s := startService(t)
	at := time.Now().UTC().Add(365 * 24 * time.Hour)
	s.accept(push("cronExpression", fmt.Sprintf(`"0 0 %d %d %d ? %d"`, at.Hour(), at.Day(), at.Month(), at.Year())))
	at = time.Now().UTC().Add(367 * 24 * time.Hour)
	s.post(push("cronExpression", fmt.Sprintf(`"0 0 %d %d %d ? %d"`, at.Hour(), at.Day(), at.Month(), at.Year()))).
		requireMistakes(t, "cronExpression next fires at")
	require.Equal(t, 1, s.queued())
}

func TestIdempotencyKeyMustBeVisibleASCII(t *testing.T) {
	t.Parallel()
	s := startService(t)
	for _, key := range []string{"a", "~", "!", strings.Repeat("k", 255)} {
		s.accept(push(), idempotencyKeyHeader, key)
	}
	for _, key := range []string{"", " ", "a b", "a\tb", strings.Repeat("k", 256), "ключ", "k\xff", "caf\u00e9"} {
		s.post(push(), idempotencyKeyHeader, key).requireMistakes(t, "Idempotency-Key must be there once, with 1 to 255 visible ASCII")
	}
	s.post(push(), idempotencyKeyHeader, "one", idempotencyKeyHeader, "two").requireMistakes(t, "Idempotency-Key")
	s.post(push(), idempotencyKeyHeader, "one", idempotencyKeyHeader, "one").requireMistakes(t, "Idempotency-Key")
	require.Equal(t, 4, s.queued())
}

func TestRepeatedIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := startService(t)
	first := s.post(push(), idempotencyKeyHeader, "key")
	require.Equal(t, http.StatusAccepted, first.status)
	require.Empty(t, first.header.Get(replayedHeader))

	for _, same := range []string{
		push(), push("timeZone", "null"), push("cronExpression", ""), " " + push("message", `"\u0063anary-message"`),
	} {
		again := s.post(same, idempotencyKeyHeader, "key")
		require.Equal(t, http.StatusAccepted, again.status)
		require.Empty(t, again.body)
		require.Equal(t, "true", again.header.Get(replayedHeader))
		require.Equal(t, first.header.Get("Location"), again.header.Get("Location"))
	}
	for _, other := range []string{
		push("message", `"other"`), push("pushKey", `"other"`), push("platform", `"ANDROID"`),
		push("messagePrototypeKey", `"Other"`), push("cronExpression", `"0 0 9 * * ?"`),
		push("cronExpression", `"0 0 9 * * ?"`, "timeZone", `"Europe/Stockholm"`),
	} {
		conflict := s.post(other, idempotencyKeyHeader, "key")
		require.Equal(t, http.StatusConflict, conflict.status)
		require.Equal(t, "idempotency-key-reused", conflict.kind())
		require.Equal(t, "This idempotency key was used before with other content: it stands for push "+
			strings.TrimPrefix(first.header.Get("Location"), "/push/")+".", conflict.problem.Detail)
		require.Empty(t, conflict.header.Get("Location"))
	}
	require.Equal(t, 1, s.queued())

	// A mistake does not use the key up.
	s.post("{}", idempotencyKeyHeader, "later")
	s.accept(push(), idempotencyKeyHeader, "later")
	require.Equal(t, 2, s.queued())
}

func TestManyAtOnceWithOneIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := startService(t)
	const callers = 50
	answers := make([]answer, callers)
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() { answers[caller] = s.post(push(), idempotencyKeyHeader, "key") })
	}
	all.Wait()
	fresh := 0
	for _, got := range answers {
		require.Equal(t, http.StatusAccepted, got.status)
		require.Equal(t, answers[0].header.Get("Location"), got.header.Get("Location"))
		if got.header.Get(replayedHeader) == "" {
			fresh++
		}
	}
	require.Equal(t, 1, fresh)
	require.Equal(t, 1, s.queued())
}

func TestIdempotencyKeysOfCallersAreApart(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.options.APIKeys = map[string]string{"shop": canaryAPIKey + "-1", "bank": canaryAPIKey + "-2"}
	s.start()
	shop := s.accept(push(), idempotencyKeyHeader, "key", "Authorization", "Bearer "+canaryAPIKey+"-1")
	bank := s.accept(push("message", `"other"`), idempotencyKeyHeader, "key", "Authorization", "Bearer "+canaryAPIKey+"-2")
	require.NotEqual(t, shop, bank)
	require.Equal(t, 2, s.queued())
}

func TestClientThatDoesNotWaitForTheAnswer(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	proxy := testenv.NewProxy(t, redis.Addr())
	s := prepareServiceBehind(t, redis, proxy.URL()).start()
	s.accept(push()) // scripts are loaded, so that one round trip is enough
	proxy.SetLatency(300 * time.Millisecond)

	const gone = 10
	for range gone {
		connection := s.dial()
		_, err := io.WriteString(connection, rawPost(push()))
		require.NoError(t, err)
		require.NoError(t, connection.Close())
	}
	testenv.Eventually(t, 5*time.Second, "all pushes are queued", func() bool { return s.queued() == 1+gone })

	// One that has closed only its own side still waits.
	connection := s.dial()
	_, err := io.WriteString(connection, rawPost(push()))
	require.NoError(t, err)
	require.NoError(t, connection.CloseWrite())
	require.Equal(t, http.StatusAccepted, s.answerOn(connection, rawPost(push())).status)
	require.NotContains(t, s.log.String(), "request failed")
}

func TestCutUploadIsNotAccepted(t *testing.T) {
	t.Parallel()
	s := startService(t)
	whole := rawPost(push())
	for _, text := range []string{
		whole[:len(whole)-1],
		"POST /push HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" +
			fmt.Sprintf("%x\r\n%s\r\n", len(push()), push()), // without the last chunk
	} {
		require.Equal(t, http.StatusBadRequest, s.cutShort(text).status)
	}
	require.Zero(t, s.queued())
}

func TestRedisThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	for kind, command := range map[string][]any{
		"store-full":  {"CONFIG", "SET", "maxmemory", "1"},
		"unavailable": {"REPLICAOF", "127.0.0.1", "1"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := startService(t)
			s.accept(push(), idempotencyKeyHeader, "key")
			require.NoError(t, s.client.Do(t.Context(), command...).Err())
			for _, header := range [][]string{nil, {idempotencyKeyHeader, "other"}} {
				got := s.post(push(), header...)
				require.Equal(t, http.StatusServiceUnavailable, got.status)
				require.Equal(t, kind, got.kind())
				require.NotEmpty(t, got.header.Get("Retry-After"))
			}
		})
	}
}

func TestRedisStopped(t *testing.T) {
	t.Parallel()
	s := startService(t)
	id := s.accept(push())
	s.redis.Stop()
	for _, ask := range []func() answer{
		func() answer { return s.post(push()) },
		func() answer { return s.post(push(), idempotencyKeyHeader, "key") },
		func() answer { return s.get("/push/" + id) },
		func() answer { return s.get("/push?status=PENDING") },
	} {
		started := time.Now()
		got := ask()
		require.Less(t, time.Since(started), time.Minute)
		require.Equal(t, http.StatusServiceUnavailable, got.status)
		require.Equal(t, "unavailable", got.kind())
		require.Equal(t, "2", got.header.Get("Retry-After"))
	}
	s.requireUnhealthy(t)

	s.redis.Start()
	require.Equal(t, http.StatusAccepted, s.post(push()).status)
	require.Equal(t, http.StatusOK, s.get("/health/ready").status)
}

func TestRedisFrozen(t *testing.T) {
	t.Parallel()
	s := startService(t)
	id := s.accept(push())
	s.redis.Freeze()
	var all sync.WaitGroup
	for _, ask := range []struct {
		kind string
		call func() answer
	}{
		{"outcome-unknown", func() answer { return s.post(push()) }},
		{"outcome-unknown", func() answer { return s.post(push("cronExpression", `"0 0 9 * * ?"`)) }},
		{"outcome-unknown", func() answer { return s.post(push(), idempotencyKeyHeader, "key") }},
		{"unavailable", func() answer { return s.get("/push/" + id) }},
		{"unavailable", func() answer { return s.get("/push?status=SCHEDULED") }},
	} {
		all.Go(func() {
			started := time.Now()
			got := ask.call()
			if elapsed := time.Since(started); elapsed > time.Minute {
				t.Errorf("%s after %s", ask.kind, elapsed)
			}
			if got.status != http.StatusServiceUnavailable || got.kind() != ask.kind || got.header.Get("Retry-After") != "2" {
				t.Errorf("want %s, got %d %s", ask.kind, got.status, got.body)
			}
		})
	}
	all.Wait()
	s.requireUnhealthy(t)

	s.redis.Thaw()
	require.Equal(t, http.StatusAccepted, s.post(push(), idempotencyKeyHeader, "key").status)
	require.Equal(t, http.StatusOK, s.get("/push/"+id).status)
	require.Equal(t, http.StatusOK, s.get("/health/ready").status)
}

func (s *testService) requireUnhealthy(t *testing.T) {
	t.Helper()
	started := time.Now()
	report := s.get("/health")
	require.Equal(t, http.StatusServiceUnavailable, report.status)
	require.Contains(t, report.body, `"status":"unhealthy"`)
	require.Equal(t, http.StatusServiceUnavailable, s.get("/health/ready").status)
	require.Equal(t, http.StatusOK, s.get("/health/live").status)
	require.Less(t, time.Since(started), time.Minute)
}

// silentIntake gets no answer from Redis, however long it waits.
type silentIntake struct{}

func (silentIntake) Accept(ctx context.Context, _ tasks.Push, _ bool) (bool, error) {
	<-ctx.Done()
	return false, errors.Join(tasks.ErrOutcomeUnknown, ctx.Err())
}

func (silentIntake) Claim(ctx context.Context, _ tasks.Push) (tasks.Claim, error) {
	<-ctx.Done()
	return "", errors.Join(tasks.ErrUnreadable, ctx.Err())
}

func TestCallerDoesNotWaitLongerThanThreeSeconds(t *testing.T) {
	t.Parallel()
	require.Less(t, redisTimeout, 3*time.Second)
	s := prepareService(t)
	s.options.Intake = silentIntake{}
	s.start()
	started := time.Now()
	got := s.post(push())
	require.Less(t, time.Since(started), time.Minute)
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, "outcome-unknown", got.kind())
}
