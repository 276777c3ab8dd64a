package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/config"
	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// A secretSetting is a setting whose value is or holds a secret, with a canary
// in its place: a text that is found wherever it leaks.
type secretSetting struct {
	key      string
	variable string // without the prefix
	value    string
	canary   string
}

// secretSettings finds every secret of the configuration by its type, so that
// none is forgotten here.
func secretSettings(t *testing.T) map[string]secretSetting {
	t.Helper()
	found := make(map[string]secretSetting)
	addSecretSettings(t, found, reflect.TypeFor[config.Config](), "")
	require.Contains(t, found, "redis.url")
	require.Contains(t, found, "http.apiKeys")
	require.Contains(t, found, "dashboard.password")
	require.Contains(t, found, "swrve.messagePrototypePushKeys")
	return found
}

func addSecretSettings(t *testing.T, found map[string]secretSetting, section reflect.Type, prefix string) {
	t.Helper()
	for number := range section.NumField() {
		field := section.Field(number)
		key := prefix + field.Tag.Get("key")
		canary := "canary-of-" + strings.ToLower(strings.ReplaceAll(key, ".", "-")) + "-0123456789"
		value := ""
		switch {
		case key == "rabbitmq.url":
			value = "amqp://user:" + canary + "@127.0.0.1:1"
		case key == "history.postgresUrl":
			value = "postgres://user:" + canary + "@127.0.0.1:1/pushq"
		case field.Type == reflect.TypeFor[config.Secret]():
			value = canary
		case field.Type == reflect.TypeFor[map[string]config.Secret]():
			value = `{"shop":"` + canary + `"}`
		case field.Type == reflect.TypeFor[map[string]map[string]config.Secret]():
			value = `{"Hello":{"IOS":"` + canary + `","ANDROID":"` + canary + `"}}`
		case field.Type == reflect.TypeFor[config.RedisURL]():
			value = "redis-sentinel://:" + canary + "@127.0.0.1:1/0?master=m"
		case field.Type.Kind() == reflect.Struct:
			addSecretSettings(t, found, field.Type, key+".")
			continue
		case holdsSecret(field.Type):
			t.Fatalf("%s holds a secret in a form that this test does not know: teach it", key)
		default:
			continue
		}
		found[key] = secretSetting{key, strings.ToUpper(strings.ReplaceAll(key, ".", "_")), value, canary}
	}
}

func holdsSecret(kind reflect.Type) bool {
	if _, reveals := kind.MethodByName("Reveal"); reveals {
		return true
	}
	switch kind.Kind() {
	case reflect.Map, reflect.Slice, reflect.Pointer, reflect.Array:
		return holdsSecret(kind.Elem())
	default:
		return false
	}
}

// shown collects what a part of pushq has shown, by where.
type shown map[string]string

func (s shown) add(where, text string) { s[fmt.Sprintf("%s (%d)", where, len(s))] = text }

func (s shown) addOutput(process *testenv.Process, where string) {
	s.add(where, strings.Join(append(process.Stdout(), process.Stderr()...), "\n"))
}

// requireWithout searches for the texts, as they are and as encodings write
// them.
func (s shown) requireWithout(t *testing.T, texts ...string) {
	t.Helper()
	for where, all := range s {
		for _, text := range texts {
			for _, form := range []string{
				text, hex.EncodeToString([]byte(text)),
				base64.StdEncoding.EncodeToString([]byte(text)), base64.StdEncoding.EncodeToString([]byte("operator:" + text)),
			} {
				if place := strings.Index(all, form); place >= 0 {
					t.Errorf("%s shows %s: …%.300s", where, text, all[max(place-150, 0):])
				}
			}
		}
	}
}

// behind is the value with something before the secret, as its beginning.
func (s secretSetting) behind(beginning string) string {
	return strings.Replace(s.value, s.canary, beginning+s.canary, 1)
}

func (s secretSetting) line() string { return "PUSHQ_" + s.variable + "=" + s.value }

// runOnce runs a command to its end; without the race detector it starts faster.
func (s shown) runOnce(t *testing.T, arguments []string, environment ...string) {
	t.Helper()
	process := testenv.StartProgram(t, testenv.BinaryWithoutRace(t), arguments, environment...)
	process.Wait(30 * time.Second)
	s.addOutput(process, strings.Join(arguments, " "))
}

func TestSecretsInTheConfigurationAreNotShown(t *testing.T) {
	t.Parallel()
	settings, printed := secretSettings(t), shown{}
	environment := []string{"PUSHQ_DASHBOARD_USER=operator"}
	var canaries []string
	for _, setting := range settings {
		environment = append(environment, setting.line())
		canaries = append(canaries, setting.canary)
	}
	for _, command := range []string{"check", "show", "doc"} {
		printed.runOnce(t, []string{"config", command}, environment...)
	}
	for _, setting := range settings {
		// As mistakes leave it: the bare secret, one cut off, one of another
		// type, one with a blank, one under a name with a slip.
		for _, wrong := range []string{
			setting.canary, setting.value[:len(setting.value)-1], `["` + setting.canary + `"]`, `{"a":{"b":{"c":"` + setting.canary + `"}}}`,
			setting.value + " \u00fc", setting.behind("1/"), setting.behind("1?"), setting.behind("1#"), "redis://" + setting.canary, "http://" + setting.canary + "@h", "redis://:" + setting.canary + "@h:x/y",
		} {
			printed.runOnce(t, []string{"config", "check"}, "PUSHQ_"+setting.variable+"="+wrong)
		}
		printed.runOnce(t, []string{"config", "show"}, "PUSHQ_"+setting.variable+"S="+setting.value)
		printed.runOnce(t, []string{"config", "show"}, "PUSHQ_"+setting.variable+"_FILE="+setting.canary)

		file := filepath.Join(t.TempDir(), "pushq.yaml")
		section, name, _ := strings.Cut(setting.key, ".")
		for _, text := range []string{
			fmt.Sprintf("%s: {%s: %s}", section, name, setting.value),
			fmt.Sprintf("%s: {%ss: %s}", section, name, setting.value),
			fmt.Sprintf("%s: {%s: [%s]}", section, name, setting.canary),
			fmt.Sprintf("%s: {%s: !x %s}", section, name, setting.canary),
			fmt.Sprintf("%s: {%s: \"%s", section, name, setting.canary),
			fmt.Sprintf("%s: %s", section, setting.canary),
		} {
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			printed.runOnce(t, []string{"config", "check", "--config", file})
		}
	}
	require.Contains(t, fmt.Sprint(printed), "[secret]")
	printed.requireWithout(t, canaries...)
}

// A caller of a process with secrets; all that it is answered is kept.
type caller struct {
	t        *testing.T
	url      string
	key      string
	password string
	answers  shown
}

func (c *caller) ask(method, path, authorization, body string, header ...string) (int, http.Header, string) {
	c.t.Helper()
	request, err := http.NewRequest(method, c.url+path, strings.NewReader(body))
	require.NoError(c.t, err)
	request.Header.Set("Content-Type", "application/json")
	switch authorization {
	case "key":
		request.Header.Set("Authorization", "Bearer "+c.key)
	case "password":
		request.SetBasicAuth("operator", c.password)
	}
	for place := 0; place+1 < len(header); place += 2 {
		request.Header.Set(header[place], header[place+1])
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(c.t, err)
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	require.NoError(c.t, err)
	c.answers.add(fmt.Sprintf("%s %s as %q: %d", method, path, authorization, response.StatusCode), fmt.Sprint(response.Header)+string(answer))
	return response.StatusCode, response.Header, string(answer)
}

func TestSecretsAndTextsAreNotShown(t *testing.T) {
	t.Parallel()
	const messageCanary, deviceCanary, idempotencyCanary = "canary-of-a-message-text", "canary-of-a-device", "canary-of-idempotency"
	settings := secretSettings(t)
	redisPassword := settings["redis.url"].canary
	w := newWorld(t, swrvesim.Config{}, "--requirepass", redisPassword)
	redisURL := "redis://:" + redisPassword + "@" + w.Redis.Addr() + "/0"
	environment := []string{
		"DASHBOARD_USER=operator", "SWRVE_TIMEOUTMILLIS=4000", "SWRVE_AVERAGEPROCESSINGMILLIS=1000", "PUSH_RETRY_MAXATTEMPTS=2",
	}
	var canaries []string
	for _, setting := range settings {
		environment = append(environment, setting.variable+"="+setting.value)
		canaries = append(canaries, setting.canary)
	}
	lost := testenv.StartPushq(t, []string{"serve", "--listen", "127.0.0.1:0"}, w.Environment(environment...)...)
	lost.WaitForLine("waiting for redis", 20*time.Second) // by sentinels that are not there
	environment = append(environment, "REDIS_URL="+redisURL, "REDIS_SENTINELPASSWORD=")
	start := func(arguments ...string) *testenv.Process {
		return testenv.StartPushq(t, append(arguments, "--listen", "127.0.0.1:0", "--log-level", "debug"), w.Environment(environment...)...)
	}
	serve := start("serve")
	serve.WaitReady()
	c := &caller{t: t, url: serve.URL(), key: settings["http.apiKeys"].canary, password: settings["dashboard.password"].canary, answers: shown{}}

	// Pushes with every kind of end.
	body := func(prototype, user string, more ...string) string {
		return fmt.Sprintf(`{"platform":"IOS","messagePrototypeKey":%q,"pushKey":%q,"message":%q%s}`, prototype, user+deviceCanary, messageCanary, strings.Join(more, ""))
	}
	ids := make(map[string]tasks.State)
	post := func(end tasks.State, body string, header ...string) string {
		status, answered, answer := c.ask(http.MethodPost, "/push", "key", body, header...)
		require.Equal(t, http.StatusAccepted, status, answer)
		id := strings.TrimPrefix(answered.Get("Location"), "/push/")
		ids[id] = end
		return id
	}
	for user, end := range map[string]tasks.State{
		"": tasks.Sent, "500x1-": tasks.Sent, "echo503x1-": tasks.Sent, "echo503-": tasks.GivenUp, "hang-": tasks.GivenUp, "reset-": tasks.GivenUp,
		"echo400-": tasks.Failed, "400-": tasks.Failed, "302-": tasks.GivenUp, "html502-": tasks.GivenUp, "body400-": tasks.Failed, "429-": tasks.GivenUp,
	} {
		post(end, body("Hello", user))
	}
	post(tasks.Failed, body("Unmapped", ""))
	post(tasks.Sent, body("Hello", "keyed"), "Idempotency-Key", idempotencyCanary)
	later := time.Now().UTC().Add(24 * time.Hour).Format(`,"cronExpression":"5 4 15 2 1 ? 2006"`)
	scheduled := post(tasks.Cancelled, body("Hello", "later", later))
	c.ask(http.MethodPost, "/push/"+scheduled+"/retry", "key", "")
	c.ask(http.MethodDelete, "/push/"+scheduled, "key", "")
	var failed string
	for id, end := range ids {
		if end == tasks.Failed {
			failed = id
		}
		testenv.EventuallyNoError(t, 60*time.Second, func() error {
			if _, _, answer := c.ask(http.MethodGet, "/push/"+id, "key", ""); !strings.Contains(answer, fmt.Sprintf(`"status":%q`, end)) {
				return fmt.Errorf("waiting for %s: %s", end, answer)
			}
			return nil
		})
	}

	// Every other answer.
	for _, authorization := range []string{"", "key", "password"} {
		for _, path := range []string{
			"/health", "/health/live", "/health/ready", "/metrics", "/openapi.yaml", "/nothing", "/push/nothing", "/push", "/push?status=nothing",
			"/push/" + failed, "/monitoring", "/monitoring/", "/monitoring/api/queues", "/monitoring/api/queues/swrve", "/monitoring/api/queues/swrve/archived_tasks",
			"/monitoring/api/queues/swrve/completed_tasks", "/monitoring/api/queues/swrve/tasks/" + failed, "/monitoring/api/servers",
			"/monitoring/api/redis_info", "/monitoring/api/queues/nothing/retry_tasks",
		} {
			status, _, answer := c.ask(http.MethodGet, path, authorization, "")
			if open := path == "/health/live" || path == "/health/ready"; authorization == "" && !open {
				require.Equal(t, http.StatusUnauthorized, status, "%s %s", path, answer)
			}
		}
		for _, state := range tasks.States() {
			c.ask(http.MethodGet, "/push?status="+string(state), authorization, "")
		}
		for _, wrong := range []string{"", "{", body("Hello", "", `,"cronExpression":"never"`), body("Hello", "", `,"unknown":1`), strings.Repeat(messageCanary, 1000)} {
			c.ask(http.MethodPost, "/push", authorization, wrong)
		}
		c.ask(http.MethodPost, "/push", authorization, body("Hello", ""), "Idempotency-Key", idempotencyCanary)
		c.ask(http.MethodPatch, "/push", authorization, "")
	}
	c.ask(http.MethodGet, "/push", "", "", "Authorization", "Basic "+c.key)
	c.ask(http.MethodGet, "/monitoring", "", "", "Authorization", "Bearer "+c.password)

	// The command line, with the right key.
	printed := shown{}
	for _, arguments := range [][]string{{"push", "get", failed}, {"push", "get", "nothing"}, {"push", "retry", failed}, {"push", "list", "--status", "SENT"}} {
		printed.runOnce(t, append(arguments, "--log-level", "debug"), "PUSHQ_SERVER="+c.url, "PUSHQ_KEY="+c.key)
	}
	printed.runOnce(t, []string{"push", "get", failed, "--server", "http://" + testenv.FreeAddress(t), "--key", c.key})

	// What Redis keeps: the secrets are not needed there.
	stored := shown{"Redis": dump(t, w.Redis.Addr(), redisPassword)}
	require.Contains(t, stored["Redis"], messageCanary)
	stored.requireWithout(t, canaries...)

	// Redis goes away, comes back with another password, and a process dies in
	// the way of a crash.
	w.Redis.Stop()
	c.ask(http.MethodPost, "/push", "key", body("Hello", ""))
	c.ask(http.MethodGet, "/push/"+failed, "key", "")
	c.ask(http.MethodGet, "/health", "key", "")
	c.ask(http.MethodGet, "/monitoring/api/queues", "password", "")
	w.Redis.Start()
	other := start("api")
	other.WaitReady()
	setPassword(t, w.Redis.Addr(), redisPassword, "another")
	refused := start("serve")
	require.Equal(t, 1, refused.Wait(20*time.Second))
	require.NoError(t, syscall.Kill(other.Pid(), syscall.SIGQUIT)) // Go prints every stack
	require.Equal(t, 2, other.Wait(20*time.Second))
	serve.Terminate()
	require.Zero(t, serve.Wait(30*time.Second))

	c.answers.requireWithout(t, canaries...)
	printed.requireWithout(t, canaries...)
	logs := shown{}
	logs.addOutput(lost, "serve without its sentinels")
	logs.addOutput(serve, "serve")
	logs.addOutput(refused, "serve with the wrong password")
	logs.addOutput(other, "api")
	logs.requireWithout(t, append(canaries, messageCanary, deviceCanary, idempotencyCanary)...)
	require.Contains(t, fmt.Sprint(logs), "level=DEBUG")
	require.Contains(t, fmt.Sprint(logs), "goroutine ")
	require.Contains(t, fmt.Sprint(logs), "WRONGPASS")
}

func setPassword(t *testing.T, address, before, after string) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: address, Password: before})
	defer func() { _ = client.Close() }()
	require.NoError(t, client.ConfigSet(t.Context(), "requirepass", after).Err())
}

// dump is everything in a Redis, as text.
func dump(t *testing.T, address, password string) string {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: address, Password: password})
	defer func() { _ = client.Close() }()
	keys, err := client.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	var all bytes.Buffer
	for _, key := range keys {
		var value any
		switch kind := client.Type(t.Context(), key).Val(); kind {
		case "string":
			value, err = client.Get(t.Context(), key).Result()
		case "hash":
			value, err = client.HGetAll(t.Context(), key).Result()
		case "list":
			value, err = client.LRange(t.Context(), key, 0, -1).Result()
		case "set":
			value, err = client.SMembers(t.Context(), key).Result()
		case "zset":
			value, err = client.ZRange(t.Context(), key, 0, -1).Result()
		case "stream":
			value, err = client.XRange(t.Context(), key, "-", "+").Result()
		case "none": // gone since: workers go on meanwhile
		default:
			t.Fatalf("%s is a %s", key, kind)
		}
		if errors.Is(err, redis.Nil) {
			continue // gone between the two questions
		}
		require.NoError(t, err, key)
		fmt.Fprintln(&all, key, value)
	}
	return all.String()
}
