package metrics

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnyStatusHasOneOfFewLabels(t *testing.T) {
	t.Parallel()
	for status, label := range map[int]string{
		0: "none", 101: "101", 302: "302", 400: "400", 429: "429", 503: "503",
		299: "2xx", 420: "4xx", 499: "4xx", 599: "5xx", 600: "other", 99: "other", -1: "other", 1 << 40: "other",
	} {
		require.Equal(t, label, codeOf(status), status)
	}
	labels := make(map[string]bool)
	for status := -10; status < 100_000; status++ {
		labels[codeOf(status)] = true
	}
	require.Less(t, len(labels), 75)
}
