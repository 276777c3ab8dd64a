package history

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

func TestURLsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	const hush = "canary-password"
	for url, want := range map[string]error{
		"postgres://user:" + hush + "@host:5432/database?sslmode=verify-full&pool_max_conns=7": nil,
		"postgresql:///database?host=/run/postgresql":                                          nil,

		"http://user:" + hush + "@host/database":                       errURL,
		"host=host password=" + hush:                                   errURL,
		"postgres://user:" + hush + "%zz@host/database":                errURL,
		"postgres://user:" + hush + "/@host/database?sslmode=no":       errURL,
		"postgres://user:a/" + hush + "@host/database":                 errURL,
		"postgres://user:" + hush + "@host:70000/database":             errURL,
		"postgres://user:" + hush + "@host/database?sslmode=" + hush:   errParameters,
		"postgres://user:" + hush + "@host/database?sslrootcert=/none": errParameters,
		"postgres://user:" + hush + "@host/database?sslcert=/none":     errParameters,
		"postgres://user:" + hush + "@host/?pool_max_conns=0":          errParameters,
		"postgres://user:" + hush + "@host/?connect_timeout=" + hush:   errParameters,
		"postgres://user:" + hush + "@host/?channel_binding=" + hush:   errParameters,
		"postgres://user:" + hush + "@one:5432,two/?sslmode=" + hush:   errParameters,
		"postgres:///database?host=/run/postgresql&pool_max_conns=no":  errParameters,
	} {
		require.Equal(t, want, CheckURL(url), url)
		if want != nil {
			_, err := Open(t.Context(), url, slog.New(slog.DiscardHandler))
			require.Equal(t, want, err, url)
		}
	}
}

func TestTheURLsConnectTimeoutCounts(t *testing.T) {
	t.Parallel()
	for parameters, want := range map[string]time.Duration{"": connectTimeout, "?connect_timeout=0": connectTimeout, "?connect_timeout=7": 7 * time.Second} {
		store := openStore(t, "postgres://127.0.0.1:1/none"+parameters, &testenv.Log{})
		require.Equal(t, want, store.pool.Config().ConnConfig.ConnectTimeout, parameters)
	}
}
