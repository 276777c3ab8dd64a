//go:build !race

package api

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Not parallel: it counts what the whole process allocates. The race detector
// allocates, too.
//
// A lone caller shares his call to Redis with nobody, so this is the most that a
// push costs; BenchmarkAcceptPush shows what it costs under load. What the test
// itself allocates for a request and its answer is counted as well.
func TestAllocationsOfAPush(t *testing.T) {
	handler := New(prepareService(t).options).http.Handler
	postPush(t, handler) // connects
	allocations := testing.AllocsPerRun(2000, func() { postPush(t, handler) })
	require.LessOrEqual(t, allocations, 92.0)
}
