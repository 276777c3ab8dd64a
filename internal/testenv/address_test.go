package testenv

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFreeAddressRefusesUntilSomebodyListens(t *testing.T) {
	t.Parallel()
	address := FreeAddress(t)
	for range 2 {
		_, err := net.DialTimeout("tcp", address, time.Second)
		require.ErrorContains(t, err, "connection refused")

		listener, err := net.Listen("tcp", address)
		require.NoError(t, err)
		connection, err := net.DialTimeout("tcp", address, time.Second)
		require.NoError(t, err)
		require.NoError(t, connection.Close())
		closeListener(listener.(*net.TCPListener))
	}
}

// Without the reservation the kernel would hand out some port twice: there are
// 28,000 of them, so among 1,000 it is all but certain.
func TestFreeAddressesDiffer(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for range 500 {
		port, release, err := reservePort()
		require.NoError(t, err)
		t.Cleanup(release)
		require.False(t, seen[port], "port %d was handed out twice", port)
		seen[port] = true
	}
	for range 500 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close()
		port := listener.Addr().(*net.TCPAddr).Port
		require.False(t, seen[port], "a listener was given the reserved port %d", port)
	}
}
