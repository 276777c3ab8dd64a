package api

import (
	"fmt"
	"net/url"
	"slices"

	"github.com/labstack/echo/v4"

	"pushq/tasks"
)

// channelParameter names the channel of the pushes that are meant. It is the first of
// Options.Channels if it is not there.
const channelParameter = "channel"

// queryOf reads the query as strictly as a body.
func queryOf(c echo.Context) (url.Values, error) {
	query, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return nil, invalid("", fieldError{"query", "must be name=value, joined by & and percent-encoded"})
	}
	return query, nil
}

// channelNamed finds a channel of this process.
func (s *Server) channelNamed(name string) (found tasks.Channel, reason string) {
	var names []string
	for _, channel := range s.Channels {
		names = append(names, channel.Name)
	}
	place := slices.Index(names, name)
	if place < 0 {
		return found, fmt.Sprintf("must be one of %v", names)
	}
	return s.Channels[place], ""
}

// channelOf reads the query of an action on many pushes. A mistyped name that is
// ignored would choose those of another channel.
func (s *Server) channelOf(c echo.Context) (tasks.Channel, error) {
	channel := s.Channels[0]
	query, err := queryOf(c)
	if err != nil {
		return channel, err
	}
	var problems []fieldError
	for name, values := range query {
		reason := ""
		switch {
		case len(values) > 1:
			reason = "is there twice"
		case name == channelParameter:
			channel, reason = s.channelNamed(values[0])
		default:
			reason = "is not a parameter of this action"
		}
		if reason != "" {
			problems = append(problems, fieldError{name, reason})
		}
	}
	if len(problems) > 0 {
		sortByField(problems)
		return channel, invalid("", problems...)
	}
	return channel, nil
}
