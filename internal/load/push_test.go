package load

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRequestsAreWhatReachedTheProvider(t *testing.T) {
	t.Parallel()
	var p push
	require.NoError(t, json.Unmarshal([]byte(`{"status":"SENT","attempts":[
		{"status":"ERROR","startedAt":"2026-11-27T09:00:00.001Z","millis":1,"errorType":"SWRVE","errorCode":429},
		{"status":"ERROR","startedAt":"2026-11-27T09:00:00.002Z","millis":2,"errorType":"SWRVE","errorCode":503},
		{"status":"ERROR","startedAt":"2026-11-27T09:00:00.003Z","millis":3,"errorType":"OTHER","errorCode":null,"maybeDelivered":true},
		{"status":"ERROR","startedAt":"2026-11-27T09:00:00.004Z","millis":4,"errorType":"OTHER","errorMessage":"not sent: shutdown"},
		{"status":"ERROR","startedAt":null,"millis":0,"errorType":"MESSAGE_PROTOTYPE_KEY"},
		{"status":"ERROR","startedAt":"2026-11-27T09:00:00.005Z","millis":null,"errorType":"OTHER","errorMessage":"interrupted","maybeDelivered":true},
		{"status":"IN_PROCESS","startedAt":"2026-11-27T09:00:00.006Z","millis":null},
		{"status":"OK","startedAt":"2026-11-27T09:00:00.007Z","millis":7}
	]}`), &p))
	at := func(millis int) time.Time {
		return time.Date(2026, 11, 27, 9, 0, 0, millis*int(time.Millisecond), time.UTC)
	}
	require.Equal(t, []request{
		{startedAt: at(1), took: time.Millisecond, rateLimited: true},
		{startedAt: at(2), took: 2 * time.Millisecond},
		{startedAt: at(3), took: 3 * time.Millisecond},
		{startedAt: at(7), took: 7 * time.Millisecond},
	}, p.requests())
}
