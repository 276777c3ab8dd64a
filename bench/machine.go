package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"pushq/internal/testenv"
)

// A fact is something that the numbers depend on.
type fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// The facts that stand above a table.
const (
	factPushq     = "pushq"
	factProcessor = "processor"
	factLoad      = "load before"
)

// machineFacts describe the machine and the versions of what is measured.
func machineFacts() []fact {
	facts := []fact{
		{"when", time.Now().UTC().Format(time.RFC3339)},
		{"command", "make bench ARGS='" + strings.Join(os.Args[1:], " ") + "'"},
		{factPushq, output("git", "-C", "..", "describe", "--always", "--dirty")},
		{factProcessor, fmt.Sprintf("%d x %s", runtime.NumCPU(), fieldOf("/proc/cpuinfo", "model name"))},
		{"memory", fieldOf("/proc/meminfo", "MemTotal")},
		{"kernel", output("uname", "-sr")},
		{factLoad, output("cut", "-d ", "-f1-3", "/proc/loadavg")},
		{"Go", runtime.Version()},
		{"Redis", output("redis-server", "--version")},
		{"node", output("node", "--version")},
	}
	if postgres, err := testenv.FindPostgres("postgres"); err == nil {
		facts = append(facts, fact{"PostgreSQL", output(postgres, "--version")})
	}
	if bullmq := fieldOf(filepath.Join("bullmq", "package.json"), `    "bullmq"`); bullmq != "" {
		facts = append(facts, fact{"BullMQ", strings.Trim(bullmq, `",`)})
	}
	for _, module := range []string{
		"github.com/hibiken/asynq", "github.com/redis/go-redis/v9", "github.com/labstack/echo/v4",
		"github.com/go-redis/redis_rate/v10", "github.com/riverqueue/river",
	} {
		facts = append(facts, fact{module, output("go", "list", "-m", "-f", "{{.Version}}", module)})
	}
	return facts
}

// output is the first line of what a program prints, or that it is missing.
func output(program string, arguments ...string) string {
	printed, err := exec.Command(program, arguments...).Output()
	if err != nil {
		return "none"
	}
	line, _, _ := strings.Cut(string(printed), "\n")
	return line
}

// fieldOf is the value of the first line `name: value` of a file.
func fieldOf(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, name); found {
			_, value, _ := strings.Cut(rest, ":")
			return strings.TrimSpace(value)
		}
	}
	return ""
}
