package rabbitmq

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"pushq/internal/loopback"
	"pushq/internal/secreturl"
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
	read, err := readAddress(text)
	return err == nil && loopback.Is(read.name)
}

// An address is what a URL says.
type address struct {
	url  string // a secret
	name string // of the host
	host string // host:port
	// mask takes the password out of errors.
	mask secreturl.Mask
	// timeout is for everything until the connection can be used.
	timeout time.Duration
}

func readAddress(text string) (address, error) {
	if !strings.HasPrefix(text, "amqp://") && !strings.HasPrefix(text, "amqps://") {
		return address{}, errors.New("must start with amqp:// or amqps://")
	}
	parts, err := secreturl.Cut(text)
	if err != nil {
		return address{}, err
	}
	uri, err := amqp.ParseURI(parts.String())
	if err != nil {
		return address{}, errors.New("is not a valid AMQP URL; " + secreturl.Hint)
	}
	read := address{
		url: parts.String(), name: uri.Host, host: net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)), timeout: connectTimeout,
		mask: secreturl.NewMask([]string{parts.Password()}, uri.Username, uri.Host, uri.Vhost),
	}
	if uri.ConnectionTimeout > 0 {
		read.timeout = time.Duration(uri.ConnectionTimeout) * time.Millisecond
	}
	return read, nil
}
