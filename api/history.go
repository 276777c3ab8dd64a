package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"pushq/internal/history"
	"pushq/tasks"
)

// maxSearches bounds the memory for pages of the history, as maxLists does for those of
// pushes. They are apart: a search waits for another database, which may hang.
const maxSearches = 8

// History tells of pushes of the past (history.Store).
type History interface {
	Search(ctx context.Context, query history.Query) (history.Page, error)
}

type historyView struct {
	Channel string   `json:"channel"`
	EndedAt *string  `json:"endedAt"`
	Push    pushView `json:"push"`
}

func (s *Server) searchHistory(c echo.Context) error {
	if s.History == nil {
		return newProblem(http.StatusNotFound, "not-found", "Not found", "No history is kept: history.postgresUrl is not set.")
	}
	query, err := historyQuery(c)
	if err != nil {
		return err
	}
	leave, err := s.searches.enter(c.Request().Context(), caller(c))
	if err != nil {
		return err
	}
	defer leave()
	page, err := s.History.Search(c.Request().Context(), query)
	if errors.Is(err, history.ErrCursor) {
		return invalid("", fieldError{"cursor", "is not one that a search has returned"})
	}
	if err != nil {
		return err
	}
	return s.streamJSON(c, func(out io.Writer) error {
		return writePage(out, len(page.Entries), func(place int) any {
			entry := page.Entries[place]
			return historyView{Channel: entry.Channel, EndedAt: timeOrNull(entry.EndedAt), Push: view(entry.Report)}
		}, page.Next)
	})
}

// historyQuery reads the query; every mistake in it is named.
func historyQuery(c echo.Context) (history.Query, error) {
	parameters, err := queryOf(c)
	if err != nil {
		return history.Query{}, err
	}
	query := history.Query{Limit: defaultPage}
	var problems []fieldError
	for name, values := range parameters {
		value, problem := values[0], ""
		switch {
		case len(values) > 1:
			problem = "is there twice"
		case name == "user":
			problem = given(&query.User, value)
		case name == "traceId":
			problem = given(&query.TraceID, value)
		case name == "templateCode":
			problem = given(&query.TemplateCode, value)
		case name == "since":
			query.Since, problem = moment(value)
		case name == "until":
			query.Until, problem = moment(value)
		case name == "status":
			if query.Status = tasks.State(value); !slices.Contains(history.States(), query.Status) {
				problem = fmt.Sprintf("must be one of %v", history.States())
			}
		case name == "limit":
			if query.Limit, err = strconv.Atoi(value); err != nil || query.Limit < 1 || query.Limit > history.MaxPage {
				problem = fmt.Sprintf("must be a number from 1 to %d", history.MaxPage)
			}
		case name == "cursor":
			query.Cursor = value
		default:
			problem = "is not a parameter of this search"
		}
		if problem != "" {
			problems = append(problems, fieldError{name, problem})
		}
	}
	if len(problems) > 0 {
		sortByField(problems)
		return history.Query{}, invalid("", problems...)
	}
	return query, nil
}

// given takes a text that must not be empty: an empty one would find everything.
func given(into *string, value string) (problem string) {
	if *into = value; value == "" {
		return "is empty"
	}
	return ""
}

// moment reads a time of a query. A + in it that is not encoded has become a blank there;
// one before 1970 would be taken for none.
func moment(value string) (instant time.Time, problem string) {
	instant, err := time.Parse(time.RFC3339, strings.Replace(value, " ", "+", 1))
	if err != nil || instant.Unix() <= 0 {
		return time.Time{}, "must be a time such as 2026-11-27T09:00:00Z"
	}
	return instant, ""
}
