package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

// A channel that needs rights which the user of Redis lacks does not start before it has
// them, and asks nobody to use them.
func TestAChannelWaitsForTheRightsThatItNeeds(t *testing.T) {
	t.Parallel()
	isStream := func(right string) bool { return strings.HasPrefix(right, "+x") }
	rights := slices.DeleteFunc(documentedRights(t), isStream)
	w := newFCMWorldIn(t, newRestrictedWorld(t, rights))
	client := redis.NewClient(&redis.Options{Addr: w.Redis.Addr(), DB: 1})
	t.Cleanup(func() { _ = client.Close() })

	swrve := w.startReady("serve")
	waitFor(t, swrve, accept(t, swrve, "user"), tasks.Sent, 20*time.Second)

	both := w.start("serve", w.settings...)
	both.WaitForLine("lacks the rights +xadd", 20*time.Second)
	require.Zero(t, client.Exists(t.Context(), tasks.FCM.FollowersKey()).Val(), "nobody has to tell it yet")
	settings := filepath.Join(t.TempDir(), "pushq.yaml")
	require.NoError(t, os.WriteFile(settings, []byte("redis:\n  url: "+w.RedisURL+"\n"+withFCM), 0o600))
	output, err := execute("doctor", "--yes", "--config", settings)
	require.ErrorIs(t, err, errFindings)
	require.Contains(t, output, "redis-rights")
	require.Contains(t, output, "redis-cli ACL SETUSER user +xadd +xlen")

	admin := w.Redis.Client(t)
	arguments := []any{"ACL", "SETUSER", "pushq"}
	for _, right := range slices.DeleteFunc(documentedRights(t), func(right string) bool { return !isStream(right) }) {
		arguments = append(arguments, right)
	}
	require.NoError(t, admin.Do(t.Context(), arguments...).Err())
	both.WaitReady()
	id, _ := notify(t, both, notificationBody("device"))
	waitFor(t, both, id, tasks.Sent, 20*time.Second)
	testenv.Eventually(t, 20*time.Second, "the state of its key", func() bool {
		return client.Get(t.Context(), "idempotency:key-device").Val() == "sent"
	})
}
