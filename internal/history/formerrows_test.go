package history

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The statement of docs/migration.md takes the rows of the push worker over, so that one
// query finds them and new ones.
func TestRowsOfThePushWorkerAreTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, w.store.migrate(t.Context()))
	w.exec(`CREATE TABLE former_audit_logs (trace_id text, user_id text, notification_type text, template_id text, status text, metadata jsonb, created_at timestamptz)`)
	w.exec(`INSERT INTO former_audit_logs SELECT 'trace-' || n, 'user', 'push', 'welcome', CASE n WHEN 1 THEN 'sent' ELSE 'failed' END, '{"n":1}', now() - n * interval '1 hour'
FROM generate_series(1, 3) n`)
	document, err := os.ReadFile("../../docs/migration.md")
	require.NoError(t, err)
	statement := regexp.MustCompile(`(?s)INSERT INTO audit_logs .*?FROM former_audit_logs;`).FindString(string(document))
	require.NotEmpty(t, statement)
	w.exec(statement)
	require.Equal(t, []string{"SENT trace-1", "FAILED trace-2", "FAILED trace-3"},
		w.values(`SELECT status || ' ' || trace_id FROM audit_logs WHERE ended_at = created_at ORDER BY created_at DESC`))
}
