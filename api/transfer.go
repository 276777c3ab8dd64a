package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// leastRate is how many bytes a second a large body must come with, and a large
	// answer be taken with: 2.1 Mbit/s.
	leastRate = 256 << 10
	// transferGrace is how long either may come to a halt.
	transferGrace = 10 * time.Second
)

// A transfer is a large body that comes, or a large answer that goes: for as long as it
// goes on, but not for longer than it needs at leastRate.
type transfer struct {
	control *http.ResponseController
	grace   time.Duration
	started time.Time
	bytes   int64
}

func (s *Server) beginTransfer(w http.ResponseWriter) transfer {
	return transfer{control: http.NewResponseController(w), grace: s.transferGrace, started: time.Now()}
}

// deadline is when the next bytes must have come. What came early does not allow a longer
// halt than the grace.
func (t *transfer) deadline(now time.Time) time.Time {
	slowest := t.started.Add(t.grace + time.Duration(t.bytes)*time.Second/leastRate)
	if latest := now.Add(t.grace); latest.Before(slowest) {
		return latest
	}
	return slowest
}

// An arrival is a body that comes.
type arrival struct {
	transfer
	body io.Reader
}

func (a *arrival) Read(into []byte) (int, error) {
	until := a.deadline(time.Now())
	// Whatever the answer will be, it has its time after that.
	if err := errors.Join(a.control.SetReadDeadline(until), a.control.SetWriteDeadline(until.Add(writeTimeout))); err != nil {
		return 0, fmt.Errorf("give a body its time: %w", err)
	}
	count, err := a.body.Read(into)
	a.bytes += int64(count)
	return count, err
}

// A departure is an answer that goes.
type departure struct {
	transfer
	response io.Writer
}

func (d *departure) Write(part []byte) (int, error) {
	if err := d.control.SetWriteDeadline(d.deadline(time.Now())); err != nil {
		return 0, fmt.Errorf("give an answer its time: %w", err)
	}
	count, err := d.response.Write(part)
	d.bytes += int64(count)
	return count, err
}
