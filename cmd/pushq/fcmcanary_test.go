package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

// The whole flow of the channel fcm, with everything that goes wrong in it, and canaries in
// whatever is a secret or of one person. GET /push/{id} and the queue of failures show a
// notification as it was sent.
func TestSecretsAndTextsOfNotificationsAreNotShown(t *testing.T) {
	t.Parallel()
	const (
		variable, recipient, user = "canary-of-a-variable", "canary-of-a-recipient", "canary-of-a-user"
		metadata, key             = "canary-of-metadata", "canary-of-an-idempotency-key"
		rabbitPassword            = "canary-of-the-password-of-rabbitmq"
		postgresPassword          = "canary-of-the-password-of-postgresql"
		serverKey                 = "canary-of-the-server-key"
	)
	w := newFCMWorld(t)
	rabbit, database := testenv.StartRabbitMQ(t), testenv.StartPostgres(t)
	rabbit.Control("add_user", "pushq", rabbitPassword)
	rabbit.Control("set_permissions", "pushq", ".*", ".*", ".*")
	account, err := w.firebase.ServiceAccount("")
	require.NoError(t, err)
	var file struct {
		PrivateKey string `json:"private_key"`
	}
	require.NoError(t, json.Unmarshal(account, &file))
	secrets := append(strings.Split(strings.TrimSpace(file.PrivateKey), "\n")[1:3], rabbitPassword, postgresPassword, serverKey)
	texts := []string{variable, recipient, user, metadata, key}

	settings := append(w.settings,
		"RABBITMQ_URL="+strings.Replace(rabbit.URL(), "guest:guest", "pushq:"+rabbitPassword, 1),
		"HISTORY_POSTGRESURL="+strings.Replace(database.URL(), "test@", "test:"+postgresPassword+"@", 1),
		"FCM_SERVERKEY="+serverKey, "FCM_TIMEOUTMILLIS=4000", "FCM_BREAKER_OPENFOR=1s", "FCM_BREAKER_FAILURES=15", "FCM_RETRY_MAXATTEMPTS=2", "TEMPLATE_TRIES=1",
		"TEMPLATE_TIMEOUTMILLIS=4000")
	environment := w.Environment(settings...)
	start := func(more ...string) *testenv.Process {
		process := testenv.StartPushq(t, []string{"serve", "--listen", "127.0.0.1:0", "--log-level", "debug"}, append(environment, more...)...)
		process.WaitReady()
		return process
	}
	number := 0
	message := func(prefix, template string, more ...string) string {
		number++
		return string(testenv.Notification(append([]string{
			"recipient", fmt.Sprintf(`"%s%s-%d"`, prefix, recipient, number), "idempotency_key", fmt.Sprintf(`"%s-%d"`, key, number),
			"user_id", `"` + user + `"`, "template_code", `"` + template + `"`, "metadata", `{"note":"` + metadata + `"}`,
			"variables", `{"name":"` + variable + `","title":"` + variable + `","body":"` + variable + `","link":"https://example.com/` + variable + `"}`,
		}, more...)...))
	}
	answers, logs := shown{}, shown{}
	look := func(process *testenv.Process) {
		t.Helper()
		for _, path := range []string{"/metrics", "/health", "/health/ready", "/health/live", "/openapi.yaml", "/push?status=FAILED"} {
			response, err := client.Get(process.URL() + path)
			require.NoError(t, err)
			text, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			answers.add(path, fmt.Sprint(response.Header)+string(text))
		}
	}

	serve := start()
	ids := map[string]tasks.State{}
	post := func(end tasks.State, body string) {
		t.Helper()
		id, _ := notify(t, serve, body)
		ids[id] = end
	}
	await := func() {
		t.Helper()
		for id, end := range ids {
			waitFor(t, serve, id, end, time.Minute)
		}
		look(serve)
	}
	// postRefused posts what waits because pushq itself is refused, until it has been tried,
	// and then cancels it.
	postRefused := func(body string) {
		t.Helper()
		id, _ := notify(t, serve, body)
		ids[id] = tasks.Cancelled
		testenv.Eventually(t, time.Minute, "an attempt", func() bool { return len(lookUp(t, serve, id).Attempts) > 0 })
		testenv.Eventually(t, time.Minute, "it to be cancelled", func() bool {
			request, err := http.NewRequest(http.MethodDelete, serve.URL()+"/push/"+id, nil)
			require.NoError(t, err)
			response, err := client.Do(request)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			return response.StatusCode == http.StatusNoContent // a worker may have it in hand
		})
	}
	post(tasks.Sent, message("", "welcome_notification"))
	for _, prefix := range []string{"UNREGISTERED-", "MALFORMED_TOKEN-", "THIRD_PARTY_AUTH_ERROR-"} {
		post(tasks.Failed, message(prefix, "announcement"))
	}
	for _, template := range []string{"undeclared-welcome_notification", "unclosed-announcement"} {
		post(tasks.Failed, message("", template))
	}
	for _, prefix := range []string{"503-", "hang-", "reset-", "html400-"} {
		post(tasks.GivenUp, message(prefix, "announcement"))
	}
	for _, template := range []string{"unavailable-announcement", "html-welcome_notification"} {
		post(tasks.GivenUp, message("", template))
	}
	await()
	postRefused(message("403-", "announcement"))
	postRefused(message("html404-", "announcement"))
	postRefused(message("", "401-announcement"))
	look(serve)

	// Nobody takes any more.
	require.NoError(t, w.firebase.SetOutcome("503-"))
	for range 10 {
		post(tasks.Sent, message("", "announcement"))
	}
	testenv.Eventually(t, 20*time.Second, "the breaker to open", func() bool {
		return w.Redis.Client(t).Get(t.Context(), "circuit:push_worker:fcm:state").Val() == "open"
	})
	look(serve)
	clear(ids) // some of them may have been given up before that
	require.NoError(t, w.firebase.SetOutcome(""))
	testenv.Eventually(t, 20*time.Second, "the breaker to close", func() bool {
		return w.Redis.Client(t).Get(t.Context(), "circuit:push_worker:fcm:state").Val() == "closed"
	})

	// What RabbitMQ brings, around its own restart and PostgreSQL's.
	for _, name := range []string{"trace_id", "user_id", "recipient", "template_code", "variables", "language", "metadata"} {
		rabbit.Publish(t, messagesQueue, message("", "announcement", name, `["`+variable+`"]`))
	}
	rabbit.Publish(t, messagesQueue,
		message("", "welcome_notification", "variables", `{"name":{"`+"name"+`":"`+variable+`"}}`), variable, `{"recipient":"`+recipient,
		message("", "welcome_notification")+message("", "welcome_notification"), message("UNREGISTERED-", "announcement"), message("", "announcement"),
	)
	testenv.Eventually(t, 30*time.Second, "an empty queue", func() bool { return rabbit.Depth(t, messagesQueue) == 0 })
	database.Stop()
	rabbit.Stop()
	post(tasks.Failed, message("UNREGISTERED-", "announcement"))
	await()
	serve.WaitForLine("cannot deal with the entries of a stream", 30*time.Second)
	for _, body := range []string{"{", message("", "announcement", "variables", `{"a":["`+variable+`"]}`), message("", "announcement", "recipient", `"`+recipient+` "`)} {
		response, err := client.Post(serve.URL()+"/notifications", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusBadRequest, response.StatusCode)
		answers.add("a bad notification", string(text))
	}
	rabbit.Start()
	database.Start()
	w.requireNothingStuck()
	testenv.Eventually(t, 30*time.Second, "messages to be taken again", func() bool {
		return strings.Count(strings.Join(serve.Stderr(), "\n"), "taking messages from RabbitMQ") >= 2
	})
	rabbit.Control("change_password", "pushq", "another")
	rabbit.Control("close_all_connections", "for a test")
	// After the outage a worker may wait for 30 s before it tries again.
	serve.WaitForLine("username or password not allowed", 90*time.Second)
	look(serve)
	answers.runOnce(t, []string{"doctor"}, environment...)
	answers.runOnce(t, []string{"config", "show"}, environment...)
	serve.Terminate()
	require.Zero(t, serve.Wait(30*time.Second))
	logs.addOutput(serve, "serve")

	// A gateway that says back what it was told.
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, _ := io.ReadAll(r.Body)
		for status := range map[int]bool{200: true, 400: true, 401: true, 403: true, 404: true, 429: true, 503: true} {
			if strings.Contains(string(request), fmt.Sprintf(`"to":"%d-`, status)) {
				w.WriteHeader(status)
			}
		}
		_, _ = fmt.Fprintf(w, "%v %s", r.Header, request)
	}))
	t.Cleanup(gateway.Close)
	serve = start("PUSHQ_FCM_MODE=legacy", "PUSHQ_FCM_URL="+gateway.URL, "PUSHQ_FCM_BREAKER_FAILURES=1000", "PUSHQ_FCM_MAXRETRYAFTER=1s")
	clear(ids)
	post(tasks.Failed, message("400-", "announcement"))
	for _, prefix := range []string{"200-", "429-", "503-"} {
		post(tasks.GivenUp, message(prefix, "announcement"))
	}
	await()
	for _, prefix := range []string{"401-", "403-", "404-"} {
		postRefused(message(prefix, "announcement"))
	}
	for id := range ids {
		response, err := client.Get(serve.URL() + "/push/" + id)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.NotContains(t, string(text), serverKey, "as the gateway has said it")
	}
	serve.Terminate()
	require.Zero(t, serve.Wait(30*time.Second))
	logs.addOutput(serve, "serve for a gateway")

	stored := shown{"Redis": dump(t, w.Redis.Addr(), "")}
	require.Contains(t, stored["Redis"], variable)
	stored.requireWithout(t, secrets...)
	answers.requireWithout(t, append(secrets, texts...)...)
	logs.requireWithout(t, append(secrets, texts...)...)
	for _, told := range []string{"level=DEBUG", "mend the configuration", "setting=rabbitmq.url", "setting=history.postgresUrl"} {
		require.Contains(t, fmt.Sprint(logs), told)
	}
}
