package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"pushq/tasks"
)

// A decodedRow is a row and what it says, or why that cannot be read.
type decodedRow struct {
	row    Row
	record tasks.Record
	err    error
}

// decode reads a record whose times PostgreSQL knows.
func decode(row Row) (tasks.Record, error) {
	var read struct {
		tasks.Record
		Push *tasks.Push `json:"push"`
	}
	if err := json.Unmarshal(row.Record, &read); err != nil {
		return tasks.Record{}, fmt.Errorf("decode the record: %w", err)
	}
	if read.Push == nil {
		return tasks.Record{}, errors.New("the record has no push")
	}
	record := read.Record
	record.Push = *read.Push
	record.Push.ID = row.PushID
	times := []tasks.Millis{record.Push.CreatedAt, record.EndedAt}
	for _, attempt := range record.Attempts {
		times = append(times, attempt.StartedAt)
	}
	for _, instant := range times {
		if !known(instant) {
			return record, fmt.Errorf("the record has an impossible time: %d", instant)
		}
	}
	return record, nil
}

// known reports whether PostgreSQL, and RFC 3339, know the time.
func known(instant tasks.Millis) bool {
	return instant >= 0 && instant < tasks.MillisOf(time.Date(10_000, time.January, 1, 0, 0, 0, 0, time.UTC))
}

// made returns the attempts that have an outcome and were not withdrawn before their
// request. Probes of a dead provider are among them, though the budget leaves them out.
func made(attempts []tasks.Attempt) []tasks.Attempt {
	return slices.DeleteFunc(slices.Clone(attempts), func(attempt tasks.Attempt) bool {
		return attempt.Status == tasks.AttemptInProcess || attempt.Uncounted
	})
}

// stateOf is the end of the push, or that it is to be tried again: of a push that is under
// way nobody is told anything but failed attempts.
func stateOf(record tasks.Record) tasks.State {
	switch {
	case slices.ContainsFunc(record.Attempts, func(attempt tasks.Attempt) bool { return attempt.Status == tasks.AttemptOK }):
		return tasks.Sent
	case record.End != "":
		return record.End
	default:
		return tasks.Retry
	}
}
