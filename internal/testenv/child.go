package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// child is a process that dies with the test process, however that ends.
type child struct {
	command *exec.Cmd
	ended   chan struct{} // closed when the process is gone and its output read
}

// startChild starts the command and owns it until it ends.
//
// The kernel is asked to kill the child when its parent dies, and by parent it
// means the thread that started it. Go ends threads when it likes, so the
// goroutine that starts the child keeps its thread to itself until the child
// is gone. The child has a process group of its own: Ctrl-C reaches the test
// process alone, which decides what becomes of its children.
//
// The command may name another account and another signal for the end.
func startChild(command *exec.Cmd) (*child, error) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	}
	command.SysProcAttr.Setpgid = true
	c := &child{command: command, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err != nil {
			return
		}
		// How it ended is in command.ProcessState.
		_ = command.Wait()
		close(c.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	return c, nil
}

func (c *child) pid() int { return c.command.Process.Pid }

func (c *child) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// stop sends a signal that is meant to end the child; it may have ended before.
func (c *child) stop(signal os.Signal) error {
	err := c.command.Process.Signal(signal)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to process %d: %w", signal, c.pid(), err)
	}
	return nil
}

// kill ends the child, frozen or not, and returns when it is gone.
func (c *child) kill() error {
	if err := c.stop(syscall.SIGKILL); err != nil {
		return err
	}
	<-c.ended
	return nil
}

// freeze stops the child in its tracks and returns when it stands still.
func (c *child) freeze() error {
	if err := c.command.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("freeze process %d: %w", c.pid(), err)
	}
	if !poll(busyMachine, func() bool { return processState(c.pid()) == 'T' || c.hasEnded() }) {
		return fmt.Errorf("freeze process %d: it does not stop", c.pid())
	}
	return nil
}

func (c *child) thaw() error {
	if err := c.command.Process.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("thaw process %d: %w", c.pid(), err)
	}
	return nil
}

// processState returns the state letter of proc(5), such as T for stopped and
// Z for dead but not yet collected, or 0 if there is no such process.
func processState(pid int) byte {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The state follows the program's name, which is in parentheses and may
	// hold parentheses itself.
	_, state, found := bytes.Cut(status[bytes.LastIndexByte(status, ')')+1:], []byte(" "))
	if !found || len(state) == 0 {
		return 0
	}
	return state[0]
}
