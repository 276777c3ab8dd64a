package main

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

func TestThePaceIsSlowedDownWhileRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	api := w.startReady("api")
	settings := []string{"SWRVE_DELAYMILLIS=10"}
	workers := []*testenv.Process{w.startReady("worker", settings...), w.startReady("worker", settings...)}
	ids := acceptMany(t, api, 1500, "user-")
	testenv.Eventually(t, 20*time.Second, "sending at the full pace", func() bool { return len(w.Swrve.Ledger()) >= 50 })

	output, err := w.operate("pace", "5", "--for", "1m")
	require.NoError(t, err)
	require.Contains(t, output, "override         5 a second, for another 1m0s\n")
	require.Contains(t, output, "in force         5 a second\n")
	heard := time.Now().Add(time.Second)
	arrived := func(from, to time.Time) (count int) {
		for _, request := range w.Swrve.Ledger() {
			if request.ArrivedAt.After(from) && request.ArrivedAt.Before(to) {
				count++
			}
		}
		return count
	}
	testenv.Eventually(t, 20*time.Second, "three seconds at the slow pace", func() bool { return time.Now().After(heard.Add(3 * time.Second)) })
	slow := arrived(heard, heard.Add(3*time.Second))
	require.LessOrEqual(t, slow, 60, "five a second for three seconds, and what was on its way, instead of 300")
	require.GreaterOrEqual(t, slow, 5)
	for _, worker := range workers {
		worker.WaitForLine("msg=operator action=pace", 10*time.Second)
	}

	output, err = w.operate("pace")
	require.NoError(t, err)
	require.Contains(t, output, "configured here  250 a second (swrve.delayMillis)\nworkers          100 a second, the slowest of them\noverride         5 a second, for another ")
	output, err = w.operate("pace", "--reset")
	require.NoError(t, err)
	require.Contains(t, output, "override         none\n")
	waitForAll(t, api, ids, tasks.Sent, 60*time.Second)
	deliveries := w.Deliveries()
	require.Len(t, deliveries, len(ids))
	for user, times := range deliveries {
		require.Equal(t, 1, times, user)
	}
	output, err = w.operate("pace", "--reset")
	require.NoError(t, err)
	require.Contains(t, output, "there was no override\n")
}

func TestAPaceComesBackWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	serve := w.startReady("serve", "SWRVE_DELAYMILLIS=10")
	_, err := w.operate("pace", "0.5", "--for", "2s")
	require.NoError(t, err)
	ids := acceptMany(t, serve, 100, "user-")
	waitForAll(t, serve, ids, tasks.Sent, 40*time.Second) // 200 s at the slow pace
	require.Len(t, w.Deliveries(), len(ids))
}

func TestMistakesOfPace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	for _, mistake := range []struct {
		says      string
		arguments []string
	}{
		{"300 a second is faster than swrve.delayMillis allows (250 a second)", []string{"300", "--for", "1h"}},
		{"say for how long, 1s to 24h: pushq pace 10 --for 1h", []string{"10"}},
		{"--for 25h0m0s is too long: write 1s to 24h", []string{"10", "--for", "25h"}},
		{"--for 10ms is too short: write 1s to 24h", []string{"10", "--for", "10ms"}},
		{"1e9 is too fast: write at most 1000000 requests a second", []string{"1e9", "--for", "1h"}},
		{"1e999 is too fast", []string{"1e999", "--for", "1h"}},
		{"is no pace", []string{"0", "--for", "1h"}},
		{"is no pace", []string{"0.001", "--for", "1h"}},
		{"is no pace", []string{"NaN", "--for", "1h"}},
		{"is no pace", []string{"fast", "--for", "1h"}},
		{"-5 is no pace: write requests a second", []string{"-5", "--for", "1h"}},
		{"-0.5 is no pace", []string{"-0.5"}},
		{"1 of what? Write a unit: 1s, 1m, 1h or 1d", []string{"10", "--for", "1"}},
		{"--for 48h0m0s is too long", []string{"10", "--for", "2d"}},
		{"write a duration such as 90s", []string{"10", "--for", "long"}},
		{"--for needs a pace", []string{"--for", "1h"}},
		{"--reset stands alone", []string{"10", "--reset"}},
	} {
		_, err := w.operate(append([]string{"pace"}, mistake.arguments...)...)
		require.ErrorContains(t, err, mistake.says, mistake.arguments)
	}
	require.Empty(t, w.Redis.Client(t).Keys(t.Context(), "*").Val())
	output, err := w.operate("pace")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("redis: %s (redis.url, FILE:2)\n", w.Redis.URL())+
		"warning: no pushq process has been heard of there in the last half minute: is it the Redis, and the database, of those that are meant?\n"+
		"configured here  250 a second (swrve.delayMillis)\nworkers          none has been heard of in the last 15 seconds\n"+
		"override         none\nin force         250 a second\n", regexp.MustCompile(`redis.url, .*pushq.yaml`).ReplaceAllString(output, "redis.url, FILE"))
	output, err = w.operate("pace", "0.1", "--for", "1h")
	require.NoError(t, err)
	require.Contains(t, output, "in force         one in 10s\n")
}
