package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type grafanaPanel struct {
	ID          int
	Type, Title string
	Datasource  struct{ UID string }
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct {
		RefID      string
		Expr       string
		Datasource struct{ UID string }
	}
}

type grafanaDashboard struct {
	Title, UID    string
	SchemaVersion int
	Templating    struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []grafanaPanel
}

func readDashboard(t *testing.T) grafanaDashboard {
	t.Helper()
	text, err := os.ReadFile("grafana-dashboard.json")
	require.NoError(t, err)
	var dashboard grafanaDashboard
	require.NoError(t, json.Unmarshal(text, &dashboard))
	return dashboard
}

// queries are the panels' expressions, with Grafana's variables filled in.
func (d grafanaDashboard) queries() []string {
	fill := strings.NewReplacer("$job", ".*", "$__rate_interval", "5m")
	var all []string
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			all = append(all, fill.Replace(target.Expr))
		}
	}
	return all
}

func TestTheDashboardCanBeImported(t *testing.T) {
	t.Parallel()
	dashboard := readDashboard(t)
	require.Equal(t, "pushq", dashboard.UID)
	require.GreaterOrEqual(t, dashboard.SchemaVersion, 39, "Grafana 10.3")
	require.Equal(t, "datasource", dashboard.Templating.List[0].Type)
	ids, rows := make(map[int]bool), []string{}
	taken := make(map[[2]int]string)
	for _, panel := range dashboard.Panels {
		require.False(t, ids[panel.ID], "%s: id %d twice", panel.Title, panel.ID)
		ids[panel.ID] = true
		require.LessOrEqual(t, panel.GridPos.X+panel.GridPos.W, 24, panel.Title)
		for x := range panel.GridPos.W {
			for y := range panel.GridPos.H {
				place := [2]int{panel.GridPos.X + x, panel.GridPos.Y + y}
				require.Empty(t, taken[place], "%s lies on it", panel.Title)
				taken[place] = panel.Title
			}
		}
		if panel.Type == "row" {
			rows = append(rows, panel.Title)
			continue
		}
		require.NotEmpty(t, panel.Targets, panel.Title)
		require.Equal(t, "${datasource}", panel.Datasource.UID, panel.Title)
		for _, target := range panel.Targets {
			require.Equal(t, "${datasource}", target.Datasource.UID, panel.Title)
			require.NotEmpty(t, target.RefID)
		}
	}
	require.Equal(t, []string{"Intake", "Sending", "Queues", "Limiter", "Redis", "Notifications", "RabbitMQ and history", "Process"}, rows)
}

func TestTheDashboardsQueriesAreValid(t *testing.T) {
	t.Parallel()
	rules := "groups:\n  - name: dashboard\n    rules:\n"
	for number, query := range readDashboard(t).queries() {
		require.NotContains(t, query, "$", "a variable that is not known")
		rules += fmt.Sprintf("      - {record: 'dashboard:query:%d', expr: '%s'}\n", number, query)
	}
	path := filepath.Join(t.TempDir(), "queries.yaml")
	require.NoError(t, os.WriteFile(path, []byte(rules), 0o600))
	promtool(t, "", "check", "rules", path)
}
