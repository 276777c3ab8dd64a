package testenv

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

const readyTimeout = 30 * time.Second

// Pushq says where the pushq processes of a test find their Redis, and the
// address to which they send.
type Pushq struct {
	RedisURL string
	SwrveURL string
}

// Start runs a subcommand on a free port. Settings are written as NAME=value
// with the names of variables, without the prefix PUSHQ_.
func (p Pushq) Start(t testing.TB, subcommand string, settings ...string) *Process {
	t.Helper()
	return StartPushq(t, []string{subcommand, "--listen", "127.0.0.1:0"}, p.Environment(settings...)...)
}

// StartReady is [Pushq.Start], and waits until the process is ready.
func (p Pushq) StartReady(t testing.TB, subcommand string, settings ...string) *Process {
	t.Helper()
	process := p.Start(t, subcommand, settings...)
	process.WaitReady()
	return process
}

// Environment is what [Pushq.Start] gives to a process: a push key for each
// platform, a second between attempts, and the settings.
func (p Pushq) Environment(settings ...string) []string {
	environment := []string{
		"PUSHQ_REDIS_URL=" + p.RedisURL,
		"PUSHQ_SWRVE_URL=" + p.SwrveURL,
		"PUSHQ_SWRVE_MESSAGEPROTOTYPEPUSHKEYS=" + `{"Hello":{"IOS":"ios-key","ANDROID":"android-key"}}`,
		"PUSHQ_PUSH_RETRY_DELAYINSECONDS=1",
	}
	for _, setting := range settings {
		environment = append(environment, "PUSHQ_"+setting)
	}
	return environment
}

// WaitReady waits until a pushq process is ready.
func (p *Process) WaitReady() {
	p.t.Helper()
	url := p.URL() + "/health/ready"
	EventuallyNoError(p.t, readyTimeout, func() error {
		response, err := http.Get(url)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("not ready: %d", response.StatusCode)
		}
		return nil
	})
}
