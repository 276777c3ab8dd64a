package testenv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// FreeAddress returns a loopback address (127.0.0.1:port) that nobody listens
// on. It belongs to the test until the test ends: a server that the test starts
// can listen on it, once or again and again, and nobody else is given the port.
func FreeAddress(t testing.TB) string {
	t.Helper()
	port, release, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return loopback(port)
}

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// errPortTaken is what a server complains of that finds somebody else on its port.
var errPortTaken = errors.New("a port is taken")

// portReserver is reservePort, or what a test has in its place.
type portReserver func() (port int, release func(), err error)

// startOnPorts starts a server that wants count ports. They stay reserved until the
// test ends. If start returns errPortTaken it is called again with other ports:
// reserved or not, a stranger may listen on a port that he names.
func startOnPorts(t testing.TB, reserve portReserver, count int, start func(ports []int) error) error {
	t.Helper()
	var err error
	for range 10 {
		ports := make([]int, count)
		for place := range ports {
			port, release, err := reserve()
			if err != nil {
				return err
			}
			t.Cleanup(release)
			ports[place] = port
		}
		if err = start(ports); !errors.Is(err, errPortTaken) {
			return err
		}
		t.Logf("start again with other ports than %v: %v", ports, err)
	}
	return err
}

// reservePort takes a free loopback port until release is called. The port is
// held by a socket that never listens: whoever else asks for it here, in this
// process or another, finds it taken, but a server that uses SO_REUSEADDR (as
// Redis, PostgreSQL, RabbitMQ and Go do) can listen on it. So no time passes
// between finding a port and owning it, and it stays owned while the server is
// stopped.
//
// The kernel gives the ports of its ephemeral range to outgoing connections of
// anybody, which no reservation prevents for certain. The ports are others.
func reservePort() (port int, release func(), err error) {
	first, last := portsToReserve()
	for range 10_000 {
		port := first + rand.IntN(last-first+1)
		release, err := holdPort(port)
		if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES) {
			continue
		}
		if err != nil {
			return 0, nil, fmt.Errorf("reserve port %d: %w", port, err)
		}
		return port, release, nil
	}
	return 0, nil, fmt.Errorf("reserve a port: none is free between %d and %d", first, last)
}

// holdPort binds a socket to the port. It allows others to share the port only
// after that, so two that want to hold it cannot both have it.
func holdPort(port int) (release func(), err error) {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	release = sync.OnceFunc(func() { _ = syscall.Close(socket) })
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		release()
		return nil, os.NewSyscallError("bind", err)
	}
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		release()
		return nil, os.NewSyscallError("setsockopt", err)
	}
	return release, nil
}

// portsToReserve are asked for once: the kernel's range does not change under tests.
var portsToReserve = sync.OnceValues(func() (first, last int) {
	low, high := 32768, 60999 // Linux's defaults
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(text), &low, &high)
	}
	return portsOutside(low, high)
})

// portsOutside chooses ports below the ephemeral range low to high, or above it, or,
// if there are too few of both, any.
func portsOutside(low, high int) (first, last int) {
	// Most services that people run on a host have ports below the lowest.
	const lowest, highest, enough = 11_000, 65_535, 2_000
	switch {
	case low-lowest >= enough:
		return lowest, low - 1
	case highest-high >= enough:
		return max(lowest, high+1), highest
	default:
		return lowest, highest
	}
}
