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
)

// A posting is one push that a caller has posted, and what the caller was told.
type posting struct {
	user     string // no other posting has it
	posted   time.Time
	answered time.Time
	status   int    // 0 if the connection was lost
	id       string // "" unless accepted
	unknown  bool   // it may have been accepted, and the caller cannot tell
}

// callers post pushes and remember every one.
type callers struct {
	t      *testing.T
	client http.Client

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

func (c *callers) postOne(url string) {
	c.mutex.Lock()
	c.begun++
	user := fmt.Sprintf("user-%d", c.begun)
	c.mutex.Unlock()
	c.postAs(user, url)
}

// postAs posts for a user of the caller's choice, whose name may ask the
// simulator for an outcome.
func (c *callers) postAs(user, url string) {
	posting := posting{user: user, posted: time.Now()}
	body := fmt.Sprintf(`{"platform":"IOS","messagePrototypeKey":"Hello","pushKey":%q,"message":"Hello client!"}`, posting.user)
	response, err := c.client.Post(url+"/push", "application/json", strings.NewReader(body))
	var answer []byte
	if err == nil {
		answer, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
	}
	posting.answered = time.Now()
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
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.postings = append(c.postings, posting)
}

// all returns the postings answered so far.
func (c *callers) all() []posting {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Clone(c.postings)
}

func (c *callers) accepted() []posting {
	return slices.DeleteFunc(c.all(), func(p posting) bool { return p.status != http.StatusAccepted })
}
