package tasks_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

// Many pushes are announced together, and never before the last of them.
func TestAnnouncements(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := server.Client(t)
	subscription := client.Subscribe(t.Context(), tasks.Swrve.AnnouncementsChannel())
	defer subscription.Close()
	_, err := subscription.Receive(t.Context()) // subscribed
	require.NoError(t, err)

	intake := tasks.NewIntake(client, tasks.Swrve, tasks.Retention{Sent: time.Hour, Dead: time.Hour, Completed: time.Hour})
	now := tasks.MillisOf(time.Now())
	const pushes = 200
	started := time.Now()
	for range pushes {
		push := tasks.Push{ID: tasks.NewID(), Platform: tasks.IOS, MessagePrototypeKey: "Hello", PushKey: "ann", Message: "m", CreatedAt: now}
		_, err := intake.Accept(t.Context(), push, false)
		require.NoError(t, err)
	}
	took := time.Since(started)
	later := tasks.Push{ID: tasks.NewID(), Platform: tasks.IOS, MessagePrototypeKey: "Hello", PushKey: "bob", Message: "m",
		CronExpression: "0 0 10 * * ?", CreatedAt: now, DueAt: now + 60_000}
	_, err = intake.Accept(t.Context(), later, false)
	require.NoError(t, err)
	intake.Close() // returns after the last announcement
	require.NoError(t, client.Publish(t.Context(), tasks.Swrve.AnnouncementsChannel(), "end").Err())

	announced := 0
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		message, err := subscription.ReceiveMessage(ctx)
		require.NoError(t, err)
		if message.Payload == "end" {
			break
		}
		require.Equal(t, tasks.Swrve.ImmediateQueue(), message.Payload, "a push that is due later is not announced")
		announced++
	}
	require.Positive(t, announced)
	require.LessOrEqual(t, announced, int(took/(10*time.Millisecond))+2)
}
