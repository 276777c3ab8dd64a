package testenv

import (
	"fmt"
	"net"
	"os"
	"strconv"
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

// reservePort takes a free loopback port until release is called. The port is
// held by a socket that is bound with SO_REUSEADDR and never listens. Linux
// gives such a port to nobody who asks for any free port, in this process or
// another, but lets a server that names it and uses SO_REUSEADDR (as Redis and
// Go do) listen on it. So no time passes between finding a port and owning it.
func reservePort() (port int, release func(), err error) {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("reserve a port: %w", os.NewSyscallError("socket", err))
	}
	release = func() { _ = syscall.Close(socket) }
	port, err = bindFreePort(socket)
	if err != nil {
		release()
		return 0, nil, fmt.Errorf("reserve a port: %w", err)
	}
	return port, release, nil
}

func bindFreePort(socket int) (int, error) {
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	return name.(*syscall.SockaddrInet4).Port, nil
}
