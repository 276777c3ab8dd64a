package redisconn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

func TestMemoryUsedAsInfoTellsIt(t *testing.T) {
	t.Parallel()
	for text, used := range map[string]float64{
		"used_memory:80\r\nmaxmemory:100\r\n":                           0.8,
		"used_memory:90\nmaxmemory:100\nmem_not_counted_for_evict:10\n": 0.8,
		"used_memory:120\r\nmaxmemory:100\r\n":                          1.2,
		"used_memory:80\r\nmaxmemory:0\r\ntotal_system_memory:100\r\n":  0,
		"used_memory:80\r\n":                                            0,
		"maxmemory:100\r\n":                                             0,
		"":                                                              0,
		"used_memory:80\r\nmaxmemory:many\r\ntotal_system_memory_human:1G\n": 0,
	} {
		require.InDelta(t, used, memoryUsed(parseInfo(text)), 1e-9, text)
	}
}

func TestMemoryUsed(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, "--maxmemory", "100mb")
	client := open(t, server.URL()).Read
	used, err := MemoryUsed(t.Context(), client)
	require.NoError(t, err)
	require.Greater(t, used, 0.001)
	require.Less(t, used, 0.2)

	require.NoError(t, server.Client(t).Do(t.Context(), "acl", "setuser", "no-info", "on", ">p", "~*", "+@all", "-info").Err())
	used, err = MemoryUsed(t.Context(), open(t, "redis://no-info:p@"+server.Addr()).Read)
	require.NoError(t, err)
	require.Zero(t, used)

	server.Stop()
	_, err = MemoryUsed(t.Context(), client)
	require.Error(t, err)
}
