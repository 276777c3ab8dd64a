package api

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"pushq/internal/openapitest"
	"pushq/tasks"
)

// description is what every exchange of the tests is held against.
var description *openapitest.Description

// notBuiltYet are operations that the file describes ahead of their routes.
var notBuiltYet []string

func TestMain(m *testing.M) {
	var err error
	if description, err = openapitest.Open("openapi.yaml"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if unseen := description.Unseen(notBuiltYet...); code == 0 && allTestsRan() && len(unseen) > 0 {
		fmt.Fprintf(os.Stderr, "openapi.yaml describes answers that no test has seen:\n\t%s\n", strings.Join(unseen, "\n\t"))
		code = 1
	}
	os.Exit(code)
}

// allTestsRan is false if some were left out, or if others than tests were
// asked for.
func allTestsRan() bool {
	for _, name := range []string{"run", "skip", "list", "fuzz", "bench"} {
		if flag.Lookup("test."+name).Value.String() != "" {
			return false
		}
	}
	return true
}

func TestOpenAPIIsServed(t *testing.T) {
	t.Parallel()
	s := startService(t)
	file, err := os.ReadFile("openapi.yaml")
	require.NoError(t, err)
	got := s.get("/openapi.yaml")
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, "application/yaml", got.header.Get("Content-Type"))
	require.Equal(t, string(file), got.body)
	head := s.send(http.MethodHead, "/openapi.yaml", nil)
	require.Equal(t, http.StatusOK, head.status)
	require.Empty(t, head.body)
}

func TestEveryRouteIsDescribed(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.options.Notifications = tasks.NewIntake(s.client, tasks.FCM, retention)
	var routes []string
	for _, route := range New(s.options).http.Handler.(*echo.Echo).Routes() {
		routes = append(routes, route.Method+" "+strings.ReplaceAll(route.Path, ":id", "{id}"))
	}
	require.ElementsMatch(t, withHEAD(description.Operations()), append(routes, withHEAD(notBuiltYet)...))
}

// withHEAD adds what the description says of every GET.
func withHEAD(operations []string) []string {
	for _, operation := range operations {
		if path, isGet := strings.CutPrefix(operation, "GET "); isGet {
			operations = append(operations, "HEAD "+path)
		}
	}
	return operations
}

// sendOperation asks for an operation of the description.
func (s *testService) sendOperation(operation string) answer {
	s.t.Helper()
	method, path, _ := strings.Cut(operation, " ")
	return s.send(method, strings.ReplaceAll(path, "{id}", "01JB0000000000000000000000"), nil)
}

func TestEveryOperationAsksForAKey(t *testing.T) {
	t.Parallel()
	s := startServiceWithKeys(t)
	for _, operation := range description.Operations() {
		if operation == "GET "+livePath || operation == "GET "+readyPath {
			require.Equal(t, http.StatusOK, s.sendOperation(operation).status)
			continue
		}
		requireUnauthorized(t, s.sendOperation(operation))
	}
}
