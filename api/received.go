package api

import (
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"pushq/tasks"
)

// maxLoggedName is how much of a name that a caller sent goes into the log.
const maxLoggedName = 100

// newUnmappedWarnings bounds the warnings about a caller that has the name of a
// prototype wrong, at whatever pace it sends.
func newUnmappedWarnings() *rate.Sometimes { return &rate.Sometimes{First: 1, Interval: time.Minute} }

// received notes a push that was accepted now, not before. A prototype without a
// push key is accepted all the same: the mapping may arrive by the time of
// sending.
func (s *Server) received(push tasks.Push) {
	s.Metrics.Intake.Received(push.Windowed())
	if s.Mapped(push.MessagePrototypeKey, push.Platform) {
		return
	}
	s.Metrics.Intake.Unmapped.Inc()
	s.unmappedWarnings.Do(func() {
		s.Log.Warn("accepted a push for which no push key is configured yet; further ones are not logged for a minute",
			push.LogAttr(), slog.String("messagePrototypeKey", loggedName(push.MessagePrototypeKey)), slog.String("platform", push.Platform))
	})
}

func loggedName(name string) string {
	if len(name) > maxLoggedName {
		return name[:maxLoggedName] + "..."
	}
	return name
}
