package testenv

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// recordingT stands in for a test that is expected to fail.
type recordingT struct {
	testing.TB
	failed   bool
	messages []string
}

// failing runs the body, and its cleanups, as a test of its own and returns
// whether it failed and what it said.
func failing(t *testing.T, body func(t testing.TB)) (failed bool, said string) {
	t.Helper()
	var recorder *recordingT
	t.Run("expected to fail", func(t *testing.T) {
		recorder = &recordingT{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			body(recorder)
		}()
		<-done
	})
	return recorder.failed, strings.Join(recorder.messages, "\n")
}

func (r *recordingT) Failed() bool { return r.failed }

func (r *recordingT) Log(arguments ...any) {
	r.messages = append(r.messages, fmt.Sprint(arguments...))
}

func (r *recordingT) Logf(format string, arguments ...any) { r.Log(fmt.Sprintf(format, arguments...)) }

func (r *recordingT) Error(arguments ...any) {
	r.failed = true
	r.Log(arguments...)
}

func (r *recordingT) Errorf(format string, arguments ...any) {
	r.Error(fmt.Sprintf(format, arguments...))
}

func (r *recordingT) Fatal(arguments ...any) {
	r.Error(arguments...)
	runtime.Goexit()
}

func (r *recordingT) Fatalf(format string, arguments ...any) {
	r.Fatal(fmt.Sprintf(format, arguments...))
}
