package api

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An answer of the service. By the time a test sees it, it has been found to be
// as openapi.yaml describes it, and a problem to say something.
type answer struct {
	status  int
	header  http.Header
	body    string
	problem problemDocument
}

// problemDocument is what callers see, apart from the type that the server
// writes it with.
type problemDocument struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	State  string `json:"state"`
	Errors []struct {
		Field  string `json:"field"`
		Reason string `json:"reason"`
	} `json:"errors"`
}

// kind is the problem's type without its prefix.
func (a answer) kind() string { return strings.TrimPrefix(a.problem.Type, "urn:pushq:problem:") }

// reasons returns one line per mistake, "field reason".
func (a answer) reasons() []string {
	var lines []string
	for _, mistake := range a.problem.Errors {
		lines = append(lines, mistake.Field+" "+mistake.Reason)
	}
	return lines
}

// requireMistakes checks that the answer is a 400 that names exactly these
// mistakes, each given as "field" or the beginning of "field reason".
func (a answer) requireMistakes(t *testing.T, mistakes ...string) {
	t.Helper()
	require.Equal(t, http.StatusBadRequest, a.status, a.body)
	require.Equal(t, "invalid-request", a.kind())
	require.Len(t, a.problem.Errors, len(mistakes), a.body)
	for place, mistake := range mistakes {
		require.True(t, strings.HasPrefix(a.reasons()[place]+" ", mistake), "want %q first in %q", mistake, a.reasons()[place])
	}
}

// push is the body of a push, with some fields given as pairs of name and JSON
// text. An empty text leaves the field out.
func push(pairs ...string) string {
	names := []string{"platform", "messagePrototypeKey", "pushKey", "message", "cronExpression"}
	values := map[string]string{
		"platform": `"IOS"`, "messagePrototypeKey": `"Hello"`, "pushKey": `"` + canaryPushKey + `"`,
		"message": `"` + canaryMessage + `"`, "cronExpression": "null",
	}
	for place := 0; place < len(pairs); place += 2 {
		if _, known := values[pairs[place]]; !known {
			names = append(names, pairs[place])
		}
		values[pairs[place]] = pairs[place+1]
	}
	var members []string
	for _, name := range names {
		if values[name] != "" {
			members = append(members, `"`+name+`":`+values[name])
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

// post sends a push as JSON, with more headers given as pairs.
func (s *testService) post(body string, header ...string) answer {
	s.t.Helper()
	return s.send(http.MethodPost, "/push", strings.NewReader(body), append([]string{"Content-Type", "application/json"}, header...)...)
}

func (s *testService) get(path string, header ...string) answer {
	s.t.Helper()
	return s.send(http.MethodGet, path, nil, header...)
}

// accept posts a push that must be accepted and returns its id.
func (s *testService) accept(body string, header ...string) string {
	s.t.Helper()
	got := s.post(body, header...)
	require.Equal(s.t, http.StatusAccepted, got.status, got.body)
	return strings.TrimPrefix(got.header.Get("Location"), "/push/")
}

func (s *testService) send(method, path string, body io.Reader, header ...string) answer {
	s.t.Helper()
	return s.sendTo(s.address, method, path, body, header...)
}

// sendTo calls the server by another host than its own.
func (s *testService) sendTo(host, method, path string, body io.Reader, header ...string) answer {
	s.t.Helper()
	request, err := http.NewRequest(method, "http://"+s.address+path, body)
	require.NoError(s.t, err)
	request.Host = host
	for place := 0; place < len(header); place += 2 {
		request.Header.Add(header[place], header[place+1])
	}
	response, err := s.http.Do(request)
	require.NoError(s.t, err)
	return s.read(response)
}

// rawPost is a request with a push as an HTTP client would write it.
func rawPost(body string) string {
	return fmt.Sprintf("POST /push HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// dial opens a connection for requests that no HTTP client would send.
func (s *testService) dial() *net.TCPConn {
	s.t.Helper()
	connection, err := net.Dial("tcp", s.address)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = connection.Close() })
	require.NoError(s.t, connection.SetDeadline(time.Now().Add(time.Minute)))
	return connection.(*net.TCPConn)
}

// exchange writes a request as it is and reads the answer.
func (s *testService) exchange(request string) answer {
	s.t.Helper()
	connection := s.dial()
	_, err := io.WriteString(connection, request)
	require.NoError(s.t, err)
	return s.answerOn(connection, request)
}

// cutShort writes what there is of a request and then nothing more.
func (s *testService) cutShort(part string) answer {
	s.t.Helper()
	connection := s.dial()
	_, err := io.WriteString(connection, part)
	require.NoError(s.t, err)
	require.NoError(s.t, connection.CloseWrite())
	return s.answerOn(connection, part)
}

// answerOn reads the answer to a request that has been written as it is, maybe
// in part.
func (s *testService) answerOn(connection net.Conn, written string) answer {
	s.t.Helper()
	request, err := http.ReadRequest(bufio.NewReader(strings.NewReader(written)))
	require.NoError(s.t, err)
	requestBody, _ := io.ReadAll(request.Body) // what there is of it
	response, err := http.ReadResponse(bufio.NewReader(connection), request)
	require.NoError(s.t, err)
	got := s.read(response)
	require.NoError(s.t, description.Check(request, requestBody, response, []byte(got.body)))
	return got
}

func (s *testService) read(response *http.Response) answer {
	s.t.Helper()
	body, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	require.NoError(s.t, response.Body.Close())
	got := answer{status: response.StatusCode, header: response.Header, body: string(body)}
	if strings.HasSuffix(got.header.Get("Content-Type"), "problem+json") && response.Request.Method != http.MethodHead {
		got.problem = s.requireProblem(got)
	}
	return got
}

func (s *testService) requireProblem(got answer) problemDocument {
	s.t.Helper()
	var document problemDocument
	require.NoError(s.t, json.Unmarshal([]byte(got.body), &document), got.body)
	require.Equal(s.t, got.status, document.Status)
	requireNoCanary(s.t, got.body, "a problem")
	return document
}
