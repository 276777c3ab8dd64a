package testenv

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func startShell(t testing.TB, script string, env ...string) *Process {
	t.Helper()
	return StartProgram(t, "/bin/sh", []string{"-c", script}, env...)
}

// impatiently lets a process give up when it is told to, for tests of just that.
func impatiently(p *Process) *Process {
	p.longer = 0
	return p
}

const patience = time.Minute

func TestProcessOutputAndExitCode(t *testing.T) {
	t.Parallel()
	p := startShell(t, `echo one; echo two >&2; echo three; printf 'no end'; exit 7`)
	require.Equal(t, 7, p.Wait(patience))
	require.Equal(t, []string{"one", "three", "no end"}, p.Stdout())
	require.Equal(t, []string{"two"}, p.Stderr())
	require.Equal(t, "two", p.WaitForLine("w", patience))
	require.Equal(t, "no end", p.WaitForLine("no e", patience))
}

func TestOutputInPieces(t *testing.T) {
	t.Parallel()
	var o output
	stdout, stderr := &outputStream{output: &o}, &outputStream{output: &o, standardError: true}
	for _, piece := range []struct {
		stream *outputStream
		text   string
	}{{stdout, "a"}, {stderr, "b\n\nc"}, {stdout, "d\ne"}, {stderr, "f\n"}, {stdout, "\n"}} {
		written, err := piece.stream.Write([]byte(piece.text))
		require.NoError(t, err)
		require.Equal(t, len(piece.text), written)
	}
	require.Equal(t, []string{"ad", "e"}, o.texts(standardOutput))
	require.Equal(t, []string{"b", "", "cf"}, o.texts(standardError))
	require.Equal(t, []string{"ad", "b", "", "cf", "e"}, o.texts(anyOutput))
}

func TestProcessEnvironmentAndDirectory(t *testing.T) {
	t.Setenv("PUSHQ_REDIS_URL", "redis://somebody.else")
	p := startShell(t, `env; echo in $(pwd); ls -A`, "PUSHQ_SWRVE_DELAYMILLIS=4")
	require.Zero(t, p.Wait(patience))

	inherited, err := os.Getwd()
	require.NoError(t, err)
	var names []string
	for _, line := range p.Stdout() {
		if name, _, isVariable := strings.Cut(line, "="); isVariable {
			names = append(names, name)
			continue
		}
		require.True(t, strings.HasPrefix(line, "in "), "unexpected in an empty directory: %q", line)
		require.NotContains(t, line, inherited)
	}
	// The shell adds PWD and what it counts itself.
	require.Subset(t, []string{"PATH", "HOME", "PUSHQ_SWRVE_DELAYMILLIS", "PWD", "OLDPWD", "SHLVL", "_"}, names)
	require.Subset(t, names, []string{"PATH", "HOME", "PUSHQ_SWRVE_DELAYMILLIS"})
}

func TestProcessHTTPAddress(t *testing.T) {
	t.Parallel()
	p := startShell(t, `
		echo 'time=1 level=INFO msg="http listening" address=127.0.0.1:1'
		echo 'time=1 level=INFO msg="ready" address=127.0.0.1:2' >&2
		echo 'time=1 level=INFO msg="http listening" tls=false address=127.0.0.1:43210 role=api' >&2
		exec sleep 600`)
	require.Equal(t, "127.0.0.1:43210", p.HTTPAddress())
	require.Equal(t, "http://127.0.0.1:43210", p.URL())
}

func TestWaitForLineGivesUp(t *testing.T) {
	t.Parallel()
	failed, said := failing(t, func(t testing.TB) {
		impatiently(startShell(t, `printf 'begun, not ended'; exec sleep 600`)).WaitForLine("begun", 300*time.Millisecond)
	})
	require.True(t, failed)
	require.Contains(t, said, `printed no line with "begun" within 300ms`)
	require.Contains(t, said, "begun, not ended", "the output of a failed test is shown")

	failed, said = failing(t, func(t testing.TB) { startShell(t, `exit 3`).WaitForLine("ready", patience) })
	require.True(t, failed)
	require.Contains(t, said, "and has ended: exit status 3")
}

func TestProcessOutputIsShownOnFailureOnly(t *testing.T) {
	t.Parallel()
	_, said := failing(t, func(t testing.TB) { startShell(t, `echo secret of success`).Wait(patience) })
	require.Empty(t, said)
}

func TestProcessSignals(t *testing.T) {
	t.Parallel()
	const trap = `trap 'echo terminated; exit 15' TERM; trap 'echo interrupted; exit 2' INT; echo ready
		while :; do sleep 0.01; done`
	tests := []struct {
		name string
		send func(*Process)
		code int
	}{
		{"terminate", (*Process).Terminate, 15},
		{"interrupt", (*Process).Interrupt, 2},
		{"kill", (*Process).Kill, -1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := startShell(t, trap)
			p.WaitForLine("ready", patience)
			test.send(p)
			require.Equal(t, test.code, p.Wait(patience))
			require.Zero(t, processState(p.Pid()))
			test.send(p) // it has ended: nothing to do
		})
	}
}

func TestProcessFreezeAndThaw(t *testing.T) {
	t.Parallel()
	p := startShell(t, `while :; do echo tick; sleep 0.01; done`)
	p.WaitForLine("tick", patience)
	p.Freeze()
	require.Equal(t, byte('T'), processState(p.Pid()))
	p.Thaw()
	Eventually(t, patience, "the process to go on", func() bool { return processState(p.Pid()) != 'T' })

	p.Freeze()
	p.Kill()
	require.Equal(t, -1, p.Wait(patience))

	failed, said := failing(t, func(t testing.TB) {
		ended := startShell(t, `exit 0`)
		ended.Wait(patience)
		ended.Freeze()
	})
	require.True(t, failed)
	require.Contains(t, said, "process already finished")
}

func TestProcessWaitGivesUp(t *testing.T) {
	t.Parallel()
	failed, said := failing(t, func(t testing.TB) { impatiently(startShell(t, `exec sleep 600`)).Wait(50 * time.Millisecond) })
	require.True(t, failed)
	require.Contains(t, said, "did not end within 50ms")
}

func TestProcessFileDescriptors(t *testing.T) {
	t.Parallel()
	few := startShell(t, `exec sleep 600`)
	more := startShell(t, `exec 5</dev/null 6</dev/null; exec sleep 600`)
	Eventually(t, patience, "two descriptors more", func() bool {
		return more.FileDescriptors() == few.FileDescriptors()+2
	})
}

func TestProcessEndsWithItsTest(t *testing.T) {
	t.Parallel()
	var pid int
	t.Run("a test", func(t *testing.T) {
		p := startShell(t, `exec sleep 600`)
		pid = p.Pid()
		require.NotZero(t, processState(pid))
	})
	require.Zero(t, processState(pid))
}
