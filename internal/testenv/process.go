package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// httpListenTimeout bounds the start of pushq, which with the race detector on
// a busy machine takes its time.
const httpListenTimeout = 30 * time.Second

// Process is a running program that belongs to one test. Stdout, Stderr and Pid
// are safe for concurrent use; the other methods are for the test's own
// goroutine. Like [Eventually], they wait longer than they are told if the machine
// is busy.
type Process struct {
	t      testing.TB
	child  *child
	output output
	longer time.Duration // what waits last beyond their timeouts
}

// StartPushq starts [Binary] with the given arguments, in an empty directory.
// Its environment is PATH, HOME and what env adds ("NAME=value"): nothing of
// the test's own. The process is killed when the test ends, and if the test has
// failed, what it printed is logged.
func StartPushq(t testing.TB, arguments []string, env ...string) *Process {
	t.Helper()
	return StartProgram(t, Binary(t), arguments, env...)
}

// StartProgram is [StartPushq] for another binary, such as [BinaryWithoutRace].
func StartProgram(t testing.TB, path string, arguments []string, env ...string) *Process {
	t.Helper()
	p := &Process{t: t, longer: busyMachine}
	command := exec.Command(path, arguments...)
	command.Dir = t.TempDir()
	command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...)
	command.Stdout = &outputStream{output: &p.output}
	command.Stderr = &outputStream{output: &p.output, standardError: true}
	// A program's own children may keep its output open; do not wait for them.
	command.WaitDelay = time.Second

	var err error
	if p.child, err = startChild(command); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.remove)
	return p
}

// Pid returns the process id.
func (p *Process) Pid() int { return p.child.pid() }

// Stdout returns the lines that the process has written to its standard output
// so far. A last line without an end is included.
func (p *Process) Stdout() []string { return p.output.texts(standardOutput) }

// Stderr is [Process.Stdout] for the standard error output.
func (p *Process) Stderr() []string { return p.output.texts(standardError) }

// WaitForLine returns the first line of standard output or standard error,
// printed before or after the call, that contains the substring. A line without
// an end counts once the process has ended. The test ends if there is none within the timeout or the process ends before.
func (p *Process) WaitForLine(substring string, timeout time.Duration) string {
	p.t.Helper()
	timeout += p.longer
	line, found := p.waitForLine(timeout, func(l outputLine) bool { return strings.Contains(l.text, substring) })
	if !found {
		p.t.Fatalf("process %d printed no line with %q %s", p.Pid(), substring, p.waited(timeout))
	}
	return line.text
}

var httpListening = regexp.MustCompile(`msg="http listening".* address=(\S+)`)

// HTTPAddress waits until the process logs on standard error that it listens
// (msg="http listening" address=127.0.0.1:PORT) and returns that address.
func (p *Process) HTTPAddress() string {
	p.t.Helper()
	timeout := httpListenTimeout + p.longer
	line, found := p.waitForLine(timeout, func(l outputLine) bool {
		return l.standardError && httpListening.MatchString(l.text)
	})
	if !found {
		p.t.Fatalf("process %d did not listen for HTTP %s", p.Pid(), p.waited(timeout))
	}
	return httpListening.FindStringSubmatch(line.text)[1]
}

// URL returns [Process.HTTPAddress] as http://address.
func (p *Process) URL() string {
	p.t.Helper()
	return "http://" + p.HTTPAddress()
}

// Terminate asks the process to end (SIGTERM) and does not wait.
func (p *Process) Terminate() {
	p.t.Helper()
	p.check(p.child.stop(syscall.SIGTERM))
}

// Interrupt is Ctrl-C (SIGINT) and does not wait.
func (p *Process) Interrupt() {
	p.t.Helper()
	p.check(p.child.stop(syscall.SIGINT))
}

// Kill ends the process (SIGKILL), frozen or not, and returns when it is gone.
func (p *Process) Kill() {
	p.t.Helper()
	p.check(p.child.kill())
}

// Freeze stops the process in its tracks (SIGSTOP) and returns when it stands
// still.
func (p *Process) Freeze() {
	p.t.Helper()
	p.check(p.child.freeze())
}

// Thaw lets a frozen process go on (SIGCONT).
func (p *Process) Thaw() {
	p.t.Helper()
	p.check(p.child.thaw())
}

// Wait returns the exit code of the process once it has ended, -1 if a signal
// ended it. All its output is there by then. The test ends if that takes longer
// than timeout.
func (p *Process) Wait(timeout time.Duration) int {
	p.t.Helper()
	timeout += p.longer
	select {
	case <-p.child.ended:
	case <-time.After(timeout):
		p.t.Fatalf("process %d did not end within %s", p.Pid(), timeout)
	}
	return p.child.command.ProcessState.ExitCode()
}

// FileDescriptors returns how many file descriptors the process has open.
func (p *Process) FileDescriptors() int {
	p.t.Helper()
	directory := filepath.Join("/proc", fmt.Sprint(p.Pid()), "fd")
	descriptors, err := os.ReadDir(directory)
	if err != nil {
		p.t.Fatalf("count the file descriptors of process %d: %v", p.Pid(), err)
	}
	return len(descriptors)
}

func (p *Process) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *Process) remove() {
	if err := p.child.kill(); err != nil {
		p.t.Error(err)
	}
	if p.t.Failed() {
		p.t.Logf("output of %s (process %d):\n%s", strings.Join(p.child.command.Args, " "), p.Pid(),
			strings.Join(p.output.texts(anyOutput), "\n"))
	}
}

func (p *Process) waitForLine(timeout time.Duration, wanted func(outputLine) bool) (outputLine, bool) {
	var line outputLine
	var found bool
	poll(timeout, func() bool {
		// Asked first, so that the last lines of a process are not missed.
		ended := p.child.hasEnded()
		line, found = p.output.find(func(l outputLine) bool { return (l.complete || ended) && wanted(l) })
		return found || ended
	})
	return line, found
}

func (p *Process) waited(timeout time.Duration) string {
	if p.child.hasEnded() {
		return "and has ended: " + p.child.command.ProcessState.String()
	}
	return fmt.Sprintf("within %s", timeout)
}
