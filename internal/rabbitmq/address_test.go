package rabbitmq

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	for url, host := range map[string]string{
		"amqp://":        "localhost:5672",
		"amqps://broker": "broker:5671",
		"amqp://user:p%40ss@broker:1234/v%2Fhost":   "broker:1234",
		"amqp://[::1]:1234/":                        "[::1]:1234",
		"amqps://broker/?heartbeat=5&cacertfile=/f": "broker:5671",
	} {
		read, err := readAddress(url)
		require.NoError(t, err, url)
		require.Equal(t, url, read.url)
		require.Equal(t, host, read.host, url)
		require.Equal(t, connectTimeout, read.timeout)
		require.NoError(t, CheckURL(url))
	}
	read, err := readAddress("amqp://broker/?connection_timeout=1500")
	require.NoError(t, err)
	require.Equal(t, 1500*time.Millisecond, read.timeout)
}

func TestAddressIsNotQuoted(t *testing.T) {
	t.Parallel()
	for url, says := range map[string]string{
		"":                               "must start with amqp://",
		"http://user:s3cr3t@broker":      "must start with amqp://",
		"user:s3cr3t@broker":             "must start with amqp://",
		"amqp://user:s3cr3t%@broker":     "written as %XX",
		"amqp://user:s3cr3t@broker:port": "not a valid AMQP URL",
		"amqp://user:s3cr3t #@broker":    "has a part after #",
		"amqp://user:s3/cr3t@broker:1":   "an @ behind the hosts",
		"amqp://user:s3 cr3t@broker":     "written as %XX",
		// Each of these would be a host "user" with a port, and the rest a virtual host or
		// a parameter.
		"amqp://user:5672/s3cr3t@broker":     "an @ behind the hosts",
		"amqp://user:5672?s3cr3t@broker":     "an @ behind the hosts",
		"amqp://user:5672#s3cr3t@broker":     "has a part after #",
		"amqp://user:5672/s3@cr3t@broker/vh": "an @ behind the hosts",
	} {
		require.ErrorContains(t, CheckURL(url), says, url)
		_, consumerError := NewConsumer(ConsumerOptions{URL: url, Queue: "q", Prefetch: 1, Log: silent})
		_, publisherError := NewPublisher(PublisherOptions{URL: url, Log: silent})
		for _, err := range []error{CheckURL(url), consumerError, publisherError} {
			require.Error(t, err, url)
			require.NotContains(t, err.Error(), "s3")
		}
	}
}

// What is dialled has no part of the password in it, whatever that has in it.
func TestThePasswordIsNoPartOfWhatIsDialled(t *testing.T) {
	t.Parallel()
	for written, password := range map[string]string{
		"s3cr3t@with-at": "s3cr3t@with-at", "s3cr3t:@": "s3cr3t:@", "s3%2F%3F%23%25%20": "s3/?#% ", "s3+&=;,[]": "s3+&=;,[]",
	} {
		read, err := readAddress("amqp://user:" + written + "@127.0.0.1:1/vhost")
		require.NoError(t, err, written)
		require.Equal(t, "127.0.0.1:1", read.host)
		uri, err := amqp.ParseURI(read.url)
		require.NoError(t, err, written)
		require.Equal(t, password, uri.Password)
		require.Equal(t, "vhost", uri.Vhost)
		_, err = read.connect(t.Context(), "test", func(*amqp.Connection) error { return nil })
		require.ErrorContains(t, err, "127.0.0.1:1")
		require.NotContains(t, err.Error(), "s3")
	}
}

func TestIsOnThisHost(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{
		"amqp://": true, "amqp://localhost": true, "amqps://guest:guest@127.0.0.1:5671/live": true, "amqp://[::1]:1234/": true,
		"amqp://broker": false, "amqp://10.0.0.1/localhost": false, "amqp://localhost:s3cr3t@broker": false, "amqp://localhost.example": false,
		"amqp://user:s3cr3t%@localhost": false,
	} {
		require.Equal(t, want, IsOnThisHost(url), url)
	}
}
