package scheduler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestExponentialDoublesWithinItsBounds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		policy Exponential
		want   []time.Duration
	}{
		"as users of the push worker know it": {Exponential{First: time.Second}, []time.Duration{1e9, 2e9, 4e9, 8e9}},
		"floor":                               {Exponential{First: time.Second, Floor: 3 * time.Second}, []time.Duration{3e9, 3e9, 4e9, 8e9}},
		"cap":                                 {Exponential{First: time.Second, Cap: 3 * time.Second}, []time.Duration{1e9, 2e9, 3e9, 3e9}},
		"same delay":                          {Exponential{First: time.Second, Floor: 5 * time.Second, Cap: 5 * time.Second}, []time.Duration{5e9, 5e9, 5e9}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			finished := time.Unix(1_800_000_000, 0)
			for number, want := range test.want {
				require.Equal(t, want, test.policy.After(number+1, finished).Sub(finished), "attempt %d", number+1)
			}
		})
	}
}

func TestExponentialIsNeverEarlyAndNeverBeyondItsJitter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policy := Exponential{
			First:  time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "first")),
			Cap:    time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "cap")),
			Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter"),
		}
		attempt := rapid.IntRange(0, 1_000_000).Draw(t, "attempt")
		exact := policy
		exact.Jitter = 0
		finished := time.Unix(1_800_000_000, 0)
		least := exact.After(attempt, finished).Sub(finished)
		got := policy.After(attempt, finished).Sub(finished)
		if got < least || float64(got) > float64(least)*(1+policy.Jitter)+1 {
			t.Fatalf("%s after attempt %d, the delay is %s", got, attempt, least)
		}
		if policy.Cap > 0 && least > policy.Cap {
			t.Fatalf("%s is beyond the cap %s", least, policy.Cap)
		}
	})
}
