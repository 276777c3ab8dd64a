package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// startPages answers GET /history with pages, and keeps what was asked.
func startPages(t *testing.T, pages ...string) (server *httptest.Server, asked *[]string) {
	t.Helper()
	asked = &[]string{}
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.Method+" "+r.URL.String())
		if len(*asked) > len(pages) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, pages[len(*asked)-1])
	}))
	t.Cleanup(server.Close)
	return server, asked
}

const (
	swrveEntry = `{"channel":"swrve","endedAt":"2026-11-27T09:00:01.000Z","push":{"id":"01SWRVE","status":"SENT","messagePrototypeKey":"Hello","pushKey":"user-1","createdAt":"2026-11-27T09:00:00.000Z","attempts":[{"errorType":null,"errorCode":null}]}}`
	fcmEntry   = `{"channel":"fcm","endedAt":null,"push":{"id":"01FCM","status":"RETRY","messagePrototypeKey":"","pushKey":"","createdAt":"2026-11-27T08:00:00.000Z","attempts":[{"errorType":"OTHER","errorCode":null},{"errorType":"FCM","errorCode":503}],"notification":{"user_id":"user-2","template_code":"welcome"}}}`
)

func TestHistorySearch(t *testing.T) {
	t.Parallel()
	server, asked := startPages(t, `{"items":[`+swrveEntry+`],"next":"more & more"}`, `{"items":[`+fcmEntry+`]}`)
	output, err := execute("history", "search", "--server", server.URL, "--user", "a&b", "--since", "2026-11-27T10:00:00+01:00",
		"--until", "2026-11-28T00:00:00Z", "--status", "SENT", "--trace", "t", "--template", "w")
	require.NoError(t, err)
	const query = "since=2026-11-27T09%3A00%3A00Z&status=SENT&templateCode=w&traceId=t&until=2026-11-28T00%3A00%3A00Z&user=a%26b"
	require.Equal(t, []string{"GET /history?limit=50&" + query, "GET /history?cursor=more+%26+more&limit=49&" + query}, *asked)
	lines := strings.Split(strings.TrimSpace(output), "\n")
	require.Len(t, lines, 3)
	require.Equal(t, []string{"01SWRVE", "swrve", "SENT", "user-1", "Hello", "2026-11-27T09:00:00.000Z", "2026-11-27T09:00:01.000Z", "1", "-"}, strings.Fields(lines[1]))
	require.Equal(t, []string{"01FCM", "fcm", "RETRY", "user-2", "welcome", "2026-11-27T08:00:00.000Z", "-", "2", "FCM", "503"}, strings.Fields(lines[2]))
}

func TestHistorySearchStopsAtItsLimit(t *testing.T) {
	t.Parallel()
	server, asked := startPages(t, `{"items":[`+swrveEntry+`],"next":"x"}`)
	output, err := execute("history", "search", "--server", server.URL, "--limit", "1", "--json")
	require.NoError(t, err)
	require.Equal(t, []string{"GET /history?limit=1"}, *asked)
	require.Equal(t, swrveEntry+"\nthere are more: use --limit to see more than 1\n", output)
}

func TestHistorySearchMistakes(t *testing.T) {
	t.Parallel()
	for _, example := range []struct{ arguments, says string }{
		{"--limit 0", "--limit 0: must be at least 1"},
		{"--since yesterday", `--since "yesterday"`},
		{"--until -1h", `--until "-1h"`},
		{"more", `"more" is too much: pushq history search takes only flags`},
		{"--since 1h --until 2h", "--since 1h is not before --until 2h: nothing lies between"},
		{"--since 2026-11-27T10:00:00Z --until 2026-11-27T10:00:00Z", "nothing lies between"},
		{"--limit many", `--limit "many": write a whole number`},
	} {
		_, err := execute(append([]string{"history", "search", "--server", "http://127.0.0.1:1"}, strings.Fields(example.arguments)...)...)
		require.ErrorContains(t, err, example.says)
	}
}
