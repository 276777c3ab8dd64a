package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// module writes a small module that calls strings.Fields.
func module(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(directory, "go.mod"), []byte("module small\n\ngo 1.26\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(directory, "main.go"),
		[]byte("package main\n\nimport \"strings\"\n\nfunc main() { _ = strings.Fields(\"a b\") }\n"), 0o600))
	return directory
}

// database writes a vulnerability database with one entry for the standard
// library, in the form of https://go.dev/doc/security/vuln/database.
func database(t *testing.T, symbol string) string {
	t.Helper()
	directory := t.TempDir()
	for name, content := range map[string]string{
		"index/db.json":      `{"modified":"2026-11-20T10:00:00Z"}`,
		"index/modules.json": `[{"path":"stdlib","vulns":[{"id":"GO-2026-9999","modified":"2026-11-19T10:00:00Z"}]}]`,
		"index/vulns.json":   `[{"id":"GO-2026-9999","modified":"2026-11-19T10:00:00Z"}]`,
		"ID/GO-2026-9999.json": `{"schema_version":"1.3.1","id":"GO-2026-9999","modified":"2026-11-19T10:00:00Z","summary":"Made up","details":"Made up.",
			"affected":[{"package":{"name":"stdlib","ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
			"ecosystem_specific":{"imports":[{"path":"strings","symbols":["` + symbol + `"]}]}}],"database_specific":{"url":"https://example.org/GO-2026-9999"}}`,
	} {
		path := filepath.Join(directory, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return "file://" + directory
}

func TestVuln(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs("vuln")
	require.NoError(t, err)
	for name, example := range map[string]struct {
		database string
		exitCode int
		says     []string
	}{
		"none called":  {database(t, "NoSuchFunction"), 0, []string{"DB updated: 2026-11-20 10:00:00", "no known vulnerabilities are called, by the database of 2026-11-20"}},
		"one called":   {database(t, "Fields"), 1, []string{"GO-2026-9999", "FOUND, by the database of 2026-11-20"}},
		"no database":  {"file:///does/not/exist", 3, []string{"NOT CHECKED", "/does/not/exist"}},
		"out of reach": {"http://127.0.0.1:1", 3, []string{"NOT CHECKED", "127.0.0.1:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := exec.Command(script)
			command.Dir = module(t)
			command.Env = append(os.Environ(), "GOVULNDB="+example.database)
			output, _ := command.CombinedOutput()
			require.Equal(t, example.exitCode, command.ProcessState.ExitCode(), string(output))
			for _, text := range example.says {
				require.Contains(t, string(output), text)
			}
			if example.exitCode != 0 {
				require.NotContains(t, string(output), "no known")
			}
		})
	}
}
