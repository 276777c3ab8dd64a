package tasks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Operators read payloads in asynqmon, and other versions of pushq read them
// from the queue: the form is part of the interface.
func TestAPayloadIsReadable(t *testing.T) {
	t.Parallel()
	push := Push{
		ID: "01M8FKQ944MZEQ408G8G9K98MC", Platform: Android, MessagePrototypeKey: "Good bye", PushKey: "463B3209",
		Message: "Tom & Jerry <3 Привет 💥", CreatedAt: 1_795_820_332_164,
	}
	payload, err := push.encode()
	require.NoError(t, err)
	require.Equal(t, `{"platform":"ANDROID","messagePrototypeKey":"Good bye","pushKey":"463B3209",`+
		`"message":"Tom & Jerry <3 Привет 💥","createdAt":1795820332164}`, string(payload))

	push.CronExpression, push.TimeZone, push.DueAt, push.Held = "* * 9-17 ? * *", "UTC", 1_795_820_400_000, true
	payload, err = push.encode()
	require.NoError(t, err)
	require.Equal(t, `{"platform":"ANDROID","messagePrototypeKey":"Good bye","pushKey":"463B3209",`+
		`"message":"Tom & Jerry <3 Привет 💥","cronExpression":"* * 9-17 ? * *","timeZone":"UTC",`+
		`"createdAt":1795820332164,"dueAt":1795820400000,"held":true}`, string(payload))
}

func TestAPayloadComesBackUnchanged(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		push := Push{
			ID: NewID(), Platform: IOS,
			MessagePrototypeKey: anyText().Draw(t, "prototype"), PushKey: anyText().Draw(t, "pushKey"), Message: anyText().Draw(t, "message"),
			CronExpression: anyText().Draw(t, "cron"), TimeZone: anyText().Draw(t, "zone"),
			CreatedAt: Millis(rapid.Int64().Draw(t, "created")), DueAt: Millis(rapid.Int64().Draw(t, "due")), Held: rapid.Bool().Draw(t, "held"),
		}
		payload, err := push.encode()
		require.NoError(t, err)
		got, err := DecodePush(push.ID, payload)
		require.NoError(t, err)
		require.Equal(t, push, got)
	})
}

func TestAPayloadThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{"", "hello", "[]", `"text"`, `{"message":1}`, `{"message":"x"`, "\xff\x00", `{"createdAt":"today"}`, `{} {}`} {
		push, err := DecodePush("01M8FKQ944MZEQ408G8G9K98MC", []byte(payload))
		require.ErrorContains(t, err, "decode the payload of push 01M8FKQ944MZEQ408G8G9K98MC", "%q", payload)
		require.Equal(t, Push{ID: "01M8FKQ944MZEQ408G8G9K98MC"}, push, "%q", payload)
	}
}

func TestAPayloadOfALaterVersionIsRead(t *testing.T) {
	t.Parallel()
	push, err := DecodePush("01M8FKQ944MZEQ408G8G9K98MC", []byte(`{"message":"hi","colour":"red"}`))
	require.NoError(t, err)
	require.Equal(t, Push{ID: "01M8FKQ944MZEQ408G8G9K98MC", Message: "hi"}, push)
}

func TestMillis(t *testing.T) {
	t.Parallel()
	instant := time.Date(2026, 11, 27, 10, 0, 0, 123_999_999, time.FixedZone("", 3600))
	require.Equal(t, time.Date(2026, 11, 27, 9, 0, 0, 123_000_000, time.UTC), MillisOf(instant).Time())
}
