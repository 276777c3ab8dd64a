package swrvesim

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestScriptedAnswers(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{})
	client := newClient(t)
	const html502 = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n"
	const html200 = "<html><head><title>200 OK</title></head><body><h1>200 OK</h1></body></html>\n"
	for _, test := range []struct {
		user      string
		statuses  []int // of consecutive requests
		body      string
		delivered int
	}{
		{"400-ann", []int{400, 400, 400}, `{"code":400,"message":"Rejected, User Has Changed Token"}`, 0},
		{"403-ann", []int{403, 403}, `{"code":403,"message":"Forbidden"}`, 0},
		{"429-ann", []int{429, 429}, `{"code":429,"message":"Rate Limit Exceeded"}`, 0},
		{"503-ann", []int{503, 503, 503, 503}, `{"code":503,"message":"Service Unavailable"}`, 0},
		{"599-ann", []int{599}, `{"code":599,"message":"Status 599"}`, 0},
		{"202-ann", []int{202}, `{"code":202,"message":"Accepted"}`, 1},
		{"302-ann", []int{302}, `{"code":302,"message":"Found"}`, 0},
		{"500x2-ann", []int{500, 500, 200, 200}, `{"code":500,"message":"Internal Server Error"}`, 2},
		{"500x2-bob", []int{500, 500, 200}, `{"code":500,"message":"Internal Server Error"}`, 1},
		{"404x1-ann", []int{404, 200}, `{"code":404,"message":"Not Found"}`, 1},
		{"500x12-ann", []int{500, 500, 500}, `{"code":500,"message":"Internal Server Error"}`, 0},
		{"429after7-ann", []int{429, 200}, `{"code":429,"message":"Rate Limit Exceeded"}`, 1},
		{"503after7x2-ann", []int{503, 503, 200}, `{"code":503,"message":"Service Unavailable"}`, 1},
		{"html502-ann", []int{502, 502}, html502, 0},
		{"html502x1-ann", []int{502, 200}, html502, 1},
		{"echo400-ann", []int{400, 400}, `{"code":400,"message":"Rejected: message=Hello\u0026push_key=463B3209-6E33-4E88-AF52-CDA87C0550EC\u0026user=echo400-ann"}`, 0},
		{"body400-ann", []int{200, 200}, `{"code":400,"message":"Rejected, User Has Changed Token"}`, 0},
		{"body500x1-ann", []int{200, 200}, `{"code":500,"message":"Internal Server Error"}`, 1},
		{"body200-ann", []int{200}, okBody, 1},
		{"html200-ann", []int{200}, html200, 0}, // somebody else's
		{"error200-ann", []int{200}, `{"error":"OK"}`, 0},
		{"error503-ann", []int{503}, `{"error":"Service Unavailable"}`, 0},
		{"text500-ann", []int{200}, `{"code":"500","message":"Internal Server Error"}`, 0},
		{"text200-ann", []int{200}, `{"code":"200","message":"OK"}`, 1},
		{"empty200-ann", []int{200}, "", 1},
		{"empty503-ann", []int{503}, "", 0},
		{"ok-then-503-ann", []int{503, 503}, `{"code":503,"message":"Service Unavailable"}`, 2},
		{"ok-then-html502x1-ann", []int{502, 200}, html502, 2},
	} {
		t.Run(test.user, func(t *testing.T) {
			t.Parallel()
			for i, status := range test.statuses {
				response, body := post(t, client, base, form(test.user))
				require.Equal(t, status, response.StatusCode, "request %d", i+1)
				if i == 0 {
					require.Equal(t, test.body, body)
					wantAfter := ""
					if strings.Contains(test.user, "after7") {
						wantAfter = "7"
					}
					require.Equal(t, wantAfter, response.Header.Get("Retry-After"))
					require.Equal(t, strings.Contains(test.user, "html"), strings.HasPrefix(response.Header.Get("Content-Type"), "text/html"))
				} else if status == 200 && !strings.HasPrefix(test.user, "body400") {
					require.Equal(t, okBody, body)
					require.Empty(t, response.Header.Get("Retry-After"))
				}
			}
			var statuses []int
			delivered := 0
			for _, request := range simulator.Ledger() {
				if request.User == test.user {
					statuses = append(statuses, request.Status)
					if request.Delivered {
						delivered++
					}
				}
			}
			require.Equal(t, test.statuses, statuses)
			require.Equal(t, test.delivered, delivered)
		})
	}
}

func TestOrdinaryUsersAreDelivered(t *testing.T) {
	t.Parallel()
	for _, user := range []string{
		"ann", "500", "500ann", "x500-ann", "500x0-ann", "500x-ann", "100-ann", "600-ann", "5000-ann", "500xx2-ann",
		"463B3209-6E33-4E88-AF52-CDA87C0550EC", "12345678-1234-1234-1234-123456789012", "hang", "hanging-ann",
		"Hang-ann", "ok-ann", "ok-then-ann", "html-ann", "body-ann", "429after-ann", "reset1-ann", "500x123456-ann",
	} {
		require.Equal(t, delivered, outcomeFor(user), user)
	}
}

func TestRedirectPointsBack(t *testing.T) {
	t.Parallel()
	_, base := start(t, Config{})
	response, _ := post(t, newClient(t), base, form("307-ann"))
	require.Equal(t, "/push", response.Header.Get("Location"))
}

// sendRaw sends a push on a connection of its own and returns what reading the
// answer's first byte gives.
func sendRaw(t *testing.T, base, user string) error {
	t.Helper()
	connection, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	require.NoError(t, err)
	defer connection.Close()
	body := form(user).Encode()
	_, err = fmt.Fprintf(connection, "POST /push HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", formMediaType, len(body), body)
	require.NoError(t, err)
	require.NoError(t, connection.SetReadDeadline(time.Now().Add(time.Minute)))
	reader := bufio.NewReader(connection)
	if _, err = reader.Peek(1); err != nil {
		return err
	}
	response, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

func TestResets(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{})
	for _, test := range []struct {
		user      string
		broken    []bool
		delivered []bool
	}{
		{"reset-ann", []bool{true, true, true}, []bool{false, false, false}},
		{"resetx1-ann", []bool{true, false}, []bool{false, true}},
		{"ok-then-reset-ann", []bool{true, true}, []bool{true, true}},
		{"ok-then-resetx2-ann", []bool{true, true, false}, []bool{true, true, true}},
	} {
		t.Run(test.user, func(t *testing.T) {
			t.Parallel()
			for _, broken := range test.broken {
				err := sendRaw(t, base, test.user)
				if broken {
					require.ErrorIs(t, err, syscall.ECONNRESET, "RST, not just an end of file")
				} else {
					require.NoError(t, err)
				}
			}
			var delivered, unanswered []bool
			for _, request := range simulator.Ledger() {
				if request.User == test.user {
					delivered = append(delivered, request.Delivered)
					unanswered = append(unanswered, request.Status == 0)
				}
			}
			require.Equal(t, test.delivered, delivered)
			require.Equal(t, test.broken, unanswered)
		})
	}
}

func TestHangs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		user      string
		delivered bool
	}{
		{"hang-ann", false}, {"hangx1-ann", false}, {"ok-then-hang-ann", true}, {"ok-then-hangx1-ann", true},
	} {
		t.Run(test.user, func(t *testing.T) {
			t.Parallel()
			simulator, base := start(t, Config{})
			client := newClient(t)
			ctx, cancel := context.WithCancel(t.Context())
			var hanging sync.WaitGroup
			hanging.Go(func() { hang(ctx, client, base, test.user) })
			eventually(t, func() bool {
				ledger := simulator.Ledger()
				return len(ledger) == 1 && ledger[0].User == test.user
			})
			require.Equal(t, test.delivered, simulator.Ledger()[0].Delivered)
			require.Equal(t, 1, simulator.Stats().InFlight)
			if strings.Contains(test.user, "x1") {
				response, _ := post(t, client, base, form(test.user))
				require.Equal(t, http.StatusOK, response.StatusCode)
			}
			require.Zero(t, simulator.Stats().Answers[0])
			cancel()
			hanging.Wait()
			eventually(t, func() bool { return simulator.Stats().Answers[0] == 1 })
			require.Zero(t, simulator.Ledger()[0].Status)
		})
	}
}

func TestPushIsDeliveredEvenIfTheCallerGoesAway(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{Latency: FixedLatency(time.Hour)})
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	waiting.Go(func() { hang(ctx, newClient(t), base, "ann") })
	eventually(t, func() bool { return simulator.Stats().InFlight == 1 })
	cancel()
	waiting.Wait()
	eventually(t, func() bool { return simulator.Stats().InFlight == 0 })
	request := simulator.Ledger()[0]
	require.True(t, request.Delivered)
	require.Zero(t, request.Status)
}

func TestScriptsAreCountedOnceUnderConcurrency(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{})
	client := newClient(t)
	var requests sync.WaitGroup
	for range 30 {
		requests.Go(func() { hang(t.Context(), client, base, "500x7-ann") })
	}
	requests.Wait()
	require.Equal(t, map[int]int{500: 7, 200: 23}, simulator.Stats().Answers)
}
