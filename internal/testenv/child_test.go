package testenv

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// parentVariable makes this test binary a process that starts a child, makes a
// disposable directory, prints the child's pid and the directory, and waits to
// be killed.
const parentVariable = "TESTENV_BE_A_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) != "" {
		beAParent()
	}
	os.Exit(m.Run())
}

func beAParent() {
	c, err := startChild(exec.Command("sleep", "600"))
	if err != nil {
		panic(err)
	}
	directory, err := binaryDirectory()
	if err != nil {
		panic(err)
	}
	fmt.Println(c.pid(), directory.path)
	select {}
}

func TestNothingOutlivesAKilledTestProcess(t *testing.T) {
	t.Parallel()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"=1")
	stdout, err := parent.StdoutPipe()
	require.NoError(t, err)
	c, err := startChild(parent)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.kill()) })

	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	pidText, directory, _ := strings.Cut(strings.TrimSpace(line), " ")
	pid, err := strconv.Atoi(pidText)
	require.NoError(t, err)
	require.Contains(t, "SR", string(processState(pid)))
	require.DirExists(t, directory)

	require.NoError(t, c.kill())
	Eventually(t, 10*time.Second, "the end of the child", func() bool {
		state := processState(pid)
		return state == 0 || state == 'Z'
	})
	Eventually(t, 10*time.Second, "the removal of the directory", func() bool {
		_, err := os.Stat(directory)
		return os.IsNotExist(err)
	})
}

// The kernel kills a child when the thread that started it ends.
func TestAChildOutlivesTheThreadOfItsCaller(t *testing.T) {
	t.Parallel()
	var c *child
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		c, err = startChild(exec.Command("sleep", "600"))
	}()
	<-done
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.kill()) })
	select {
	case <-c.ended:
		t.Fatal("the child ended with the thread: ", c.command.ProcessState)
	case <-time.After(200 * time.Millisecond):
	}
}

func TestAProgramThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	_, err := startChild(exec.Command("/no/such/program"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "start /no/such/program")
}
