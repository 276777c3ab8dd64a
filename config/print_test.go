package config_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/config"
)

func TestWriteShow(t *testing.T) {
	t.Parallel()
	loaded, err := config.Load(config.Options{
		ReadFile: files{"pushq.yaml": "swrve:\n  messagePrototypePushKeys:\n    Good <bye>: {IOS: " + hush + "}\n    A: {ANDROID: x, IOS: y}"}.read,
		Environ: []string{
			"PUSHQ_REDIS_URL=redis://user:" + hush + "@localhost:6379/0",
			`PUSHQ_HTTP_APIKEYS={"shop":"` + hush + `"}`,
			"PUSHQ_DASHBOARD_USER=operator",
			"PUSHQ_DASHBOARD_PASSWORD=" + hush,
			"PUSHQ_SWRVE_DELAYMILLIS=3.42",
			"PUSHQ_SWRVE_MAXRETRYAFTER=90s",
		},
		Overrides: map[string]string{"http.listen": "localhost:0"},
	})
	require.NoError(t, err)
	var shown bytes.Buffer
	require.NoError(t, loaded.WriteShow(&shown))
	require.Equal(t, `
KEY                             ORIGIN                     VALUE
redis.url                       PUSHQ_REDIS_URL            redis://user:xxxxx@localhost:6379/0
redis.sentinelUser              default                    (not set)
redis.sentinelPassword          default                    (not set)
redis.tls.ca                    default                    (not set)
redis.tls.cert                  default                    (not set)
redis.tls.key                   default                    (not set)
redis.maxConnectionAge          default                    5m
http.listen                     command line               localhost:0
http.apiKeys                    PUSHQ_HTTP_APIKEYS         {"shop":"[secret]"}
http.allowAnonymous             default                    false
http.shutdownDelay              default                    0s
http.tls.ca                     default                    (not set)
http.tls.cert                   default                    (not set)
http.tls.key                    default                    (not set)
http.maxBodyBytes               default                    16384
http.maxBatchBytes              default                    33554432
dashboard.user                  PUSHQ_DASHBOARD_USER       operator
dashboard.password              PUSHQ_DASHBOARD_PASSWORD   [secret]
dashboard.url                   default                    (not set)
dashboard.readOnly              default                    false
swrve.url                       default                    https://service.swrve.com/push
swrve.delayMillis               PUSHQ_SWRVE_DELAYMILLIS    3.42
swrve.averageProcessingMillis   default                    2000
swrve.concurrency               default                    0
swrve.pollers                   default                    auto
swrve.timeoutMillis             default                    15000
swrve.maxRetryAfter             PUSHQ_SWRVE_MAXRETRYAFTER  1m30s
swrve.retryStatuses             default                    [429,500,502,503,504]
swrve.retryNetworkErrors        default                    true
swrve.onRefused                 default                    fail
swrve.test                      default                    false
swrve.messagePrototypePushKeys  pushq.yaml:2               {"A":{"ANDROID":"[secret]","IOS":"[secret]"},"Good <bye>":{"IOS":"[secret]"}}
push.retry.maxAttempts          default                    3
push.retry.delayInSeconds       default                    60
push.timeZone                   default                    UTC
push.maxScheduleDays            default                    366
push.retention.sent             default                    24h
push.retention.dead             default                    720h
push.retention.completed        default                    1h
fcm.enabled                     default                    false
fcm.mode                        default                    v1
fcm.url                         default                    https://fcm.googleapis.com
fcm.project                     default                    (not set)
fcm.serviceAccount              default                    (not set)
fcm.serverKey                   default                    (not set)
fcm.delayMillis                 default                    1
fcm.concurrency                 default                    10
fcm.timeoutMillis               default                    15000
fcm.maxRetryAfter               default                    5m
fcm.dropMalformedTokens         default                    false
fcm.retry.maxAttempts           default                    4
fcm.retry.first                 default                    1s
fcm.retry.floor                 default                    1s
fcm.retry.cap                   default                    1m
fcm.retry.jitter                default                    0.1
fcm.breaker.failures            default                    5
fcm.breaker.openFor             default                    30s
fcm.breaker.successes           default                    2
fcm.breaker.onOpen              default                    defer
template.url                    default                    (not set)
template.timeoutMillis          default                    5000
template.tries                  default                    3
template.fresh                  default                    1m
template.stale                  default                    1h
rabbitmq.url                    default                    (not set)
rabbitmq.queue                  default                    push.queue
rabbitmq.failedQueue            default                    failed.queue
rabbitmq.prefetch               default                    10
history.postgresUrl             default                    (not set)
tracing.otlpEndpoint            default                    (not set)
tracing.ratio                   default                    1
`, "\n"+shown.String())
}

func TestWriteShowWithoutRedis(t *testing.T) {
	t.Parallel()
	loaded, err := load("")
	require.NoError(t, err)
	var shown bytes.Buffer
	require.NoError(t, loaded.WriteShow(&shown))
	require.Regexp(t, `(?m)^redis\.url +default +\(not set\)$`, shown.String())
}

func TestWriteDocNamesEachKeyOnce(t *testing.T) {
	t.Parallel()
	var first, second bytes.Buffer
	require.NoError(t, config.WriteDoc(&first))
	require.NoError(t, config.WriteDoc(&second))
	require.Equal(t, first.String(), second.String())

	loaded, err := load("")
	require.NoError(t, err)
	for key := range loaded.Origins {
		require.Equal(t, 1, strings.Count(first.String(), "\n| `"+key+"` | `PUSHQ_"), key)
	}
	for line := range strings.Lines(first.String()) {
		if strings.HasPrefix(line, "|") {
			require.Equal(t, 7, strings.Count(line, "|"), line)
		}
	}
	require.Contains(t, first.String(), "\n| `swrve.delayMillis` | `PUSHQ_SWRVE_DELAYMILLIS` | `4` | ms | 0.1 to 60000 | Least time between")
	require.Contains(t, first.String(), "\n| `redis.url` | `PUSHQ_REDIS_URL` | none |  | redis://, rediss://, redis-socket://, redis-sentinel:// or redis-cluster:// | ")
	require.Contains(t, first.String(), "\n| `swrve.test` | `PUSHQ_SWRVE_TEST` | `false` |  | true or false | ")
	require.Contains(t, first.String(), "\n| `template.url` | `PUSHQ_TEMPLATE_URL`, `TEMPLATE_SERVICE_URL` | none |")
	require.Contains(t, first.String(), "\n| `fcm.serverKey` | `PUSHQ_FCM_SERVERKEY`, `FCM_SERVER_KEY` | none |")
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWritersReturnErrors(t *testing.T) {
	t.Parallel()
	loaded, err := load("")
	require.NoError(t, err)
	require.EqualError(t, loaded.WriteShow(brokenWriter{}), "broken pipe")
	require.EqualError(t, config.WriteDoc(brokenWriter{}), "broken pipe")
}
