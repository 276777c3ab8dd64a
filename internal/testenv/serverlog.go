package testenv

import (
	"fmt"
	"os"
	"strings"
)

// readLog returns what a server has logged, or why that cannot be read.
func readLog(path string) string {
	log, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(log)
}

// endedAtStart is the error of a server that did not stay, errPortTaken among others.
func endedAtStart(program, log string) error {
	if saysPortTaken(log) {
		return fmt.Errorf("%s ended at start: %w; its log:\n%s", program, errPortTaken, log)
	}
	return fmt.Errorf("%s ended at start; its log:\n%s", program, log)
}

// saysPortTaken looks for the words of the system (Redis, PostgreSQL, epmd) or those of
// Erlang.
func saysPortTaken(log string) bool {
	log = strings.ToLower(log)
	return strings.Contains(log, "address already in use") || strings.Contains(log, "eaddrinuse") ||
		strings.Contains(log, "could not bind to distribution port")
}
