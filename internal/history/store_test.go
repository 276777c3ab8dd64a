package history

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

func TestURLsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	const hush = "canary-password"
	lateAt, user, fragment := errors.New("an @ behind the hosts"), errors.New("user or password that cannot be read"), errors.New("a part after #")
	for url, want := range map[string]error{
		"postgres://user:" + hush + "@host:5432/database?sslmode=verify-full&pool_max_conns=7": nil,
		"postgresql:///database?host=/run/postgresql":                                          nil,

		"http://user:" + hush + "@host/database":                 errURL,
		"host=host password=" + hush:                             errURL,
		"postgres://user:" + hush + "%zz@host/database":          user,
		"postgres://user:" + hush + "/@host/database?sslmode=no": lateAt,
		"postgres://user:a/" + hush + "@host/database":           lateAt,
		// Each of these would be a host "user" with a port, and the rest a database or a
		// parameter.
		"postgres://user:5432/" + hush + "@host/database":                        lateAt,
		"postgres://user:5432/one@" + hush + "@host/database":                    lateAt,
		"postgres://user:5432?" + hush + "@host/database":                        lateAt,
		"postgres://user:5432#" + hush + "@host/database":                        fragment,
		"postgres://user:5432 " + hush + "@host/database":                        user,
		"postgres://host/database?user=u&password=at@" + hush:                    lateAt,
		"postgres://user:" + hush + "@host:70000/database":                       errURL,
		"postgres://user:" + hush + "@host/database?sslmode=" + hush:             errParameters,
		"postgres://user:" + hush + "@host/database?sslrootcert=/none":           errParameters,
		"postgres://user:" + hush + "@host/database?sslcert=/none":               errParameters,
		"postgres://user:" + hush + "@host/?pool_max_conns=0":                    errParameters,
		"postgres://user:" + hush + "@host/?connect_timeout=" + hush:             errParameters,
		"postgres://user:" + hush + "@host/?channel_binding=" + hush:             errParameters,
		"postgres://user:" + hush + "@one:5432,two/?sslmode=" + hush:             errParameters,
		"postgres:///database?host=/run/postgresql&pool_max_conns=no":            errParameters,
		"postgres://user:" + hush + "@host/?target_session_attrs=read-only":      errNotWritable,
		"postgres://user:" + hush + "@one,two/?target_session_attrs=standby":     errNotWritable,
		"postgres://user:" + hush + "@host/?target_session_attrs=prefer-standby": errNotWritable,
		"postgres://user:" + hush + "@host/?target_session_attrs=primary":        nil,
	} {
		if want == nil {
			require.NoError(t, CheckURL(url), url)
			continue
		}
		_, err := Open(t.Context(), url, slog.New(slog.DiscardHandler))
		for _, err := range []error{CheckURL(url), err} {
			require.ErrorContains(t, err, want.Error(), url)
			require.NotContains(t, err.Error(), hush)
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
