package api

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"pushq/tasks"
)

const defaultPage = 50

// maxLists bounds the memory for pages of pushes: so many at a time.
const maxLists = 16

func (s *Server) listPushes(c echo.Context) error {
	asked, err := s.listParameters(c)
	if err != nil {
		return err
	}
	leave, err := s.lists.enter(c.Request().Context(), caller(c))
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.RedisTimeout)
	defer cancel()
	page, err := s.Reader.List(ctx, asked.channel, asked.state, asked.limit, asked.cursor)
	if err != nil {
		return err
	}
	return s.streamJSON(c, func(out io.Writer) error {
		return writePage(out, len(page.Reports), func(place int) any { return view(page.Reports[place]) }, page.Next)
	})
}

// A listing is what is asked for.
type listing struct {
	channel tasks.Channel
	state   tasks.State
	limit   int
	cursor  string
}

// listParameters reads the query; every mistake in it is named.
func (s *Server) listParameters(c echo.Context) (listing, error) {
	asked := listing{channel: s.Channels[0], limit: defaultPage}
	query, err := queryOf(c)
	if err != nil {
		return asked, err
	}
	var problems []fieldError
	notAState := fieldError{"status", fmt.Sprintf("must be one of %v", tasks.States())}
	if !query.Has("status") {
		problems = append(problems, notAState)
	}
	for name, values := range query {
		value := values[0]
		switch {
		case len(values) > 1:
			problems = append(problems, fieldError{name, "is there twice"})
		case name == "status":
			if asked.state = tasks.State(value); !slices.Contains(tasks.States(), asked.state) {
				problems = append(problems, notAState)
			}
		case name == channelParameter:
			var reason string
			if asked.channel, reason = s.channelNamed(value); reason != "" {
				problems = append(problems, fieldError{name, reason})
			}
		case name == "cursor":
			asked.cursor = value
		case name == "limit":
			number, err := strconv.Atoi(value)
			if err != nil || number < 1 || number > tasks.MaxPage {
				problems = append(problems, fieldError{name, fmt.Sprintf("must be a number from 1 to %d", tasks.MaxPage)})
			}
			asked.limit = number
		default:
			problems = append(problems, fieldError{name, "is not a parameter of this listing"})
		}
	}
	if len(problems) > 0 {
		sortByField(problems)
		return asked, invalid("", problems...)
	}
	return asked, nil
}
