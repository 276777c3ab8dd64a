package config_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io/fs"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"pushq/config"
)

const hush = "hush-hush-0123456789"

// withSecrets is a configuration with hush in every place of a secret.
func withSecrets(t *testing.T) *config.Loaded {
	t.Helper()
	loaded, err := load("",
		"PUSHQ_REDIS_URL=redis-sentinel://user:"+hush+"@localhost:1,b/0?master=m",
		"PUSHQ_REDIS_SENTINELPASSWORD="+hush,
		`PUSHQ_HTTP_APIKEYS={"shop":"`+hush+`"}`,
		`PUSHQ_SWRVE_MESSAGEPROTOTYPEPUSHKEYS={"Hello":{"IOS":"`+hush+`"}}`,
	)
	require.NoError(t, err)
	return loaded
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	t.Parallel()
	loaded := withSecrets(t)
	values := map[string]any{
		"loaded":    loaded,
		"config":    loaded.Config,
		"pointer":   &loaded.Config,
		"section":   loaded.Config.HTTP,
		"map":       loaded.Config.Swrve.MessagePrototypePushKeys,
		"secret":    config.Secret(hush),
		"redis url": loaded.Config.Redis.URL,
		"in any":    []any{config.Secret(hush), loaded.Config.Redis.URL},
	}
	for name, value := range values {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%T", "%10.3s"} {
				printed := fmt.Sprintf(verb, value)
				require.NotContains(t, printed, hush, verb)
				require.NotContains(t, printed, fmt.Sprintf("%x", hush), verb)
				require.NotContains(t, printed, fmt.Sprintf("% x", hush), verb)
				require.NotContains(t, printed, fmt.Sprintf("%X", hush), verb)
			}
			require.NotContains(t, fmt.Sprint(value), hush)
			require.NotContains(t, fmt.Errorf("failed: %v", value).Error(), hush)

			asJSON, err := json.Marshal(value)
			require.NoError(t, err)
			require.NotContains(t, string(asJSON), hush)
			asYAML, err := yaml.Marshal(value)
			require.NoError(t, err)
			require.NotContains(t, string(asYAML), hush)

			var log bytes.Buffer
			slog.New(slog.NewTextHandler(&log, nil)).Info("text", "value", value)
			slog.New(slog.NewJSONHandler(&log, nil)).Info("json", "value", value)
			require.Contains(t, log.String(), "value")
			require.NotContains(t, log.String(), hush)
		})
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	for secret, want := range map[config.Secret]string{"": "", hush: "[secret]"} {
		require.Equal(t, want, secret.String())
		require.Equal(t, want, secret.GoString())
		require.Equal(t, want, secret.LogValue().String())
		require.Equal(t, want, fmt.Sprintf("%v", secret))
		asJSON, err := json.Marshal(secret)
		require.NoError(t, err)
		require.Equal(t, `"`+want+`"`, string(asJSON))
		asXML, err := xml.Marshal(secret)
		require.NoError(t, err)
		require.Equal(t, "<Secret>"+want+"</Secret>", string(asXML))
	}
	require.Equal(t, hush, config.Secret(hush).Reveal())
}

func TestRedisURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[config.RedisURL]string{
		"":                                            "",
		"redis://h":                                   "redis://h",
		"redis://:" + hush + "@h:1/2":                 "redis://:xxxxx@h:1/2",
		"rediss://user:" + hush + "@h":                "rediss://user:xxxxx@h",
		"redis-socket://:" + hush + "@/r?db=1":        "redis-socket://:xxxxx@/r?db=1",
		"redis://user:1#" + hush + "@h":               "[secret]",
		"redis://user:1/" + hush + "@h":               "[secret]",
		"redis://user:1?" + hush + "@h":               "[secret]",
		"redis://" + hush + "@h":                      "[secret]",
		"redis-sentinel://:" + hush + "@a,b/0":        "[secret]",
		"redis-sentinel://:" + hush + "@a,b?master=m": "redis-sentinel://:xxxxx@a,b?master=m",
		"redis-cluster://u:" + hush + "@a,b":          "redis-cluster://u:xxxxx@a,b",
		hush:                                          "[secret]",
	} {
		require.Equal(t, want, url.String())
		require.Equal(t, want, url.GoString())
		require.Equal(t, want, url.LogValue().String())
		require.Equal(t, want, fmt.Sprintf("%#v", url))
		require.Equal(t, string(url), url.Reveal())
	}
}

// Whatever is wrong with a secret, or with its surroundings, the error does not
// repeat it.
func TestErrorsHideSecrets(t *testing.T) {
	t.Parallel()
	redis := func(url string) string { return "PUSHQ_REDIS_URL=" + url }
	keys := func(json string) string { return "PUSHQ_HTTP_APIKEYS=" + json }
	pushKeys := func(json string) string { return "PUSHQ_SWRVE_MESSAGEPROTOTYPEPUSHKEYS=" + json }
	variables := map[string]string{
		"redis scheme":          redis("http://:" + hush + "@h"),
		"redis without scheme":  redis(hush),
		"redis unescaped #":     redis("redis://u:1#" + hush + "@h"),
		"redis unescaped /":     redis("redis://u:1/" + hush + "@h"),
		"redis unescaped ?":     redis("redis://u:1?" + hush + "@h"),
		"redis unescaped %":     redis("redis://u:%zz" + hush + "@h"),
		"redis colon":           redis("redis://u:x:" + hush),
		"redis brackets":        redis("redis://[" + hush + "@h"),
		"redis blank":           redis("redis://u: " + hush + "@h"),
		"redis user only":       redis("redis://" + hush + "@h"),
		"redis database":        redis("redis://h/" + hush),
		"redis query":           redis("redis://h/0?password=" + hush),
		"redis socket query":    redis("redis-socket:///r?db=" + hush),
		"redis sentinel":        redis("redis-sentinel://:" + hush + "@a:1,b:2/0"),
		"redis sentinel option": redis("redis-sentinel://a:1,b:2/0?master=m&password=" + hush),
		"redis cluster host":    redis("redis-cluster://:" + hush + "@a:1,b:x"),
		"sentinel password":     "PUSHQ_REDIS_SENTINELUSER=u\nPUSHQ_REDIS_URL=redis://h\nPUSHQ_REDIS_SENTINELPASSWORD=" + hush,
		"redis control byte":    redis("redis://u:\x01" + hush + "@h"),
		"redis file":            "PUSHQ_REDIS_URL_FILE=redis://:" + hush + "@h",
		"redis file and value":  redis(hush) + "\nPUSHQ_REDIS_URL_FILE=" + hush,
		"swrve user":            "PUSHQ_SWRVE_URL=https://user:" + hush + "@h",
		"swrve user, bad url":   "PUSHQ_SWRVE_URL=https://user:" + hush + "@h:x",
		"api keys as text":      keys(hush),
		"api keys cut off":      keys(`{"a":"` + hush),
		"api keys wrong escape": keys(`{"a":"` + hush + `\x"}`),
		"api keys list":         keys(`["` + hush + `"]`),
		"api keys deep":         keys(`{"a":{"b":"` + hush + `"}}`),
		"api keys trailing":     keys(`{"a":"0123456789abcdef"}` + hush),
		"api key twice":         keys(`{"a":"` + hush + `","a":"` + hush + `"}`),
		"api keys the same":     keys(`{"a":"` + hush + `","b":"` + hush + `"}`),
		"api key with blank":    keys(`{"a":"` + hush + ` "}`),
		"api key name":          keys(`{"a b":"` + hush + `"}`),
		"api key swapped":       keys(`{"` + hush + `":"shop"}`),
		"api key swapped, null": keys(`{"` + hush + `":null}`),
		"api key swapped, list": keys(`{"` + hush + `":["shop"]}`),
		"api key swapped twice": keys(`{"` + hush + `":"shop","` + hush + `":"shop"}`),
		"push key swapped":      pushKeys(`{"Hello":{"` + hush + `":"IOS"}}`),
		"push key swapped list": pushKeys(`{"Hello":{"` + hush + `":["IOS"]}}`),
		"push keys not JSON":    pushKeys(`{Hello: {IOS: ` + hush + `}}`),
		"push key too high":     pushKeys(`{"IOS":"` + hush + `"}`),
		"push key too deep":     pushKeys(`{"Hello":{"IOS":["` + hush + `"]}}`),
		"push key platform":     pushKeys(`{"Hello":{"WINDOWS":"` + hush + `"}}`),
		"push key with blank":   pushKeys(`{"Hello":{"IOS":" ` + hush + `"}}`),
	}
	for name, variable := range variables {
		t.Run("variable/"+name, func(t *testing.T) {
			t.Parallel()
			lines := bytes.Split([]byte(variable), []byte("\n"))
			var environ []string
			for _, line := range lines {
				environ = append(environ, string(line))
			}
			_, err := config.Load(config.Options{Environ: environ, ReadFile: func(file string) ([]byte, error) {
				return nil, &fs.PathError{Op: "open", Path: file, Err: fs.ErrNotExist}
			}})
			require.NotEmpty(t, problems(t, err))
			require.NotContains(t, err.Error(), hush)
			require.NotContains(t, fmt.Sprintf("%+v %#v", err, err), hush)
		})
	}

	yamlFiles := map[string]string{
		"anchor":         "http: {apiKeys: {a: *" + hush + "}}",
		"tag":            "http: {apiKeys: {a: !" + hush + " x}}",
		"percent":        "http:\n  apiKeys:\n    a: %" + hush,
		"at":             "http:\n  apiKeys:\n    a: @" + hush,
		"unclosed quote": "http: {apiKeys: {a: \"" + hush + "}}",
		"escape":         "http: {apiKeys: {a: \"\\y" + hush + "\"}}",
		"tab":            "http:\n\tapiKeys: " + hush,
		"colon":          "http:\n  apiKeys: a: " + hush,
		"list":           "http: {apiKeys: [" + hush + "]}",
		"text":           "http: {apiKeys: " + hush + "}",
		"section":        "redis: redis://:" + hush + "@h",
		"whole file":     hush,
		"push keys":      "swrve: {messagePrototypePushKeys: {Hello: " + hush + "}}",
		"unknown key":    "redis: {ulr: 'redis://:" + hush + "@h'}",
		"dotted key":     "redis.url: redis://:" + hush + "@h",
		"second":         "redis: {}\n---\n" + hush,
		"binary":         "redis: {url: !!binary " + hush + "}",
	}
	for name, file := range yamlFiles {
		t.Run("file/"+name, func(t *testing.T) {
			t.Parallel()
			_, err := load(file)
			require.NotEmpty(t, problems(t, err))
			require.NotContains(t, err.Error(), hush)
		})
	}
}

func TestWarningsHideValues(t *testing.T) {
	t.Parallel()
	loaded, err := load("", "PUSHQ_REDIS_ULR="+hush, "PUSHQ_KEY="+hush)
	require.NoError(t, err)
	require.Len(t, loaded.Warnings, 1)
	require.NotContains(t, loaded.Warnings[0], hush)
}
