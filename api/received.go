package api

import (
	"log/slog"

	"pushq/tasks"
)

// received notes an accepted push. A prototype without a push key is accepted
// all the same: the mapping may arrive by the time of sending.
func (s *Server) received(push tasks.Push) {
	if !s.Mapped(push.MessagePrototypeKey, push.Platform) {
		s.log.Warn("accepted a push for which no push key is configured yet", slog.String("id", push.ID),
			slog.String("prototype", push.MessagePrototypeKey), slog.String("platform", push.Platform))
	}
}
