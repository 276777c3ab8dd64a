package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/certificates"
	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
)

// startEncrypted starts a Redis that wants certificates of the authority.
func startEncrypted(t *testing.T, authority *testenv.Authority) (url string) {
	t.Helper()
	cert, key := authority.Issue(time.Now().Add(time.Hour), "localhost")
	server := testenv.StartRedis(t, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", authority.File())
	return "rediss://localhost:" + server.TLSPort() + "/0"
}

// From the command line over HTTPS to a worker, both with Redis over TLS.
func TestEverythingEncrypted(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	soon := time.Now().Add(time.Hour)
	w := newWorldAt(t, swrvesim.Config{}, startEncrypted(t, authority))
	clientCert, clientKey := authority.Issue(soon, "client")
	httpCert, httpKey := authority.Issue(soon, "127.0.0.1")
	redisFiles := []string{"REDIS_TLS_CA=" + authority.File(), "REDIS_TLS_CERT=" + clientCert, "REDIS_TLS_KEY=" + clientKey}
	api := w.start("api", append(redisFiles, "HTTP_TLS_CERT="+httpCert, "HTTP_TLS_KEY="+httpKey)...)
	closed := w.start("api", append(redisFiles, "HTTP_TLS_CA="+authority.File(), "HTTP_TLS_CERT="+httpCert, "HTTP_TLS_KEY="+httpKey)...)
	w.startReady("worker", redisFiles...)
	server := "https://" + api.HTTPAddress()
	send := func(more ...string) (string, error) {
		output, err := execute(append([]string{"push", "send", "--platform", "IOS", "--prototype", "Hello", "--push-key", "user", "--message", "hi"}, more...)...)
		return strings.TrimSpace(output), err
	}

	// A process asks for its own health whatever name its certificate has, and
	// with it where certificates are asked for.
	for _, process := range []*testenv.Process{api, closed} {
		environment := []string{"PUSHQ_HTTP_LISTEN=" + process.HTTPAddress(), "PUSHQ_HTTP_TLS_CERT=" + httpCert, "PUSHQ_HTTP_TLS_KEY=" + httpKey}
		testenv.EventuallyNoError(t, 20*time.Second, func() error {
			health := testenv.StartPushq(t, []string{"health"}, environment...)
			if code := health.Wait(20 * time.Second); code != 0 {
				return fmt.Errorf("exit %d: %v", code, health.Stderr())
			}
			return nil
		})
	}
	_, err := execute("health", "--server", server)
	require.ErrorContains(t, err, "certificate")
	_, err = execute("health", "--server", server, "--ca", authority.File())
	require.NoError(t, err)

	var id string
	testenv.EventuallyNoError(t, 20*time.Second, func() (err error) {
		id, err = send("--server", server, "--ca", authority.File())
		return err
	})
	testenv.EventuallyNoError(t, 20*time.Second, func() error {
		output, err := execute("push", "get", id, "--server", server, "--ca", authority.File())
		require.NoError(t, err)
		if !strings.Contains(output, `"SENT"`) {
			return fmt.Errorf("not sent: %s", output)
		}
		return nil
	})

	// A command that acts on Redis itself has the same settings.
	pause := testenv.StartPushq(t, []string{"pause"}, w.Environment(redisFiles...)...)
	require.Zero(t, pause.Wait(20*time.Second), "%v", pause.Stderr())
	resume := testenv.StartPushq(t, []string{"resume"}, w.Environment(redisFiles...)...)
	require.Zero(t, resume.Wait(20*time.Second), "%v", resume.Stderr())

	// What goes wrong is said, and what to do.
	_, err = send("--server", server)
	require.ErrorContains(t, err, "with --ca or PUSHQ_CA")
	_, err = send("--server", server, "--ca", testenv.NewAuthority(t).File())
	require.ErrorContains(t, err, "with --ca or PUSHQ_CA")
	_, err = send("--server", server, "--ca", "missing.pem")
	require.ErrorContains(t, err, "the file of authorities missing.pem cannot be read")
	_, err = send("--server", strings.Replace(server, "127.0.0.1", "localhost", 1), "--ca", authority.File())
	require.ErrorContains(t, err, "as its certificate does")
	response, err := http.Get(strings.Replace(server, "https", "http", 1) + "/health/live")
	require.NoError(t, err)
	_ = response.Body.Close()
	require.Equal(t, http.StatusBadRequest, response.StatusCode)

	// Where certificates are asked for, nobody gets in without.
	server = "https://" + closed.HTTPAddress()
	testenv.Eventually(t, 10*time.Second, "the refusal to be told before the connection ends", func() bool {
		_, err = send("--server", server, "--ca", authority.File())
		require.Error(t, err)
		return strings.Contains(err.Error(), "with --client-cert and --client-key")
	})
	_, err = send("--server", server, "--ca", authority.File(), "--client-cert", clientCert, "--client-key", clientKey)
	require.NoError(t, err)

	// A renewed certificate is shown to the next caller, a broken one is not.
	serial := func() string {
		settings, err := certificates.Files{CA: authority.File(), Cert: clientCert, Key: clientKey}.Client(slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		connection, err := tls.Dial("tcp", closed.HTTPAddress(), settings)
		require.NoError(t, err)
		defer func() { _ = connection.Close() }()
		return connection.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	require.NoError(t, os.WriteFile(httpCert, []byte("half"), 0o600))
	require.Equal(t, first, serial())
	closed.WaitForLine("the renewed certificate cannot be used", 5*time.Second)
	authority.Renew(httpCert, httpKey, soon, "127.0.0.1")
	require.NotEqual(t, first, serial())
}

func TestARedisThatCannotBeTrustedIsRefusedAtStart(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	w := newWorldAt(t, swrvesim.Config{}, startEncrypted(t, authority))
	serve := w.start("serve", "REDIS_TLS_CA="+testenv.NewAuthority(t).File())
	require.Equal(t, 1, serve.Wait(20*time.Second))
	require.Contains(t, strings.Join(serve.Stderr(), "\n"), "name a file with that authority by redis.tls.ca")
	serve = w.start("serve", "REDIS_TLS_CA="+authority.File())
	require.Equal(t, 1, serve.Wait(20*time.Second))
	require.Contains(t, strings.Join(serve.Stderr(), "\n"), "set redis.tls.cert and redis.tls.key")
	serve = w.start("serve", "REDIS_URL=redis://localhost", "REDIS_TLS_CA="+authority.File())
	require.Equal(t, 1, serve.Wait(20*time.Second))
	require.Contains(t, strings.Join(serve.Stderr(), "\n"), "begin it with rediss:// instead of redis://")
}
