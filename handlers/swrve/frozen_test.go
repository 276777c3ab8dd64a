package swrve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/handlers"
	"pushq/handlers/swrve"
	"pushq/internal/testenv"
)

// frozenSenderVariable makes this test binary a process that sends one push to
// the URL in it and prints the outcome.
const frozenSenderVariable = "SWRVE_TEST_SEND_TO"

const senderTimeout = time.Second

func beAFrozenSender(target string) {
	configured := config(target)
	configured.Timeout = senderTimeout
	client := swrve.New(configured)
	send, _ := client.Prepare(context.Background(), pushFor("ann"))
	if err := json.NewEncoder(os.Stdout).Encode(send()); err != nil {
		panic(err)
	}
}

// A worker that stood still for longer than the timeout finds the answer that
// arrived meanwhile, and does not take the push for unanswered.
func TestAnAnswerThatArrivedWhileTheProcessWasFrozen(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		frozenFor time.Duration
		answered  bool
	}{
		{senderTimeout + 300*time.Millisecond, true},
		{3 * senderTimeout, true},
		{3 * senderTimeout, false},
	} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			t.Parallel()
			arrived, frozen := make(chan struct{}), make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_ = r.ParseForm() // the server watches for the end of the connection from then on
				close(arrived)
				<-frozen
				if !test.answered {
					<-r.Context().Done()
				}
			}))
			t.Cleanup(server.Close)

			sender := exec.Command(os.Args[0])
			sender.Env = append(os.Environ(), frozenSenderVariable+"="+server.URL)
			sender.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			sender.Stderr = os.Stderr
			output, err := sender.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, sender.Start())
			t.Cleanup(func() {
				_ = sender.Process.Kill()
				_ = sender.Wait()
			})

			<-arrived
			require.NoError(t, sender.Process.Signal(syscall.SIGSTOP))
			testenv.Eventually(t, 10*time.Second, "the process to stand still", func() bool {
				var name string
				var state byte
				var pid int
				status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", sender.Process.Pid))
				if err != nil {
					return false
				}
				_, err = fmt.Sscanf(string(status), "%d %s %c", &pid, &name, &state)
				return err == nil && state == 'T'
			})
			close(frozen)
			time.Sleep(test.frozenFor)
			require.NoError(t, sender.Process.Signal(syscall.SIGCONT))

			var outcome handlers.Outcome
			require.NoError(t, json.NewDecoder(output).Decode(&outcome))
			require.NoError(t, sender.Wait(), "the race detector tells by the exit status")
			if test.answered {
				require.Equal(t, handlers.Outcome{}, outcome)
				return
			}
			require.Equal(t, handlers.Retryable, outcome.Verdict)
			require.True(t, outcome.MaybeDelivered)
			require.Contains(t, outcome.ErrorMessage, "timeout after 1s")
		})
	}
}
