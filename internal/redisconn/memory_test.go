package redisconn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	memory, err := ReadMemory(t.Context(), testenv.StartRedis(t, "--maxmemory", "50mb").Client(t))
	require.NoError(t, err)
	require.EqualValues(t, 50<<20, memory.Max)
	require.Greater(t, memory.Used, uint64(100<<10))
	require.Less(t, memory.Used, memory.Max)

	memory, err = ReadMemory(t.Context(), testenv.StartRedis(t, "--maxmemory", "0").Client(t))
	require.NoError(t, err)
	require.Zero(t, memory.Max)
}

func TestMemoryThatRedisDoesNotTell(t *testing.T) {
	t.Parallel()
	embedded, err := StartEmbedded()
	require.NoError(t, err)
	t.Cleanup(embedded.Close)
	_, err = ReadMemory(t.Context(), open(t, embedded.URL()).Read)
	require.ErrorIs(t, err, ErrUntold)

	server := testenv.StartRedis(t)
	client := server.Client(t)
	require.NoError(t, client.ACLSetUser(t.Context(), "default", "-info").Err())
	_, err = ReadMemory(t.Context(), client)
	require.ErrorIs(t, err, ErrUntold)

	server.Stop()
	_, err = ReadMemory(t.Context(), client)
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrUntold)
}
