package config_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pushq/config"
)

func TestSwrveDelay(t *testing.T) {
	t.Parallel()
	for millis, want := range map[float64]time.Duration{
		4:      4000 * time.Microsecond,
		3.42:   3420 * time.Microsecond,
		3.4:    3400 * time.Microsecond,
		3.3333: 3334 * time.Microsecond, // 3333 would be more than 300 a second
		3.3330: 3333 * time.Microsecond,
		// Times 1000, these are a little more than a whole number in binary.
		2.007:    2007 * time.Microsecond,
		4.041:    4041 * time.Microsecond,
		0.1:      100 * time.Microsecond,
		0.1001:   101 * time.Microsecond,
		1.001:    1001 * time.Microsecond,
		60000:    time.Minute,
		59999.99: 59999990 * time.Microsecond,
	} {
		require.Equal(t, want, config.Swrve{DelayMillis: millis}.Delay(), "%v ms", millis)
	}
}

// Every number of microseconds, written as milliseconds, is kept exactly.
func TestSwrveDelayIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		micros := rapid.IntRange(100, 60_000_000).Draw(t, "micros")
		loaded, err := load("", fmt.Sprintf("PUSHQ_SWRVE_DELAYMILLIS=%d.%03d", micros/1000, micros%1000))
		require.NoError(t, err)
		require.Equal(t, time.Duration(micros)*time.Microsecond, loaded.Config.Swrve.Delay())
	})
}

func TestEffectiveConcurrency(t *testing.T) {
	t.Parallel()
	tests := []struct {
		swrve config.Swrve
		want  int
	}{
		{config.Swrve{DelayMillis: 4, AverageProcessingMillis: 2000}, 500},
		{config.Swrve{DelayMillis: 3.42, AverageProcessingMillis: 2000}, 585}, // 584.8
		{config.Swrve{DelayMillis: 3, AverageProcessingMillis: 9}, 3},
		{config.Swrve{DelayMillis: 3, AverageProcessingMillis: 10}, 4},
		{config.Swrve{DelayMillis: 1000, AverageProcessingMillis: 1}, 1},
		{config.Swrve{DelayMillis: 0.1, AverageProcessingMillis: 2000}, 5000}, // 20000 is more than is allowed
		{config.Swrve{DelayMillis: 4, AverageProcessingMillis: 2000, Concurrency: 7}, 7},
		{config.Swrve{}, 1},
	}
	for _, test := range tests {
		require.Equal(t, test.want, test.swrve.EffectiveConcurrency(), "%+v", test.swrve)
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	swrve := config.Swrve{TimeoutMillis: 15000, AverageProcessingMillis: 1541}
	require.Equal(t, 15*time.Second, swrve.Timeout())
	require.Equal(t, 1541*time.Millisecond, swrve.AverageProcessing())
	require.Equal(t, time.Minute, config.Retry{DelayInSeconds: 60}.Delay())
}

func TestPollers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]config.Pollers{"auto": config.AutoPollers, "1": 1, "8": 8} {
		var pollers config.Pollers
		require.NoError(t, pollers.UnmarshalText([]byte(text)))
		require.Equal(t, want, pollers)
		require.Equal(t, text, pollers.String())
		written, err := pollers.MarshalText()
		require.NoError(t, err)
		require.Equal(t, text, string(written))
	}
	for _, text := range []string{"", "0", "9", "-1", "Auto", "1.5", " 1", "one"} {
		var pollers config.Pollers
		require.EqualError(t, pollers.UnmarshalText([]byte(text)), "must be auto or a whole number from 1 to 8", text)
	}
}
