package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIsOnThisHost(t *testing.T) {
	for _, test := range []struct {
		url, environment string // PGHOST
		want             bool
	}{
		{"postgres://localhost/pushq", "", true},
		{"postgres://user:password@127.0.0.1:5433/pushq?sslmode=prefer", "", true},
		{"postgresql://[::1]/pushq", "", true},
		{"postgres:///pushq?host=/var/run/postgresql", "", true},
		{"postgres:///pushq", "/tmp", true},
		{"postgres://localhost,127.0.0.1:5433/pushq", "", true},
		{"postgres://localhost/pushq?pool_max_conns=2", "database", true},
		{"postgres://database/pushq", "", false},
		{"postgres://localhost@database/localhost", "", false},
		{"postgres://database,localhost/pushq", "", false},
		{"postgres://localhost,database/pushq", "", false},
		{"postgres:///pushq?host=/tmp,database", "", false},
		{"postgres://localhost/pushq?host=database", "", false},
		{"postgres:///pushq", "database", false},
		{"postgres://user:p%@localhost/pushq", "", false},
		{"postgres://user:p@localhost@database/pushq", "", false},
		{"postgres://user:p@database@localhost/pushq", "", true},
	} {
		t.Setenv("PGHOST", test.environment)
		require.Equal(t, test.want, IsOnThisHost(test.url), test.url)
	}
}
