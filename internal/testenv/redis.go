package testenv

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisStartTimeout is long because many tests share few cores; an idle machine
// needs about 20 ms.
const redisStartTimeout = 2 * time.Minute

// Redis is a redis-server process that belongs to one test. Its methods are for
// the test's own goroutine, except URL and Addr.
type Redis struct {
	t testing.TB
	// The ports are those of its clients, of its clients with TLS, and of the other
	// nodes of its cluster. The last two are 0 if the arguments ask for neither.
	port, tlsPort, busPort int
	arguments              []string
	// configuration is a file that the arguments override, "" for none.
	configuration string
	directory     string
	child         *child
}

// StartRedis starts an empty redis-server on a free loopback port and returns
// when it answers. It keeps nothing on disk, never evicts and has a limit that no test
// reaches, unless arguments
// (as on the redis-server command line: "--maxmemory", "5mb") say otherwise.
// With "--tls-cert-file" it has a port for TLS, too, and with "--cluster-enabled"
// one for other nodes. It is killed when the test ends.
func StartRedis(t testing.TB, arguments ...string) *Redis {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatalf("redis-server is not in PATH: run `make test`, which installs it (%v)", err)
	}
	return startRedis(t, reservePort, "", arguments)
}

func startRedis(t testing.TB, reserve portReserver, configuration string, arguments []string) *Redis {
	t.Helper()
	r := &Redis{t: t, configuration: configuration, arguments: arguments, directory: t.TempDir()}
	ports := []*int{&r.port}
	if slices.Contains(arguments, "--tls-cert-file") {
		ports = append(ports, &r.tlsPort)
	}
	if slices.Contains(arguments, "--cluster-enabled") {
		ports = append(ports, &r.busPort)
	}
	err := startOnPorts(t, reserve, len(ports), func(chosen []int) error {
		for place, port := range ports {
			*port = chosen[place]
		}
		return r.start()
	})
	t.Cleanup(r.remove)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Addr returns the server's address, 127.0.0.1:port; it stays the same over
// Stop and Start.
func (r *Redis) Addr() string { return loopback(r.port) }

// URL returns the server's address as a redis:// URL for database 0.
func (r *Redis) URL() string { return "redis://" + r.Addr() + "/0" }

// TLSPort is where it speaks TLS.
func (r *Redis) TLSPort() string { return strconv.Itoa(r.tlsPort) }

// Client returns a new client of this server, closed when the test ends.
func (r *Redis) Client(t testing.TB) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: r.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Pid returns the process id of the server that was started last.
func (r *Redis) Pid() int { return r.child.pid() }

// Stop kills the server, which loses its data unless it was started with
// persistence. Connections are refused until Start; the port stays reserved.
func (r *Redis) Stop() {
	r.t.Helper()
	r.check(r.child.kill())
}

// Start starts the server again after Stop, on the same port and in the same
// directory, and returns when it answers.
func (r *Redis) Start() {
	r.t.Helper()
	if !r.child.hasEnded() {
		r.t.Fatalf("Redis %s is running: Stop it before Start", r.Addr())
	}
	r.check(r.start())
}

// Freeze stops the server from doing anything; the kernel still accepts
// connections and bytes for it.
func (r *Redis) Freeze() {
	r.t.Helper()
	r.check(r.child.freeze())
}

// Thaw lets a frozen server go on.
func (r *Redis) Thaw() {
	r.t.Helper()
	r.check(r.child.thaw())
}

func (r *Redis) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("Redis %s: %v", r.Addr(), err)
	}
}

func (r *Redis) remove() {
	if r.child == nil {
		return
	}
	if err := r.child.kill(); err != nil {
		r.t.Errorf("Redis %s: %v", r.Addr(), err)
	}
}

func (r *Redis) start() error {
	logPath := filepath.Join(r.directory, "redis.log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of Redis: %w", err)
	}
	defer log.Close()

	arguments := []string{
		"--bind", "127.0.0.1",
		"--port", strconv.Itoa(r.port),
		"--dir", r.directory,
		"--save", "",
		"--appendonly", "no",
		"--maxmemory", "4gb",
		"--maxmemory-policy", "noeviction",
	}
	if r.tlsPort != 0 {
		arguments = append(arguments, "--tls-port", r.TLSPort())
	}
	if r.busPort != 0 { // otherwise port + 10000, which may be anybody's
		arguments = append(arguments, "--cluster-port", strconv.Itoa(r.busPort))
	}
	arguments = append(arguments, r.arguments...)
	if r.configuration != "" {
		arguments = append([]string{r.configuration}, arguments...) // it must be the first
	}
	command := exec.Command("redis-server", arguments...)
	command.Dir = r.directory
	// Redis logs to its output, so that complaints about arguments and
	// everything later are in one file.
	command.Stdout, command.Stderr = log, log
	if r.child, err = startChild(command); err != nil {
		return err
	}

	for deadline := time.Now().Add(redisStartTimeout); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if r.child.hasEnded() {
			return endedAtStart("redis-server", readLog(logPath))
		}
		if isReady(r.Addr(), r.child.pid()) {
			return nil
		}
	}
	return fmt.Errorf("redis-server on port %d did not answer PING within %s; its log:\n%s",
		r.port, redisStartTimeout, readLog(logPath))
}

// isReady tells whether the server answers PING and is the process with the
// given id, not another Redis on the same port. One that asks for a password is
// ready; one that still loads its data is not.
func isReady(address string, pid int) bool {
	connection, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return false
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return false
	}
	if _, err := connection.Write([]byte("PING\r\nINFO server\r\n")); err != nil {
		return false
	}
	reader := bufio.NewReader(connection)
	pong, err := readValue(reader)
	if err != nil {
		return false
	}
	if bytes.HasPrefix(pong, []byte("-NOAUTH")) {
		return true
	}
	info, err := readValue(reader)
	return err == nil && string(pong) == "+PONG\r\n" && bytes.Contains(info, fmt.Appendf(nil, "process_id:%d\r\n", pid))
}
