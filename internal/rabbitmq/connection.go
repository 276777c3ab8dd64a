package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	connectTimeout = 10 * time.Second
	// heartbeat is how often RabbitMQ gives a sign of life, unless the URL says
	// otherwise; the library closes a connection that is silent for 1.5 of them.
	heartbeat = 10 * time.Second
	// writeTimeout is how long a write may be held up by a RabbitMQ that does not read.
	writeTimeout = 10 * time.Second
	// closeTimeout is how long a connection waits for RabbitMQ to agree to its end.
	closeTimeout = 2 * time.Second
)

// connection is a connection to RabbitMQ and the socket below it.
type connection struct {
	*amqp.Connection
	socket net.Conn
}

var errConnectTimeout = errors.New("no answer in time")

// connect opens a connection, under a name that operators of RabbitMQ see, and prepares
// it. The library knows no contexts: when ctx ends or the time is up, the socket is
// closed, which ends every call.
func (a address) connect(ctx context.Context, name string, prepare func(*amqp.Connection) error) (*connection, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, a.timeout, errConnectTimeout)
	defer cancel()
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName(name)
	var socket net.Conn
	release := func() bool { return true }
	connected, err := amqp.DialConfig(a.url, amqp.Config{
		Heartbeat:  heartbeat,
		Properties: properties,
		Dial: func(network, host string) (net.Conn, error) {
			dialed, err := (&net.Dialer{}).DialContext(ctx, network, host)
			if err != nil {
				return nil, err
			}
			socket = dialed
			release = context.AfterFunc(ctx, func() { _ = dialed.Close() })
			return impatientSocket{dialed}, nil
		},
	})
	if err == nil {
		err = prepare(connected)
	}
	if !release() {
		err = context.Cause(ctx) // says more than the error of a closed socket
	}
	if err == nil {
		return &connection{Connection: connected, socket: socket}, nil
	}
	if socket != nil {
		_ = socket.Close() // the library leaves it open after some errors
	}
	return nil, fmt.Errorf("connect to RabbitMQ at %s: %w%s", a.host, a.mask.Error(err), advice(err))
}

// advice says what to do about a refusal.
func advice(err error) string {
	refusal, ok := errors.AsType[*amqp.Error](err)
	switch {
	case errors.Is(err, amqp.ErrCredentials):
		return ": see the user and the password in the URL"
	case errors.Is(err, amqp.ErrVhost):
		return ": see the virtual host in the URL, and the user's permissions there (rabbitmqctl list_permissions -p VHOST)"
	case ok && refusal.Code == amqp.AccessRefused && strings.HasSuffix(refusal.Reason, "in exclusive use"):
		return ": another consumer has the queue for itself alone; end that one"
	case ok && refusal.Code == amqp.AccessRefused:
		return ": give the user the permissions of docs/deployment.md (rabbitmqctl set_permissions)"
	default:
		return ""
	}
}

// cut ends the connection at once, with all calls.
func (c *connection) cut() { _ = c.socket.Close() }

// end closes the connection as the protocol wants it, or cuts it if that takes long.
func (c *connection) end() {
	_ = c.CloseDeadline(time.Now().Add(closeTimeout))
	c.cut()
}

// impatientSocket gives up a write that does not get on. RabbitMQ stops reading from
// those who publish while it is short of memory or disk, and its heartbeats go on.
type impatientSocket struct {
	net.Conn
}

func (s impatientSocket) Write(bytes []byte) (int, error) {
	if err := s.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return s.Conn.Write(bytes)
}
