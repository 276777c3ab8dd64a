package deploy_test

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/fcmsim"
	"pushq/internal/testenv"
)

// scrapeOfPushq is what a fresh process tells that accepts and delivers pushes of both
// channels. It need not find what it is to connect with.
func scrapeOfPushq(t *testing.T) testenv.Scrape {
	t.Helper()
	firebase, err := fcmsim.New(fcmsim.Config{})
	require.NoError(t, err)
	nowhere := testenv.FreeAddress(t)
	account, err := firebase.ServiceAccount("http://" + nowhere)
	require.NoError(t, err)
	process := testenv.StartPushq(t, []string{"serve", "--listen", "127.0.0.1:0"}, "PUSHQ_REDIS_URL="+testenv.StartRedis(t).URL(),
		"PUSHQ_FCM_ENABLED=true", "PUSHQ_FCM_URL=http://"+nowhere, "PUSHQ_FCM_SERVICEACCOUNT="+string(account), "PUSHQ_TEMPLATE_URL=http://"+nowhere,
		"PUSHQ_RABBITMQ_URL=amqp://guest:guest@"+nowhere+"/", "PUSHQ_HISTORY_POSTGRESURL=postgres://test@"+nowhere+"/postgres")
	url := process.URL()
	testenv.EventuallyNoError(t, 30*time.Second, func() error {
		response, err := http.Get(url + "/health/ready")
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("not ready: %d", response.StatusCode)
		}
		return nil
	})
	return testenv.ScrapeURL(t, url+"/metrics")
}

var (
	selector = regexp.MustCompile(`\b((?:pushq|go|process)_[a-z0-9_]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)"([^"]*)"`)
)

// selects reports whether a query's selector finds a series of the scrape.
// Labels that Prometheus adds are not looked at.
func selects(scrape testenv.Scrape, name, matchers string) bool {
	for series := range scrape.Series {
		metric, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
		if metric == name && allMatch(matchers, labels) {
			return true
		}
	}
	return false
}

func allMatch(matchers, labels string) bool {
	values := make(map[string]string)
	for _, label := range matcher.FindAllStringSubmatch(labels, -1) {
		values[label[1]] = label[3]
	}
	for _, wanted := range matcher.FindAllStringSubmatch(matchers, -1) {
		if wanted[1] == "job" || wanted[1] == "instance" {
			continue
		}
		value, pattern := values[wanted[1]], wanted[3]
		if !strings.HasSuffix(wanted[2], "~") {
			pattern = regexp.QuoteMeta(pattern)
		}
		matches := regexp.MustCompile("^(?:" + pattern + ")$").MatchString(value)
		if matches != strings.HasPrefix(wanted[2], "=") {
			return false
		}
	}
	return true
}

func TestWhatDashboardAndRulesAskForIsTold(t *testing.T) {
	t.Parallel()
	scrape := scrapeOfPushq(t)
	promtool(t, scrape.Text, "check", "metrics")

	queries := readDashboard(t).queries()
	for _, variable := range readDashboard(t).Templating.List {
		queries = append(queries, variable.Definition)
	}
	for _, rule := range alertRules(t) {
		queries = append(queries, rule.Expr)
	}
	asked := 0
	for _, query := range queries {
		for _, found := range selector.FindAllStringSubmatch(query, -1) {
			require.True(t, selects(scrape, found[1], found[2]), "%s finds nothing, in %s", found[0], query)
			asked++
		}
	}
	require.Greater(t, asked, 60)
}

// The table in docs/metrics.md has every metric, and no other.
func TestEveryMetricIsDescribed(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	scrape := scrapeOfPushq(t)
	var described, told []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(pushq_[a-z_]+)(?:\\{([a-z, ]+)\\})?` \\| (counter|gauge|histogram) \\|").FindAllStringSubmatch(string(page), -1) {
		described = append(described, row[1]+" "+row[3])
		if row[2] == "" {
			continue
		}
		for _, label := range strings.Split(row[2], ", ") {
			require.Regexp(t, row[1]+`(_count)?\{[^}]*\b`+label+`="`, scrape.Text, "no such label")
		}
	}
	for _, line := range regexp.MustCompile(`(?m)^# TYPE (pushq_[a-z_]+) ([a-z]+)$`).FindAllStringSubmatch(scrape.Text, -1) {
		told = append(told, line[1]+" "+line[2])
	}
	slices.Sort(described)
	slices.Sort(told)
	require.Equal(t, told, described)
}

// What teams of the original service look at is about Swrve, also where notifications are
// sent beside it, and nothing of it is missing.
func TestTheMetricsOfTheOriginalService(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "## From the original service")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	scrape := scrapeOfPushq(t)
	asked := 0
	for _, row := range regexp.MustCompile(`(?m)^\| (`+"`"+`.*) \| (.*) \|$`).FindAllStringSubmatch(table, -1) {
		name := ""
		for _, quoted := range regexp.MustCompile("`(pushq_[a-z_]+)?(\\{[^`]*\\})?`").FindAllStringSubmatch(row[2], -1) {
			if quoted[1] != "" {
				name = quoted[1]
			}
			matchers := strings.ReplaceAll(quoted[2], `\|`, "|")
			series := selected(scrape, name, matchers)
			require.NotEmpty(t, series, "%s%s, of %s", name, matchers, row[1])
			for _, one := range series {
				require.NotContains(t, one, `"fcm`, "%s%s, of %s", name, matchers, row[1])
			}
			asked++
		}
	}
	require.Equal(t, 17, asked)
}

// selected are the series that a selector finds, of a histogram its counts.
func selected(scrape testenv.Scrape, name, matchers string) (found []string) {
	for series := range scrape.Series {
		metric, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
		if (metric == name || metric == name+"_count") && allMatch(matchers, labels) {
			found = append(found, series)
		}
	}
	return found
}
