package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
	"pushq/tasks"
)

// A provider that asks everybody to wait is seen wherever somebody looks for the reason why
// nothing is sent.
func TestABrakeIsShown(t *testing.T) {
	t.Parallel()
	w := newFCMWorld(t)
	pushq := w.serve()
	_, checks := readyHealth(t, pushq)
	require.Equal(t, "healthy", checks["pace"].(map[string]any)["status"])
	waitFor(t, pushq, accept(t, pushq, "429after250-ann"), tasks.Retry, longPatience)
	refused, _ := notify(t, pushq, notificationBody("QUOTA_EXCEEDEDafter299-ann"))
	waitFor(t, pushq, refused, tasks.Retry, longPatience)

	overall, checks := readyHealth(t, pushq)
	require.Equal(t, "degraded", overall)
	pace := checks["pace"].(map[string]any)
	require.Equal(t, "degraded", pace["status"])
	require.Equal(t, "the provider has asked everybody to wait", pace["error"])
	answers := map[string]string{
		"swrve": "SWRVE 429: Rate Limit Exceeded",
		"fcm":   "FCM 429: QUOTA_EXCEEDED: Quota exceeded for quota metric 'Messages'.",
	}
	lasts := map[string]time.Duration{"swrve": 250 * time.Second, "fcm": 299 * time.Second}
	require.Len(t, pace["brakes"], 2)
	for _, one := range pace["brakes"].([]any) {
		brake := one.(map[string]any)
		channel := brake["channel"].(string)
		require.Equal(t, answers[channel], brake["answer"])
		since, err := time.Parse(time.RFC3339, brake["since"].(string))
		require.NoError(t, err)
		until, err := time.Parse(time.RFC3339, brake["until"].(string))
		require.NoError(t, err)
		// Both are times of Redis; the second is read anew each time.
		require.InDelta(t, lasts[channel], until.Sub(since), float64(20*time.Second), channel)
	}
	printed, err := execute("health", "--details", "--server", pushq.URL())
	require.NoError(t, err)
	for channel, answer := range answers {
		require.Regexp(t, `(?m)^pace +degraded .*\b`+channel+` sends nothing since \S+Z until \S+Z: `+regexp.QuoteMeta(answer), printed)
	}

	doctor := testenv.StartPushq(t, []string{"doctor", "--json"}, w.Environment(nil...)...)
	require.Equal(t, 2, doctor.Wait(longPatience))
	found := map[string]bool{}
	for _, line := range doctor.Stdout() {
		var finding tasks.Finding
		require.NoError(t, json.Unmarshal([]byte(line), &finding))
		for channel, answer := range answers {
			if finding.Fault == "braked" && strings.Contains(finding.Meaning, "the channel "+channel+" ") {
				found[channel] = true
				require.Contains(t, finding.Meaning, answer)
				require.Regexp(t, ` since \S+Z for another \d+m`, finding.Meaning)
				require.Contains(t, finding.Repair, "--channel "+channel)
			}
		}
	}
	require.Len(t, found, 2)
	printed, err = w.operateWith(withFCM, "pace", "--channel", "fcm")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^brake +the provider asked everybody to wait another [\dms.]+\n +since \S+Z: `+regexp.QuoteMeta(answers["fcm"])+`$`, printed)

	require.NoError(t, w.Redis.Client(t).Del(t.Context(), tasks.Swrve.BrakeKey(), tasks.FCM.BrakeKey()).Err())
	_, checks = readyHealth(t, pushq)
	require.Equal(t, "healthy", checks["pace"].(map[string]any)["status"])
	require.NotContains(t, checks["pace"], "brakes")
}
