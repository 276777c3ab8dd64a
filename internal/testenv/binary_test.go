package testenv

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestModuleRoot(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot()
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(root, "internal", "testenv", "binary_test.go"))
}

// Any command of the standard library shows that building works.
func TestBuild(t *testing.T) {
	t.Parallel()
	path, err := build("cmd/gofmt", "gofmt")
	require.NoError(t, err)
	require.NoError(t, exec.Command(path, "-l", "binary_test.go").Run())
}

func TestBuildShowsWhatTheCompilerSaid(t *testing.T) {
	t.Parallel()
	_, err := build("pushq/no/such/package", "nothing")
	require.ErrorContains(t, err, "build pushq/no/such/package: exit status 1")
	require.ErrorContains(t, err, "is not in std")
}
