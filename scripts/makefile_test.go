package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// `make test` runs both groups of packages, and fails if either does.
func TestMakeTestRunsEverything(t *testing.T) {
	t.Parallel()
	for failing, well := range map[string]bool{"pushq/none": true, "pushq/tasks": false, "pushq/cmd/pushq": false} {
		t.Run(failing, func(t *testing.T) {
			t.Parallel()
			directory := t.TempDir()
			tested := filepath.Join(directory, "tested")
			require.NoError(t, os.WriteFile(filepath.Join(directory, "go"), []byte(`#!/bin/sh
case "$1" in
list) printf 'pushq/tasks\npushq/cmd/pushq\n' ;;
test)
	for package; do :; done
	echo "$package" >>"$TESTED"
	[ "$package" != "$FAILING" ] ;;
esac
`), 0o700))
			command := exec.Command("make", "test")
			command.Dir = ".."
			command.Env = append(os.Environ(), "PATH="+directory+":"+os.Getenv("PATH"), "TESTED="+tested, "FAILING="+failing)
			printed, err := command.CombinedOutput()
			require.Equal(t, well, err == nil, "%s", printed)
			packages, err := os.ReadFile(tested)
			require.NoError(t, err, "%s", printed)
			require.Equal(t, "pushq/tasks\npushq/cmd/pushq\n", string(packages))
		})
	}
}
