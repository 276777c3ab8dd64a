// Package baseline is what the baselines written in Go have in common: the push,
// the HTTP call to the provider, and how they listen.
package baseline

import (
	"errors"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
)

// A Push is the body of POST /push, as pushq takes it.
type Push struct {
	Platform            string `json:"platform"`
	MessagePrototypeKey string `json:"messagePrototypeKey"`
	PushKey             string `json:"pushKey"`
	Message             string `json:"message"`
	CronExpression      string `json:"cronExpression,omitempty"`
}

var quartzLike = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// Due returns when the push may be sent, the zero time for at once, or what is
// wrong with the push.
func (p Push) Due(now time.Time) (time.Time, error) {
	if p.Platform == "" || p.MessagePrototypeKey == "" || p.PushKey == "" || p.Message == "" {
		return time.Time{}, errors.New("platform, messagePrototypeKey, pushKey and message are required")
	}
	if p.CronExpression == "" {
		return time.Time{}, nil
	}
	schedule, err := quartzLike.Parse(p.CronExpression)
	if err != nil {
		return time.Time{}, fmt.Errorf("cronExpression: %w", err)
	}
	return schedule.Next(now.UTC()), nil
}
