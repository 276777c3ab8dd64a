package main

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// Everything counts that any part of pushq sends to Redis from the first POST to
// the last push's end: slots, announcements, polls, heartbeats and the caretaker
// too.
func TestAPushCostsAtMostSixRedisCommands(t *testing.T) {
	t.Parallel()
	const pushes, most = 1500, 6.0
	w := newWorld(t, swrvesim.Config{Latency: swrvesim.FixedLatency(100 * time.Millisecond)})
	api := w.startReady("api")
	w.startReady("worker", "SWRVE_DELAYMILLIS=3.4")
	commands := testenv.CountCommands(t, w.Redis.Addr())
	acceptPlain(t, api, pushes, "user-")
	delivered := func() int { return w.Swrve.Stats().Delivered }
	testenv.Eventually(t, time.Minute, "all to be delivered", func() bool { return delivered() >= pushes })
	client := w.Redis.Client(t)
	testenv.Eventually(t, 10*time.Second, "the last outcomes to be written", func() bool {
		return client.LLen(t.Context(), "asynq:{swrve}:active").Val() == 0
	})
	perPush := float64(commands.Load()) / float64(delivered())
	t.Logf("%.2f commands a push", perPush)
	require.LessOrEqual(t, perPush, most)
	require.Greater(t, perPush, 2.0, "the count is not one of commands") // Begin and Finish
}

// The same for the channel with templates: its idempotency key, the circuit breaker and
// those who follow its pushes cost more.
func TestANotificationCostsAtMostTwentyFiveRedisCommands(t *testing.T) {
	t.Parallel()
	const notifications, most = 500, 25.0
	w := newFCMWorld(t)
	api := w.startReady("api", w.settings...)
	w.startReady("worker", w.settings...)
	commands := testenv.CountCommands(t, w.Redis.Addr())
	const callers = 8
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for number := caller; number < notifications; number += callers {
				notify(t, api, notificationBody(fmt.Sprintf("device-%d", number)))
			}
		})
	}
	all.Wait()
	client := w.Redis.Client(t)
	testenv.Eventually(t, time.Minute, "all to be delivered, and others to be told", func() bool {
		return w.firebase.Stats().Delivered == notifications && client.XLen(t.Context(), tasks.FCM.FollowKey(idempotencyFollower)).Val() == 0
	})
	perPush := float64(commands.Load()) / notifications
	t.Logf("%.2f commands a notification", perPush)
	require.LessOrEqual(t, perPush, most)
	require.Greater(t, perPush, 4.0, "the count is not one of commands") // Begin, Finish, and those of the breaker
}

// What an idle worker costs is what it asks Redis: 100 polls a second and queue
// were several percent of a core.
func TestAnIdleWorkerRarelyAsksRedis(t *testing.T) {
	t.Parallel()
	const most = 60.0
	w := newWorld(t, swrvesim.Config{})
	w.startReady("worker")
	testenv.Eventually(t, 20*time.Second, "the start to be over", func() bool {
		return len(w.Redis.Client(t).SMembers(t.Context(), "asynq:queues").Val()) == len(tasks.Swrve.Queues())
	})
	commands := testenv.CountCommands(t, w.Redis.Addr())
	began := time.Now()
	time.Sleep(4 * time.Second) // the time that this is about
	perSecond := float64(commands.Load()) / time.Since(began).Seconds()
	t.Logf("%.1f commands a second", perSecond)
	require.LessOrEqual(t, perSecond, most)
}
