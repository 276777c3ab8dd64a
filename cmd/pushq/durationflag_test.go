package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDurationsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "2d": 48 * time.Hour, "1d12h": 36 * time.Hour, "0.5h": 30 * time.Minute, "-1s": -time.Second,
	} {
		got, err := parseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, says := range map[string]string{
		"1": "1 of what? Write a unit: 1s, 1m, 1h or 1d", "0.5": "of what?", "": "such as 90s", "d": "such as 90s", "2days": "such as 90s", "1dx": "such as 90s", "123456d": "such as 90s",
	} {
		_, err := parseDuration(text)
		require.ErrorContains(t, err, says, text)
	}
}
