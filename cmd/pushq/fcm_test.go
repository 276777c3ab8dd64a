package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/fcmsim"
	"pushq/internal/swrvesim"
	"pushq/internal/templatesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// An fcmWorld has a simulated Firebase and template service too.
type fcmWorld struct {
	*world
	firebase  *fcmsim.Simulator
	templates *templatesim.Simulator
	settings  []string
}

func newFCMWorld(t *testing.T) *fcmWorld {
	t.Helper()
	return newFCMWorldIn(t, newWorld(t, swrvesim.Config{}))
}

func newFCMWorldIn(t *testing.T, w *world) *fcmWorld {
	t.Helper()
	firebase, err := fcmsim.New(fcmsim.Config{})
	require.NoError(t, err)
	url, err := firebase.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = firebase.Close() })
	templates := templatesim.New(templatesim.Config{})
	templatesURL, err := templates.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = templates.Close() })
	account, err := firebase.ServiceAccount(url)
	require.NoError(t, err)
	return &fcmWorld{
		world: w, firebase: firebase, templates: templates,
		settings: []string{
			"FCM_ENABLED=true", "FCM_URL=" + url, "FCM_SERVICEACCOUNT=" + string(account), "TEMPLATE_URL=" + templatesURL,
		},
	}
}

func (w *fcmWorld) serve(settings ...string) *testenv.Process {
	w.t.Helper()
	return w.startReady("serve", append(w.settings, settings...)...)
}

// delivered counts how often each device got a message.
func (w *fcmWorld) delivered() map[string]int {
	count := map[string]int{}
	for _, request := range w.firebase.Ledger() {
		if request.Delivered {
			count[request.Token]++
		}
	}
	return count
}

// notificationBody is a message to a device; the key is the device's, too.
func notificationBody(device string, replaced ...string) string {
	body := fmt.Sprintf(`{"trace_id":"trace-%[1]s","idempotency_key":"key-%[1]s","user_id":"user-%[1]s","notification_type":"push",
		"recipient":"%[1]s","template_code":"welcome_notification","variables":{"name":"Ada","link":"https://example.com/welcome"},"language":"en","metadata":{}}`, device)
	return strings.NewReplacer(replaced...).Replace(body)
}

// notify posts a message that must be accepted, and returns the push's id.
func notify(t *testing.T, process *testenv.Process, body string) (id string, replayed bool) {
	t.Helper()
	status, header := tryNotify(t, process, body)
	require.Equal(t, http.StatusAccepted, status)
	return strings.TrimPrefix(header.Get("Location"), "/push/"), header.Get("Idempotent-Replayed") == "true"
}

// tryNotify posts a message that may be refused.
func tryNotify(t *testing.T, process *testenv.Process, body string) (status int, header http.Header) {
	t.Helper()
	response, err := client.Post(process.URL()+"/notifications", "application/json", bytes.NewBufferString(body))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, response.Header
}

func TestDevDeliversANotification(t *testing.T) {
	t.Parallel()
	dev := testenv.StartPushq(t, []string{"dev", "--listen", "127.0.0.1:0", "--channels", "swrve,fcm"})
	dev.WaitReady()
	id, _ := notify(t, dev, notificationBody("device-1"))
	waitFor(t, dev, id, tasks.Sent, 5*time.Second)
	waitFor(t, dev, accept(t, dev, "a-user-of-swrve"), tasks.Sent, 5*time.Second)
	require.Contains(t, strings.Join(dev.Stdout(), "\n"), "/notifications")
}

func TestANotificationIsRenderedAndDelivered(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	pushq := w.serve()
	id, replayed := notify(t, pushq, notificationBody("device-1"))
	require.False(t, replayed)
	push := waitFor(t, pushq, id, tasks.Sent, 10*time.Second)
	require.Len(t, push.Attempts, 1)
	ledger := w.firebase.Ledger()
	require.Len(t, ledger, 1)
	require.Equal(t, "device-1", ledger[0].Token)
	require.Contains(t, ledger[0].Title+ledger[0].Body, "Ada")
	require.Equal(t, map[string]string{"trace_id": "trace-device-1", "link": "https://example.com/welcome"}, ledger[0].Data)
	testenv.Eventually(t, 5*time.Second, "others are told", func() bool {
		return w.Redis.Client(t).Get(t.Context(), "idempotency:key-device-1").Val() == tasks.IdempotencySent
	})
	_, replayed = notify(t, pushq, notificationBody("device-1"))
	require.True(t, replayed)
}

func TestFiftyMessagesWithOneKeyAreSentOnce(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	processes := []*testenv.Process{w.serve(), w.serve()}
	var all sync.WaitGroup
	for number := range 50 {
		all.Go(func() { notify(t, processes[number%2], notificationBody("device-1")) })
	}
	all.Wait()
	id, _ := notify(t, processes[0], notificationBody("device-1"))
	waitFor(t, processes[0], id, tasks.Sent, 10*time.Second)
	require.Len(t, w.firebase.Ledger(), 1)
}

func TestANotificationThatCannotBeSentSaysWhy(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	pushq := w.serve()
	for device, test := range map[string]struct {
		replaced        []string
		errorType, text string
	}{
		"no-variable":          {[]string{`"name":"Ada",`, ""}, "TEMPLATE", "name"},
		"no-template":          {[]string{"welcome_notification", "notfound-welcome"}, "TEMPLATE", "has no template notfound-welcome"},
		"html":                 {[]string{"welcome_notification", "html-welcome"}, "TEMPLATE", "template"},
		"UNREGISTERED-1":       {nil, "FCM", "UNREGISTERED"},
		"too-long":             {[]string{`"Ada"`, `"` + strings.Repeat("a", 5000) + `"`}, "TEMPLATE", "4096"},
		"SENDER_ID_MISMATCH-1": {nil, "FCM", "SENDER_ID_MISMATCH"},
	} {
		id, _ := notify(t, pushq, notificationBody(device, test.replaced...))
		push := waitFor(t, pushq, id, tasks.Failed, 10*time.Second)
		last := push.Attempts[len(push.Attempts)-1]
		require.Equal(t, test.errorType, *last.ErrorType, device)
		require.Contains(t, *last.ErrorMessage, test.text, device)
		testenv.Eventually(t, 5*time.Second, "others are told", func() bool {
			return w.Redis.Client(t).Get(t.Context(), "idempotency:key-"+device).Val() == tasks.IdempotencyFailed
		})
	}
}

// A Firebase that does not work is reached by five requests, and then by a probe in each
// openFor; every push waits, and none is counted.
func TestADeadFirebaseIsLeftInPeace(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	require.NoError(t, w.firebase.SetOutcome("503-"))
	const openFor = 3 * time.Second
	settings := []string{"FCM_BREAKER_OPENFOR=3s", "FCM_RETRY_MAXATTEMPTS=20"}
	processes := []*testenv.Process{w.serve(settings...), w.serve(settings...)}
	const messages = 200
	ids := make([]string, messages)
	for number := range ids {
		ids[number], _ = notify(t, processes[number%2], notificationBody(fmt.Sprintf("device-%d", number)))
	}
	testenv.Eventually(t, 10*time.Second, "the breaker is open", func() bool {
		return w.Redis.Client(t).Get(t.Context(), "circuit:push_worker:fcm:state").Val() == "open"
	})
	time.Sleep(4 * openFor) // it is dead for so long
	reached := len(w.firebase.Ledger())
	require.GreaterOrEqual(t, reached, 5)
	require.LessOrEqual(t, reached, 5+5, "five, and a probe in each of the times since")
	require.NoError(t, w.firebase.SetOutcome(""))
	for _, id := range ids {
		waitFor(t, processes[0], id, tasks.Sent, time.Minute)
	}
	require.Len(t, w.delivered(), messages)
	for device, count := range w.delivered() {
		require.Equal(t, 1, count, device)
	}
}
