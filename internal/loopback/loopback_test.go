package loopback

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIs(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "localhost.": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "localhost.example": false, "localhost..": false, ".": false, "127.0.0.1.": false, "127.0.0.1.example": false, "[::1]": false,
	} {
		require.Equal(t, want, Is(host), host)
	}
}
