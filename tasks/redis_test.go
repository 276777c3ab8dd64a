package tasks

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/redisconn"
	"pushq/internal/testenv"
)

var testRetention = Retention{Sent: 24 * time.Hour, Dead: 720 * time.Hour, Completed: time.Hour}

// onEachRedis runs a test against a real Redis and against the embedded one of
// `pushq dev`, which must behave alike.
func onEachRedis(t *testing.T, test func(*testing.T, *redis.Client)) {
	t.Parallel()
	t.Run("redis-server", func(t *testing.T) {
		t.Parallel()
		test(t, testenv.StartRedis(t).Client(t))
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		embedded, err := redisconn.StartEmbedded()
		require.NoError(t, err)
		t.Cleanup(embedded.Close)
		options, err := redis.ParseURL(embedded.URL())
		require.NoError(t, err)
		options.ReadTimeout = time.Minute // it is slow on a busy machine
		client := redis.NewClient(options)
		t.Cleanup(func() { _ = client.Close() })
		test(t, client)
	})
}

// onEachChannel runs a test for every channel: none must be forgotten.
func onEachChannel(t *testing.T, test func(t *testing.T, channel Channel)) {
	t.Parallel()
	for _, channel := range Channels() {
		t.Run(channel.Name, func(t *testing.T) {
			t.Parallel()
			test(t, channel)
		})
	}
}

// newPush returns an immediate push that was accepted just now.
func newPush() Push {
	return Push{
		ID: NewID(), Platform: IOS, MessagePrototypeKey: "Hello",
		PushKey: "463B3209-6E33-4E88-AF52-CDA87C0550EC", Message: "Hello client!",
		CreatedAt: MillisOf(time.Now()),
	}
}

// newWindowedPush returns a push that waits for its window.
func newWindowedPush(due time.Time) Push {
	push := newPush()
	push.CronExpression, push.TimeZone = "* * 9-17 ? * *", "Europe/Stockholm"
	push.DueAt, push.Held = MillisOf(due), true
	return push
}
