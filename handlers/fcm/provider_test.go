package fcm

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pushq/handlers"
	"pushq/internal/fcmsim"
	"pushq/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.WithoutProxies()
	forget := testenv.TrustTestServers()
	code := m.Run()
	forget()
	os.Exit(code)
}

const serverKey = "server-key-of-the-tests"

// accountKey saves making one for each test.
var accountKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func startSimulator(t *testing.T, config fcmsim.Config) (simulator *fcmsim.Simulator, base string) {
	t.Helper()
	simulator = newSimulator(t, config)
	base, err := simulator.Start("127.0.0.1:0")
	require.NoError(t, err)
	return simulator, base
}

func newSimulator(t *testing.T, config fcmsim.Config) *fcmsim.Simulator {
	t.Helper()
	config.Key = accountKey()
	simulator, err := fcmsim.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, simulator.Close()) })
	return simulator
}

// options are for a simulator that is reached at base.
func options(t *testing.T, simulator *fcmsim.Simulator, base string) Options {
	t.Helper()
	account, err := simulator.ServiceAccount(base)
	require.NoError(t, err)
	return Options{
		Mode:           V1,
		URL:            base,
		ServiceAccount: account,
		ServerKey:      serverKey,
		Timeout:        10 * time.Second,
		Connections:    64,
		MaxRetryAfter:  5 * time.Minute,
		Log:            slog.New(slog.DiscardHandler),
	}
}

func newProvider(t *testing.T, options Options) *Provider {
	t.Helper()
	provider, err := New(options)
	require.NoError(t, err)
	t.Cleanup(provider.Close)
	return provider
}

// startProvider starts a simulator, too.
func startProvider(t *testing.T, mode string) (*fcmsim.Simulator, *Provider) {
	t.Helper()
	simulator, base := startSimulator(t, fcmsim.Config{})
	configured := options(t, simulator, base)
	configured.Mode = mode
	return simulator, newProvider(t, configured)
}

// providerFor sends to another address than the simulator's, which has the access tokens.
func providerFor(t *testing.T, mode, address string) *Provider {
	t.Helper()
	simulator, base := startSimulator(t, fcmsim.Config{})
	configured := options(t, simulator, base)
	configured.Mode, configured.URL = mode, address
	return newProvider(t, configured)
}

func messageTo(token string) Message {
	return Message{Token: token, Title: "Hi", Body: "Hello", Data: map[string]string{"trace_id": "t1"}}
}

// answerRaw answers every request with the same bytes and closes the connection.
func answerRaw(t *testing.T, answer string) (base string) {
	t.Helper()
	return testenv.StartRawHTTP(t, func(connection net.Conn, _ *http.Request, _ string) bool {
		_, _ = io.WriteString(connection, answer)
		return false
	})
}

func TestRequest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ mode, path, body string }{
		{V1, "/v1/projects/simulator/messages:send",
			`{"message":{"token":"ann","notification":{"title":"<b>&\"","body":"Привет 👩"},"data":{"link":"https://example.com/?a=1&b=2","trace_id":"t1"}}}`},
		{Legacy, "/fcm/send",
			`{"to":"ann","notification":{"title":"<b>&\"","body":"Привет 👩"},"data":{"link":"https://example.com/?a=1&b=2","trace_id":"t1"}}`},
	} {
		t.Run(test.mode, func(t *testing.T) {
			t.Parallel()
			var request *http.Request
			var body string
			address := testenv.StartRawHTTP(t, func(connection net.Conn, got *http.Request, text string) bool {
				request, body = got, text
				const taken = `{"name":"projects/p/messages/0:1","results":[{"message_id":"0:1"}]}` // in either mode
				_, _ = fmt.Fprintf(connection, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(taken), taken)
				return false
			})
			provider := providerFor(t, test.mode, address+"/")
			require.Equal(t, handlers.Outcome{}, provider.send(t.Context(), Message{
				Token: "ann", Title: `<b>&"`, Body: "Привет 👩",
				Data: map[string]string{"trace_id": "t1", "link": "https://example.com/?a=1&b=2"},
			}))
			require.Equal(t, "POST "+test.path, request.Method+" "+request.RequestURI)
			require.Equal(t, test.body+"\n", body, "bytes as they are, in one order")
			require.Equal(t, []string{"application/json; charset=utf-8"}, request.Header.Values("Content-Type"))
			require.Equal(t, []string{"pushq"}, request.Header.Values("User-Agent"))
			if test.mode == V1 {
				require.Regexp(t, `^Bearer ya29\.simulated-\w+$`, request.Header.Get("Authorization"))
			} else {
				require.Equal(t, "key="+serverKey, request.Header.Get("Authorization"))
			}
		})
	}
}

func TestAnyTextArrivesUnchanged(t *testing.T) {
	t.Parallel()
	anyText := rapid.OneOf(rapid.StringN(0, -1, 500), rapid.SampledFrom([]string{
		"", `<b>&"'`, "\x00\r\n\t\x7f", "žluťoučký 🐎 \u2028 \U0010FFFF", `{"a":"b"}`, `\u0041`, " leading and trailing ",
	}))
	for _, mode := range []string{V1, Legacy} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			simulator, provider := startProvider(t, mode)
			rapid.Check(t, func(t *rapid.T) {
				message := Message{
					Token: "a" + anyText.Draw(t, "token"), Title: anyText.Draw(t, "title"), Body: anyText.Draw(t, "body"),
					Data: map[string]string{"link": anyText.Draw(t, "link")},
				}
				require.Equal(t, handlers.Outcome{}, provider.send(t.Context(), message))
				ledger := simulator.Ledger()
				require.Equal(t, fcmsim.Message(message), ledger[len(ledger)-1].Message)
			})
		})
	}
}

func TestASettingThatIsWrong(t *testing.T) {
	t.Parallel()
	simulator, base := startSimulator(t, fcmsim.Config{})
	account := func(change func(map[string]string)) func(*Options) {
		return func(o *Options) {
			var file map[string]string
			require.NoError(t, json.Unmarshal(o.ServiceAccount, &file))
			change(file)
			o.ServiceAccount, _ = json.Marshal(file)
		}
	}
	elliptic, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	ellipticKey, err := x509.MarshalPKCS8PrivateKey(elliptic)
	require.NoError(t, err)
	pemOf := func(kind string, bytes []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}))
	}
	for name, test := range map[string]struct {
		change func(*Options)
		says   string
	}{
		"good": {func(*Options) {}, ""},
		"old form of a key": {account(func(f map[string]string) {
			f["private_key"] = pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(accountKey()))
		}), ""},
		"no token_uri": {account(func(f map[string]string) { delete(f, "token_uri") }), ""},
		"legacy":       {func(o *Options) { o.Mode, o.ServiceAccount = Legacy, nil }, ""},
		"project": {func(o *Options) {
			account(func(f map[string]string) { delete(f, "project_id") })(o)
			o.Project = "ours"
		}, ""},
		"mode":           {func(o *Options) { o.Mode = "v2" }, "fcm.mode"},
		"no url":         {func(o *Options) { o.URL = "" }, "fcm.url"},
		"not a url":      {func(o *Options) { o.URL = "http://a b" }, "fcm.url"},
		"scheme":         {func(o *Options) { o.URL = "ftp://host" }, "fcm.url"},
		"no server key":  {func(o *Options) { o.Mode, o.ServerKey = Legacy, "" }, "fcm.serverKey"},
		"no account":     {func(o *Options) { o.ServiceAccount = nil }, "fcm.serviceAccount: must be set"},
		"a file's name":  {func(o *Options) { o.ServiceAccount = []byte("/secret/account.json") }, "fcm.serviceAccount: is not JSON"},
		"other account":  {account(func(f map[string]string) { f["type"] = "authorized_user" }), "service_account"},
		"no email":       {account(func(f map[string]string) { delete(f, "client_email") }), "client_email"},
		"no key":         {account(func(f map[string]string) { delete(f, "private_key") }), "private_key is missing"},
		"no PEM":         {account(func(f map[string]string) { f["private_key"] = "secret" }), "private_key is not PEM"},
		"PEM of nothing": {account(func(f map[string]string) { f["private_key"] = pemOf("PRIVATE KEY", []byte("secret")) }), "private_key is not an RSA key"},
		"elliptic key":   {account(func(f map[string]string) { f["private_key"] = pemOf("PRIVATE KEY", ellipticKey) }), "private_key is not an RSA key"},
		"no project":     {account(func(f map[string]string) { delete(f, "project_id") }), "fcm.project"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			configured := options(t, simulator, base)
			test.change(&configured)
			provider, err := New(configured)
			if test.says == "" {
				require.NoError(t, err)
				provider.Close()
				return
			}
			require.ErrorContains(t, err, test.says)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestMaxDuration(t *testing.T) {
	t.Parallel()
	_, legacy := startProvider(t, Legacy)
	require.Equal(t, 11*time.Second, legacy.MaxDuration())
	_, v1 := startProvider(t, V1)
	require.Equal(t, 21*time.Second, v1.MaxDuration())
}
