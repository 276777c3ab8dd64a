package api

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"pushq/tasks"
)

// countTimeout is more than a count takes: of each set it looks at some hundred pushes.
const countTimeout = 10 * time.Second

type countListView struct {
	Items []countView `json:"items"`
}

type countView struct {
	Channel string      `json:"channel"`
	Status  tasks.State `json:"status"`
	Count   int64       `json:"count"`
	Exact   bool        `json:"exact"`
}

// countPushes answers how many pushes are in each state, of every channel or of the one
// that is named.
func (s *Server) countPushes(c echo.Context) error {
	channels := s.Channels
	if c.QueryString() != "" {
		channel, err := s.channelOf(c)
		if err != nil {
			return err
		}
		channels = []tasks.Channel{channel}
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), countTimeout)
	defer cancel()
	shown := countListView{Items: []countView{}}
	for _, channel := range channels {
		counts, err := s.Reader.Count(ctx, channel)
		if err != nil {
			return err
		}
		for _, count := range counts {
			shown.Items = append(shown.Items, countView{channel.Name, count.State, count.Count, count.Exact})
		}
	}
	return writeJSON(c, http.StatusOK, shown)
}
