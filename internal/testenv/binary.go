package testenv

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

const pushqPackage = "pushq/cmd/pushq"

// Binary builds the pushq binary, once per test process, and returns its path.
// It is built with the race detector if the test was. It is removed when the
// test process ends. Safe for concurrent use.
func Binary(t testing.TB) string {
	t.Helper()
	if testBuiltWithRace {
		return built(t, buildWithRace)
	}
	return BinaryWithoutRace(t)
}

// BinaryWithoutRace is [Binary] without the race detector in any case, for
// tests that measure rates.
func BinaryWithoutRace(t testing.TB) string {
	t.Helper()
	return built(t, buildWithoutRace)
}

var (
	buildWithRace    = sync.OnceValues(func() (string, error) { return build(pushqPackage, "pushq-race", "-race") })
	buildWithoutRace = sync.OnceValues(func() (string, error) { return build(pushqPackage, "pushq") })
)

func built(t testing.TB, build func() (string, error)) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func build(packagePath, name string, flags ...string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	directory, err := binaryDirectory()
	if err != nil {
		return "", err
	}
	path := filepath.Join(directory.path, name)
	command := exec.Command("go", append(append([]string{"build"}, flags...), "-o", path, packagePath)...)
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", packagePath, err, output)
	}
	return path, nil
}

// moduleRoot returns the nearest directory with a go.mod, from the working
// directory (go test: the package's own) upwards.
func moduleRoot() (string, error) {
	directory, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find go.mod: %w", err)
	}
	for start := directory; ; directory = filepath.Dir(directory) {
		if _, err := os.Stat(filepath.Join(directory, "go.mod")); err == nil {
			return directory, nil
		}
		if directory == filepath.Dir(directory) {
			return "", fmt.Errorf("find go.mod: none in %s or above", start)
		}
	}
}

// binaryDirectory is for what this test process builds.
var binaryDirectory = sync.OnceValues(func() (disposableDirectory, error) {
	path, err := os.MkdirTemp("", "pushq-test-")
	if err != nil {
		return disposableDirectory{}, fmt.Errorf("make a directory for the binary: %w", err)
	}
	inUse, err := removeAfterwards(path)
	if err != nil {
		return disposableDirectory{}, errors.Join(err, os.RemoveAll(path))
	}
	return disposableDirectory{path, inUse}, nil
})

// disposableDirectory exists as long as inUse is open.
type disposableDirectory struct {
	path  string
	inUse io.Closer
}

// removeAfterwards removes the directory when inUse is closed, which the kernel
// does when this process ends, in whatever way. No single test can do it, since
// others still use the directory, and a process that is killed cannot do it
// itself; so a shell waits for the end of a pipe. It has a process group of its
// own, so that Ctrl-C does not end it first.
func removeAfterwards(directory string) (inUse io.Closer, err error) {
	remover := exec.Command("/bin/sh", "-c", `read -r _; rm -rf "$0"`, directory)
	remover.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	inUse, err = remover.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("remove %s afterwards: %w", directory, err)
	}
	if err := remover.Start(); err != nil {
		return nil, fmt.Errorf("remove %s afterwards: %w", directory, err)
	}
	return inUse, nil
}
