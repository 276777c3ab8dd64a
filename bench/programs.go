package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// programs are the paths of what is measured, built the same way.
type programs struct {
	pushq, afternoon, river string
}

// buildPrograms builds each program in its own module, so that pushq has the
// libraries of its own go.mod.
func buildPrograms(directory string) (programs, error) {
	built := programs{
		pushq:     filepath.Join(directory, "pushq"),
		afternoon: filepath.Join(directory, "afternoon"),
		river:     filepath.Join(directory, "riverqueue"),
	}
	for _, program := range []struct{ path, module, source string }{
		{built.pushq, "..", "./cmd/pushq"},
		{built.afternoon, ".", "./afternoon"},
		{built.river, ".", "./riverqueue"},
	} {
		command := exec.Command("go", "build", "-o", program.path, program.source)
		command.Dir = program.module
		if output, err := command.CombinedOutput(); err != nil {
			return built, fmt.Errorf("build %s: %w\n%s", program.source, err, output)
		}
	}
	return built, nil
}

// bullmqScript installs BullMQ if it is missing and returns the path of the
// program that uses it.
var bullmqScript = sync.OnceValues(func() (string, error) {
	if _, err := exec.LookPath("node"); err != nil {
		return "", errors.New("node is not installed")
	}
	directory, err := filepath.Abs("bullmq")
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(directory, "node_modules", "bullmq")); err != nil {
		command := exec.Command("npm", "ci", "--ignore-scripts")
		command.Dir = directory
		if output, err := command.CombinedOutput(); err != nil {
			return "", fmt.Errorf("install BullMQ with npm: %w\n%s", err, strings.TrimSpace(string(output)))
		}
	}
	return filepath.Join(directory, "service.js"), nil
})
