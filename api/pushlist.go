package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"pushq/tasks"
)

const defaultPage = 50

type listView struct {
	Items []pushView `json:"items"`
	Next  string     `json:"next,omitempty"`
}

func (s *Server) listPushes(c echo.Context) error {
	state, limit, cursor, err := listParameters(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), lookupTimeout)
	defer cancel()
	page, err := s.Reader.List(ctx, state, limit, cursor)
	if err != nil {
		return err
	}
	shown := listView{Items: make([]pushView, len(page.Reports)), Next: page.Next}
	for place, report := range page.Reports {
		shown.Items[place] = view(report)
	}
	return writeJSON(c, http.StatusOK, shown)
}

// listParameters reads the query; every mistake in it is named.
func listParameters(c echo.Context) (state tasks.State, limit int, cursor string, err error) {
	query, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return "", 0, "", invalid("", fieldError{"query", "must be name=value, joined by & and percent-encoded"})
	}
	var problems []fieldError
	notAState := fieldError{"status", fmt.Sprintf("must be one of %v", tasks.States())}
	if !query.Has("status") {
		problems = append(problems, notAState)
	}
	limit = defaultPage
	for name, values := range query {
		value := values[0]
		switch {
		case len(values) > 1:
			problems = append(problems, fieldError{name, "is there twice"})
		case name == "status":
			if state = tasks.State(value); !slices.Contains(tasks.States(), state) {
				problems = append(problems, notAState)
			}
		case name == "cursor":
			cursor = value
		case name == "limit":
			number, err := strconv.Atoi(value)
			if err != nil || number < 1 || number > tasks.MaxPage {
				problems = append(problems, fieldError{name, fmt.Sprintf("must be a number from 1 to %d", tasks.MaxPage)})
			}
			limit = number
		default:
			problems = append(problems, fieldError{name, "is not a parameter of this listing"})
		}
	}
	if len(problems) > 0 {
		sortByField(problems)
		return "", 0, "", invalid("", problems...)
	}
	return state, limit, cursor, nil
}
