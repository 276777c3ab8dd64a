package deploy_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// promtool runs Prometheus' own tool, which must find nothing to complain of.
func promtool(t *testing.T, input string, arguments ...string) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Fatalf("promtool is not in PATH: run `make test`, which installs it (%v)", err)
	}
	command := exec.Command("promtool", arguments...)
	command.Stdin = strings.NewReader(input)
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s", output)
	// It only warns of some mistakes in metrics.
	require.NotContains(t, string(output), "pushq_", "%s", output)
}

type alertRule struct {
	Alert       string
	Expr        string
	Labels      map[string]string
	Annotations map[string]string
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into))
}

func alertRules(t *testing.T) []alertRule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alertRule } }
	readYAML(t, "alerts.yaml", &file)
	require.Len(t, file.Groups, 1)
	return file.Groups[0].Rules
}

func TestRulesAreValid(t *testing.T) {
	t.Parallel()
	promtool(t, "", "check", "rules", "alerts.yaml")
}

func TestRulesFireWhenTheyShould(t *testing.T) {
	t.Parallel()
	promtool(t, "", "test", "rules", "alerts_test.yaml")
}

func TestEveryRuleIsShownToFireAndNotToFire(t *testing.T) {
	t.Parallel()
	var file struct {
		Tests []struct {
			Queries []struct {
				Expr    string
				Samples []any `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	readYAML(t, "alerts_test.yaml", &file)
	fires, quiet := make(map[string]bool), make(map[string]bool)
	for _, test := range file.Tests {
		for _, query := range test.Queries {
			_, rest, _ := strings.Cut(query.Expr, `alertname="`)
			name, _, _ := strings.Cut(rest, `"`)
			if len(query.Samples) > 0 {
				fires[name] = true
			} else {
				quiet[name] = true
			}
		}
	}
	for _, rule := range alertRules(t) {
		require.True(t, fires[rule.Alert], "no test in which %s fires", rule.Alert)
		require.True(t, quiet[rule.Alert], "no test in which %s does not fire", rule.Alert)
	}
}

func TestAlertsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for _, rule := range alertRules(t) {
		require.Contains(t, []string{"critical", "warning"}, rule.Labels["severity"], rule.Alert)
		require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
		require.Greater(t, len(rule.Annotations["description"]), 100, rule.Alert)
		if rule.Alert != "PushqDown" {
			require.Contains(t, rule.Annotations["description"], "pushq ", "%s names a command", rule.Alert)
		}
	}
}
