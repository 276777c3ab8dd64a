package fcmsim

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// serviceKey saves making one for each test.
var serviceKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		panic(err)
	}
	return key
})

func start(t *testing.T, config Config) (*Simulator, string) {
	t.Helper()
	config.Key = serviceKey()
	simulator, err := New(config)
	require.NoError(t, err)
	base, err := simulator.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, simulator.Close()) })
	return simulator, base
}

func newClient(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// call sends a request and returns its answer and body.
func call(t *testing.T, client *http.Client, method, address, authorization, body string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	require.NoError(t, err)
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response, string(text)
}

// authorise makes an access token without the endpoint.
func authorise(simulator *Simulator) (authorization string) {
	simulator.mutex.Lock()
	defer simulator.mutex.Unlock()
	simulator.tokens["known"] = time.Now().Add(time.Hour)
	return "Bearer known"
}

func v1Message(token string) string {
	return fmt.Sprintf(`{"message":{"token":%q,"notification":{"title":"Hi","body":"Hello"},"data":{"trace_id":"t1"}}}`, token)
}

func legacyMessage(token string) string {
	return fmt.Sprintf(`{"to":%q,"notification":{"title":"Hi","body":"Hello"},"data":{"trace_id":"t1"}}`, token)
}

const v1Path = "/v1/projects/simulator/messages:send"

func TestV1DeliversAndKeepsALedger(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{})
	client, authorization := newClient(t), authorise(simulator)
	text := "<b>&\"' \u2028 Привет 👩‍👩‍👧"
	body, err := json.Marshal(map[string]any{"message": map[string]any{
		"token": "ann", "notification": map[string]string{"title": text, "body": "b"}, "data": map[string]string{"link": text},
	}})
	require.NoError(t, err)
	response, answer := call(t, client, http.MethodPost, base+v1Path, authorization, string(body))
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, `{"name":"projects/simulator/messages/0:1"}`, answer)
	call(t, client, http.MethodPost, base+v1Path, authorization, v1Message("UNREGISTERED-bob"))

	_, ledger := call(t, client, http.MethodGet, base+"/ledger", "", "")
	var served struct {
		Dropped  int
		Requests []Request
	}
	require.NoError(t, json.Unmarshal([]byte(ledger), &served))
	require.Equal(t, simulator.Ledger(), served.Requests)
	require.Contains(t, ledger, "<b>&", "readable, not escaped for HTML")
	require.Len(t, served.Requests, 2)
	first, second := served.Requests[0], served.Requests[1]
	require.Equal(t, Request{
		Sequence: 1, ArrivedAt: first.ArrivedAt, InFlight: 1, API: "v1",
		Message: Message{Token: "ann", Title: text, Body: "b", Data: map[string]string{"link": text}},
		Status:  200, Delivered: true,
	}, first)
	require.Equal(t, 404, second.Status)
	require.False(t, second.Delivered)

	stats := simulator.Stats()
	require.Equal(t, Stats{
		Requests: 2, Delivered: 1, Answers: map[int]int{200: 1, 404: 1}, LargestSecond: stats.LargestSecond, PeakInFlight: 1, Connections: 1,
	}, stats)
	_, text = call(t, client, http.MethodGet, base+"/stats", "", "")
	require.Contains(t, text, `"delivered":1`)

	response, _ = call(t, client, http.MethodDelete, base+"/ledger", "", "")
	require.Equal(t, http.StatusNoContent, response.StatusCode)
	require.Empty(t, simulator.Ledger())
	require.Equal(t, Stats{Answers: map[int]int{}}, simulator.Stats())
}

func TestLegacyDelivers(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{ServerKey: "the-key"})
	client := newClient(t)
	response, answer := call(t, client, http.MethodPost, base+"/fcm/send", "key=the-key",
		`{"to":"ann","notification":{"title":"Hi","body":"Hello"},"data":{"trace_id":"t1","number":7}}`)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, `{"multicast_id":1,"success":1,"failure":0,"canonical_ids":0,"results":[{"message_id":"0:1"}]}`, answer)
	require.Equal(t, Message{Token: "ann", Title: "Hi", Body: "Hello", Data: map[string]string{"trace_id": "t1", "number": "7"}},
		simulator.Ledger()[0].Message)
	for _, authorization := range []string{"", "key=", "key=other", "Bearer the-key"} {
		response, _ = call(t, client, http.MethodPost, base+"/fcm/send", authorization, legacyMessage("ann"))
		require.Equal(t, http.StatusUnauthorized, response.StatusCode, authorization)
	}
	require.Equal(t, 1, simulator.Stats().Delivered)
}

func TestRulesOfV1(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{Project: "ours"})
	client, authorization := newClient(t), authorise(simulator)
	data := func(key, value string) string {
		return fmt.Sprintf(`{"message":{"token":"ann","data":{%q:%q}}}`, key, value)
	}
	const path = "/v1/projects/ours/messages:send"
	for _, test := range []struct {
		name, path, authorization, body string
		status                          int
		says                            string
	}{
		{"good", path, authorization, v1Message("ann"), 200, "projects/ours/messages/"},
		{"dry run", path, authorization, `{"validate_only":true,"message":{"token":"ann"}}`, 200, ""},
		{"all options", path, authorization, `{"message":{"fid":"f","android":{"ttl":"1s"},"apns":{},"webpush":{},"fcm_options":{}}}`, 200, ""},
		{"no access token", path, "", v1Message("ann"), 401, `"status":"UNAUTHENTICATED"`},
		{"unknown access token", path, "Bearer other", v1Message("ann"), 401, "UNAUTHENTICATED"},
		{"server key", path, "key=known", v1Message("ann"), 401, "UNAUTHENTICATED"},
		{"other project", v1Path, authorization, v1Message("ann"), 404, "NOT_FOUND"},
		{"other call", "/v1/projects/ours/messages:batch", authorization, v1Message("ann"), 404, "NOT_FOUND"},
		{"not JSON", path, authorization, `<`, 400, "INVALID_ARGUMENT"},
		{"two values", path, authorization, v1Message("ann") + "{}", 400, "more than one"},
		{"no target", path, authorization, `{"message":{"data":{"a":"b"}}}`, 400, "Exactly one"},
		{"two targets", path, authorization, `{"message":{"token":"ann","topic":"all"}}`, 400, "Exactly one"},
		{"unknown field", path, authorization, `{"message":{"token":"ann","titel":"x"}}`, 400, "titel"},
		{"number in data", path, authorization, `{"message":{"token":"ann","data":{"a":1}}}`, 400, `"field":"message.data"`},
		{"reserved key", path, authorization, data("from", "x"), 400, "from"},
		{"reserved prefix", path, authorization, data("google.x", "x"), 400, "google.x"},
		{"4096 bytes", path, authorization, data("k", strings.Repeat("x", 4095)), 200, ""},
		{"4097 bytes", path, authorization, data("k", strings.Repeat("x", 4096)), 400, "too big"},
		{"4097 bytes of Cyrillic", path, authorization, data("kk", strings.Repeat("я", 2048)), 400, "too big"},
		{"far too big", path, authorization, data("k", strings.Repeat("x", maxRequestBytes)), 400, "INVALID_ARGUMENT"},
	} {
		response, answer := call(t, client, http.MethodPost, base+test.path, test.authorization, test.body)
		require.Equal(t, test.status, response.StatusCode, "%s: %s", test.name, answer)
		require.Contains(t, answer, test.says, test.name)
	}
	response, _ := call(t, client, http.MethodPost, base+"/elsewhere", "", "")
	require.Equal(t, http.StatusNotFound, response.StatusCode)
}

func TestRulesOfLegacy(t *testing.T) {
	t.Parallel()
	_, base := start(t, Config{})
	client := newClient(t)
	for body, want := range map[string]string{
		`{"data":{"a":"b"}}`:                                                       "MissingRegistration",
		`{"to":"ann","data":{"gcm.x":"b"}}`:                                        "InvalidDataKey",
		`{"to":"ann","data":{"k":"` + strings.Repeat("x", 4096) + `"}}`:            "MessageTooBig",
		`{"to":"ann","notification":{"body":"` + strings.Repeat("x", 4093) + `"}}`: "MessageTooBig",
		`{"to":7}`: "JSON_PARSING_ERROR",
		`<`:        "JSON_PARSING_ERROR",
	} {
		response, answer := call(t, client, http.MethodPost, base+"/fcm/send", "key=any", body)
		require.Contains(t, answer, want)
		require.Equal(t, want == "JSON_PARSING_ERROR", response.StatusCode == http.StatusBadRequest)
	}
}

func TestScriptedAnswers(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{})
	client, authorization := newClient(t), authorise(simulator)
	for token, want := range map[string]struct {
		statuses  []int
		says      string
		delivered int
	}{
		"INVALID_ARGUMENT-a":        {[]int{400, 400}, `"errorCode":"INVALID_ARGUMENT"`, 0},
		"MALFORMED_TOKEN-a":         {[]int{400}, "not a valid FCM registration token", 0},
		"BAD_FIELD-a":               {[]int{400}, `"fieldViolations":[{`, 0},
		"APNS_UNREGISTERED-a":       {[]int{400}, `"reason":"Unregistered","statusCode":410`, 0},
		"401-a":                     {[]int{401}, `{"error":{"code":401,"message":"Unauthorized","status":"UNAUTHENTICATED"}}`, 0},
		"THIRD_PARTY_AUTH_ERROR-a":  {[]int{401}, `"errorCode":"THIRD_PARTY_AUTH_ERROR"`, 0},
		"403-a":                     {[]int{403}, `{"error":{"code":403,"message":"Forbidden","status":"PERMISSION_DENIED"}}`, 0},
		"SENDER_ID_MISMATCH-a":      {[]int{403}, `"errorCode":"SENDER_ID_MISMATCH"`, 0},
		"404-a":                     {[]int{404}, `{"error":{"code":404,"message":"Not Found","status":"NOT_FOUND"}}`, 0},
		"html404-a":                 {[]int{404}, "<html>", 0},
		"UNREGISTERED-a":            {[]int{404, 404}, `"errorCode":"UNREGISTERED"`, 0},
		"QUOTA_EXCEEDED-a":          {[]int{429, 429}, `"status":"RESOURCE_EXHAUSTED"`, 0},
		"QUOTA_EXCEEDEDafter7-a":    {[]int{429, 200}, `"errorCode":"QUOTA_EXCEEDED"`, 1},
		"429after7x2-a":             {[]int{429, 429, 200}, "Too Many Requests", 1},
		"INTERNAL-a":                {[]int{500}, `"errorCode":"INTERNAL"`, 0},
		"html502x2-a":               {[]int{502, 502, 200}, "<h1>502 Bad Gateway</h1>", 1},
		"504-a":                     {[]int{504}, "DEADLINE_EXCEEDED", 0},
		"UNAVAILABLEx1-a":           {[]int{503, 200}, `"errorCode":"UNAVAILABLE"`, 1},
		"ok-then-UNAVAILABLEx1-a":   {[]int{503, 200}, `"errorCode":"UNAVAILABLE"`, 2},
		"ok-then-503-a":             {[]int{503, 503}, "UNAVAILABLE", 2},
		"202-a":                     {[]int{202}, `{"name":`, 1},
		"418-a":                     {[]int{418}, "UNKNOWN", 0},
		"ann":                       {[]int{200}, `{"name":`, 1},
		"UNREGISTERED":              {[]int{200}, `{"name":`, 1},
		"NotRegistered-a":           {[]int{200}, `{"name":`, 1},
		"unregistered-a":            {[]int{200}, `{"name":`, 1},
		"cKq9Zx1:APA91bF-hang-x2_a": {[]int{200}, `{"name":`, 1},
	} {
		t.Run(token, func(t *testing.T) {
			t.Parallel()
			for i, status := range want.statuses {
				response, answer := call(t, client, http.MethodPost, base+v1Path, authorization, v1Message(token))
				require.Equal(t, status, response.StatusCode, "request %d", i+1)
				if i == 0 {
					require.Contains(t, answer, want.says)
				}
				after := ""
				if strings.Contains(token, "after7") && status == 429 {
					after = "7"
				}
				require.Equal(t, after, response.Header.Get("Retry-After"))
			}
			require.Equal(t, want.delivered, deliveredTo(simulator, token))
		})
	}
}

func deliveredTo(simulator *Simulator, token string) (delivered int) {
	for _, request := range simulator.Ledger() {
		if request.Token == token && request.Delivered {
			delivered++
		}
	}
	return delivered
}

func TestScriptedAnswersOfLegacy(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{})
	client := newClient(t)
	for _, failure := range legacyFailures {
		for i := range 2 {
			response, answer := call(t, client, http.MethodPost, base+"/fcm/send", "key=any", legacyMessage(failure+"x1-ann"))
			require.Equal(t, http.StatusOK, response.StatusCode)
			if i == 0 {
				require.Equal(t, `{"multicast_id":1,"success":0,"failure":1,"canonical_ids":0,"results":[{"error":"`+failure+`"}]}`, answer)
			} else {
				require.Contains(t, answer, `"message_id":`)
			}
		}
	}
	response, _ := call(t, client, http.MethodPost, base+"/fcm/send", "key=any", legacyMessage("Unavailableafter9-ann"))
	require.Equal(t, "9", response.Header.Get("Retry-After"))
	response, answer := call(t, client, http.MethodPost, base+"/fcm/send", "key=any", legacyMessage("503-ann"))
	require.Equal(t, "503 Service Unavailable", response.Status)
	require.Equal(t, "Service Unavailable", answer)
	require.Equal(t, len(legacyFailures), simulator.Stats().Delivered)
}

// hang sends a message and waits for nothing but the context.
func hang(ctx context.Context, client *http.Client, address, authorization, body string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", authorization)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func TestHangsAndResets(t *testing.T) {
	t.Parallel()
	for token, delivered := range map[string]int{"hang-a": 0, "ok-then-hang-a": 1, "reset-a": 0, "ok-then-resetx1-a": 1} {
		t.Run(token, func(t *testing.T) {
			t.Parallel()
			simulator, base := start(t, Config{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- hang(ctx, newClient(t), base+v1Path, authorise(simulator), v1Message(token)) }()
			require.Eventually(t, func() bool { return deliveredTo(simulator, token) == delivered && simulator.Stats().Requests == 1 }, 2*time.Minute, time.Millisecond)
			if strings.Contains(token, "hang") {
				require.Equal(t, 1, simulator.Stats().InFlight)
				cancel()
			}
			require.Error(t, <-ended)
			require.Eventually(t, func() bool { return simulator.Stats().Answers[0] == 1 }, 2*time.Minute, time.Millisecond)
		})
	}
}

func TestTooFast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		simulator, err := New(Config{Rate: 2, Latency: time.Hour})
		require.NoError(t, err)
		authorization := authorise(simulator)
		send := func() *httptest.ResponseRecorder {
			request := httptest.NewRequest(http.MethodPost, v1Path, strings.NewReader(v1Message("ann")))
			request.Header.Set("Authorization", authorization)
			recorder := httptest.NewRecorder()
			simulator.Handler().ServeHTTP(recorder, request)
			return recorder
		}
		var waiting sync.WaitGroup
		for range 2 {
			waiting.Go(func() { send() })
		}
		synctest.Wait()
		require.Equal(t, 2, simulator.Stats().InFlight)
		answer := send()
		require.Equal(t, http.StatusTooManyRequests, answer.Code)
		require.Contains(t, answer.Body.String(), "QUOTA_EXCEEDED")
		require.Equal(t, 1, simulator.Stats().RateLimited)
		require.Equal(t, 3, simulator.Stats().LargestSecond)
		waiting.Wait()
	})
}

func TestAnOutcomeForEverybody(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{})
	client, authorization := newClient(t), authorise(simulator)
	status := func(token string) int {
		response, _ := call(t, client, http.MethodPost, base+v1Path, authorization, v1Message(token))
		return response.StatusCode
	}
	set := func(query string) int {
		response, _ := call(t, client, http.MethodPost, base+"/_sim/"+query, "", "")
		return response.StatusCode
	}
	require.Equal(t, http.StatusNoContent, set("outcome?prefix=UNAVAILABLE-"))
	require.Equal(t, 503, status("ann"))
	require.Equal(t, 503, status("UNREGISTERED-bob"))
	require.Equal(t, http.StatusNoContent, set("outcome"))
	require.Equal(t, 200, status("ann"))
	for _, mistake := range []string{"down", "503", "503-ann", "-", "FOO-", "200-"} {
		require.Equal(t, http.StatusBadRequest, set("outcome?prefix="+mistake), mistake)
	}
	for _, good := range []string{"DeprecatedApi-", "html404-", "hang-", "ok-then-reset-"} {
		require.NoError(t, simulator.SetOutcome(good))
	}
	require.NoError(t, simulator.SetOutcome(""))
	simulator.SetLatency(0)
	require.Equal(t, http.StatusNoContent, set("revoke"))
	require.Equal(t, 401, status("ann"))
	require.Equal(t, http.StatusBadRequest, set("token?fault=sulk"))
	require.Equal(t, http.StatusBadRequest, set("token?life=long"))
	require.Equal(t, http.StatusNoContent, set("token?fault=503&life=7s"))
	response, _ := call(t, client, http.MethodPost, base+"/token", "", url.Values{}.Encode())
	require.Equal(t, 503, response.StatusCode)
}

func TestKeyFile(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{})
	file, err := simulator.ServiceAccount(base)
	require.NoError(t, err)
	var account map[string]string
	require.NoError(t, json.Unmarshal(file, &account))
	require.Equal(t, base+"/token", account["token_uri"])
	require.Equal(t, "service_account", account["type"])
	require.Equal(t, "simulator", account["project_id"])

	path := t.TempDir() + "/account.json"
	key, err := ReadKey(path)
	require.NoError(t, err)
	require.Nil(t, key)
	require.NoError(t, os.WriteFile(path, file, 0o600))
	key, err = ReadKey(path)
	require.NoError(t, err)
	require.True(t, key.Equal(serviceKey()))
	for content, says := range map[string]string{
		`{"client_email":"` + clientEmail + `","private_key":"secret"}`:                      "no private_key",
		strings.Replace(string(file), clientEmail, "secret@ours.iam.gserviceaccount.com", 1): "name another file",
		"":       "name another file",
		"secret": "name another file",
	} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err = ReadKey(path)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestNothingIsServedAfterClose(t *testing.T) {
	t.Parallel()
	simulator, err := New(Config{Key: serviceKey()})
	require.NoError(t, err)
	server := httptest.NewServer(simulator.Handler())
	t.Cleanup(server.Close)
	require.NoError(t, simulator.Close())
	require.NoError(t, simulator.Close())
	client := newClient(t)
	for _, path := range []string{v1Path, "/fcm/send", "/token"} {
		_, err := client.Post(server.URL+path, "application/json", nil)
		require.Error(t, err)
	}
	_, err = simulator.Start("127.0.0.1:0")
	require.Error(t, err)
}
