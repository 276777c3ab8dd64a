package scheduler

import "time"

// FixedDelay is the delivery policy that waits equally long after every
// failed attempt.
type FixedDelay struct {
	Delay time.Duration
}

// After returns the earliest time of the next attempt. Attempt is the number
// of the one that failed, counted from 1, and finishedAt is when it ended.
func (d FixedDelay) After(_ int, finishedAt time.Time) time.Time {
	return finishedAt.Add(d.Delay)
}

// CeilSecond rounds t up to a whole second. asynq stores the time of a
// scheduled or retried task in whole seconds and cuts off the rest
// (internal/rdb, Schedule and Retry), which would make the task early.
func CeilSecond(t time.Time) time.Time {
	whole := t.Truncate(time.Second)
	if whole.Before(t) {
		return whole.Add(time.Second)
	}
	return whole
}
