package rabbitmq

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"pushq/internal/loopback"
)

// CheckURL says what is wrong with the address of a RabbitMQ, amqp:// or amqps://
// (https://www.rabbitmq.com/docs/uri-spec, with the query parameters of
// https://www.rabbitmq.com/docs/uri-query-parameters that amqp091-go knows). It quotes
// nothing of it: a password with an unescaped character may end up in any part.
func CheckURL(text string) error {
	_, err := readAddress(text)
	return err
}

// IsOnThisHost reports whether the RabbitMQ of a URL that CheckURL accepts can be reached
// from this host only.
func IsOnThisHost(text string) bool {
	uri, err := amqp.ParseURI(text)
	return err == nil && loopback.Is(uri.Host)
}

// An address is what a URL says.
type address struct {
	url  string // a secret
	host string // host:port
	// timeout is for everything until the connection can be used.
	timeout time.Duration
}

func readAddress(text string) (address, error) {
	if !strings.HasPrefix(text, "amqp://") && !strings.HasPrefix(text, "amqps://") {
		return address{}, errors.New("must start with amqp:// or amqps://")
	}
	uri, err := amqp.ParseURI(text)
	if err != nil {
		return address{}, errors.New("is not a valid AMQP URL; special characters in the password are written as %XX")
	}
	read := address{url: text, host: net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)), timeout: connectTimeout}
	if uri.ConnectionTimeout > 0 {
		read.timeout = time.Duration(uri.ConnectionTimeout) * time.Millisecond
	}
	return read, nil
}
