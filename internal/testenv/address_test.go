package testenv

import (
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFreeAddressRefusesUntilSomebodyListens(t *testing.T) {
	t.Parallel()
	address := FreeAddress(t)
	for range 2 {
		_, err := net.DialTimeout("tcp", address, time.Minute)
		require.ErrorContains(t, err, "connection refused")

		listener, err := net.Listen("tcp", address)
		require.NoError(t, err)
		connection, err := net.DialTimeout("tcp", address, time.Minute)
		require.NoError(t, err)
		require.NoError(t, connection.Close())
		closeListener(listener.(*net.TCPListener))
	}
}

// Outgoing connections have ports of the kernel's range, and may take any of them at
// any time.
func TestFreeAddressesAreBelowTheEphemeralRange(t *testing.T) {
	t.Parallel()
	var low, high int
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	require.NoError(t, err)
	_, err = fmt.Sscan(string(text), &low, &high)
	require.NoError(t, err)
	if low < 13_000 {
		t.Logf("hardly a port is below the ephemeral range from %d", low)
		low = 65_536
	}
	seen := map[int]bool{}
	for range 500 {
		port, release, err := reservePort()
		require.NoError(t, err)
		t.Cleanup(release)
		require.GreaterOrEqual(t, port, 1024)
		require.Less(t, port, low)
		require.False(t, seen[port], "port %d was handed out twice", port)
		seen[port] = true
	}
}

func TestPortsOutsideTheEphemeralRange(t *testing.T) {
	t.Parallel()
	for ephemeral, want := range map[[2]int][2]int{
		{32768, 60999}: {11000, 32767},
		{49152, 65535}: {11000, 49151},
		{10000, 60000}: {60001, 65535},
		{1024, 5000}:   {11000, 65535},
		{1024, 65535}:  {11000, 65535},
		{12000, 65000}: {11000, 65535},
	} {
		first, last := portsOutside(ephemeral[0], ephemeral[1])
		require.Equal(t, want, [2]int{first, last}, "%v", ephemeral)
	}
}

// Two test processes that choose the same port do not both get it, but the server of
// the one that has it can listen.
func TestAPortIsHeldOnce(t *testing.T) {
	t.Parallel()
	port, release, err := reservePort()
	require.NoError(t, err)
	_, err = holdPort(port)
	require.ErrorContains(t, err, "address already in use")

	listener, err := net.Listen("tcp", loopback(port))
	require.NoError(t, err)
	_, err = holdPort(port)
	require.ErrorContains(t, err, "address already in use")
	release()
	_, err = holdPort(port)
	require.ErrorContains(t, err, "address already in use", "somebody listens")
	closeListener(listener.(*net.TCPListener))

	again, err := holdPort(port)
	require.NoError(t, err)
	again()
}

func TestPortsAreChosenAgainOnlyIfOneIsTaken(t *testing.T) {
	t.Parallel()
	var tried [][]int
	require.NoError(t, startOnPorts(t, reservePort, 2, func(ports []int) error {
		tried = append(tried, ports)
		if len(tried) < 3 {
			return fmt.Errorf("start: %w", errPortTaken)
		}
		return nil
	}))
	require.Len(t, tried, 3)
	seen := map[int]bool{}
	for _, ports := range tried {
		for _, port := range ports {
			require.False(t, seen[port])
			seen[port] = true
		}
	}

	attempts := 0
	err := startOnPorts(t, reservePort, 1, func([]int) error { attempts++; return errors.New("no memory") })
	require.ErrorContains(t, err, "no memory")
	require.Equal(t, 1, attempts)
}

// Every server finds other ports if a stranger listens on one of those it was given.
func TestServersWhosePortsAreTaken(t *testing.T) {
	t.Parallel()
	authority := NewAuthority(t)
	cert, key := authority.Issue(time.Now().Add(time.Hour), "127.0.0.1")
	for name, server := range map[string]struct {
		ports int
		start func(t *testing.T, reserve portReserver) (address string)
	}{
		"Redis": {3, func(t *testing.T, reserve portReserver) string {
			return startRedis(t, reserve, "", []string{"--cluster-enabled", "yes",
				"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", authority.File()}).Addr()
		}},
		"PostgreSQL": {1, func(t *testing.T, reserve portReserver) string { return startPostgres(t, reserve, nil).Addr() }},
		"RabbitMQ": {4, func(t *testing.T, reserve portReserver) string {
			return startRabbitMQ(t, reserve, []string{"ssl_options.certfile = " + cert,
				"ssl_options.keyfile = " + key, "ssl_options.cacertfile = " + authority.File()}).Addr()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The first attempt finds its first port taken, the second one its second.
			reserved := 0
			address := server.start(t, func() (int, func(), error) {
				port, release, err := reservePort()
				if attempt, place := reserved/server.ports, reserved%server.ports; attempt == place {
					stranger, err := net.Listen("tcp", loopback(port))
					require.NoError(t, err)
					t.Cleanup(func() { _ = stranger.Close() })
				}
				reserved++
				return port, release, err
			})
			require.Equal(t, (server.ports+1)*server.ports, reserved)
			connection, err := net.Dial("tcp", address)
			require.NoError(t, err)
			require.NoError(t, connection.Close())
		})
	}
}
