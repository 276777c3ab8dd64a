package redisconn

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/certificates"
	"pushq/internal/testenv"
)

// startTLS starts a Redis with a certificate for the names that is valid until
// the given time. It asks its clients for certificates of the same authority.
func startTLS(t *testing.T, authority *testenv.Authority, until time.Time, names ...string) (port string) {
	t.Helper()
	cert, key := authority.Issue(until, names...)
	return testenv.StartRedis(t, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", authority.File()).TLSPort()
}

func TestTLS(t *testing.T) {
	t.Parallel()
	authority, stranger := testenv.NewAuthority(t), testenv.NewAuthority(t)
	soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	port := startTLS(t, authority, soon, "localhost", "127.0.0.1")
	expiredPort := startTLS(t, authority, past, "localhost")
	files := certificates.Files{CA: authority.File()}
	files.Cert, files.Key = authority.Issue(soon, "client")
	with := func(change func(*certificates.Files)) certificates.Files {
		changed := files
		change(&changed)
		return changed
	}
	for name, test := range map[string]struct {
		url  string
		tls  certificates.Files
		says []string // parts of the refusal; none: all is well
	}{
		"well":                  {"rediss://localhost:" + port, files, nil},
		"by address":            {"rediss://127.0.0.1:" + port, files, nil},
		"unknown authority":     {"rediss://localhost:" + port, with(func(f *certificates.Files) { f.CA = "" }), []string{"name a file with that authority by redis.tls.ca", "signed by unknown authority"}},
		"wrong authority":       {"rediss://localhost:" + port, with(func(f *certificates.Files) { f.CA = stranger.File() }), []string{"name a file with that authority by redis.tls.ca"}},
		"expired":               {"rediss://localhost:" + expiredPort, files, []string{"has expired or is not valid yet", "renew it"}},
		"no client certificate": {"rediss://localhost:" + port, with(func(f *certificates.Files) { f.Cert, f.Key = "", "" }), []string{"set redis.tls.cert and redis.tls.key"}},
		"client of a stranger":  {"rediss://localhost:" + port, with(func(f *certificates.Files) { f.Cert, f.Key = stranger.Issue(soon, "client") }), []string{"does not know the authority that has signed redis.tls.cert"}},
		"expired client":        {"rediss://localhost:" + port, with(func(f *certificates.Files) { f.Cert, f.Key = authority.Issue(past, "client") }), []string{"redis.tls.cert has expired"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clients, err := Server{URL: test.url, TLS: test.tls, Log: slog.New(slog.DiscardHandler)}.Open(0)
			require.NoError(t, err)
			t.Cleanup(func() { _ = clients.Close() })
			if test.says == nil {
				for name, client := range clients.each() {
					require.NoError(t, client.Set(t.Context(), name, 1, 0).Err(), name)
				}
				_, err := CheckServer(t.Context(), clients.Read)
				require.NoError(t, err)
				return
			}
			// A refusal by the server may be overtaken by the end of the connection.
			testenv.EventuallyNoError(t, 10*time.Second, func() error {
				_, err = CheckServer(t.Context(), clients.Read)
				require.Error(t, err)
				if !errors.Is(err, ErrUnfit) {
					return err
				}
				return nil
			})
			require.ErrorIs(t, err, ErrUnfit)
			for _, part := range test.says {
				require.ErrorContains(t, err, part)
			}
		})
	}
}

func TestTLSWithAWrongName(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	port := startTLS(t, authority, time.Now().Add(time.Hour), "redis.example")
	clients, err := Server{URL: "rediss://localhost:" + port, TLS: certificates.Files{CA: authority.File()}}.Open(0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = clients.Close() })
	_, err = CheckServer(t.Context(), clients.Read)
	require.ErrorIs(t, err, ErrUnfit)
	require.ErrorContains(t, err, "use a name of the certificate in redis.url")
	require.ErrorContains(t, err, "redis.example")
}

func TestTLSFilesMustBeReadable(t *testing.T) {
	t.Parallel()
	_, err := Server{URL: "rediss://localhost", TLS: certificates.Files{CA: "missing.pem"}}.Open(0)
	require.EqualError(t, err, "redis.tls: the file of authorities missing.pem cannot be read: no such file or directory")
	_, err = Server{URL: "rediss://localhost", TLS: certificates.Files{Cert: "missing.pem", Key: "missing.pem"}}.Open(0)
	require.EqualError(t, err, "redis.tls: the certificate missing.pem cannot be read: no such file or directory")
}
