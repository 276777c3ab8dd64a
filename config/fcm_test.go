package config_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/config"
)

func TestVariablesOfTheEarlierPushWorker(t *testing.T) {
	t.Parallel()
	load := func(environ ...string) *config.Loaded {
		loaded, err := config.Load(config.Options{Environ: environ, ReadFile: files{}.read})
		require.NoError(t, err)
		return loaded
	}
	loaded := load("TEMPLATE_SERVICE_URL=http://templates:8000", "FCM_SERVER_KEY="+hush)
	require.Equal(t, "http://templates:8000", loaded.Config.Template.URL)
	require.Equal(t, hush, loaded.Config.FCM.ServerKey.Reveal())
	require.Equal(t, "TEMPLATE_SERVICE_URL", loaded.Origins["template.url"])

	loaded = load("PUSHQ_TEMPLATE_URL=http://new", "TEMPLATE_SERVICE_URL=http://old", "FCM_SERVER_KEY=")
	require.Equal(t, "http://new", loaded.Config.Template.URL)
	require.Equal(t, "default", loaded.Origins["fcm.serverKey"])
}

// keyFile is that of a service account, with fields replaced: name and text in turn.
func keyFile(t *testing.T, replaced ...string) string {
	t.Helper()
	fields := map[string]string{
		"type": "service_account", "project_id": "ours", "client_email": "a@ours.example", "private_key": privateKey(t),
	}
	for place := 0; place < len(replaced); place += 2 {
		fields[replaced[place]] = replaced[place+1]
	}
	file, err := json.Marshal(fields)
	require.NoError(t, err)
	return string(file)
}

func privateKey(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
}

func TestWhatTheChannelFCMNeeds(t *testing.T) {
	t.Parallel()
	const account = "PUSHQ_FCM_SERVICEACCOUNT="
	elliptic, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	ellipticKey, err := x509.MarshalPKCS8PrivateKey(elliptic)
	require.NoError(t, err)
	with := func(lines []string, more ...string) []string { return append(slices.Clone(lines), more...) }
	v1 := []string{"PUSHQ_FCM_ENABLED=true", account + keyFile(t), "PUSHQ_TEMPLATE_URL=http://templates"}
	legacy := []string{
		"PUSHQ_FCM_ENABLED=true", "PUSHQ_FCM_MODE=legacy", "PUSHQ_FCM_SERVERKEY=" + hush, "PUSHQ_TEMPLATE_URL=http://templates",
		"PUSHQ_FCM_URL=https://gateway",
	}
	for name, test := range map[string]struct {
		environ []string
		problem string // "" for none
	}{
		"v1":     {v1, ""},
		"legacy": {legacy, ""},
		"one queue for both": {with(v1, "PUSHQ_RABBITMQ_QUEUE=messages", "PUSHQ_RABBITMQ_FAILEDQUEUE=messages"),
			"rabbitmq.failedQueue (PUSHQ_RABBITMQ_FAILEDQUEUE, rabbitmq.queue: PUSHQ_RABBITMQ_QUEUE) must not be rabbitmq.queue"},
		"no queue":                    {with(v1, "PUSHQ_RABBITMQ_QUEUE="), "rabbitmq.queue (PUSHQ_RABBITMQ_QUEUE) must not be empty"},
		"no queue of failures":        {with(v1, "PUSHQ_RABBITMQ_FAILEDQUEUE= "), "rabbitmq.failedQueue (PUSHQ_RABBITMQ_FAILEDQUEUE) must not be empty"},
		"a queue with a blank":        {with(v1, "PUSHQ_RABBITMQ_QUEUE=push.queue "), "must not begin or end with a blank"},
		"a long name of a queue":      {with(v1, "PUSHQ_RABBITMQ_QUEUE="+strings.Repeat("q", 256)), "must not be longer than 255 bytes"},
		"a queue of RabbitMQ's":       {with(v1, "PUSHQ_RABBITMQ_QUEUE=amq.direct"), "must not begin with amq."},
		"a URL of templates":          {with(v1, "PUSHQ_TEMPLATE_URL=http://templates/api/v1/templates/"), "template.url (PUSHQ_TEMPLATE_URL) must end before /api/v1/templates"},
		"a URL of Firebase's API":     {with(v1, "PUSHQ_FCM_URL=http://gateway/v1"), "fcm.url (PUSHQ_FCM_URL) must end before /v1, which pushq puts behind it"},
		"a URL of the legacy API":     {with(legacy, "PUSHQ_FCM_URL=http://gateway/fcm/send/"), "fcm.url (PUSHQ_FCM_URL) must end before /fcm/send, which pushq puts behind it"},
		"no templates":                {v1[:2], "template.url (default, fcm.enabled: PUSHQ_FCM_ENABLED) is required with fcm.enabled"},
		"no account":                  {[]string{v1[0], v1[2]}, "set PUSHQ_FCM_SERVICEACCOUNT_FILE to the path of the key file"},
		"a server key for v1":         {[]string{v1[0], v1[2], legacy[2]}, "fcm.serviceAccount (default, fcm.mode: default, fcm.enabled: PUSHQ_FCM_ENABLED) is required in mode v1"},
		"a server key of before":      {[]string{v1[0], v1[2], "FCM_SERVER_KEY=" + hush}, "(fcm.serverKey is for fcm.mode legacy)"},
		"an account for legacy":       {[]string{legacy[0], legacy[1], legacy[3], legacy[4], v1[1]}, "fcm.serverKey (default, fcm.mode: PUSHQ_FCM_MODE, fcm.enabled: PUSHQ_FCM_ENABLED) is required in mode legacy"},
		"the name of the key file":    {with(v1, account+"/run/"+hush+".json"), "fcm.serviceAccount (PUSHQ_FCM_SERVICEACCOUNT, fcm.mode: default, fcm.enabled: PUSHQ_FCM_ENABLED) is not JSON"},
		"a key file that is missing":  {[]string{v1[0], v1[2], "PUSHQ_FCM_SERVICEACCOUNT_FILE=/run/" + hush}, "names a file that cannot be read"},
		"another kind of account":     {with(v1, account+keyFile(t, "type", "authorized_user")), `with "type": "service_account"`},
		"no email":                    {with(v1, account+keyFile(t, "client_email", "")), "client_email is missing"},
		"no private key":              {with(v1, account+keyFile(t, "private_key", "")), "private_key is missing"},
		"no PEM":                      {with(v1, account+keyFile(t, "private_key", hush)), "private_key is not PEM"},
		"a key of another type":       {with(v1, account+keyFile(t, "private_key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: ellipticKey})))), "private_key is not an RSA key"},
		"no project":                  {with(v1, account+keyFile(t, "project_id", "")), "fcm.project (default"},
		"a project of its own":        {with(v1, account+keyFile(t, "project_id", ""), "PUSHQ_FCM_PROJECT=ours"), ""},
		"a line break in the key":     {with(legacy, "PUSHQ_FCM_SERVERKEY="+hush+"\n"+hush), "fcm.serverKey (PUSHQ_FCM_SERVERKEY, fcm.mode: PUSHQ_FCM_MODE, fcm.enabled: PUSHQ_FCM_ENABLED) has a blank, a line break"},
		"a blank after the key":       {with(legacy, "PUSHQ_FCM_SERVERKEY="+hush+" "), "has a blank, a line break"},
		"another mode":                {with(v1, "PUSHQ_FCM_MODE=v2"), "must be v1 or legacy"},
		"another answer":              {with(v1, "PUSHQ_FCM_BREAKER_ONOPEN=drop"), "must be defer or dead-letter"},
		"no URL":                      {with(v1, "PUSHQ_FCM_URL=fcm.googleapis.com"), "must start with http:// or https://"},
		"an empty URL":                {with(v1, "PUSHQ_FCM_URL="), "fcm.url"},
		"a URL with a line break":     {with(v1, "PUSHQ_FCM_URL=http://gate\nway"), "fcm.url (PUSHQ_FCM_URL) is not a valid URL"},
		"a URL with a large port":     {with(v1, "PUSHQ_TEMPLATE_URL=http://a:70000"), "template.url (PUSHQ_TEMPLATE_URL) has a port that is not between 1 and 65535"},
		"a URL with a password":       {with(v1, "PUSHQ_TEMPLATE_URL=http://user:"+hush+"@a"), "must not hold a user or password"},
		"a query":                     {with(v1, "PUSHQ_TEMPLATE_URL=http://a/?b"), "must not have a part after ? or #"},
		"templates from itself":       {with(v1, "PUSHQ_TEMPLATE_URL=http://localhost:8080"), "template.url (PUSHQ_TEMPLATE_URL, http.listen: default) is where pushq itself listens (http.listen)"},
		"templates from itself by IP": {with(v1, "PUSHQ_TEMPLATE_URL=http://10.0.0.1:80", "PUSHQ_HTTP_LISTEN=10.0.0.1:80", "PUSHQ_HTTP_ALLOWANONYMOUS=true"), "is where pushq itself listens"},
		"templates from this host":    {with(v1, "PUSHQ_TEMPLATE_URL=http://127.0.0.1:90", "PUSHQ_HTTP_LISTEN=:90", "PUSHQ_HTTP_ALLOWANONYMOUS=true"), "is where pushq itself listens"},
		"templates beside it":         {with(v1, "PUSHQ_TEMPLATE_URL=http://localhost:8081", "PUSHQ_FCM_URL=http://other:8080"), ""},
		"records below cap":           {with(v1, "PUSHQ_PUSH_RETENTION_DEAD=2h", "PUSHQ_FCM_RETRY_CAP=2h"), "push.retention.dead (PUSHQ_PUSH_RETENTION_DEAD, fcm.retry.cap: PUSHQ_FCM_RETRY_CAP, fcm.retry.jitter: default, fcm.maxRetryAfter: default, fcm.enabled: PUSHQ_FCM_ENABLED) is 2h, less than a push may have to wait for its next attempt: fcm.retry.cap, with fcm.retry.jitter, is 2h12m"},
		"records at the cap":          {with(v1, "PUSHQ_PUSH_RETENTION_DEAD=2h12m", "PUSHQ_FCM_RETRY_CAP=2h"), ""},
		"records below Firebase's":    {with(v1, "PUSHQ_PUSH_RETENTION_DEAD=1h", "PUSHQ_FCM_MAXRETRYAFTER=3601s"), "is 1h, less than a push may have to wait for its next attempt: fcm.maxRetryAfter is 1h0m1s"},
		"records of Firebase's time":  {with(v1, "PUSHQ_PUSH_RETENTION_DEAD=1h", "PUSHQ_FCM_MAXRETRYAFTER=1h"), ""},
		"records without the channel": {[]string{"PUSHQ_PUSH_RETENTION_DEAD=1h", "PUSHQ_FCM_MAXRETRYAFTER=2h", "PUSHQ_FCM_RETRY_CAP=2h"}, ""},
		"a breaker of one failure":    {with(v1, "PUSHQ_FCM_BREAKER_FAILURES=1"), "fcm.breaker.failures (PUSHQ_FCM_BREAKER_FAILURES) must be from 2 to 1000, is 1"},
		"cap below floor":             {with(v1, "PUSHQ_FCM_RETRY_FLOOR=10s", "PUSHQ_FCM_RETRY_CAP=5s"), "must be at least fcm.retry.floor"},
		"first above cap":             {with(v1, "PUSHQ_FCM_RETRY_FIRST=61s"), "fcm.retry.first (PUSHQ_FCM_RETRY_FIRST, fcm.retry.cap: default) must be at most fcm.retry.cap, which is 1m"},
		"first at the cap":            {with(v1, "PUSHQ_FCM_RETRY_FIRST=60s"), ""},
		"one long request":            {with(v1, "PUSHQ_TEMPLATE_TRIES=1", "PUSHQ_TEMPLATE_TIMEOUTMILLIS=50001"), "template.tries (PUSHQ_TEMPLATE_TRIES, template.timeoutMillis: PUSHQ_TEMPLATE_TIMEOUTMILLIS) times template.timeoutMillis is 50.001s, more than the 50s"},
		"many requests":               {with(v1, "PUSHQ_TEMPLATE_TRIES=10", "PUSHQ_TEMPLATE_TIMEOUTMILLIS=5001"), "times template.timeoutMillis is 50.01s"},
		"requests that just fit":      {with(v1, "PUSHQ_TEMPLATE_TRIES=10"), ""},
		"not enabled":                 {[]string{"PUSHQ_FCM_MODE=legacy", "PUSHQ_FCM_SERVICEACCOUNT=" + hush}, ""},
		"RabbitMQ by http":            {[]string{"PUSHQ_RABBITMQ_URL=http://user:" + hush + "@localhost"}, "must start with amqp:// or amqps://"},
		"a password with a slash":     {[]string{"PUSHQ_RABBITMQ_URL=amqp://user:" + hush + "/%zz@localhost"}, "rabbitmq.url (PUSHQ_RABBITMQ_URL) has an @ behind the hosts"},
		"no prefetch":                 {[]string{"PUSHQ_RABBITMQ_PREFETCH=0"}, "rabbitmq.prefetch"},
		"history by words":            {[]string{"PUSHQ_HISTORY_POSTGRESURL=password=" + hush}, "must be postgres://"},
		"history by http":             {[]string{"PUSHQ_HISTORY_POSTGRESURL=http://user:" + hush + "@localhost/db"}, "history.postgresUrl (PUSHQ_HISTORY_POSTGRESURL) must be postgres://"},
		"history without a file":      {[]string{"PUSHQ_HISTORY_POSTGRESURL=postgres://user:" + hush + "@localhost/db?sslrootcert=/none"}, "history.postgresUrl (PUSHQ_HISTORY_POSTGRESURL) has a parameter that cannot be used"},
		"jitter above one":            {with(v1, "PUSHQ_FCM_RETRY_JITTER=1.5"), "fcm.retry.jitter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// As in an environment, where the last value of a variable counts.
			_, err := config.Load(config.Options{Environ: test.environ, ReadFile: files{}.read})
			if test.problem == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.problem)
			require.NotContains(t, err.Error(), hush)
		})
	}
}

func TestTheDocumentedSettingsOfFCM(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../docs/deployment.md")
	require.NoError(t, err)
	text := regexp.MustCompile("(?s)```yaml\n(redis:\n.*?fcm:.*?)```").FindSubmatch(document)
	require.NotNil(t, text)
	key, err := json.Marshal(privateKey(t))
	require.NoError(t, err)
	file := strings.Replace(string(text[1]), `"private_key": "…"`, `"private_key": `+string(key), 1)
	loaded, err := config.Load(config.Options{ReadFile: files{"pushq.yaml": file}.read, RequireRedis: true})
	require.NoError(t, err)
	require.Empty(t, loaded.Warnings)
	require.True(t, loaded.Config.FCM.Enabled)
	require.JSONEq(t, `"my-project"`, regexp.MustCompile(`"project_id": (".*")`).FindStringSubmatch(loaded.Config.FCM.ServiceAccount.Reveal())[1])
}

func TestWhatHasNoEffectIsAWarning(t *testing.T) {
	t.Parallel()
	v1 := []string{"PUSHQ_FCM_ENABLED=true", "PUSHQ_FCM_SERVICEACCOUNT=" + keyFile(t), "PUSHQ_TEMPLATE_URL=http://templates"}
	for warning, environ := range map[string][]string{
		"": append(slices.Clone(v1), "PUSHQ_FCM_BREAKER_ONOPEN=dead-letter", "PUSHQ_RABBITMQ_URL=amqp://localhost"),
		"fcm.serverKey has no effect in fcm.mode v1":           append(slices.Clone(v1), "FCM_SERVER_KEY="+hush),
		"fcm.serviceAccount has no effect":                     append(slices.Clone(v1), "PUSHQ_FCM_MODE=legacy", "PUSHQ_FCM_SERVERKEY="+hush, "PUSHQ_FCM_URL=http://gateway"),
		"fcm.mode legacy: Google has shut that down":           {v1[0], v1[2], "PUSHQ_FCM_MODE=legacy", "PUSHQ_FCM_SERVERKEY=" + hush},
		"fcm.breaker.onOpen: dead-letter without rabbitmq.url": append(slices.Clone(v1), "PUSHQ_FCM_BREAKER_ONOPEN=dead-letter"),
		"rabbitmq.url has no effect without fcm.enabled":       {"PUSHQ_RABBITMQ_URL=amqp://user:" + hush + "@localhost/"},
	} {
		loaded, err := config.Load(config.Options{Environ: environ, ReadFile: files{}.read})
		require.NoError(t, err, warning)
		if warning == "" {
			require.Empty(t, loaded.Warnings)
			continue
		}
		require.Len(t, loaded.Warnings, 1)
		require.Contains(t, loaded.Warnings[0], warning)
		require.NotContains(t, loaded.Warnings[0], hush)
	}
}
