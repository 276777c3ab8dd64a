package config_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/config"
	"pushq/internal/testenv"
)

// files stands in for a disk.
type files map[string]string

func (f files) read(name string) ([]byte, error) {
	content, exists := f[name]
	if !exists {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return []byte(content), nil
}

func load(yaml string, environ ...string) (*config.Loaded, error) {
	return config.Load(config.Options{ReadFile: files{"pushq.yaml": yaml}.read, Environ: environ})
}

// problems returns what Load found, one line for each.
func problems(t *testing.T, err error) []string {
	t.Helper()
	var invalid *config.InvalidError
	require.ErrorAs(t, err, &invalid)
	var lines []string
	for _, problem := range invalid.Problems {
		lines = append(lines, problem.String())
	}
	return lines
}

func TestLoadDefaults(t *testing.T) {
	t.Parallel()
	loaded, err := config.Load(config.Options{ReadFile: files{}.read})
	require.NoError(t, err)
	require.Equal(t, config.Config{
		Redis: config.Redis{MaxConnectionAge: 5 * time.Minute},
		HTTP: config.HTTP{
			Listen:       "127.0.0.1:8080",
			APIKeys:      map[string]config.Secret{},
			MaxBodyBytes: 16384, MaxBatchBytes: 32 << 20,
		},
		Swrve: config.Swrve{
			URL:                      "https://service.swrve.com/push",
			DelayMillis:              4,
			AverageProcessingMillis:  2000,
			Pollers:                  config.AutoPollers,
			TimeoutMillis:            15000,
			MaxRetryAfter:            5 * time.Minute,
			RetryStatuses:            []int{429, 500, 502, 503, 504},
			RetryNetworkErrors:       true,
			OnRefused:                config.Fail,
			MessagePrototypePushKeys: map[string]map[string]config.Secret{},
		},
		Push: config.Push{
			Retry:           config.Retry{MaxAttempts: 3, DelayInSeconds: 60},
			TimeZone:        "UTC",
			MaxScheduleDays: 366,
			Retention:       config.Retention{Sent: 24 * time.Hour, Dead: 720 * time.Hour, Completed: time.Hour},
		},
		FCM: config.FCM{
			Mode:          config.FCMv1,
			URL:           "https://fcm.googleapis.com",
			DelayMillis:   1,
			Concurrency:   10,
			TimeoutMillis: 15000,
			MaxRetryAfter: 5 * time.Minute,
			Retry:         config.FCMRetry{MaxAttempts: 4, First: time.Second, Floor: time.Second, Cap: time.Minute, Jitter: 0.1},
			Breaker:       config.Breaker{Failures: 5, OpenFor: 30 * time.Second, Successes: 2, OnOpen: config.Defer},
		},
		Template: config.Template{TimeoutMillis: 5000, Tries: 3, Fresh: time.Minute, Stale: time.Hour},
		RabbitMQ: config.RabbitMQ{Queue: "push.queue", FailedQueue: "failed.queue", Prefetch: 10},
		Tracing:  config.Tracing{Ratio: 1},
	}, loaded.Config)
	require.Equal(t, loaded.Config, config.Default())
	require.NoError(t, config.Default().Validate())
	require.Empty(t, loaded.Warnings)
	for key, origin := range loaded.Origins {
		require.Equal(t, "default", origin, key)
	}
}

func TestLoadReadsEverySettingFromTheFile(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	cert, key := authority.Issue(time.Now().Add(time.Hour), "localhost")
	tlsFiles := fmt.Sprintf("{ca: %s, cert: %s, key: %s}", authority.File(), cert, key)
	loaded, err := load(`
redis:
  url: redis-sentinel://user:p%40ss@a.example:1,b.example/3?master=pushes&tls=true
  sentinelUser: watcher
  maxConnectionAge: 90s
  sentinelPassword: hush
  tls: ` + tlsFiles + `
http:
  tls: ` + tlsFiles + `
  listen: 0.0.0.0:80
  apiKeys:
    shop.web: 0123456789abcdef
  allowAnonymous: true
  maxBodyBytes: 4096
  maxBatchBytes: 2097152
  shutdownDelay: 4s
swrve:
  url: http://localhost:9090/push
  delayMillis: 3.42
  averageProcessingMillis: 1500
  concurrency: 600
  pollers: 3
  timeoutMillis: 8000
  maxRetryAfter: 90s
  retryStatuses: [429, 503]
  retryNetworkErrors: false
  onRefused: wait
  test: true
  messagePrototypePushKeys:
    Hello: {IOS: "0123", ANDROID: 0124}
push:
  retry:
    maxAttempts: 5
    delayInSeconds: 30
  timeZone: Europe/Riga
  maxScheduleDays: 30
  retention:
    sent: 48h
    dead: 100h
    completed: 30m
dashboard:
  user: operator
  password: 0123456789ab
  url: https://ops.example/pushq/monitoring
  readOnly: true
fcm:
  enabled: true
  mode: legacy
  url: http://localhost:9091
  project: shop
  serviceAccount: "{}"
  serverKey: hush
  delayMillis: 0.2
  concurrency: 20
  timeoutMillis: 12000
  maxRetryAfter: 1m
  dropMalformedTokens: true
  retry: {maxAttempts: 6, first: 2s, floor: 10s, cap: 5m, jitter: 0.5}
  breaker: {failures: 3, openFor: 1m, successes: 1, onOpen: dead-letter}
template: {url: "http://localhost:9092", timeoutMillis: 1000, tries: 2, fresh: 10s, stale: 0s}
rabbitmq: {url: "amqp://user:hush@localhost", queue: a, failedQueue: b, prefetch: 20}
history: {postgresUrl: "postgres://user:hush@localhost/pushq"}
tracing: {otlpEndpoint: "http://localhost:4318", ratio: 0.1}
`)
	require.NoError(t, err)
	require.Equal(t, config.Config{
		Redis: config.Redis{
			URL:              "redis-sentinel://user:p%40ss@a.example:1,b.example/3?master=pushes&tls=true",
			SentinelUser:     "watcher",
			SentinelPassword: "hush",
			TLS:              config.RedisTLS{CA: authority.File(), Cert: cert, Key: key},
			MaxConnectionAge: 90 * time.Second,
		},
		HTTP: config.HTTP{
			TLS:            config.HTTPTLS{CA: authority.File(), Cert: cert, Key: key},
			Listen:         "0.0.0.0:80",
			APIKeys:        map[string]config.Secret{"shop.web": "0123456789abcdef"},
			AllowAnonymous: true,
			MaxBodyBytes:   4096,
			MaxBatchBytes:  2 << 20,
			ShutdownDelay:  4 * time.Second,
		},
		Dashboard: config.Dashboard{User: "operator", Password: "0123456789ab", URL: "https://ops.example/pushq/monitoring", ReadOnly: true},
		Swrve: config.Swrve{
			URL:                      "http://localhost:9090/push",
			DelayMillis:              3.42,
			AverageProcessingMillis:  1500,
			Concurrency:              600,
			Pollers:                  3,
			TimeoutMillis:            8000,
			MaxRetryAfter:            90 * time.Second,
			RetryStatuses:            []int{429, 503},
			OnRefused:                config.Wait,
			Test:                     true,
			MessagePrototypePushKeys: map[string]map[string]config.Secret{"Hello": {"IOS": "0123", "ANDROID": "0124"}},
		},
		Push: config.Push{
			Retry:           config.Retry{MaxAttempts: 5, DelayInSeconds: 30},
			TimeZone:        "Europe/Riga",
			MaxScheduleDays: 30,
			Retention:       config.Retention{Sent: 48 * time.Hour, Dead: 100 * time.Hour, Completed: 30 * time.Minute},
		},
		FCM: config.FCM{
			Enabled:        true,
			Mode:           config.FCMLegacy,
			URL:            "http://localhost:9091",
			Project:        "shop",
			ServiceAccount: "{}",
			ServerKey:      "hush",
			DelayMillis:    0.2,
			Concurrency:    20,
			TimeoutMillis:  12000,
			MaxRetryAfter:  time.Minute,
			DropMalformed:  true,
			Retry:          config.FCMRetry{MaxAttempts: 6, First: 2 * time.Second, Floor: 10 * time.Second, Cap: 5 * time.Minute, Jitter: 0.5},
			Breaker:        config.Breaker{Failures: 3, OpenFor: time.Minute, Successes: 1, OnOpen: config.DeadLetter},
		},
		Template: config.Template{URL: "http://localhost:9092", TimeoutMillis: 1000, Tries: 2, Fresh: 10 * time.Second, Stale: 0},
		RabbitMQ: config.RabbitMQ{URL: "amqp://user:hush@localhost", Queue: "a", FailedQueue: "b", Prefetch: 20},
		History:  config.History{PostgresURL: "postgres://user:hush@localhost/pushq"},
		Tracing:  config.Tracing{OTLPEndpoint: "http://localhost:4318", Ratio: 0.1},
	}, loaded.Config)
	require.Equal(t, "pushq.yaml:3", loaded.Origins["redis.url"])
	require.Equal(t, "pushq.yaml:29", loaded.Origins["swrve.messagePrototypePushKeys"])
	for key, origin := range loaded.Origins {
		require.Contains(t, origin, "pushq.yaml:", key)
	}
}

func TestLoadReadsEverySettingFromTheEnvironment(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	cert, key := authority.Issue(time.Now().Add(time.Hour), "localhost")
	variables := map[string]string{
		"PUSHQ_REDIS_URL":                      "redis-sentinel://localhost?master=m&tls=true",
		"PUSHQ_REDIS_SENTINELUSER":             "watcher",
		"PUSHQ_REDIS_MAXCONNECTIONAGE":         "90s",
		"PUSHQ_REDIS_SENTINELPASSWORD":         "hush",
		"PUSHQ_REDIS_TLS_CA":                   authority.File(),
		"PUSHQ_REDIS_TLS_CERT":                 cert,
		"PUSHQ_REDIS_TLS_KEY":                  key,
		"PUSHQ_HTTP_TLS_CA":                    authority.File(),
		"PUSHQ_HTTP_TLS_CERT":                  cert,
		"PUSHQ_HTTP_TLS_KEY":                   key,
		"PUSHQ_HTTP_LISTEN":                    "[::1]:0",
		"PUSHQ_HTTP_APIKEYS":                   `{"shop":"0123456789abcdef"}`,
		"PUSHQ_HTTP_ALLOWANONYMOUS":            "true",
		"PUSHQ_HTTP_MAXBODYBYTES":              "4096",
		"PUSHQ_HTTP_MAXBATCHBYTES":             "2097152",
		"PUSHQ_HTTP_SHUTDOWNDELAY":             "4s",
		"PUSHQ_DASHBOARD_USER":                 "operator",
		"PUSHQ_DASHBOARD_PASSWORD":             "0123456789ab",
		"PUSHQ_DASHBOARD_URL":                  "https://ops.example/pushq/monitoring",
		"PUSHQ_DASHBOARD_READONLY":             "true",
		"PUSHQ_SWRVE_URL":                      "http://localhost:9090/push",
		"PUSHQ_SWRVE_DELAYMILLIS":              "3.42",
		"PUSHQ_SWRVE_AVERAGEPROCESSINGMILLIS":  "1500",
		"PUSHQ_SWRVE_CONCURRENCY":              "600",
		"PUSHQ_SWRVE_POLLERS":                  "3",
		"PUSHQ_SWRVE_TIMEOUTMILLIS":            "8000",
		"PUSHQ_SWRVE_MAXRETRYAFTER":            "90s",
		"PUSHQ_SWRVE_RETRYSTATUSES":            "[429, 503]",
		"PUSHQ_SWRVE_RETRYNETWORKERRORS":       "false",
		"PUSHQ_SWRVE_ONREFUSED":                "wait",
		"PUSHQ_SWRVE_TEST":                     "true",
		"PUSHQ_SWRVE_MESSAGEPROTOTYPEPUSHKEYS": `{"Hello": {"IOS": "k1"}}`,
		"PUSHQ_PUSH_RETRY_MAXATTEMPTS":         "5",
		"PUSHQ_PUSH_RETRY_DELAYINSECONDS":      "30",
		"PUSHQ_PUSH_TIMEZONE":                  "Europe/Riga",
		"PUSHQ_PUSH_MAXSCHEDULEDAYS":           "30",
		"PUSHQ_PUSH_RETENTION_SENT":            "48h",
		"PUSHQ_PUSH_RETENTION_DEAD":            "100h",
		"PUSHQ_PUSH_RETENTION_COMPLETED":       "30m",
		"PUSHQ_FCM_ENABLED":                    "true",
		"PUSHQ_FCM_MODE":                       "legacy",
		"PUSHQ_FCM_URL":                        "http://localhost:9091",
		"PUSHQ_FCM_PROJECT":                    "shop",
		"PUSHQ_FCM_SERVICEACCOUNT":             "{}",
		"PUSHQ_FCM_SERVERKEY":                  "hush",
		"PUSHQ_FCM_DELAYMILLIS":                "0.2",
		"PUSHQ_FCM_CONCURRENCY":                "20",
		"PUSHQ_FCM_TIMEOUTMILLIS":              "12000",
		"PUSHQ_FCM_MAXRETRYAFTER":              "1m",
		"PUSHQ_FCM_DROPMALFORMEDTOKENS":        "true",
		"PUSHQ_FCM_RETRY_MAXATTEMPTS":          "6",
		"PUSHQ_FCM_RETRY_FIRST":                "2s",
		"PUSHQ_FCM_RETRY_FLOOR":                "10s",
		"PUSHQ_FCM_RETRY_CAP":                  "5m",
		"PUSHQ_FCM_RETRY_JITTER":               "0.5",
		"PUSHQ_FCM_BREAKER_FAILURES":           "3",
		"PUSHQ_FCM_BREAKER_OPENFOR":            "1m",
		"PUSHQ_FCM_BREAKER_SUCCESSES":          "1",
		"PUSHQ_FCM_BREAKER_ONOPEN":             "dead-letter",
		"PUSHQ_TEMPLATE_URL":                   "http://localhost:9092",
		"PUSHQ_TEMPLATE_TIMEOUTMILLIS":         "1000",
		"PUSHQ_TEMPLATE_TRIES":                 "2",
		"PUSHQ_TEMPLATE_FRESH":                 "10s",
		"PUSHQ_TEMPLATE_STALE":                 "0s",
		"PUSHQ_RABBITMQ_URL":                   "amqp://user:hush@localhost",
		"PUSHQ_RABBITMQ_QUEUE":                 "a",
		"PUSHQ_RABBITMQ_FAILEDQUEUE":           "b",
		"PUSHQ_RABBITMQ_PREFETCH":              "20",
		"PUSHQ_HISTORY_POSTGRESURL":            "postgres://user:hush@localhost/pushq",
		"PUSHQ_TRACING_OTLPENDPOINT":           "http://localhost:4318",
		"PUSHQ_TRACING_RATIO":                  "0.1",
	}
	var environ []string
	for name, value := range variables {
		environ = append(environ, name+"="+value)
	}
	loaded, err := load("", environ...)
	require.NoError(t, err)
	origins := map[string]bool{}
	for _, origin := range loaded.Origins {
		origins[origin] = true
	}
	for name := range variables {
		require.True(t, origins[name], name)
	}
	require.Len(t, loaded.Origins, len(variables), "a setting without a variable in this test")
	require.Equal(t, map[string]config.Secret{"shop": "0123456789abcdef"}, loaded.Config.HTTP.APIKeys)
	require.Equal(t, []int{429, 503}, loaded.Config.Swrve.RetryStatuses)
	require.Equal(t, config.Pollers(3), loaded.Config.Swrve.Pollers)
	require.Equal(t, 90*time.Second, loaded.Config.Swrve.MaxRetryAfter)
	require.InDelta(t, 3.42, loaded.Config.Swrve.DelayMillis, 0)
}

func TestLoadPrecedence(t *testing.T) {
	t.Parallel()
	const file = `
http: {listen: "127.0.0.1:1"}
swrve: {delayMillis: 1, concurrency: 1, timeoutMillis: 2001, retryStatuses: [500, 503]}
`
	options := config.Options{
		ReadFile: files{"pushq.yaml": file}.read,
		Environ: []string{
			"PUSHQ_HTTP_LISTEN=127.0.0.1:2", "PUSHQ_SWRVE_DELAYMILLIS=2", "PUSHQ_SWRVE_CONCURRENCY=2",
			"PUSHQ_SWRVE_RETRYSTATUSES=[429]",
		},
		Overrides: map[string]string{"http.listen": "127.0.0.1:3", "swrve.delayMillis": "3"},
	}
	loaded, err := config.Load(options)
	require.NoError(t, err)

	require.Equal(t, 2000, loaded.Config.Swrve.AverageProcessingMillis)
	require.Equal(t, "default", loaded.Origins["swrve.averageProcessingMillis"])
	require.Equal(t, 2001, loaded.Config.Swrve.TimeoutMillis)
	require.Equal(t, "pushq.yaml:3", loaded.Origins["swrve.timeoutMillis"])
	require.Equal(t, 2, loaded.Config.Swrve.Concurrency)
	require.Equal(t, "PUSHQ_SWRVE_CONCURRENCY", loaded.Origins["swrve.concurrency"])
	require.InDelta(t, 3, loaded.Config.Swrve.DelayMillis, 0)
	require.Equal(t, "command line", loaded.Origins["swrve.delayMillis"])
	require.Equal(t, "127.0.0.1:3", loaded.Config.HTTP.Listen)
	require.Equal(t, []int{429}, loaded.Config.Swrve.RetryStatuses, "lists are replaced, not merged")
}

func TestLoadReplacesMapsAsAWhole(t *testing.T) {
	t.Parallel()
	loaded, err := load("swrve: {messagePrototypePushKeys: {Hello: {IOS: a}, Bye: {IOS: b}}}",
		`PUSHQ_SWRVE_MESSAGEPROTOTYPEPUSHKEYS={"Hello":{"ANDROID":"c"}}`)
	require.NoError(t, err)
	require.Equal(t, map[string]map[string]config.Secret{"Hello": {"ANDROID": "c"}}, loaded.Config.Swrve.MessagePrototypePushKeys)
}

func TestLoadKeepsPrototypeNames(t *testing.T) {
	t.Parallel()
	want := map[string]map[string]config.Secret{
		"Hello": {"IOS": "1"}, "hello": {"IOS": "2"}, "Good bye": {"ANDROID": "3"}, "loan.approved": {"IOS": "4", "ANDROID": "5"},
		" spaced ": {"IOS": "6"}, "404": {"IOS": "7"}, "Ünïcode/\"quoted\"": {"IOS": "8"},
	}
	const file = `
swrve:
  messagePrototypePushKeys:
    Hello: {IOS: "1"}
    hello: {IOS: "2"}
    Good bye:
      ANDROID: "3"
    loan.approved: {IOS: 4, ANDROID: 5}
    " spaced ": {IOS: 6}
    404: {IOS: 7}
    Ünïcode/"quoted": {IOS: 8}
`
	const variable = `PUSHQ_SWRVE_MESSAGEPROTOTYPEPUSHKEYS={"Hello":{"IOS":"1"},"hello":{"IOS":"2"},"Good bye":{"ANDROID":"3"},` +
		`"loan.approved":{"IOS":"4","ANDROID":"5"}," spaced ":{"IOS":"6"},"404":{"IOS":"7"},"Ünïcode/\"quoted\"":{"IOS":"8"}}`
	for name, yaml := range map[string][]string{"file": {file, ""}, "environment": {"", variable}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loaded, err := load(yaml[0], yaml[1])
			require.NoError(t, err)
			require.Equal(t, want, loaded.Config.Swrve.MessagePrototypePushKeys)
		})
	}
}

func TestLoadEmptyFiles(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"empty":                         "",
		"comments":                      "# nothing\n",
		"document marker":               "---\n",
		"sections commented out":        "swrve:\n  # test: true\nhttp:\npush:\n  retry:\n",
		"map without entries":           "swrve:\n  messagePrototypePushKeys:\n    # Hello: {}\n",
		"byte order mark and CRLF ends": "\ufeffswrve:\r\n  test: false\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loaded, err := load(file)
			require.NoError(t, err)
			require.Equal(t, config.Default(), loaded.Config)
		})
	}
}

func TestLoadNamedFile(t *testing.T) {
	t.Parallel()
	disk := files{"pushq.yaml": "swrve: {test: false}", "/etc/pushq.yaml": "swrve:\n  test: true"}
	loaded, err := config.Load(config.Options{File: "/etc/pushq.yaml", ReadFile: disk.read})
	require.NoError(t, err)
	require.True(t, loaded.Config.Swrve.Test)
	require.Equal(t, "/etc/pushq.yaml:2", loaded.Origins["swrve.test"])

	_, err = config.Load(config.Options{File: "missing.yaml", ReadFile: disk.read})
	require.Equal(t, []string{"missing.yaml: cannot be read: open missing.yaml: file does not exist"}, problems(t, err))

	_, err = config.Load(config.Options{ReadFile: func(string) ([]byte, error) { return nil, errors.New("disk on fire") }})
	require.Equal(t, []string{"pushq.yaml: cannot be read: disk on fire"}, problems(t, err))
}

func TestLoadFileFromDisk(t *testing.T) {
	t.Parallel()
	name := t.TempDir() + "/missing.yaml"
	_, err := config.Load(config.Options{File: name})
	require.ErrorContains(t, err, name)
}

func TestLoadRefusesTheFile(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		file string
		want []string
	}{
		"typing mistake":          {"swrve:\n  delayMilis: 4", []string{"swrve.delayMilis (pushq.yaml:2) is not a known key; the nearest one is swrve.delayMillis"}},
		"case":                    {"http:\n  apikeys: {}", []string{"http.apikeys (pushq.yaml:2) is not a known key; the nearest one is http.apiKeys"}},
		"section":                 {"srwve:\n  delayMillis: 4", []string{"srwve (pushq.yaml:1) is not a known key; the nearest one is swrve"}},
		"missing section":         {"delayMillis: 4", []string{"delayMillis (pushq.yaml:1) is not a known key; the nearest one is swrve.delayMillis"}},
		"short, missing section":  {"test: true", []string{"test (pushq.yaml:1) is not a known key; the nearest one is swrve.test"}},
		"far from everything":     {"swrve:\n  colour: red", []string{"swrve.colour (pushq.yaml:2) is not a known key: pushq config doc lists them"}},
		"short and far":           {"foo: 1", []string{"foo (pushq.yaml:1) is not a known key: pushq config doc lists them"}},
		"changed places":          {"redis:\n  ulr: x", []string{"redis.ulr (pushq.yaml:2) is not a known key; the nearest one is redis.url"}},
		"wrong section":           {"push:\n  maxAttempts: 4", []string{"push.maxAttempts (pushq.yaml:2) is not a known key; the nearest one is push.retry.maxAttempts"}},
		"key with dots":           {"swrve.delayMillis: 4", []string{"swrve.delayMillis (pushq.yaml:1) must be written in its section: delayMillis, indented, below the line swrve:"}},
		"unknown key with dots":   {"swrve.delayMilis: 4", []string{"swrve.delayMilis (pushq.yaml:1) is not a known key; the nearest one is swrve.delayMillis"}},
		"below a setting":         {"swrve:\n  test:\n    deep: 1", []string{"swrve.test (pushq.yaml:3) needs true or false, found a mapping"}},
		"setting twice":           {"swrve:\n  test: true\n  test: true", []string{"swrve.test (pushq.yaml:3) is set twice; the first time in line 2"}},
		"section twice":           {"swrve:\n  test: true\nswrve: {}", []string{"swrve (pushq.yaml:3) is set twice; the first time in line 1"}},
		"map entry twice":         {"http:\n  apiKeys:\n    a: 0123456789abcdef\n    a: 0123456789abcdef", []string{`http.apiKeys["a"] (pushq.yaml:4) is set twice; the first time in line 3`}},
		"deep map entry twice":    {"swrve: {messagePrototypePushKeys: {A: {IOS: x, IOS: y}}}", []string{`swrve.messagePrototypePushKeys["A"]["IOS"] (pushq.yaml:1) is set twice; the first time in line 1`}},
		"word for number":         {"swrve: {delayMillis: fast}", []string{`swrve.delayMillis (pushq.yaml:1) needs a number, found "fast"`}},
		"fraction for whole":      {"push: {retry: {delayInSeconds: 1.5}}", []string{`push.retry.delayInSeconds (pushq.yaml:1) needs a whole number, found "1.5"`}},
		"more than 64 bits":       {"swrve: {concurrency: 99999999999999999999}", []string{`swrve.concurrency (pushq.yaml:1) needs a whole number, found "99999999999999999999"`}},
		"yes for true":            {"swrve: {test: yes}", []string{`swrve.test (pushq.yaml:1) needs true or false, found "yes"`}},
		"number for duration":     {"swrve: {maxRetryAfter: 300}", []string{`swrve.maxRetryAfter (pushq.yaml:1) needs a duration such as 90s, 5m or 24h, found "300"`}},
		"list for number":         {"swrve: {delayMillis: [4]}", []string{`swrve.delayMillis (pushq.yaml:1) needs a number, found a list`}},
		"number for list":         {"swrve: {retryStatuses: 429}", []string{`swrve.retryStatuses (pushq.yaml:1) needs a list, found a single value`}},
		"word in list":            {"swrve:\n  retryStatuses:\n    - 429\n    - many", []string{`swrve.retryStatuses[1] (pushq.yaml:4) needs a whole number, found "many"`}},
		"list for map":            {"http: {apiKeys: [a, b]}", []string{`http.apiKeys (pushq.yaml:1) needs a mapping of names to values, found a list`}},
		"word for inner map":      {"swrve: {messagePrototypePushKeys: {A: b}}", []string{`swrve.messagePrototypePushKeys["A"] (pushq.yaml:1) needs a mapping of names to values, found a single value`}},
		"map for text":            {"redis: {url: {host: x}}", []string{`redis.url (pushq.yaml:1) needs a text, found a mapping`}},
		"no value":                {"redis:\n  url:", []string{`redis.url (pushq.yaml:2) has no value: give it one, or remove it`}},
		"no value in map":         {"http:\n  apiKeys:\n    a:", []string{`http.apiKeys["a"] (pushq.yaml:3) has no value: give it one, or remove it`}},
		"no value for list":       {"swrve: {retryStatuses: }", []string{`swrve.retryStatuses (pushq.yaml:1) needs a list, found no value`}},
		"list for section":        {"swrve: [1]", []string{`swrve (pushq.yaml:1) needs a mapping of keys to values, found a list`}},
		"list for file":           {"- swrve", []string{`pushq.yaml:1: needs a mapping of keys to values, found a list`}},
		"pollers":                 {"swrve: {pollers: many}", []string{`swrve.pollers (pushq.yaml:1) must be auto or a whole number from 1 to 8`}},
		"pollers list":            {"swrve: {pollers: [1]}", []string{`swrve.pollers (pushq.yaml:1) needs auto or a whole number, found a list`}},
		"name is not a text":      {"http: {apiKeys: {[a]: b, ~: c}}", []string{"http.apiKeys (pushq.yaml:1) has an entry whose name is not a text", "http.apiKeys (pushq.yaml:1) has an entry whose name is not a text"}},
		"merge":                   {"http: &a\n  maxBodyBytes: 500\nswrve:\n  <<: *a", []string{"swrve.<< (pushq.yaml:4) is a YAML merge, which is not supported: write the entries out"}},
		"tag":                     {"swrve: {url: !vault x}", []string{"swrve.url (pushq.yaml:1) has a YAML tag (a word that starts with !), which is not supported"}},
		"second document":         {"swrve: {}\n---\nswrve: {}", []string{"pushq.yaml: holds more than one YAML document (a line ---); only one is supported"}},
		"recursive alias":         {"swrve: &a\n  messagePrototypePushKeys: *a", []string{`swrve.messagePrototypePushKeys["messagePrototypePushKeys"][[24 characters]] (pushq.yaml:1) needs a text, found a mapping`}},
		"syntax hides the values": {"http: {listen: ':80'}\nswrve: ]", []string{"pushq.yaml: is not valid YAML: near line 1: did not find expected node content"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := load(test.file)
			require.Equal(t, test.want, problems(t, err))
		})
	}
}

func TestLoadRefusesVariables(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		environ []string
		want    []string
	}{
		"word for number":      {[]string{"PUSHQ_SWRVE_DELAYMILLIS=fast"}, []string{`swrve.delayMillis (PUSHQ_SWRVE_DELAYMILLIS) needs a number, found "fast"`}},
		"empty":                {[]string{"PUSHQ_SWRVE_DELAYMILLIS="}, []string{`swrve.delayMillis (PUSHQ_SWRVE_DELAYMILLIS) needs a number, found ""`}},
		"blank":                {[]string{"PUSHQ_SWRVE_CONCURRENCY= 4"}, []string{`swrve.concurrency (PUSHQ_SWRVE_CONCURRENCY) needs a whole number, found " 4"`}},
		"not JSON":             {[]string{"PUSHQ_SWRVE_RETRYSTATUSES=429,500"}, []string{`swrve.retryStatuses (PUSHQ_SWRVE_RETRYSTATUSES) is not valid JSON (at byte 4): write such as [429,503]`}},
		"names without quotes": {[]string{"PUSHQ_SWRVE_MESSAGEPROTOTYPEPUSHKEYS=Hello:key"}, []string{`swrve.messagePrototypePushKeys (PUSHQ_SWRVE_MESSAGEPROTOTYPEPUSHKEYS) is not valid JSON (at byte 1): write such as {"Hello":{"IOS":"KEY","ANDROID":"KEY"}}`}},
		"a key alone":          {[]string{"PUSHQ_HTTP_APIKEYS=0123456789abcdef"}, []string{`http.apiKeys (PUSHQ_HTTP_APIKEYS) is not valid JSON (at byte 2): write such as {"shop":"KEY"}`}},
		"after JSON":           {[]string{"PUSHQ_SWRVE_RETRYSTATUSES=[429] 1"}, []string{`swrve.retryStatuses (PUSHQ_SWRVE_RETRYSTATUSES) is not valid JSON (at byte 7): write such as [429,503]`}},
		"null":                 {[]string{"PUSHQ_SWRVE_RETRYSTATUSES=null"}, []string{`swrve.retryStatuses (PUSHQ_SWRVE_RETRYSTATUSES) needs a list, found no value`}},
		"list for map":         {[]string{"PUSHQ_HTTP_APIKEYS=[]"}, []string{`http.apiKeys (PUSHQ_HTTP_APIKEYS) needs a mapping of names to values, found a list`}},
		"name twice":           {[]string{`PUSHQ_HTTP_APIKEYS={"a":"0123456789abcdef","a":"0123456789abcdef"}`}, []string{`http.apiKeys["a"] (PUSHQ_HTTP_APIKEYS) is set twice`}},
		"both":                 {[]string{"PUSHQ_REDIS_URL=redis://a", "PUSHQ_REDIS_URL_FILE=url"}, []string{`redis.url (PUSHQ_REDIS_URL) is also set by PUSHQ_REDIS_URL_FILE: remove one of the two`}},
		"missing file":         {[]string{"PUSHQ_REDIS_URL_FILE=missing"}, []string{`redis.url (PUSHQ_REDIS_URL_FILE) names a file that cannot be read: file does not exist`}},
		"bad file content":     {[]string{"PUSHQ_SWRVE_TEST_FILE=url"}, []string{`swrve.test (PUSHQ_SWRVE_TEST_FILE) needs true or false, found "redis://from-file"`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Load(config.Options{ReadFile: files{"url": "redis://from-file\n"}.read, Environ: test.environ})
			require.Equal(t, test.want, problems(t, err))
		})
	}
}

func TestLoadReadsValuesFromFiles(t *testing.T) {
	t.Parallel()
	disk := files{
		"/run/secrets/url":  "redis://:pass@localhost:6379\r\n",
		"/run/secrets/keys": "{\n\"shop\": \"0123456789abcdef\"\n}\n",
	}
	loaded, err := config.Load(config.Options{
		ReadFile: disk.read,
		Environ:  []string{"PUSHQ_REDIS_URL_FILE=/run/secrets/url", "PUSHQ_HTTP_APIKEYS_FILE=/run/secrets/keys"},
	})
	require.NoError(t, err)
	require.Equal(t, "redis://:pass@localhost:6379", loaded.Config.Redis.URL.Reveal())
	require.Equal(t, "PUSHQ_REDIS_URL_FILE", loaded.Origins["redis.url"])
	require.Equal(t, "0123456789abcdef", loaded.Config.HTTP.APIKeys["shop"].Reveal())
}

func TestLoadWarnings(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		environ []string
		want    []string
	}{
		"set by Kubernetes":   {[]string{"PUSHQ_PORT=tcp://10.0.0.1:80"}, []string{"the environment variable PUSHQ_PORT is not known and has no effect"}},
		"typing mistake":      {[]string{"PUSHQ_SWRVE_DELAYMILIS=1"}, []string{"the environment variable PUSHQ_SWRVE_DELAYMILIS is not known and has no effect; the nearest one is PUSHQ_SWRVE_DELAYMILLIS"}},
		"file":                {[]string{"PUSHQ_REDIS_ULR_FILE=/x"}, []string{"the environment variable PUSHQ_REDIS_ULR_FILE is not known and has no effect; the nearest one is PUSHQ_REDIS_URL"}},
		"of other commands":   {[]string{"PUSHQ_SERVER=http://localhost", "PUSHQ_KEY=x"}, nil},
		"of other programs":   {[]string{"HOME=/root", "PUSHQUEUE_X=1", "pushq_redis_url=x"}, nil},
		"anonymous":           {[]string{"PUSHQ_HTTP_LISTEN=:80", "PUSHQ_HTTP_ALLOWANONYMOUS=true"}, []string{"http.allowAnonymous: everybody who reaches :80 can send pushes, without a key"}},
		"anonymous with keys": {[]string{`PUSHQ_HTTP_APIKEYS={"a":"0123456789abcdef"}`, "PUSHQ_HTTP_ALLOWANONYMOUS=true"}, []string{"http.allowAnonymous has no effect, because http.apiKeys are set"}},
		"anonymous, loopback": {[]string{"PUSHQ_HTTP_ALLOWANONYMOUS=true"}, nil},
		"a prototype without push keys": {[]string{`PUSHQ_SWRVE_MESSAGEPROTOTYPEPUSHKEYS={"Hello":{},"Bye":null,"Well":{"IOS":"k"}}`}, []string{
			`swrve.messagePrototypePushKeys has for "Bye" no push key: its pushes will end FAILED`,
			`swrve.messagePrototypePushKeys has for "Hello" no push key: its pushes will end FAILED`,
		}},
		"far from everything": {[]string{"PUSHQ_SERVICE_HOST=10.0.0.1", "PUSHQ_FOO=1"}, []string{
			"the environment variable PUSHQ_FOO is not known and has no effect",
			"the environment variable PUSHQ_SERVICE_HOST is not known and has no effect",
		}},
		"neighbours that have changed places": {[]string{"PUSHQ_REDIS_ULR=x"}, []string{"the environment variable PUSHQ_REDIS_ULR is not known and has no effect; the nearest one is PUSHQ_REDIS_URL"}},
		"sorted and value-less": {[]string{"PUSHQ_ZZZZZZZZ=1", "PUSHQ_AAAAAAAA"}, []string{
			"the environment variable PUSHQ_AAAAAAAA is not known and has no effect",
			"the environment variable PUSHQ_ZZZZZZZZ is not known and has no effect",
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loaded, err := load("", test.environ...)
			require.NoError(t, err)
			require.Equal(t, test.want, loaded.Warnings)
		})
	}
}

func TestATabInTheFileIsNamed(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"swrve:\n\tdelayMillis: 4\n", "# text\nswrve:\n  \tdelayMillis: 4\n", "push:\n  retry:\n\t  maxAttempts: 3\n"} {
		_, err := load(file)
		require.Len(t, problems(t, err), 1, file)
		require.Regexp(t, `^pushq.yaml: is not valid YAML: line [23] is indented by a tab, where YAML wants blanks$`, problems(t, err)[0])
	}
	loaded, err := load("swrve:\n  delayMillis:\t5 \t# a tab within a line\n")
	require.NoError(t, err)
	require.InDelta(t, 5, loaded.Config.Swrve.DelayMillis, 0)
}

// Every setting that is JSON in a variable says how.
func TestMapsAndListsHaveAnExample(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	require.NoError(t, config.WriteDoc(&page))
	for line := range strings.Lines(page.String()) {
		cells := strings.Split(line, " | ")
		if len(cells) < 3 || !strings.HasPrefix(cells[2], "`{") && !strings.HasPrefix(cells[2], "`[") {
			continue
		}
		variable := strings.Trim(cells[1], "`")
		_, err := load("", variable+"=no JSON")
		require.Regexp(t, `: write such as [\[{]`, err.Error(), variable)
	}
}

// What is missing may stand in a mistyped variable: an error does not hide the hint.
func TestAnErrorKeepsTheHintAboutAMistypedVariable(t *testing.T) {
	t.Parallel()
	_, err := config.Load(config.Options{ReadFile: files{}.read, Environ: []string{"PUSHQ_REDIS_URI=redis://h"}, RequireRedis: true})
	require.ErrorContains(t, err, "redis.url (default) is required")
	require.ErrorContains(t, err, "\nwarning: the environment variable PUSHQ_REDIS_URI is not known and has no effect; the nearest one is PUSHQ_REDIS_URL")
}

// docker's --env-file, and many a template, leave quotation marks where a shell takes them
// away. Whatever the setting is, they are not a part of it.
func TestQuotedValuesAreRefused(t *testing.T) {
	t.Parallel()
	for variable, value := range map[string]string{
		"REDIS_URL": "redis://h", "HTTP_LISTEN": "127.0.0.1:80", "HTTP_TLS_CERT": "/cert.pem", "DASHBOARD_USER": "alice", "DASHBOARD_PASSWORD": "0123456789abcdef",
		"SWRVE_URL": "https://swrve.example", "SWRVE_DELAYMILLIS": "4", "SWRVE_TEST": "true", "SWRVE_MAXRETRYAFTER": "5m", "SWRVE_POLLERS": "auto",
		"PUSH_TIMEZONE": "UTC", "HTTP_APIKEYS": "{}", "SWRVE_RETRYSTATUSES": "[503]", "FCM_SERVERKEY": "key", "RABBITMQ_QUEUE": "queue",
	} {
		for _, quote := range []string{`"`, "'"} {
			_, err := load("", "PUSHQ_"+variable+"="+quote+value+quote)
			require.Len(t, problems(t, err), 1, variable)
			require.Contains(t, problems(t, err)[0], "(PUSHQ_"+variable+") is in quotes", variable)
			require.NotContains(t, err.Error(), "0123456789abcdef")
		}
	}
	_, err := config.Load(config.Options{ReadFile: files{"/secret": "'redis://h'\n"}.read, Environ: []string{"PUSHQ_REDIS_URL_FILE=/secret"}})
	require.ErrorContains(t, err, "redis.url (PUSHQ_REDIS_URL_FILE) is in quotes")
	loaded, err := load("rabbitmq:\n  queue: '\"meant\"'\n")
	require.NoError(t, err)
	require.Equal(t, `"meant"`, loaded.Config.RabbitMQ.Queue)
}

// A variable of a file that was written on Windows ends in a carriage return.
func TestACarriageReturnAtTheEndIsLeftOut(t *testing.T) {
	t.Parallel()
	loaded, err := load("", "PUSHQ_REDIS_URL=redis://h\r", "PUSHQ_SWRVE_DELAYMILLIS=5\r", "PUSHQ_DASHBOARD_USER=alice\r", "PUSHQ_DASHBOARD_PASSWORD=0123456789abcdef\r")
	require.NoError(t, err)
	require.Equal(t, "redis://h", loaded.Config.Redis.URL.Reveal())
	require.Equal(t, "0123456789abcdef", loaded.Config.Dashboard.Password.Reveal())
}

func TestLoadRefusesUnknownOverrides(t *testing.T) {
	t.Parallel()
	_, err := config.Load(config.Options{ReadFile: files{}.read, Overrides: map[string]string{"http.lissen": "x", "swrve.test": "maybe"}})
	require.Equal(t, []string{
		"http.lissen (command line) is not a known key; the nearest one is http.listen",
		`swrve.test (command line) needs true or false, found "maybe"`,
	}, problems(t, err))
}

func TestLoadReportsAllProblemsTogether(t *testing.T) {
	t.Parallel()
	const file = `
swrve:
  delayMillis: fast
  timeoutMillis: 500
  unknown: 1
  unknown: 2
push:
  timeZone: Mars
`
	_, err := config.Load(config.Options{
		ReadFile:     files{"pushq.yaml": file}.read,
		Environ:      []string{"PUSHQ_SWRVE_CONCURRENCY=9999", "PUSHQ_HTTP_LISTEN=:80"},
		Overrides:    map[string]string{"push.maxScheduleDays": "0"},
		RequireRedis: true,
	})
	require.Equal(t, []string{
		"swrve.unknown (pushq.yaml:6) is set twice; the first time in line 5",
		`swrve.delayMillis (pushq.yaml:3) needs a number, found "fast"`,
		"swrve.unknown (pushq.yaml:5) is not a known key: pushq config doc lists them",
		"swrve.concurrency (PUSHQ_SWRVE_CONCURRENCY) must be from 0 to 5000, is 9999",
		"push.maxScheduleDays (command line) must be from 1 to 3650, is 0",
		"redis.url (default) is required: set it in the file or by PUSHQ_REDIS_URL, for example to redis://localhost:6379/0",
		`push.timeZone (pushq.yaml:8) is not usable: the time zone "Mars" is not known: use a name of the IANA database such as Europe/Stockholm or UTC`,
		`http.listen (PUSHQ_HTTP_LISTEN, http.apiKeys: default, http.allowAnonymous: default, http.tls.ca: default) is ":80", which is not loopback, and nobody needs a key: set http.apiKeys (PUSHQ_HTTP_APIKEYS), or http.allowAnonymous: true`,
		"swrve.timeoutMillis (pushq.yaml:4, swrve.averageProcessingMillis: default) is 500, less than swrve.averageProcessingMillis, 2000: the average request would be cut off",
	}, problems(t, err))
	require.Equal(t, "invalid configuration:\n  "+strings.Join(problems(t, err), "\n  "), err.Error())
}

// What an unreadable file would have set is not known, so no follow-ups are
// reported; what another source sets is.
func TestLoadUnreadableFileHasNoFollowUps(t *testing.T) {
	t.Parallel()
	_, err := config.Load(config.Options{
		ReadFile:     files{"pushq.yaml": "swrve: ["}.read,
		Environ:      []string{"PUSHQ_HTTP_LISTEN=:80", "PUSHQ_SWRVE_CONCURRENCY=9999"},
		RequireRedis: true,
	})
	require.Len(t, problems(t, err), 2)
	require.Contains(t, problems(t, err)[0], "pushq.yaml: is not valid YAML")
	require.Contains(t, problems(t, err)[1], "swrve.concurrency (PUSHQ_SWRVE_CONCURRENCY) must be from 0 to 5000")
}

func TestLoadRequireRedis(t *testing.T) {
	t.Parallel()
	options := config.Options{ReadFile: files{}.read, RequireRedis: true}
	_, err := config.Load(options)
	require.ErrorContains(t, err, "redis.url (default) is required")
	options.Environ = []string{"PUSHQ_REDIS_URL="}
	_, err = config.Load(options)
	require.ErrorContains(t, err, "redis.url (PUSHQ_REDIS_URL) is required")
	options.Environ = []string{"PUSHQ_REDIS_URL=redis://localhost"}
	_, err = config.Load(options)
	require.NoError(t, err)
}

// The loaded configuration is a copy: nothing is shared between two.
func TestLoadSharesNothing(t *testing.T) {
	t.Parallel()
	first, second := config.Default(), config.Default()
	first.HTTP.APIKeys["a"] = "b"
	first.Swrve.RetryStatuses[0] = 1
	require.Empty(t, second.HTTP.APIKeys)
	require.Equal(t, 429, second.Swrve.RetryStatuses[0])
	require.Empty(t, maps.Clone(config.Default().HTTP.APIKeys))
}

func FuzzLoad(f *testing.F) {
	f.Add("swrve: {delayMillis: 3.42, retryStatuses: [429]}", `{"Hello":{"IOS":"x"}}`, "redis://:p@h:1/0")
	f.Add("a: &a [*a]\n<<: *a\n? [x]\n: y", `{"a":{"a":1,"a":null}}`, "redis-socket:///x?db=1")
	f.Add("http: {apiKeys: {a: !!binary x}}", `[[[]]]`, "%zz")
	f.Fuzz(func(t *testing.T, file, json, url string) {
		loaded, err := load(file, "PUSHQ_SWRVE_MESSAGEPROTOTYPEPUSHKEYS="+json, "PUSHQ_REDIS_URL="+url)
		if err != nil {
			require.NotEmpty(t, problems(t, err))
			return
		}
		require.NoError(t, loaded.Config.Validate())
	})
}
