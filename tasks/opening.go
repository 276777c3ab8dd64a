package tasks

import (
	"fmt"
	"time"

	"pushq/scheduler"
)

// Opening returns the earliest time, not before at, at which the push may be
// sent: at itself, if that is now. A push that names no zone means the given
// one. The error is quartz.ErrNever if its window never opens again, or says
// what is wrong with its expression or zone.
func (p Push) Opening(at time.Time, zone *time.Location) (time.Time, error) {
	if !p.Windowed() {
		return at, nil
	}
	if due := p.DueAt.Time(); at.Before(due) {
		return due, nil
	}
	if !p.Held {
		return at, nil // an instant fixes the first try only
	}
	if p.TimeZone != "" {
		var err error
		if zone, err = scheduler.TimeZone(p.TimeZone); err != nil {
			return time.Time{}, err
		}
	}
	window, err := scheduler.ParseWindow(p.CronExpression, zone)
	if err != nil {
		return time.Time{}, fmt.Errorf("cron expression %w", err)
	}
	if window.Admits(at) {
		return at, nil
	}
	return window.NextOpening(at)
}
