package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hibiken/asynq"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"pushq/internal/fcmsim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// badSettings let a service that does not answer be given up soon, and no breaker wait for
// it.
var badSettings = []string{
	"TEMPLATE_TIMEOUTMILLIS=5000", "TEMPLATE_TRIES=2", "FCM_RETRY_MAXATTEMPTS=2", "FCM_BREAKER_FAILURES=1000",
}

// oddNotifications are accepted and delivered, just as they are: by device, fields that
// are replaced, and what arrives.
func oddNotifications() map[string]struct {
	replaced []string
	arrives  fcmsim.Message
} {
	type odd = struct {
		replaced []string
		arrives  fcmsim.Message
	}
	const trace = "a3f5b9c1-2d4e-4a5f-9b2c-7e8d9f1a2b3c"
	announcement := func(variables, title, body string, more ...string) odd {
		return odd{
			append([]string{"template_code", `"announcement"`, "variables", variables}, more...),
			fcmsim.Message{Title: title, Body: body, Data: map[string]string{"trace_id": trace}},
		}
	}
	var many strings.Builder
	for number := range 998 {
		fmt.Fprintf(&many, `"v%d":"x",`, number)
	}
	return map[string]odd{
		"odd-not-twice":  announcement(`{"title":"{{body}}","body":"{{title}} {{other}} {{","other":"no"}`, "{{body}}", "{{title}} {{other}} {{"),
		"odd-markup":     announcement(`{"title":"<b>&\"'</b>","body":"$1 \\1 %s {name}"}`, `<b>&"'</b>`, `$1 \1 %s {name}`),
		"odd-numbers":    announcement(`{"title":1e999,"body":-1.50}`, "1e999", "-1.50"),
		"odd-booleans":   announcement(`{"title":true,"body":false}`, "true", "false"),
		"odd-nul":        announcement(`{"title":"a\u0000b","body":"\r\n\u2028"}`, "a\x00b", "\r\n\u2028"),
		"odd-one-empty":  announcement(`{"title":"","body":"text"}`, "", "text"),
		"odd-null":       announcement(`{"title":null,"body":"text"}`, "", "text", "metadata", "null"),
		"odd-names":      announcement(`{"title":"a","body":"b","":1,"{{":2,"имя":3,"a b\u0000":4,"__proto__":5}`, "a", "b"),
		"odd-many":       announcement("{"+many.String()+`"title":"a","body":"b"}`, "a", "b"),
		"odd-unknown":    announcement(`{"title":"a","body":"b"}`, "a", "b", "priority", `"high"`, "Recipient", `"other"`, "nul", `{"\u0000":[]}`),
		"odd-metadata":   announcement(`{"title":"a","body":"b"}`, "a", "b", "metadata", `{"huge":1e999,"nul":"\u0000","list":[],"deep":[[[[[[[[]]]]]]]],"digits":12345678901234567890}`),
		"odd-white":      announcement("{\r\n\t\"title\" :\"a\" , \"body\": \"b\" }", "a", "b", "metadata", " {\n} "),
		"odd-link-empty": announcement(`{"title":"a","body":"b","link":""}`, "a", "b"),
		"odd-reserved":   announcement(`{"title":"a","body":"b","from":"c","google.x":"d"}`, "a", "b"),
	}
}

// failingNotifications are accepted, and end by what is said of them: by device.
func failingNotifications() map[string]struct {
	replaced []string
	end      tasks.State
	reason   string
} {
	type failing = struct {
		replaced []string
		end      tasks.State
		reason   string
	}
	template := func(code, reason string) failing {
		return failing{[]string{"template_code", `"` + code + `"`}, tasks.Failed, "TEMPLATE: " + reason}
	}
	away := func(code string) failing {
		return failing{[]string{"template_code", `"` + code + `"`}, tasks.GivenUp, "TEMPLATE: the template service is not available"}
	}
	return map[string]failing{
		"none":         template("nothing", "the template service has no template nothing in language en"),
		"dot":          template(".", "the template service has no template ."),
		"dots":         template("..", "the template service has no template .."),
		"404":          template("notfound-welcome_notification", "the template service has no template notfound-welcome_notification"),
		"other":        template("other-welcome_notification", `the template service answered what is not a template: its code is "another"`),
		"unclosed":     template("unclosed-welcome_notification", "body of template unclosed-welcome_notification: {{ at byte 6 has no }}"),
		"unnamed":      template("unnamed-welcome_notification", "body of template unnamed-welcome_notification: {{ at byte 6"),
		"nested":       template("nested-welcome_notification", "body of template nested-welcome_notification: {{ at byte 6"),
		"undeclared":   template("undeclared-welcome_notification", `template undeclared-welcome_notification: it needs variables that the message does not have: "undeclared"`),
		"html":         away("html-welcome_notification"),
		"html404":      away("html404-welcome_notification"),
		"shape":        away("shape-welcome_notification"),
		"cut":          away("cut-welcome_notification"),
		"huge":         away("huge-welcome_notification"),
		"hang":         away("hang-welcome_notification"),
		"reset":        away("reset-welcome_notification"),
		"unavailable":  away("unavailable-welcome_notification"),
		"language":     {[]string{"language", `"xx"`}, tasks.Failed, "TEMPLATE: the template service has no template welcome_notification in language xx"},
		"underscore":   {[]string{"language", `"en_US"`}, tasks.Failed, "TEMPLATE: the template service has no template welcome_notification in language en_US"},
		"null":         {[]string{"variables", `null`}, tasks.Failed, `TEMPLATE: template welcome_notification: it needs variables that the message does not have: "name"`},
		"no-variables": {[]string{"variables", `{}`}, tasks.Failed, `TEMPLATE: template welcome_notification: it needs variables that the message does not have: "name"`},
		"too-long":     {[]string{"variables", `{"name":"` + strings.Repeat("é", 2100) + `"}`}, tasks.Failed, "Firebase takes 4096"},
		"empty": {[]string{"template_code", `"announcement"`, "variables", `{"title":"","body":""}`}, tasks.Failed,
			"TEMPLATE: template announcement: title and body are empty with these variables"},
		"UNREGISTERED-1":       {nil, tasks.Failed, "FCM 404: UNREGISTERED"},
		"SENDER_ID_MISMATCH-1": {nil, tasks.Failed, "FCM 403: SENDER_ID_MISMATCH"},
		"html400-1":            {nil, tasks.GivenUp, "FCM 400: the answer is not Firebase's, see fcm.url: 400 with an HTML page after 1 retries"},
		"html200-1":            {nil, tasks.GivenUp, "FCM 200: the answer is not Firebase's, see fcm.url (it may have been delivered): 200 with an HTML page after 1 retries"},
		"html502-1":            {nil, tasks.GivenUp, "FCM 502: Bad Gateway after 1 retries"},
	}
}

// messageTo is a message to a device with a key of its own.
func messageTo(device string, replaced ...string) string {
	return string(testenv.Notification(append([]string{
		"recipient", fmt.Sprintf("%q", device), "idempotency_key", fmt.Sprintf("%q", "key-of-"+device),
	}, replaced...)...))
}

func TestBadNotificationsOverHTTP(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	pushq := w.serve(badSettings...)
	for _, bad := range testenv.BadMessages() {
		requireRefused(t, pushq, bad)
	}
	for _, stored := range []string{"idempotency:*", "pushq:{fcm}:idem:*", "pushq:{fcm}:push:*", "asynq:{fcm}:t:*"} {
		require.Empty(t, w.Redis.Client(t).Keys(t.Context(), stored).Val(), "of a message that was refused")
	}

	ids := map[string]string{}
	for device, failing := range failingNotifications() {
		ids[device], _ = notify(t, pushq, messageTo(device, failing.replaced...))
	}
	for device, failing := range failingNotifications() {
		push := waitFor(t, pushq, ids[device], failing.end, time.Minute)
		last := push.Attempts[len(push.Attempts)-1]
		reason := *last.ErrorType + ": " + *last.ErrorMessage
		if last.ErrorCode != nil {
			reason = fmt.Sprintf("%s %d: %s", *last.ErrorType, *last.ErrorCode, *last.ErrorMessage)
		}
		require.Contains(t, reason, strings.TrimSuffix(failing.reason, " after 1 retries"), device)
	}
	for device, odd := range oddNotifications() {
		id, _ := notify(t, pushq, messageTo(device, odd.replaced...))
		waitFor(t, pushq, id, tasks.Sent, time.Minute)
	}
	w.requireOddOnesDelivered()
	w.requireNothingStuck()
	require.Zero(t, w.Swrve.Stats().Requests)
}

// requireRefused wants a problem that names the field, and says the same as RabbitMQ's
// queue of failures.
func requireRefused(t *testing.T, pushq *testenv.Process, bad testenv.BadMessage) {
	t.Helper()
	response, err := client.Post(pushq.URL()+"/notifications", "application/json", bytes.NewReader(bad.Body))
	require.NoError(t, err, bad.Name)
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err, bad.Name)
	require.Equal(t, "application/problem+json", response.Header.Get("Content-Type"), bad.Name)
	require.Less(t, len(answer), 2000, bad.Name)
	const maxBodyBytes = 16 << 10 // http.maxBodyBytes
	if len(bad.Body) > maxBodyBytes {
		require.Equal(t, http.StatusRequestEntityTooLarge, response.StatusCode, bad.Name)
		return
	}
	require.Equal(t, http.StatusBadRequest, response.StatusCode, bad.Name)
	var problem struct {
		Detail string
		Errors []struct{ Field, Reason string }
	}
	require.NoError(t, json.Unmarshal(answer, &problem), bad.Name)
	if bad.Field == "" {
		require.Contains(t, problem.Detail, bad.Problem, bad.Name)
		require.Empty(t, problem.Errors, bad.Name)
		return
	}
	require.Len(t, problem.Errors, 1, bad.Name)
	require.Equal(t, bad.Field, problem.Errors[0].Field, bad.Name)
	require.Contains(t, problem.Errors[0].Reason, bad.Problem, bad.Name)
}

func (w *fcmWorld) requireOddOnesDelivered() {
	w.t.Helper()
	arrived := map[string]fcmsim.Message{}
	for _, request := range w.firebase.Ledger() {
		if request.Delivered {
			arrived[request.Token] = request.Message
		}
	}
	for device, odd := range oddNotifications() {
		odd.arrives.Token = device
		require.Equal(w.t, odd.arrives, arrived[device], device)
		require.Equal(w.t, 1, w.delivered()[device], device)
	}
}

// requireNothingStuck wants every notification at its end: no task that is to be run, no
// key in process, nothing in the streams of followers.
func (w *fcmWorld) requireNothingStuck() {
	w.t.Helper()
	redis := w.Redis.Client(w.t)
	inspector := asynq.NewInspectorFromRedisClient(redis)
	// RabbitMQ may have been away for a while, and is tried again every 30 s at last.
	testenv.EventuallyNoError(w.t, 90*time.Second, func() error {
		for _, queue := range tasks.FCM.Queues() {
			info, err := inspector.GetQueueInfo(queue)
			if err != nil {
				return err
			}
			if left := info.Pending + info.Active + info.Scheduled + info.Retry; left > 0 {
				return fmt.Errorf("%d tasks in queue %s", left, queue)
			}
		}
		for _, key := range redis.Keys(w.t.Context(), "idempotency:*").Val() {
			if state := redis.Get(w.t.Context(), key).Val(); state != tasks.IdempotencySent && state != tasks.IdempotencyFailed {
				return fmt.Errorf("%s is %s", key, state)
			}
		}
		for _, key := range redis.Keys(w.t.Context(), "pushq:{fcm}:idem:*").Val() {
			if claim := redis.Get(w.t.Context(), key).Val(); !strings.HasSuffix(claim, " ended") {
				return fmt.Errorf("the claim %s is open: %s", key, claim)
			}
		}
		for _, key := range redis.Keys(w.t.Context(), "pushq:{fcm}:follow:*").Val() {
			if length := redis.XLen(w.t.Context(), key).Val(); length > 0 {
				return fmt.Errorf("%d entries in %s", length, key)
			}
		}
		return nil
	})
}

// failedMessage is what the queue of failures has.
type failedMessage struct {
	Original json.RawMessage `json:"original_message"`
	Reason   string          `json:"failure_reason"`
	At       time.Time       `json:"failed_at"`
}

// takeFailures takes so many messages out of the queue of failures: their reasons, by
// original. Longer there are none.
func takeFailures(t *testing.T, server *testenv.RabbitMQ, count int) map[string]failedMessage {
	t.Helper()
	failures := map[string]failedMessage{}
	connection := server.Connect(t)
	channel, err := connection.Channel()
	require.NoError(t, err)
	testenv.EventuallyNoError(t, time.Minute, func() error {
		for {
			message, found, err := channel.Get(failuresQueue, true)
			if err != nil { // the queue does not exist yet, which ends the channel
				var opening error
				channel, opening = connection.Channel()
				require.NoError(t, opening)
				return err
			}
			if !found {
				break
			}
			require.Equal(t, "application/json", message.ContentType)
			var failed failedMessage
			require.NoError(t, json.Unmarshal(message.Body, &failed))
			require.WithinDuration(t, time.Now(), failed.At, 5*time.Minute)
			require.NotContains(t, failures, string(failed.Original), "twice: %s", failed.Reason)
			failures[string(failed.Original)] = failed
		}
		if len(failures) < count {
			return fmt.Errorf("%d of %d failures", len(failures), count)
		}
		return nil
	})
	require.Len(t, failures, count)
	require.NoError(t, channel.Close())
	return failures
}

// inJSON is how the queue of failures has a message.
func inJSON(t *testing.T, body []byte) string {
	t.Helper()
	var text bytes.Buffer
	if utf8.Valid(body) && json.Compact(&text, body) == nil {
		return text.String()
	}
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	text.Reset()
	if utf8.Valid(body) {
		require.NoError(t, encoder.Encode(string(body)))
	} else {
		require.NoError(t, encoder.Encode(body))
	}
	return strings.TrimSuffix(text.String(), "\n")
}

func TestBadNotificationsFromRabbitMQ(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	rabbit := testenv.StartRabbitMQ(t)
	w.startReady("worker", append(append(w.settings, badSettings...), "RABBITMQ_URL="+rabbit.URL())...)
	batch := 0
	requireStillTaking := func() {
		t.Helper()
		batch++
		device := fmt.Sprintf("good-%d", batch)
		rabbit.Publish(t, messagesQueue, messageTo(device))
		testenv.Eventually(t, 30*time.Second, "a good message after bad ones", func() bool { return w.delivered()[device] == 1 })
	}

	bad := testenv.BadMessages()
	for len(bad) > 0 {
		part := bad[:min(50, len(bad))]
		bad = bad[len(part):]
		var bodies []string
		for _, message := range part {
			bodies = append(bodies, string(message.Body))
		}
		rabbit.Publish(t, messagesQueue, bodies...)
		failures := takeFailures(t, rabbit, len(part))
		for _, message := range part {
			failed, found := failures[inJSON(t, message.Body)]
			require.True(t, found, "the original of: %s", message.Name)
			require.Contains(t, failed.Reason, "the message cannot be used: "+strings.TrimSpace(message.Field+" "+message.Problem), message.Name)
			require.Less(t, len(failed.Reason), 1000, message.Name)
		}
		requireStillTaking()
	}
	require.Len(t, w.Redis.Client(t).Keys(t.Context(), "asynq:{fcm}:t:*").Val(), batch, "tasks of other than good messages")

	var bodies []string
	for device, failing := range failingNotifications() {
		bodies = append(bodies, messageTo(device, failing.replaced...))
	}
	rabbit.Publish(t, messagesQueue, bodies...)
	failures := takeFailures(t, rabbit, len(bodies))
	for device, failing := range failingNotifications() {
		failed, found := failures[messageTo(device, failing.replaced...)]
		require.True(t, found, "the original of: %s", device)
		require.Contains(t, failed.Reason, failing.reason, device)
	}
	requireStillTaking()

	bodies = nil
	for device, odd := range oddNotifications() {
		bodies = append(bodies, messageTo(device, odd.replaced...))
	}
	rabbit.Publish(t, messagesQueue, bodies...)
	testenv.Eventually(t, 30*time.Second, "the odd ones to be delivered", func() bool { return len(w.delivered()) == batch+len(bodies) })
	w.requireOddOnesDelivered()
	requireStillTaking()
	w.requireNothingStuck()
	require.Zero(t, rabbit.Depth(t, messagesQueue))
	require.Zero(t, rabbit.Depth(t, failuresQueue))
}

// What senders and operators of RabbitMQ may have set makes no difference, and a queue that
// has other arguments is taken as it is.
func TestMessagesOfOtherSenders(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	rabbit := testenv.StartRabbitMQ(t)
	channel, err := rabbit.Connect(t).Channel()
	require.NoError(t, err)
	require.NoError(t, channel.Confirm(false))
	_, err = channel.QueueDeclare(messagesQueue, true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-max-length": 1000, "x-message-ttl": 3_600_000})
	require.NoError(t, err)
	_, err = channel.QueueDeclare(failuresQueue, true, false, false, false, amqp.Table{"x-max-length": 2, "x-overflow": "reject-publish"})
	require.NoError(t, err)
	put := func(message amqp.Publishing) {
		t.Helper()
		confirmation, err := channel.PublishWithDeferredConfirmWithContext(t.Context(), "", messagesQueue, true, false, message)
		require.NoError(t, err)
		require.True(t, confirmation.Wait())
	}
	senders := map[string]amqp.Publishing{
		"bare":          {},
		"text":          {ContentType: "text/plain"},
		"charset":       {ContentType: "application/json; charset=utf-8", ContentEncoding: "utf-8"},
		"no-json":       {ContentType: "application/octet-stream", ContentEncoding: "identity"},
		"priority":      {Priority: 9},
		"expires":       {Expiration: "3600000"},
		"transient":     {DeliveryMode: amqp.Transient},
		"reply":         {ReplyTo: "somewhere", CorrelationId: "\x00\xff", MessageId: strings.Repeat("m", 255), Type: "type", AppId: "app", Timestamp: time.Unix(1<<40, 0)},
		"headers":       {Headers: amqp.Table{"traceparent": "no", "x-death": []any{amqp.Table{"count": int64(5)}}, "nothing": nil, "bytes": []byte{0, 255}}},
		"large-headers": {Headers: amqp.Table{"large": strings.Repeat("h", 100_000)}},
	}
	for device, message := range senders {
		message.Body = []byte(messageTo(device))
		put(message)
	}
	compressed := []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xab\xae\x05\x00\x43\xbf\xa6\xa3\x02\x00\x00\x00")
	put(amqp.Publishing{ContentType: "application/json", ContentEncoding: "gzip", Body: compressed})

	pushq := w.startReady("worker", append(w.settings, "RABBITMQ_URL="+rabbit.URL())...)
	testenv.Eventually(t, 30*time.Second, "all to be delivered", func() bool { return len(w.delivered()) == len(senders) })
	for device := range senders {
		require.Equal(t, 1, w.delivered()[device], device)
	}
	testenv.Eventually(t, 30*time.Second, "the compressed one to be refused", func() bool { return rabbit.Depth(t, failuresQueue) == 1 })

	// The queue of failures has room for one more. What it refuses waits, in RabbitMQ or
	// in Redis, and the log says so.
	for _, device := range []string{"UNREGISTERED-1", "UNREGISTERED-2", "UNREGISTERED-3"} {
		put(amqp.Publishing{Body: []byte(messageTo(device))})
	}
	put(amqp.Publishing{Body: []byte("bad-1")})
	put(amqp.Publishing{Body: []byte("bad-2")})
	put(amqp.Publishing{Body: []byte(messageTo("good"))})
	testenv.Eventually(t, 30*time.Second, "a good message beside them", func() bool { return w.delivered()["good"] == 1 })
	pushq.WaitForLine("RabbitMQ refuses the message: the queue may be full", 30*time.Second)
	require.Equal(t, 2, rabbit.Depth(t, failuresQueue))
	pushq.Terminate() // and they outlive the process
	require.Zero(t, pushq.Wait(30*time.Second))
	w.startReady("worker", append(w.settings, "RABBITMQ_URL="+rabbit.URL())...)

	// Each is there once: what has been published before a refusal is not published again.
	failures := takeFailures(t, rabbit, 6)
	for _, original := range []string{inJSON(t, compressed), `"bad-1"`, `"bad-2"`, messageTo("UNREGISTERED-1"), messageTo("UNREGISTERED-2"), messageTo("UNREGISTERED-3")} {
		require.Contains(t, failures, original)
	}
	w.requireNothingStuck()
	require.Zero(t, rabbit.Depth(t, messagesQueue))
}
