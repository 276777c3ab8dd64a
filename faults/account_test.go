package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"pushq/internal/testenv"
	"pushq/tasks"
)

// push is what the account reads of GET /push/{id}.
type push struct {
	Status   tasks.State `json:"status"`
	Attempts []attempt   `json:"attempts"`
}

type attempt struct {
	Status         tasks.AttemptStatus `json:"status"`
	StartedAt      *time.Time          `json:"startedAt"`
	ErrorType      tasks.ErrorType     `json:"errorType"`
	ErrorCode      int                 `json:"errorCode"`
	ErrorMessage   string              `json:"errorMessage"`
	MaybeDelivered bool                `json:"maybeDelivered"`
}

// explained is how many deliveries the attempts of a push account for.
func (p push) explained() int {
	count := 0
	for _, attempt := range p.Attempts {
		if attempt.MaybeDelivered || attempt.Status != tasks.AttemptError {
			count++
		}
	}
	return count
}

// account is what became of all postings.
type account struct {
	accepted int
	refused  int // answered 503, certainly not accepted
	unknown  int // answered 503 with an unknown outcome, or not answered

	sent, failed, givenUp, queued int
	lost                          []posting // accepted, and nobody knows the id any more

	duplicates  int // deliveries of a user's push after the first
	unexplained int // those of them that no attempt accounts for

	pushes map[string]push // by id
}

func (a account) String() string {
	return fmt.Sprintf("accepted %d (503: %d, unknown: %d) = SENT %d + FAILED %d + GIVEN_UP %d + queued %d + lost %d; duplicates %d, without a marked attempt %d",
		a.accepted, a.refused, a.unknown, a.sent, a.failed, a.givenUp, a.queued, len(a.lost), a.duplicates, a.unexplained)
}

// reckon accounts for every accepted push by its id, and prints the counts.
// None may be lost, and no duplicate may be without a marked attempt.
func (w *world) reckon(c *callers, api *testenv.Process) account {
	w.t.Helper()
	a := w.count(c, api)
	a.requireNothingLost(w.t)
	return a
}

func (a account) requireNothingLost(t *testing.T) {
	t.Helper()
	require.Empty(t, a.lost, "accepted, and not found any more")
	require.Zero(t, a.unexplained, "deliveries that no attempt accounts for")
}

// count is reckon for faults in which Redis itself may lose something.
func (w *world) count(c *callers, api *testenv.Process) account {
	w.t.Helper()
	return count(w.t, c, api, w.Deliveries())
}

// count is for deliveries, by user, of any provider.
func count(t *testing.T, c *callers, api *testenv.Process, deliveries map[string]int) account {
	t.Helper()
	a := account{pushes: c.readInTheEnd(t, api)}
	for _, posting := range c.all() {
		delivered, explained := deliveries[posting.user], 1
		a.duplicates += max(delivered-1, 0)
		push, found := a.pushes[posting.id]
		switch {
		case found:
			a.accepted++
			a.countState(t, posting.id, push, delivered)
			explained = push.explained()
		case posting.status == http.StatusAccepted:
			a.accepted++
			a.lost = append(a.lost, posting)
		case posting.unknown:
			a.unknown++ // no id leads to its attempts
		default:
			a.refused++
			explained = 0
		}
		a.unexplained += max(delivered-explained, 0)
	}
	require.Equal(t, a.accepted, a.sent+a.failed+a.givenUp+a.queued+len(a.lost))
	t.Log(a)
	accounts.add(fmt.Sprintf("%s: %s", t.Name(), a))
	return a
}

func (a *account) countState(t *testing.T, id string, push push, delivered int) {
	t.Helper()
	switch push.Status {
	case tasks.Sent:
		a.sent++
		require.Positive(t, delivered, "%s is said to be SENT", id)
	case tasks.Failed:
		a.failed++
	case tasks.GivenUp:
		a.givenUp++
	case tasks.Scheduled, tasks.Pending, tasks.InMemory, tasks.Retry:
		a.queued++
	default:
		require.Fail(t, "a state that nobody has asked for", "%s is %s", id, push.Status)
	}
}

// waitUntilEnded waits until no accepted push is under way any more.
func (w *world) waitUntilEnded(c *callers, api *testenv.Process, timeout time.Duration) {
	w.t.Helper()
	testenv.EventuallyNoError(w.t, timeout, func() error {
		pushes, err := c.readAll(api)
		if err != nil {
			return err
		}
		left := 0
		for _, push := range pushes {
			if !push.Status.Ended() {
				left++
			}
		}
		if left > 0 {
			time.Sleep(200 * time.Millisecond) // each look reads all of them
			return fmt.Errorf("%d pushes are under way", left)
		}
		return nil
	})
}

// readInTheEnd is readAll, as often as a busy machine keeps Redis from answering in time.
func (c *callers) readInTheEnd(t *testing.T, api *testenv.Process) (pushes map[string]push) {
	t.Helper()
	testenv.EventuallyNoError(t, time.Minute, func() (err error) {
		pushes, err = c.readAll(api)
		return err
	})
	return pushes
}

// readAll reads every accepted push; an unknown id is left out.
func (c *callers) readAll(api *testenv.Process) (map[string]push, error) {
	pushes := make(map[string]push)
	var mutex sync.Mutex
	var group errgroup.Group
	group.SetLimit(8)
	url := api.URL()
	for _, posting := range c.accepted() {
		group.Go(func() error {
			push, found, err := c.read(url, posting.id)
			mutex.Lock()
			defer mutex.Unlock()
			if found {
				pushes[posting.id] = push
			}
			return err
		})
	}
	return pushes, group.Wait()
}

func (c *callers) read(url, id string) (found push, known bool, err error) {
	response, err := c.client.Get(url + "/push/" + id)
	if err != nil {
		return push{}, false, fmt.Errorf("read push %s: %w", id, err)
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return push{}, false, nil
	default:
		return push{}, false, fmt.Errorf("read push %s: status %d", id, response.StatusCode)
	}
	if err := json.NewDecoder(response.Body).Decode(&found); err != nil {
		return push{}, false, fmt.Errorf("read push %s: %w", id, err)
	}
	return found, true, nil
}
