package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// A world is what a test of the real binary needs. Processes are started in it.
type world struct {
	testenv.World
	t *testing.T
}

func newWorld(t *testing.T, simulation swrvesim.Config, redisArguments ...string) *world {
	t.Helper()
	return &world{testenv.NewWorld(t, simulation, redisArguments...), t}
}

// newWorldAt is a world whose Redis somebody else has started.
func newWorldAt(t *testing.T, simulation swrvesim.Config, redisURL string) *world {
	t.Helper()
	return &world{testenv.NewWorldAt(t, simulation, redisURL), t}
}

// start runs a subcommand on a free port. Settings are written as NAME=value
// with the names of variables, without the prefix PUSHQ_.
func (w *world) start(subcommand string, settings ...string) *testenv.Process {
	w.t.Helper()
	return w.Start(w.t, subcommand, settings...)
}

// startReady is start, and waits until the process is ready.
func (w *world) startReady(subcommand string, settings ...string) *testenv.Process {
	w.t.Helper()
	return w.StartReady(w.t, subcommand, settings...)
}

// pushAnswer is a push as GET /push/{id} shows it.
type pushAnswer struct {
	ID            string          `json:"id"`
	Status        tasks.State     `json:"status"`
	Message       string          `json:"message"`
	TraceID       string          `json:"traceId"`
	NextAttemptAt *time.Time      `json:"nextAttemptAt"`
	Attempts      []attemptAnswer `json:"attempts"`
}

type attemptAnswer struct {
	ID             int        `json:"id"`
	Status         string     `json:"status"`
	StartedAt      *time.Time `json:"startedAt"`
	Millis         *int64     `json:"millis"`
	ErrorType      *string    `json:"errorType"`
	ErrorCode      *int       `json:"errorCode"`
	ErrorMessage   *string    `json:"errorMessage"`
	StackTrace     *string    `json:"stackTrace"`
	MaybeDelivered bool       `json:"maybeDelivered"`
	Replacement    string     `json:"replacement"`
}

func pushBody(user string, more ...string) string {
	fields := []string{`"platform":"IOS"`, `"messagePrototypeKey":"Hello"`, fmt.Sprintf(`"pushKey":%q`, user), `"message":"Hello client!"`}
	return "{" + strings.Join(append(fields, more...), ",") + "}"
}

// post sends a body and returns status, header and answer.
func post(t *testing.T, process *testenv.Process, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	status, answerHeader, answer, err := tryPost(process.URL(), body, header...)
	require.NoError(t, err)
	return status, answerHeader, answer
}

func tryPost(url, body string, header ...string) (int, http.Header, string, error) {
	request, err := http.NewRequest(http.MethodPost, url+"/push", bytes.NewBufferString(body))
	if err != nil {
		return 0, nil, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	for place := 0; place+1 < len(header); place += 2 {
		request.Header.Set(header[place], header[place+1])
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, "", err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, response.Header, string(answer), err
}

// accept posts a push that must be accepted and returns its id.
func accept(t *testing.T, process *testenv.Process, user string, more ...string) string {
	t.Helper()
	status, header, answer, err := patiently(func() (int, http.Header, string, error) {
		return tryPost(process.URL(), pushBody(user, more...))
	})
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, status, answer)
	return strings.TrimPrefix(header.Get("Location"), "/push/")
}

// patiently posts again while a busy machine keeps Redis from answering in time. Without an
// idempotency key, what was not answered may have been stored nevertheless.
func patiently(post func() (int, http.Header, string, error)) (status int, header http.Header, answer string, err error) {
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		status, header, answer, err = post()
		if status != http.StatusServiceUnavailable || time.Since(began) > time.Minute {
			return status, header, answer, err
		}
	}
}

// acceptMany posts pushes from a few goroutines and returns their ids. Each has an
// idempotency key.
func acceptMany(t *testing.T, process *testenv.Process, count int, prefix string) []string {
	t.Helper()
	return postMany(t, process, count, prefix, func(body string) (int, http.Header, string, error) {
		key := tasks.NewID()
		return patiently(func() (int, http.Header, string, error) {
			return tryPost(process.URL(), body, "Idempotency-Key", key)
		})
	})
}

// acceptPlain is acceptMany without keys, which cost time and memory.
func acceptPlain(t *testing.T, process *testenv.Process, count int, prefix string) []string {
	t.Helper()
	return postMany(t, process, count, prefix, func(body string) (int, http.Header, string, error) {
		return patiently(func() (int, http.Header, string, error) { return tryPost(process.URL(), body) })
	})
}

func postMany(t *testing.T, process *testenv.Process, count int, prefix string, post func(body string) (int, http.Header, string, error)) []string {
	t.Helper()
	const callers = 8
	type result struct {
		id  string
		err error
	}
	results := make(chan result, count)
	for caller := range callers {
		go func() {
			for number := caller; number < count; number += callers {
				status, header, answer, err := post(pushBody(fmt.Sprintf("%s%d", prefix, number)))
				if err == nil && status != http.StatusAccepted {
					err = fmt.Errorf("status %d: %s", status, answer)
				}
				results <- result{strings.TrimPrefix(header.Get("Location"), "/push/"), err}
			}
		}()
	}
	ids := make([]string, 0, count)
	for range count {
		got := <-results
		require.NoError(t, got.err)
		ids = append(ids, got.id)
	}
	return ids
}

// lookUp reads a push back.
func lookUp(t *testing.T, process *testenv.Process, id string) pushAnswer {
	t.Helper()
	var response *http.Response
	testenv.EventuallyNoError(t, time.Minute, func() (err error) { // a busy Redis may not answer in time
		if response, err = client.Get(process.URL() + "/push/" + id); err == nil && response.StatusCode == http.StatusServiceUnavailable {
			_ = response.Body.Close()
			return errors.New("push " + id + " cannot be read")
		}
		return err
	})
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, http.StatusOK, response.StatusCode)
	var push pushAnswer
	require.NoError(t, json.NewDecoder(response.Body).Decode(&push))
	return push
}

// waitFor waits until a push is in a state.
func waitFor(t *testing.T, process *testenv.Process, id string, state tasks.State, timeout time.Duration) pushAnswer {
	t.Helper()
	var push pushAnswer
	testenv.EventuallyNoError(t, timeout, func() error {
		if push = lookUp(t, process, id); push.Status != state {
			return fmt.Errorf("push %s is %s after %d attempts, waiting for %s", id, push.Status, len(push.Attempts), state)
		}
		return nil
	})
	return push
}

// waitForAll waits until all pushes are in a state.
func waitForAll(t *testing.T, process *testenv.Process, ids []string, state tasks.State, timeout time.Duration) []pushAnswer {
	t.Helper()
	deadline := time.Now().Add(timeout)
	pushes := make([]pushAnswer, len(ids))
	for place, id := range ids {
		pushes[place] = waitFor(t, process, id, state, max(time.Until(deadline), time.Second))
	}
	return pushes
}
