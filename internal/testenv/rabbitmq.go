package testenv

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// rabbitStartTimeout is long because many tests share few cores; an idle machine
	// needs about 4 s.
	rabbitStartTimeout = 5 * time.Minute
	rabbitStopTimeout  = 3 * time.Minute
)

// RabbitMQ is a RabbitMQ server that belongs to one test, with the epmd that Erlang
// needs. It has no plugins. Its methods are for the test's own goroutine, except URL and
// Addr.
type RabbitMQ struct {
	t             testing.TB
	program       string // of the server, beside its other ones
	directory     string
	configuration []string
	// The ports of the server, of Erlang's distribution, which rabbitmqctl uses, of
	// epmd, and of the server for TLS, if the configuration has a certificate for it.
	port, distributionPort, epmdPort, tlsPort int
	epmd, child                               *child
}

// StartRabbitMQ starts an empty server on a free loopback port and returns when it
// answers. The configuration is lines of rabbitmq.conf; with ssl_options it has a port for
// TLS, too. It keeps what it is given over Stop, Kill and Start, and is killed when the
// test ends.
func StartRabbitMQ(t testing.TB, configuration ...string) *RabbitMQ {
	t.Helper()
	return startRabbitMQ(t, reservePort, configuration)
}

func startRabbitMQ(t testing.TB, reserve portReserver, configuration []string) *RabbitMQ {
	t.Helper()
	r := &RabbitMQ{t: t, program: findRabbitMQ(t), directory: t.TempDir(), configuration: configuration}
	ports := []*int{&r.port, &r.distributionPort, &r.epmdPort}
	if slices.ContainsFunc(configuration, func(line string) bool { return strings.HasPrefix(line, "ssl_options.certfile") }) {
		ports = append(ports, &r.tlsPort)
	}
	err := startOnPorts(t, reserve, len(ports), func(chosen []int) error {
		for place, port := range ports {
			*port = chosen[place]
		}
		return r.startAll()
	})
	t.Cleanup(r.remove)
	r.check(err)
	return r
}

// startAll starts what belongs to the server, and it.
func (r *RabbitMQ) startAll() error {
	r.remove() // of an attempt with other ports
	lines := append([]string{"listeners.tcp.1 = " + r.Addr()}, r.configuration...)
	if r.tlsPort != 0 {
		lines = append(lines, "listeners.ssl.1 = "+loopback(r.tlsPort))
	}
	if err := os.WriteFile(r.path("rabbitmq.conf"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(r.path("enabled_plugins"), []byte("[].\n"), 0o600); err != nil {
		return err
	}
	if err := r.startEpmd(); err != nil {
		return err
	}
	return r.start()
}

// startEpmd comes before the server, which would start one that outlives it.
func (r *RabbitMQ) startEpmd() (err error) {
	r.epmd, err = r.startLogging(exec.Command("epmd", "-address", "127.0.0.1", "-port", strconv.Itoa(r.epmdPort)))
	if err != nil {
		return err
	}
	listens := func() bool {
		connection, err := net.Dial("tcp", loopback(r.epmdPort))
		if err != nil {
			return false
		}
		_ = connection.Close()
		return true
	}
	if !poll(rabbitStartTimeout, func() bool { return r.epmd.hasEnded() || listens() }) {
		return fmt.Errorf("epmd on port %d did not answer within %s", r.epmdPort, rabbitStartTimeout)
	}
	if r.epmd.hasEnded() { // it never says why
		return fmt.Errorf("epmd on port %d ended at start: %w", r.epmdPort, errPortTaken)
	}
	return nil
}

// startLogging starts a program whose output goes to the log.
func (r *RabbitMQ) startLogging(command *exec.Cmd) (*child, error) {
	log, err := os.OpenFile(r.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command.Dir, command.Env = r.directory, r.environment()
	command.Stdout, command.Stderr = log, log
	return startChild(command)
}

// findRabbitMQ prefers the server's own script to the one that Debian has in PATH, which
// changes the user.
func findRabbitMQ(t testing.TB) string {
	t.Helper()
	const script = "/usr/lib/rabbitmq/bin/rabbitmq-server"
	if _, err := os.Stat(script); err == nil {
		return script
	}
	program, err := exec.LookPath("rabbitmq-server")
	if err != nil {
		t.Fatalf("rabbitmq-server is not in PATH: run `make test`, which installs it (%v)", err)
	}
	return program
}

// Addr returns the server's address, 127.0.0.1:port; it stays the same over Stop and
// Start.
func (r *RabbitMQ) Addr() string { return loopback(r.port) }

// TLSPort is where it speaks TLS.
func (r *RabbitMQ) TLSPort() string { return strconv.Itoa(r.tlsPort) }

// URL returns the server's address as an amqp:// URL, of a user who may do anything.
func (r *RabbitMQ) URL() string {
	return (&url.URL{Scheme: "amqp", User: url.UserPassword("guest", "guest"), Host: r.Addr(), Path: "/"}).String()
}

// Connect returns a new connection to the server, closed when the test ends.
func (r *RabbitMQ) Connect(t testing.TB) *amqp.Connection {
	t.Helper()
	connection, err := amqp.Dial(r.URL())
	if err != nil {
		t.Fatalf("connect to RabbitMQ %s: %v", r.Addr(), err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

// Publish puts messages into a durable queue, which it declares, and returns when the
// server has them.
func (r *RabbitMQ) Publish(t testing.TB, queue string, bodies ...string) {
	t.Helper()
	channel, err := r.Connect(t).Channel()
	r.check(err)
	defer func() { _ = channel.Close() }()
	r.check(channel.Confirm(false))
	_, err = channel.QueueDeclare(queue, true, false, false, false, nil)
	r.check(err)
	confirmed := channel.NotifyPublish(make(chan amqp.Confirmation, len(bodies)))
	for _, body := range bodies {
		r.check(channel.PublishWithContext(t.Context(), "", queue, true, false,
			amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)}))
	}
	for range bodies {
		select {
		case confirmation := <-confirmed:
			if !confirmation.Ack {
				t.Fatalf("RabbitMQ %s: a message was not taken", r.Addr())
			}
		case <-time.After(time.Minute):
			t.Fatalf("RabbitMQ %s does not confirm", r.Addr())
		}
	}
}

// Declare declares durable queues, and returns when they survive Kill: RabbitMQ writes what it
// knows of queues to the disk a second or two later, and messages in a queue that it has
// forgotten are gone.
func (r *RabbitMQ) Declare(t testing.TB, queues ...string) {
	t.Helper()
	for _, queue := range queues {
		r.Publish(t, queue)
	}
	r.Control("eval", "mnesia:sync_log().")
}

// Depth is how many messages wait in a queue, 0 if there is no such queue.
func (r *RabbitMQ) Depth(t testing.TB, queue string) int {
	t.Helper()
	connection, err := amqp.Dial(r.URL())
	r.check(err)
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	r.check(err)
	state, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	var refusal *amqp.Error
	if errors.As(err, &refusal) && refusal.Code == amqp.NotFound {
		return 0
	}
	r.check(err)
	return state.Messages
}

// Take takes all messages out of a queue that exists.
func (r *RabbitMQ) Take(t testing.TB, queue string) (bodies []string) {
	t.Helper()
	connection, err := amqp.Dial(r.URL())
	r.check(err)
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	r.check(err)
	for {
		message, found, err := channel.Get(queue, true)
		r.check(err)
		if !found {
			return bodies
		}
		bodies = append(bodies, string(message.Body))
	}
}

// Stop ends the server as an operator does. Connections are refused until Start.
func (r *RabbitMQ) Stop() {
	r.t.Helper()
	r.check(r.child.stop(syscall.SIGTERM))
	if !poll(rabbitStopTimeout, r.child.hasEnded) {
		r.t.Fatalf("RabbitMQ %s did not stop within %s; its log:\n%s", r.Addr(), rabbitStopTimeout, readLog(r.logPath()))
	}
}

// Kill ends the server at once. Connections are refused until Start.
func (r *RabbitMQ) Kill() {
	r.t.Helper()
	r.check(r.child.kill())
}

// Freeze stops the server from doing anything; the kernel still accepts connections and
// bytes for it.
func (r *RabbitMQ) Freeze() {
	r.t.Helper()
	r.check(r.child.freeze())
}

// Thaw lets a frozen server go on.
func (r *RabbitMQ) Thaw() {
	r.t.Helper()
	r.check(r.child.thaw())
}

// Control runs rabbitmqctl for this server and returns what it prints. It takes a second
// or two.
func (r *RabbitMQ) Control(arguments ...string) string {
	r.t.Helper()
	command := exec.Command(filepath.Join(filepath.Dir(r.program), "rabbitmqctl"), append([]string{"--quiet"}, arguments...)...)
	command.Dir, command.Env = r.directory, r.environment()
	printed, err := command.CombinedOutput()
	if err != nil {
		r.t.Fatalf("rabbitmqctl %q: %v\n%s", arguments, err, printed)
	}
	return string(printed)
}

// Start starts the server again after Stop or Kill, on the same port and with what it has
// kept, and returns when it answers.
func (r *RabbitMQ) Start() {
	r.t.Helper()
	r.check(r.start())
}

func (r *RabbitMQ) start() (err error) {
	before := len(readLog(r.logPath()))
	if r.child, err = r.startLogging(exec.Command(r.program)); err != nil {
		return err
	}
	for deadline := time.Now().Add(rabbitStartTimeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if r.child.hasEnded() {
			return endedAtStart("rabbitmq-server", readLog(r.logPath()))
		}
		log := readLog(r.logPath())[before:]
		if !strings.Contains(log, "Server startup complete") || !r.isReady() {
			continue
		}
		if saysPortTaken(log) { // it does without
			return fmt.Errorf("rabbitmq-server does not listen for TLS: %w; its log:\n%s", errPortTaken, log)
		}
		return nil
	}
	return fmt.Errorf("rabbitmq-server on port %d did not answer within %s; its log:\n%s", r.port, rabbitStartTimeout, readLog(r.logPath()))
}

// isReady tells whether the server answers and is this one.
func (r *RabbitMQ) isReady() bool {
	connection, err := amqp.DialConfig(r.URL(), amqp.Config{Dial: amqp.DefaultDial(5 * time.Second)})
	if err != nil {
		return false
	}
	defer func() { _ = connection.Close() }()
	cluster, _ := connection.Properties["cluster_name"].(string) // its first node's name, with the host's full one
	return strings.HasPrefix(cluster, r.node()+"@")
}

// environment makes a node of its own: the user's files and the system's are left alone.
// (https://www.rabbitmq.com/docs/configure#supported-environment-variables)
func (r *RabbitMQ) environment() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"),
		"LANG=C.UTF-8",
		"HOME=" + r.directory, // has Erlang's cookie
		"RABBITMQ_NODENAME=" + r.node() + "@localhost",
		"RABBITMQ_CONFIG_FILE=" + r.path("rabbitmq.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + r.path("none.config"),
		"RABBITMQ_CONF_ENV_FILE=" + r.path("none.conf"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + r.path("enabled_plugins"),
		"RABBITMQ_GENERATED_CONFIG_DIR=" + r.path("generated"),
		"RABBITMQ_SCHEMA_DIR=" + r.path("schema"),
		"RABBITMQ_MNESIA_BASE=" + r.path("data"),
		"RABBITMQ_LOG_BASE=" + r.path("log"),
		"RABBITMQ_LOGS=-",
		"RABBITMQ_PID_FILE=" + r.path("pid"),
		"RABBITMQ_DIST_PORT=" + strconv.Itoa(r.distributionPort),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
		"ERL_EPMD_PORT=" + strconv.Itoa(r.epmdPort),
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"ERL_CRASH_DUMP_SECONDS=0",
		// As under systemd: the script becomes the server instead of waiting for it.
		"NOTIFY_SOCKET=" + r.path("notify"),
	}
}

func (r *RabbitMQ) node() string { return fmt.Sprintf("pushq-%d", r.port) }

func (r *RabbitMQ) path(name string) string { return filepath.Join(r.directory, name) }

func (r *RabbitMQ) logPath() string { return r.path("rabbitmq.log") }

func (r *RabbitMQ) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("RabbitMQ %s: %v", r.Addr(), err)
	}
}

func (r *RabbitMQ) remove() {
	for _, child := range []*child{r.child, r.epmd} {
		if child == nil {
			continue
		}
		if err := child.kill(); err != nil {
			r.t.Errorf("RabbitMQ %s: %v", r.Addr(), err)
		}
	}
}
