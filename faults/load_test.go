package faults

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pushq/internal/testenv"
)

// A posting is one push that a caller has posted, and what the caller was told.
type posting struct {
	user     string // no other posting has it
	posted   time.Time
	answered time.Time
	status   int    // 0 if the connection was lost
	id       string // "" unless accepted
	unknown  bool   // it may have been accepted, and the caller cannot tell
	repeated int    // how often the caller has tried again, see callers.insistent and callers.patient
}

// callers post pushes and remember every one.
type callers struct {
	t      *testing.T
	client http.Client
	// insistent callers send an idempotency key, and repeat a push until they know
	// what became of it.
	insistent bool
	// patient callers repeat it until it is accepted, for a minute. They are for faults that
	// are not in Redis: a busy machine may keep it from answering in time nevertheless.
	patient bool
	// notifications makes them post messages for Firebase.
	notifications bool

	mutex    sync.Mutex
	begun    int
	postings []posting
}

func newCallers(t *testing.T) *callers {
	c := &callers{t: t}
	c.client = http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	t.Cleanup(c.client.CloseIdleConnections)
	return c
}

// post posts that many pushes from a few callers, to the addresses in turn.
func (c *callers) post(count int, urls ...string) {
	const atOnce = 8
	var all sync.WaitGroup
	for caller := range atOnce {
		all.Go(func() {
			for number := caller; number < count; number += atOnce {
				c.postOne(urls[number%len(urls)])
			}
		})
	}
	all.Wait()
}

// postEvery posts at a steady rate, each push beside the others, to the
// addresses in turn, until stop is called. stop waits for all answers.
func (c *callers) postEvery(interval time.Duration, urls ...string) (stop func()) {
	stopped := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for number := 0; ; number++ {
			select {
			case <-stopped:
				return
			case <-ticker.C:
				all.Go(func() { c.postOne(urls[number%len(urls)]) })
			}
		}
	})
	return sync.OnceFunc(func() {
		close(stopped)
		all.Wait()
	})
}

// postOne posts one push. More are fields of its body, as they are written.
func (c *callers) postOne(url string, more ...string) {
	c.mutex.Lock()
	c.begun++
	user := fmt.Sprintf("user-%d", c.begun)
	c.mutex.Unlock()
	c.postAs(user, url, more...)
}

// postAs posts for a user of the caller's choice, whose name may ask the
// simulator for an outcome.
func (c *callers) postAs(user, url string, more ...string) {
	posting := posting{user: user, posted: time.Now()}
	c.try(&posting, url, more)
	for c.triesAgain(posting) {
		time.Sleep(50 * time.Millisecond) // a caller's pause
		posting.repeated++
		c.try(&posting, url, more)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.postings = append(c.postings, posting)
}

func (c *callers) triesAgain(posting posting) bool {
	refused := posting.status == http.StatusServiceUnavailable
	if c.patient {
		return (posting.unknown || refused) && time.Since(posting.posted) < time.Minute
	}
	// After a try that may have been taken, a refusal of the next one tells nothing.
	return c.insistent && (posting.unknown || refused && posting.repeated > 0)
}

func (c *callers) try(posting *posting, url string, more []string) {
	fields := append([]string{`"platform":"IOS"`, `"messagePrototypeKey":"Hello"`, fmt.Sprintf(`"pushKey":%q`, posting.user), `"message":"Hello client!"`}, more...)
	address, body := url+"/push", "{"+strings.Join(fields, ",")+"}"
	if c.notifications {
		address, body = url+"/notifications", testenv.NotificationTo(posting.user)
	}
	request, err := http.NewRequest(http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		c.t.Error(err)
		return
	}
	request.Header.Set("Content-Type", "application/json")
	if (c.insistent || c.patient) && !c.notifications { // these have their key in the message
		request.Header.Set("Idempotency-Key", posting.user)
	}
	response, err := c.client.Do(request)
	var answer []byte
	if err == nil {
		answer, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
	}
	posting.answered = time.Now()
	posting.status, posting.unknown = 0, false
	switch {
	case err != nil:
		posting.unknown = true
	case response.StatusCode == http.StatusAccepted:
		posting.status = response.StatusCode
		posting.id = strings.TrimPrefix(response.Header.Get("Location"), "/push/")
	case response.StatusCode == http.StatusServiceUnavailable:
		posting.status = response.StatusCode
		posting.unknown = strings.Contains(string(answer), "outcome-unknown")
	default:
		c.t.Errorf("a push was answered %d: %s", response.StatusCode, answer)
	}
}

// all returns the postings answered so far.
func (c *callers) all() []posting {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Clone(c.postings)
}

// repeated is how often all callers together have tried again.
func (c *callers) repeated() int {
	repeated := 0
	for _, posting := range c.all() {
		repeated += posting.repeated
	}
	return repeated
}

func (c *callers) accepted() []posting {
	return slices.DeleteFunc(c.all(), func(p posting) bool { return p.status != http.StatusAccepted })
}
