package load

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/tasks"
)

func TestTable(t *testing.T) {
	t.Parallel()
	report := Report{
		Threads: 20, Pushes: 1002, Accepted: 1000, Unavailable: 1, Failed: 1, PerSecond: 2500, FirstFailure: "the server answered 503",
		Receiving: summarize(millis(oneTo(1000)...)),
		States:    map[tasks.State]int{tasks.Sent: 998, tasks.GivenUp: 1, tasks.Retry: 1}, NotEnded: 1,
		Provider:        summarize(millis(20, 30)),
		StartsPerSecond: 291.25, LargestSecond: 298, RateLimited: 3,
	}
	var out strings.Builder
	report.WriteTable(&out)
	require.Equal(t, `| Milliseconds       | Receiving |  Provider |
|--------------------|----------:|----------:|
| 50th percentile    |     500.0 |      20.0 |
| 75th percentile    |     750.0 |      30.0 |
| 95th percentile    |     950.0 |      30.0 |
| 98th percentile    |     980.0 |      30.0 |
| 99th percentile    |     990.0 |      30.0 |
| 99.9th percentile  |     999.0 |      30.0 |
| Min                |       1.0 |      20.0 |
| Mean               |     500.5 |      25.0 |
| Standard deviation |     288.7 |       5.0 |
| Max                |    1000.0 |      30.0 |

20 threads: 1000 of 1002 accepted, 1 answered 503, 1 failed; 2500 accepted a second
  the first that was not accepted: the server answered 503
1 RETRY, 998 SENT, 1 GIVEN_UP, 1 not ended
2 requests to the provider: 291.2 starts a second, 298 in the fullest second, 3 answered 429
`, out.String())

	out.Reset()
	Report{Threads: 1, Pushes: 1, Accepted: 1, Receiving: summarize(millis(1))}.WriteTable(&out)
	require.Contains(t, out.String(), "| 50th percentile    |       1.0 |         - |\n")
	require.NotContains(t, out.String(), "not ended")
}
