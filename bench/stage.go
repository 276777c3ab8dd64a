package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// A stage is what one measurement stands on: it owns the processes and
// directories that are made for it. It takes the place of the test that
// internal/testenv wants to have; only what testenv calls is there.
type stage struct {
	testing.TB // nil
	bench      *bench
	cleanups   []func()
	failure    error
	said       []string
}

// onStage runs the body in a goroutine of its own and cleans up after it. The
// error is why the body ended early.
func (b *bench) onStage(body func(t *stage)) error {
	t := &stage{bench: b}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer t.cleanUp()
		defer func() {
			if cause := recover(); cause != nil { // one comparison is lost, not all
				t.fail(fmt.Sprintf("panic: %v\n%s", cause, debug.Stack()))
			}
		}()
		body(t)
	}()
	<-done
	if t.failure != nil && len(t.said) > 0 {
		return fmt.Errorf("%w\n%s", t.failure, strings.Join(t.said, "\n"))
	}
	return t.failure
}

func (t *stage) cleanUp() {
	for len(t.cleanups) > 0 {
		last := len(t.cleanups) - 1
		cleanup := t.cleanups[last]
		t.cleanups = t.cleanups[:last]
		cleanup()
	}
}

// TempDir returns a new directory that is removed with the stage.
func (t *stage) TempDir() string {
	directory, err := os.MkdirTemp(t.bench.directory, "")
	t.check(err)
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	return directory
}

func (t *stage) check(err error) {
	if err != nil {
		t.Fatal(err)
	}
}

func (t *stage) Cleanup(cleanup func()) { t.cleanups = append(t.cleanups, cleanup) }
func (t *stage) Failed() bool           { return t.failure != nil }
func (t *stage) Helper()                {}
func (t *stage) Log(args ...any)        { t.said = append(t.said, fmt.Sprint(args...)) }
func (t *stage) Logf(format string, args ...any) {
	t.said = append(t.said, fmt.Sprintf(format, args...))
}

func (t *stage) Error(args ...any)                 { t.fail(fmt.Sprint(args...)) }
func (t *stage) Errorf(format string, args ...any) { t.fail(fmt.Sprintf(format, args...)) }

func (t *stage) Fatal(args ...any) {
	t.fail(fmt.Sprint(args...))
	runtime.Goexit()
}

func (t *stage) Fatalf(format string, args ...any) {
	t.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

// fail keeps the first reason; what follows is usually its consequence.
func (t *stage) fail(reason string) {
	if t.failure == nil {
		t.failure = errors.New(reason)
	}
}
