package main

import (
	"bytes"
	"fmt"
	"io"
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

const (
	messagesQueue = "push.queue"
	failuresQueue = "failed.queue"
)

// An fcmWorld has a simulated Firebase and template service too.
type fcmWorld struct {
	*world
	firebase  *fcmsim.Simulator
	templates *templatesim.Simulator
	settings  []string
	delivered func() map[string]int // how often each device got a message
}

func newFCMWorld(t *testing.T) *fcmWorld {
	t.Helper()
	return newFCMWorldIn(t, newWorld(t, swrvesim.Config{}))
}

func newFCMWorldIn(t *testing.T, w *world) *fcmWorld {
	t.Helper()
	fcm := testenv.StartFCM(t, fcmsim.Config{})
	return &fcmWorld{
		world: w, firebase: fcm.Firebase, templates: fcm.Templates, settings: fcm.Settings, delivered: fcm.Delivered,
	}
}

func (w *fcmWorld) serve(settings ...string) *testenv.Process {
	w.t.Helper()
	return w.startReady("serve", append(w.settings, settings...)...)
}

// notificationBody is a message to a device; the key is the device's, too.
func notificationBody(device string, replaced ...string) string {
	return strings.NewReplacer(replaced...).Replace(testenv.NotificationTo(device))
}

// notify posts a message that must be accepted, and returns the push's id.
func notify(t *testing.T, process *testenv.Process, body string) (id string, replayed bool) {
	t.Helper()
	status, header, _, _ := patiently(func() (int, http.Header, string, error) { // the message has a key
		status, header := tryNotify(t, process, body)
		return status, header, "", nil
	})
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

// Firebase's legacy protocol names another token of a device that it has delivered to, which
// whoever keeps the token has to learn.
func TestATokenThatIsReplacedIsTold(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	database := testenv.StartPostgres(t)
	pushq := w.serve("FCM_MODE=legacy", "FCM_SERVERKEY=key", "HISTORY_POSTGRESURL="+database.URL())
	replaced, _ := notify(t, pushq, notificationBody("Replaced-1"))
	numeric, _ := notify(t, pushq, notificationBody("NumericId-1"))
	for id, want := range map[string]string{replaced: "new-of-Replaced-1", numeric: ""} {
		push := waitFor(t, pushq, id, tasks.Sent, 20*time.Second)
		require.Len(t, push.Attempts, 1)
		require.Equal(t, want, push.Attempts[0].Replacement)
	}
	require.Equal(t, 1.0, scrape(t, pushq).Series[`pushq_replaced_tokens_total{channel="fcm"}`])
	testenv.Eventually(t, 30*time.Second, "the history to have it", func() bool {
		response, err := client.Get(pushq.URL() + "/history?status=SENT")
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return strings.Contains(string(text), `"replacement":"new-of-Replaced-1"`)
	})
	require.Contains(t, strings.Join(pushq.Stderr(), "\n"), "replaced_token=true")
	require.NotContains(t, strings.Join(pushq.Stderr(), "\n"), "new-of-")
}

// Somebody else answers in the template service's place while many notifications wait for a
// template: they wait until it is back.
func TestNotificationsOutlastWhoAnswersForTheTemplateService(t *testing.T) {
	t.Parallel()
	for _, trouble := range []string{"html-", "html404-", "shape-"} {
		t.Run(trouble, func(t *testing.T) {
			t.Parallel()
			w := newFCMWorld(t)
			require.NoError(t, w.templates.SetTrouble(trouble))
			pushq := w.serve("FCM_BREAKER_OPENFOR=2s")
			var ids []string
			for number := range 100 {
				id, _ := notify(t, pushq, notificationBody(fmt.Sprintf("device-%d", number)))
				ids = append(ids, id)
			}
			testenv.Eventually(t, 30*time.Second, "the breaker to open", func() bool {
				return w.Redis.Client(t).Get(t.Context(), "circuit:push_worker:template_service:state").Val() == "open"
			})
			for _, id := range ids {
				require.False(t, lookUp(t, pushq, id).Status.Ended(), id)
			}
			require.NoError(t, w.templates.SetTrouble(""))
			for _, id := range ids {
				waitFor(t, pushq, id, tasks.Sent, 2*time.Minute)
			}
			require.Len(t, w.delivered(), 100)
		})
	}
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
		"other-template":       {[]string{"welcome_notification", "other-welcome_notification"}, "TEMPLATE", "its code is"},
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
