package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/config"
	"pushq/internal/fcmsim"
	"pushq/internal/redisurl"
	"pushq/internal/testenv"
	"pushq/tasks"
)

func TestDevDeliversTheFirstPush(t *testing.T) {
	t.Parallel()
	dev := testenv.StartPushq(t, []string{"dev", "--listen", "127.0.0.1:0"})
	dev.WaitReady()

	id := accept(t, dev, "463B3209-6E33-4E88-AF52-CDA87C0550EC")
	push := waitFor(t, dev, id, tasks.Sent, 5*time.Second)
	require.Len(t, push.Attempts, 1)
	require.Equal(t, "OK", push.Attempts[0].Status)

	printed := strings.Join(dev.Stdout(), "\n")
	require.Contains(t, printed, "nothing survives a restart")
	require.Contains(t, printed, "curl -i http://"+dev.HTTPAddress()+"/push")
	require.Contains(t, printed, "/ledger")
	require.Contains(t, printed, "http://"+dev.HTTPAddress()+"/monitoring")
	require.Regexp(t, `asynq queue ls --uri 127\.0\.0\.1:[0-9]+\n`, printed+"\n")
}

// redisOfDev is where other commands find the Redis inside dev.
func redisOfDev(t *testing.T, dev *testenv.Process) string {
	t.Helper()
	_, url, found := strings.Cut(strings.Join(dev.Stdout(), "\n"), "export PUSHQ_REDIS_URL=")
	require.True(t, found)
	return strings.Fields(url)[0]
}

// What its Redis cannot do is no fault of an operator's.
func TestTheDoctorFindsNothingInDev(t *testing.T) {
	t.Parallel()
	dev := testenv.StartPushq(t, []string{"dev", "--listen", "127.0.0.1:0"})
	dev.WaitReady()
	waitFor(t, dev, accept(t, dev, "user"), tasks.Sent, 20*time.Second)
	doctor := testenv.StartPushq(t, []string{"doctor"}, "PUSHQ_REDIS_URL="+redisOfDev(t, dev))
	code := doctor.Wait(30 * time.Second)
	require.Equal(t, []string{"nothing found"}, doctor.Stdout())
	require.Zero(t, code)
	require.Len(t, doctor.Stderr(), 1, "only which Redis it is: %q", doctor.Stderr())
}

// The Redis inside dev is never away, however slow a laptop makes it.
func TestDevWaitsForItsRedis(t *testing.T) {
	t.Parallel()
	dev := testenv.StartPushq(t, []string{"dev", "--listen", "127.0.0.1:0"})
	dev.WaitReady()
	address, err := redisurl.Parse(redisOfDev(t, dev))
	require.NoError(t, err)
	own := redis.NewClient(&redis.Options{Addr: address.Hosts[0], ReadTimeout: time.Minute, MaxRetries: -1})
	t.Cleanup(func() { _ = own.Close() })

	const busy = 4 // seconds, longer than any caller waits for a Redis that may be away
	answered := make(chan error, 1)
	began, err := own.Time(t.Context()).Result()
	require.NoError(t, err)
	go func() {
		answered <- own.Eval(t.Context(), `
			while tonumber(redis.call('TIME')[1]) < tonumber(ARGV[1]) do end`, nil, began.Unix()+busy).Err()
	}()
	posts := 0
	for ; len(answered) == 0; posts++ {
		waitFor(t, dev, accept(t, dev, "user"), tasks.Sent, 20*time.Second)
	}
	require.ErrorIs(t, <-answered, redis.Nil)
	t.Logf("%d pushes accepted, one after the other", posts)
}

func TestATakenPortNamesTheFlag(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })

	dev := testenv.StartPushq(t, []string{"dev", "--listen", taken.Addr().String()})
	require.Equal(t, 1, dev.Wait(30*time.Second))
	require.Contains(t, strings.Join(dev.Stderr(), "\n"), "--listen")
}

// addressSettings finds all settings that name another service.
func addressSettings(section reflect.Type, prefix string) (keys []string) {
	for number := range section.NumField() {
		field := section.Field(number)
		key := prefix + field.Tag.Get("key")
		if field.Type.Kind() == reflect.Struct {
			keys = append(keys, addressSettings(field.Type, key+".")...)
		} else if strings.HasSuffix(strings.ToLower(key), "url") || strings.HasSuffix(key, "Endpoint") {
			keys = append(keys, key)
		}
	}
	return keys
}

// Whatever file lies beside it, dev sends nothing to anybody, and takes nothing from
// anybody but a service of this host.
func TestDevBesideAFileOfProduction(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"redis.url", "dashboard.url", "swrve.url", "fcm.url", "template.url", "rabbitmq.url", "history.postgresUrl", "tracing.otlpEndpoint",
	}, addressSettings(reflect.TypeFor[config.Config](), ""), "what does dev do with a new one?")
	real := testenv.StartFCM(t, fcmsim.Config{})
	file := filepath.Join(t.TempDir(), "pushq.yaml")
	require.NoError(t, os.WriteFile(file, []byte("fcm: {enabled: true}\n"), 0o600))
	dev := func(channels string, settings ...string) *testenv.Process {
		environment := []string{"PUSHQ_REDIS_URL=redis://127.0.0.1:1", "PUSHQ_SWRVE_URL=http://127.0.0.1:1/push"}
		for _, setting := range append(real.Settings, settings...) {
			environment = append(environment, "PUSHQ_"+setting)
		}
		return testenv.StartPushq(t, []string{"dev", "--config", file, "--listen", "127.0.0.1:0", "--channels", channels}, environment...)
	}
	const local, remote = "user:s3cr3t@127.0.0.1:1", "user:s3cr3t@service.test"
	rabbitmq, postgres := "RABBITMQ_URL=amqp://", "HISTORY_POSTGRESURL=postgres://"

	t.Run("fcm is off unless it is asked for", func(t *testing.T) {
		t.Parallel()
		process := dev("swrve", rabbitmq+remote, postgres+local, "TRACING_OTLPENDPOINT=http://127.0.0.1:1")
		process.WaitReady()
		status, _ := tryNotify(t, process, notificationBody("device-1"))
		require.Equal(t, http.StatusNotFound, status)
		waitFor(t, process, accept(t, process, "a-user-of-swrve"), tasks.Sent, 10*time.Second)
		printed := strings.Join(process.Stdout(), "\n")
		require.Contains(t, printed, "The channel fcm is off")
		require.NotContains(t, printed, "Real is the RabbitMQ")
		require.Contains(t, printed, "Real is the PostgreSQL of history.postgresUrl")
		require.Contains(t, printed, "Real is the collector of tracing.otlpEndpoint")
	})
	t.Run("fcm is simulated", func(t *testing.T) {
		t.Parallel()
		process := dev("swrve,fcm", rabbitmq+local, "FCM_MODE=legacy", "FCM_SERVERKEY=of-a-gateway")
		process.WaitReady()
		id, _ := notify(t, process, notificationBody("device-1"))
		waitFor(t, process, id, tasks.Sent, 10*time.Second)
		require.Empty(t, real.Firebase.Ledger())
		require.Empty(t, real.Templates.Ledger())
		printed := strings.Join(process.Stdout(), "\n")
		require.Contains(t, printed, "Real is the RabbitMQ of rabbitmq.url")
		require.NotContains(t, printed, "Real is the PostgreSQL")
	})
	for says, settings := range map[string][]string{
		"rabbitmq.url names":        {"swrve,fcm", rabbitmq + remote, postgres + local},
		"history.postgresUrl names": {"swrve", postgres + remote},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			process := dev(settings[0], settings[1:]...)
			require.Equal(t, 1, process.Wait(30*time.Second))
			output := strings.Join(append(process.Stdout(), process.Stderr()...), "\n")
			require.Contains(t, output, says)
			require.Contains(t, output, "Unset it")
			require.NotContains(t, output, "s3cr3t")
			require.NotContains(t, output, "http listening")
		})
	}
}

func TestTooFewDescriptorsAreAWarning(t *testing.T) {
	t.Parallel()
	for channels, wanted := range map[string]bool{"swrve": false, "swrve,fcm": true} {
		process := testenv.StartProgram(t, "/bin/sh", []string{"-c", `ulimit -n 600 && exec "$0" "$@"`,
			testenv.Binary(t), "dev", "--listen", "127.0.0.1:0", "--channels", channels},
			"PUSHQ_SWRVE_CONCURRENCY=10", "PUSHQ_FCM_CONCURRENCY=400")
		process.WaitReady()
		process.WaitForLine("workers running", 20*time.Second)
		warned := strings.Contains(strings.Join(process.Stderr(), "\n"), "the limit of open files is low")
		require.Equal(t, wanted, warned, channels)
	}
}
