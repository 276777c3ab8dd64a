package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/config"
	"pushq/internal/redisconn"
	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// visitDashboard makes a request as somebody with the password, if there is one.
func visitDashboard(t *testing.T, process *testenv.Process, method, path, password string, header ...string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequest(method, process.URL()+"/monitoring"+path, nil)
	require.NoError(t, err)
	if password != "" {
		request.SetBasicAuth("operator", password)
	}
	for place := 0; place+1 < len(header); place += 2 {
		request.Header.Set(header[place], header[place+1])
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response, string(body)
}

var (
	inlineScript = regexp.MustCompile(`(?s)<script>(.*?)</script>`)
	scriptFile   = regexp.MustCompile(`<script src="/monitoring(.*?)">`)
)

// The page's policy must name each of its inline scripts, which asynqmon may
// change.
func requireWorkingPage(t *testing.T, process *testenv.Process, password string) {
	t.Helper()
	for _, path := range []string{"", "/", "/queues/swrve"} {
		response, page := visitDashboard(t, process, http.MethodGet, path, password)
		require.Equal(t, http.StatusOK, response.StatusCode, path)
		require.Contains(t, response.Header.Get("Content-Type"), "text/html")
		scripts := inlineScript.FindAllStringSubmatch(page, -1)
		require.Len(t, scripts, 2)
		for _, script := range scripts {
			hash := sha256.Sum256([]byte(script[1]))
			require.Contains(t, response.Header.Get("Content-Security-Policy"), "'sha256-"+base64.StdEncoding.EncodeToString(hash[:])+"'", script[1])
		}
		files := scriptFile.FindAllStringSubmatch(page, -1)
		require.Len(t, files, 2)
		for _, file := range files {
			response, _ := visitDashboard(t, process, http.MethodGet, file[1], password)
			require.Equal(t, http.StatusOK, response.StatusCode, file)
			require.Contains(t, response.Header.Get("Content-Type"), "javascript", file)
		}
	}
}

func TestTheDashboardShowsAndRunsPushes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	serve := w.startReady("serve", `SWRVE_MESSAGEPROTOTYPEPUSHKEYS={"Other":{"IOS":"other-key"}}`)
	id := accept(t, serve, "canary \u2764\ufe0f\u200d\U0001f525 <&>")
	require.Len(t, waitFor(t, serve, id, tasks.Failed, 20*time.Second).Attempts, 1)
	requireWorkingPage(t, serve, "")

	_, body := visitDashboard(t, serve, http.MethodGet, "/api/queues", "")
	var queues struct {
		Queues []struct {
			Queue    string `json:"queue"`
			Archived int    `json:"archived"`
		} `json:"queues"`
	}
	archived := func() int {
		_, body = visitDashboard(t, serve, http.MethodGet, "/api/queues", "")
		require.NoError(t, json.Unmarshal([]byte(body), &queues), body)
		for _, queue := range queues.Queues {
			if queue.Queue == "swrve" {
				return queue.Archived
			}
		}
		return -1
	}
	require.Equal(t, 1, archived(), body)
	require.Len(t, queues.Queues, 2)

	_, body = visitDashboard(t, serve, http.MethodGet, "/api/queues/swrve/tasks/"+id, "")
	var task struct {
		Payload string `json:"payload"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &task), body)
	require.Contains(t, task.Payload, "\"pushKey\":\"canary \u2764\ufe0f\u200d\U0001f525 <&>\"")

	// A page of another site sends a form.
	const runAll = "/api/queues/swrve/archived_tasks:run_all"
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"}} {
		response, _ := visitDashboard(t, serve, http.MethodPost, runAll, "",
			append(header, "Content-Type", "application/x-www-form-urlencoded")...)
		require.Equal(t, http.StatusForbidden, response.StatusCode, header)
		require.Equal(t, 1, archived(), "nothing has been run")
	}
	require.Len(t, lookUp(t, serve, id).Attempts, 1)

	response, body := visitDashboard(t, serve, http.MethodPost, runAll, "", "Sec-Fetch-Site", "same-origin", "Origin", serve.URL())
	require.Less(t, response.StatusCode, 300, body)
	testenv.EventuallyNoError(t, 20*time.Second, func() error {
		if attempts := len(lookUp(t, serve, id).Attempts); attempts != 2 {
			return fmt.Errorf("%d attempts", attempts)
		}
		return nil
	})
}

func TestTheDashboardIsForThoseWithItsPassword(t *testing.T) {
	t.Parallel()
	const password, key = "correct-horse-battery", "0123456789abcdef"
	w := newWorld(t, swrvesim.Config{})
	api := w.startReady("api", "DASHBOARD_USER=operator", "DASHBOARD_PASSWORD="+password, "DASHBOARD_READONLY=true",
		`HTTP_APIKEYS={"shop":"`+key+`"}`)
	requireWorkingPage(t, api, password)
	response, body := visitDashboard(t, api, http.MethodGet, "/api/queues", password)
	require.Equal(t, http.StatusOK, response.StatusCode, body)
	require.Contains(t, body, `"queue":"swrve-window"`)
	response, _ = visitDashboard(t, api, http.MethodPost, "/api/queues/swrve:pause", password)
	require.Equal(t, http.StatusMethodNotAllowed, response.StatusCode)

	for _, path := range []string{"", "/", "/api/queues", "/static/js/none.js", "/..%2fpush"} {
		response, body = visitDashboard(t, api, http.MethodGet, path, "", "Authorization", "Bearer "+key)
		require.NotEqual(t, http.StatusOK, response.StatusCode, path)
		require.NotContains(t, body, "swrve")
	}
	require.NotContains(t, strings.Join(api.Stderr(), "\n"), password)
}

func TestAWorkerHasNoDashboard(t *testing.T) {
	t.Parallel()
	worker := newWorld(t, swrvesim.Config{}).startReady("worker")
	for _, path := range []string{"", "/", "/api/queues"} {
		response, _ := visitDashboard(t, worker, http.MethodGet, path, "")
		require.Equal(t, http.StatusNotFound, response.StatusCode, path)
	}
}

// A proxy shows the dashboard below a path of its own, and names another host to pushq.
func TestTheDashboardBehindAProxy(t *testing.T) {
	t.Parallel()
	const password = "correct-horse:battery"
	w := newWorld(t, swrvesim.Config{})
	api := w.startReady("api", "DASHBOARD_USER=operator", "DASHBOARD_PASSWORD="+password, "DASHBOARD_URL=https://ops.example/pushq/monitoring/")
	response, page := visitDashboard(t, api, http.MethodGet, "/", password)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Contains(t, page, `FLAG_ROOT_PATH="\/pushq\/monitoring"`)
	scripts := inlineScript.FindAllStringSubmatch(page, -1)
	require.Len(t, scripts, 2)
	for _, script := range scripts {
		hash := sha256.Sum256([]byte(script[1]))
		require.Contains(t, response.Header.Get("Content-Security-Policy"), "'sha256-"+base64.StdEncoding.EncodeToString(hash[:])+"'")
	}
	files := regexp.MustCompile(`<script src="/pushq/monitoring(.*?)">`).FindAllStringSubmatch(page, -1)
	require.NotEmpty(t, files)
	for _, file := range files {
		response, _ := visitDashboard(t, api, http.MethodGet, file[1], password)
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Contains(t, response.Header.Get("Content-Type"), "javascript")
	}
	response, body := visitDashboard(t, api, http.MethodGet, "/api/queues", password)
	require.Equal(t, http.StatusOK, response.StatusCode, body)
	require.Contains(t, body, `"swrve"`)
	for origin, want := range map[string]int{"https://ops.example": http.StatusOK, "https://evil.example": http.StatusForbidden, "http://ops.example": http.StatusForbidden} {
		response, _ = visitDashboard(t, api, http.MethodPost, "/api/queues/swrve:pause", password, "Origin", origin)
		require.Equal(t, want/100, response.StatusCode/100, origin)
		if want == http.StatusOK {
			response, _ = visitDashboard(t, api, http.MethodPost, "/api/queues/swrve:resume", password, "Origin", origin)
			require.Less(t, response.StatusCode, 300)
		}
	}
}

func TestADashboardClosesItsConnections(t *testing.T) {
	t.Parallel()
	redisServer := testenv.StartRedis(t)
	clients, err := redisconn.Open(redisServer.URL(), 0)
	require.NoError(t, err)
	defer func() { _ = clients.Close() }()
	dashboard := openDashboard(clients, config.Dashboard{})
	status := func() int {
		recorder := httptest.NewRecorder()
		dashboard.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/monitoring/api/queues", nil))
		return recorder.Code
	}
	require.Equal(t, http.StatusOK, status())
	require.NoError(t, dashboard.Close())
	require.Equal(t, http.StatusInternalServerError, status())
}
