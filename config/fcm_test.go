package config_test

import (
	"os"
	"regexp"
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

func TestWhatTheChannelFCMNeeds(t *testing.T) {
	t.Parallel()
	v1 := []string{"PUSHQ_FCM_ENABLED=true", "PUSHQ_FCM_SERVICEACCOUNT={}", "PUSHQ_TEMPLATE_URL=http://templates"}
	legacy := []string{"PUSHQ_FCM_ENABLED=true", "PUSHQ_FCM_MODE=legacy", "PUSHQ_FCM_SERVERKEY=x", "PUSHQ_TEMPLATE_URL=http://templates"}
	for name, test := range map[string]struct {
		environ []string
		problem string // "" for none
	}{
		"v1":               {v1, ""},
		"legacy":           {legacy, ""},
		"no templates":     {v1[:2], "template.url"},
		"no account":       {[]string{v1[0], v1[2]}, "fcm.serviceAccount"},
		"no key":           {[]string{legacy[0], legacy[1], legacy[3]}, "fcm.serverKey"},
		"another mode":     {append(v1, "PUSHQ_FCM_MODE=v2"), "must be v1 or legacy"},
		"another answer":   {append(v1, "PUSHQ_FCM_BREAKER_ONOPEN=drop"), "must be defer or dead-letter"},
		"no URL":           {append(v1, "PUSHQ_FCM_URL=fcm.googleapis.com"), "must start with http:// or https://"},
		"a query":          {append(v1, "PUSHQ_TEMPLATE_URL=http://a/?b"), "must not have a part after ? or #"},
		"cap below floor":  {append(v1, "PUSHQ_FCM_RETRY_FLOOR=10s", "PUSHQ_FCM_RETRY_CAP=5s"), "must be at least fcm.retry.floor"},
		"not enabled":      {[]string{"PUSHQ_FCM_MODE=legacy"}, ""},
		"RabbitMQ by http": {[]string{"PUSHQ_RABBITMQ_URL=http://user:" + hush + "@localhost"}, "must start with amqp:// or amqps://"},
		"history by words": {[]string{"PUSHQ_HISTORY_POSTGRESURL=password=" + hush}, "must be postgres://"},
		"jitter above one": {append(v1, "PUSHQ_FCM_RETRY_JITTER=1.5"), "fcm.retry.jitter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
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
	text := regexp.MustCompile("(?s)```yaml\n(.*?fcm:.*?)```").FindSubmatch(document)
	require.NotNil(t, text)
	loaded, err := config.Load(config.Options{ReadFile: files{"pushq.yaml": string(text[1])}.read, RequireRedis: true})
	require.NoError(t, err)
	require.Empty(t, loaded.Warnings)
	require.True(t, loaded.Config.FCM.Enabled)
	require.JSONEq(t, `"my-project"`, regexp.MustCompile(`"project_id": (".*")`).FindStringSubmatch(loaded.Config.FCM.ServiceAccount.Reveal())[1])
}
