package fcm

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/handlers"
	"pushq/internal/fcmsim"
	"pushq/internal/metrics"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// movable lets a test move the clock of a provider's access token.
func movable(provider *Provider) (move func(time.Duration)) {
	var ahead atomic.Int64
	provider.tokens.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	return func(by time.Duration) { ahead.Add(int64(by)) }
}

// delivers sends so many messages at once and requires that each is delivered.
func delivers(t *testing.T, provider *Provider, messages int) {
	t.Helper()
	var running sync.WaitGroup
	for range messages {
		running.Go(func() {
			if outcome := provider.send(t.Context(), messageTo("ann")); outcome.Verdict != handlers.Delivered {
				t.Errorf("not delivered: %+v", outcome)
			}
		})
	}
	running.Wait()
}

func TestConcurrentFirstSendsFetchOneToken(t *testing.T) {
	t.Parallel()
	const senders = 100
	simulator := newSimulator(t, fcmsim.Config{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			time.Sleep(200 * time.Millisecond) // all of them are waiting by then
		}
		simulator.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	configured := options(t, simulator, server.URL)
	configured.Connections = senders
	delivers(t, newProvider(t, configured), senders)
	require.Equal(t, senders, simulator.Stats().Delivered)
	require.Equal(t, 1, simulator.Stats().TokenRequests)
}

func TestATokenIsRenewedBeforeItsEnd(t *testing.T) {
	t.Parallel()
	simulator, base := startSimulator(t, fcmsim.Config{TokenLife: 1000 * time.Second})
	provider := newProvider(t, options(t, simulator, base))
	move := movable(provider)
	delivers(t, provider, 1)
	move(795 * time.Second)
	delivers(t, provider, 10)
	require.Equal(t, 1, simulator.Stats().TokenRequests)
	move(10 * time.Second)
	delivers(t, provider, 10)
	testenv.Eventually(t, 10*time.Second, "the second token", func() bool { return simulator.Stats().TokensIssued == 2 })
	move(100 * time.Second)
	delivers(t, provider, 10)
	require.Equal(t, 2, simulator.Stats().TokenRequests)

	move(time.Hour) // long after its end, as after a night without pushes
	delivers(t, provider, 10)
	require.Equal(t, 3, simulator.Stats().TokenRequests)
}

func TestAGoodTokenIsUsedWhileTheEndpointHangs(t *testing.T) {
	t.Parallel()
	simulator, base := startSimulator(t, fcmsim.Config{TokenLife: 1000 * time.Second})
	provider := newProvider(t, options(t, simulator, base))
	provider.tokens.timeout = 10 * time.Second
	move := movable(provider)
	delivers(t, provider, 1)
	require.NoError(t, simulator.SetToken(fcmsim.TokenHangs, 0))
	move(900 * time.Second)
	delivers(t, provider, 50)
	renewal := func() (underWay, failed bool) {
		provider.tokens.mutex.Lock()
		defer provider.tokens.mutex.Unlock()
		return provider.tokens.fetching != nil, provider.tokens.failed != nil
	}
	underWay, _ := renewal()
	require.True(t, underWay, "the attempt to renew has ended before")
	testenv.Eventually(t, 20*time.Second, "the end of the attempt to renew", func() bool {
		underWay, failed := renewal()
		return failed && !underWay
	})
	delivers(t, provider, 50)
	underWay, _ = renewal()
	require.False(t, underWay, "another attempt within ten seconds")
	require.Equal(t, 2, simulator.Stats().TokenRequests)

	move(11 * time.Second)
	require.NoError(t, simulator.SetToken("", 0))
	delivers(t, provider, 1)
	testenv.Eventually(t, 10*time.Second, "the second token", func() bool { return simulator.Stats().TokensIssued == 2 })
	require.Equal(t, 102, simulator.Stats().Delivered)
}

func TestARefusedTokenIsReplacedOnce(t *testing.T) {
	t.Parallel()
	const senders = 50
	simulator, provider := startProvider(t, V1)
	delivers(t, provider, 1)
	simulator.Revoke()
	delivers(t, provider, 1)
	require.Equal(t, map[int]int{200: 2, 401: 1}, simulator.Stats().Answers)
	require.Equal(t, 2, simulator.Stats().TokenRequests)

	simulator.Revoke()
	delivers(t, provider, senders)
	require.Equal(t, 2+senders, simulator.Stats().Delivered)
	require.Equal(t, 3, simulator.Stats().TokenRequests, "shared by all that were refused")
}

func TestATokenThatSomebodyHasReplaced(t *testing.T) {
	t.Parallel()
	simulator, provider := startProvider(t, V1)
	first, err := provider.tokens.get()
	require.NoError(t, err)
	second, err := provider.tokens.renew(first)
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	again, err := provider.tokens.renew(first) // its request was slower
	require.NoError(t, err)
	require.Equal(t, second, again)
	require.Equal(t, 2, simulator.Stats().TokenRequests)
}

func TestARefusedTokenThatIsReplacedTooLate(t *testing.T) {
	t.Parallel()
	simulator, provider := startProvider(t, V1)
	delivers(t, provider, 1)
	provider.tokens.timeout = 500 * time.Millisecond
	simulator.SetLatency(600 * time.Millisecond)
	require.Equal(t, handlers.Outcome{
		Verdict: handlers.Retryable, ErrorType: tasks.ErrorFCM, ErrorCode: 401, Inconclusive: true,
		ErrorMessage: "the access token was refused; the next attempt has a new one",
	}, provider.send(t.Context(), messageTo("401-ann")))
	require.Equal(t, 2, simulator.Stats().Requests)
	require.Equal(t, 2, simulator.Stats().TokenRequests)
}

func TestFaultsOfTheTokenEndpoint(t *testing.T) {
	t.Parallel()
	const timeout = 500 * time.Millisecond
	for fault, want := range map[string]struct {
		says  string
		alarm bool
	}{
		fcmsim.TokenHangs:        {"timeout after 500ms", false},
		fcmsim.TokenResets:       {"connection reset", false},
		fcmsim.TokenIsAPage:      {"answered 200 without an access token", false},
		fcmsim.TokenNotAHeader:   {"that cannot be in a header", false},
		"503":                    {"answered 503", false},
		"429":                    {"answered 429", false},
		"404":                    {"answered 404", false}, // not the endpoint's own words
		fcmsim.TokenInvalidGrant: {"answered 400, invalid_grant: Invalid JWT Signature.", true},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			simulator, provider := startProvider(t, V1)
			provider.tokens.timeout = timeout
			move := movable(provider)
			require.NoError(t, simulator.SetToken(fault, 0))
			began := time.Now()
			outcome := provider.send(t.Context(), messageTo("ann"))
			require.Less(t, time.Since(began), timeout+time.Minute)
			require.True(t, strings.HasPrefix(outcome.ErrorMessage, "no access token: "), outcome.ErrorMessage)
			require.Contains(t, outcome.ErrorMessage, want.says)
			outcome.ErrorMessage = ""
			require.Equal(t, handlers.Outcome{
				Verdict: handlers.Retryable, ErrorType: tasks.ErrorFCM, ServiceFailed: true, Alarm: want.alarm,
			}, outcome)

			for range 20 {
				require.Equal(t, handlers.Retryable, provider.send(t.Context(), messageTo("ann")).Verdict)
			}
			require.Equal(t, 1, simulator.Stats().TokenRequests, "not again within a second")
			require.Zero(t, simulator.Stats().Requests)

			move(2 * time.Second)
			require.NoError(t, simulator.SetToken("", 0))
			delivers(t, provider, 5)
		})
	}
}

func TestStrangeTokens(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer string
		life   time.Duration // 0 if there is none
		says   string
	}{
		"life not told": {`200 OK
{"access_token":"t","token_type":"Bearer"}`, time.Hour, ""},
		"no life":     {"200 OK\n" + `{"access_token":"t","expires_in":0}`, time.Hour, ""},
		"short life":  {"200 OK\n" + `{"access_token":"t","expires_in":10}`, 10 * time.Second, ""},
		"text life":   {"200 OK\n" + `{"access_token":"t","expires_in":"10","token_type":7}`, 10 * time.Second, ""},
		"part life":   {"200 OK\n" + `{"access_token":"t","expires_in":9.5e0}`, 9500 * time.Millisecond, ""},
		"odd life":    {"200 OK\n" + `{"access_token":"t","expires_in":{}}`, time.Hour, ""},
		"word life":   {"200 OK\n" + `{"access_token":"t","expires_in":"soon"}`, time.Hour, ""},
		"past life":   {"200 OK\n" + `{"access_token":"t","expires_in":-10}`, time.Hour, ""},
		"endless":     {"200 OK\n" + `{"access_token":"t","expires_in":1e999}`, 24 * time.Hour, ""},
		"with a mark": {"201 OK\n\ufeff" + `{"access_token":"t"}`, time.Hour, ""},
		"line break":  {"200 OK\n" + `{"access_token":"t\nX-Other: 1"}`, 0, "cannot be in a header"},
		"line end":    {"200 OK\n" + `{"access_token":"t\r\n"}`, 0, "cannot be in a header"},
		"blank":       {"200 OK\n" + `{"access_token":" "}`, 0, "cannot be in a header"},
		"nul":         {"200 OK\n" + `{"access_token":"t\u0000"}`, 0, "cannot be in a header"},
		"not ASCII":   {"200 OK\n" + `{"access_token":"tök"}`, 0, "cannot be in a header"},
		"a number":    {"200 OK\n" + `{"access_token":7}`, 0, "without an access token"},
		"cut":         {"200 OK\n" + `{"access_token":"t"`, 0, "without an access token"},
		"a list":      {"200 OK\n" + `[{"access_token":"t"}]`, 0, "without an access token"},
		"no content":  {"202 OK\n", 0, "answered 202 without an access token"},
		"said in 200": {"200 OK\n" + `{"error":"invalid_grant"}`, 0, "without an access token"},
		"odd error":   {"400 No\n" + `{"error":"invalid_grant","error_description":["x"]}`, 0, "answered 400, invalid_grant: "},
		"other form":  {"400 No\n" + `{"error":{"code":400}}`, 0, "the token endpoint answered 400"},
		"no token":    {"200 OK\n" + `{"expires_in":10}`, 0, "without an access token"},
		"empty token": {"200 OK\n" + `{"access_token":"","expires_in":10}`, 0, "without an access token"},
		"redirect":    {"307 Moved\n{}", 0, "answered 307"},
		"other error": {"500 No\n" + `{"error":"internal_failure"}`, 0, "answered 500, internal_failure"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body, _ := strings.Cut(test.answer, "\n")
			simulator, base := startSimulator(t, fcmsim.Config{})
			endpoint := testenv.StartRawHTTP(t, func(connection net.Conn, _ *http.Request, _ string) bool {
				_, _ = fmt.Fprintf(connection, "HTTP/1.1 %s\r\nLocation: %s/token\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status, base, len(body), body)
				return false
			})
			configured := options(t, simulator, base)
			var err error
			configured.ServiceAccount, err = simulator.ServiceAccount(endpoint)
			require.NoError(t, err)
			provider := newProvider(t, configured)
			token, err := provider.tokens.get()
			require.Zero(t, simulator.Stats().TokenRequests, "a redirect was followed")
			if test.life == 0 {
				require.ErrorContains(t, err, test.says)
				require.Empty(t, provider.tokens.token, "kept")
				return
			}
			require.NoError(t, err)
			require.Equal(t, "t", token)
			require.InDelta(t, 0.8*test.life.Seconds(), time.Until(provider.tokens.token.renewAt).Seconds(), 5)
			require.Less(t, time.Until(provider.tokens.token.goodUntil), test.life)
		})
	}
}

// A token that cannot be sent is not kept: the next attempt has a good one.
func TestATokenThatCannotBeSentIsFetchedAnew(t *testing.T) {
	t.Parallel()
	simulator, provider := startProvider(t, V1)
	move := movable(provider)
	require.NoError(t, simulator.SetToken(fcmsim.TokenNotAHeader, 0))
	require.Equal(t, handlers.Outcome{
		Verdict: handlers.Retryable, ErrorType: tasks.ErrorFCM, ServiceFailed: true,
		ErrorMessage: "no access token: the token endpoint answered with an access token that cannot be in a header",
	}, provider.send(t.Context(), messageTo("ann")))
	require.Zero(t, simulator.Stats().Requests)
	require.NoError(t, simulator.SetToken("", 0))
	move(2 * failurePause)
	delivers(t, provider, 5)
	require.Equal(t, 2, simulator.Stats().TokenRequests)

	// Nor does one take the place of another that is good.
	require.NoError(t, simulator.SetToken(fcmsim.TokenNotAHeader, 0))
	move(55 * time.Minute)
	delivers(t, provider, 5)
	testenv.Eventually(t, 10*time.Second, "the attempt to renew", func() bool { return simulator.Stats().TokenRequests == 3 })
	delivers(t, provider, 5)
}

func TestCloseGivesUpFetchingAToken(t *testing.T) {
	t.Parallel()
	const enough = tokenTimeout / 2
	var took time.Duration
	// A busy machine may hold one up; who waits for the timeout always does.
	for range 5 {
		simulator, provider := startProvider(t, V1)
		require.NoError(t, simulator.SetToken(fcmsim.TokenHangs, 0))
		outcome := make(chan handlers.Outcome, 1)
		go func() { outcome <- provider.send(t.Context(), messageTo("ann")) }()
		testenv.Eventually(t, 10*time.Second, "the fetch", func() bool { return simulator.Stats().TokenRequests == 1 })
		began := time.Now()
		provider.Close()
		took = time.Since(began)
		require.Equal(t, handlers.Retryable, (<-outcome).Verdict)
		later := provider.send(t.Context(), messageTo("ann"))
		require.Equal(t, handlers.Retryable, later.Verdict)
		require.Zero(t, simulator.Stats().Requests)
		if took < enough {
			break
		}
	}
	require.Less(t, took, enough)
}

func TestAFailureToRenewIsLoggedWithoutSecrets(t *testing.T) {
	t.Parallel()
	simulator, base := startSimulator(t, fcmsim.Config{TokenLife: 1000 * time.Second})
	configured := options(t, simulator, base)
	read, write := io.Pipe()
	configured.Log = slog.New(slog.NewTextHandler(write, nil))
	provider := newProvider(t, configured)
	move := movable(provider)
	delivers(t, provider, 1)
	require.NoError(t, simulator.SetToken("503", 0))
	move(900 * time.Second)
	delivers(t, provider, 1)
	line := make([]byte, 4096)
	n, err := read.Read(line)
	require.NoError(t, err)
	require.Contains(t, string(line[:n]), "was not renewed")
	require.Contains(t, string(line[:n]), "answered 503")
	require.NotContains(t, string(line[:n]), "ya29")
}

func TestFetchesOfTokensAreTold(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]string{"": metrics.TokenFetched, fcmsim.TokenHangs: metrics.TokenNotFetched, "invalid_grant": metrics.TokenRefused} {
		simulator, base := startSimulator(t, fcmsim.Config{})
		require.NoError(t, simulator.SetToken(fault, 0))
		var mutex sync.Mutex
		var got []string
		configured := options(t, simulator, base)
		configured.OnTokenFetch = func(outcome string) {
			mutex.Lock()
			defer mutex.Unlock()
			got = append(got, outcome)
		}
		provider := newProvider(t, configured)
		provider.tokens.timeout = 500 * time.Millisecond
		for range 3 { // share it, or its failure
			provider.send(t.Context(), messageTo("ann"))
		}
		testenv.Eventually(t, 10*time.Second, "the fetch to be told", func() bool {
			mutex.Lock()
			defer mutex.Unlock()
			return len(got) > 0
		})
		mutex.Lock()
		require.Equal(t, []string{want}, got, fault)
		mutex.Unlock()
	}
}
