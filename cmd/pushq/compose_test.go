package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/config"
	"pushq/handlers/fcm"
	"pushq/handlers/swrve"
	"pushq/internal/fcmsim"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// longestStop is how long a worker may take to stop, with the default settings.
func longestStop(t *testing.T) time.Duration {
	t.Helper()
	settings := config.Default()
	toSwrve := swrve.New(swrve.Config{Timeout: settings.Swrve.Timeout()})
	defer toSwrve.Close()
	simulator, err := fcmsim.New(fcmsim.Config{})
	require.NoError(t, err)
	defer func() { _ = simulator.Close() }()
	account, err := simulator.ServiceAccount("http://127.0.0.1")
	require.NoError(t, err)
	toFirebase, err := fcm.New(fcm.Options{
		Mode: fcm.V1, URL: settings.FCM.URL, ServiceAccount: account, Timeout: settings.FCM.Timeout(), Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	defer toFirebase.Close()
	return max(toSwrve.MaxDuration(), toFirebase.MaxDuration()) + recordingTime
}

func TestComposeFileIsHardened(t *testing.T) {
	t.Parallel()
	usual := []string{"redis", "swrve", "api", "worker"}
	require.ElementsMatch(t, usual, readComposeFile(t).ServiceNames())
	project := readComposeFile(t, "fcm")
	require.ElementsMatch(t, append(usual, "fcm", "firebase", "templates", "rabbitmq", "postgres"), project.ServiceNames())
	for name, service := range project.Services {
		require.True(t, service.ReadOnly, name)
		require.Equal(t, []string{"ALL"}, service.CapDrop, name)
		require.Equal(t, []string{"no-new-privileges:true"}, service.SecurityOpt, name)
		require.Equal(t, "unless-stopped", service.Restart, name)
		require.NotNil(t, service.StopGracePeriod, name)
		for _, port := range service.Ports {
			require.Equal(t, "127.0.0.1", port.HostIP, "%s is published beyond this host", name)
		}
		if service.Build != nil {
			require.Equal(t, "build", service.PullPolicy, name)
			require.Greater(t, time.Duration(*service.StopGracePeriod), longestStop(t), name)
			requireCommandLine(t, service.Command)
		} else {
			require.NotEmpty(t, service.User, "%s would need capabilities", name)
			require.NotNil(t, service.HealthCheck, name)
		}
	}
	require.Equal(t, 2, *project.Services["worker"].Deploy.Replicas)
	redis := strings.Join(project.Services["redis"].Command, " ")
	require.Contains(t, redis, "--appendonly yes")
	require.Contains(t, redis, "--maxmemory-policy noeviction")
	require.Equal(t, "/data", project.Services["redis"].Volumes[0].Target)
}

func TestComposeFileDeliversPushes(t *testing.T) {
	t.Parallel()
	c := newComposition(t)
	requireStatic(t, c.binary)
	c.up()
	require.Len(t, c.processes, 5)
	c.requireNoWarnings()

	// One worker goes, as in a rolling restart; the other goes on.
	first := c.postAsReadmeSays()
	c.waitSent(first)
	c.processes["worker-1"].Terminate()
	require.Zero(t, c.processes["worker-1"].Wait(longestStop(t)))
	require.False(t, c.healthy("worker-1"))
	c.waitSent(c.postAsReadmeSays())
	status, _ := c.get("swrve-1", "http://127.0.0.1:8090/ledger", "")
	require.Equal(t, http.StatusOK, status)

	// Redis goes, and comes back with what it had.
	c.processes["redis-1"].Terminate()
	require.Zero(t, c.processes["redis-1"].Wait(20*time.Second))
	for _, container := range []string{"redis-1", "api-1", "worker-2"} {
		require.False(t, c.healthy(container), container)
	}
	require.True(t, c.healthy("swrve-1"))
	c.start("redis-1")
	for _, container := range []string{"redis-1", "api-1", "worker-2"} {
		c.waitHealthy(container)
	}
	c.waitSent(first)
	c.waitSent(c.postAsReadmeSays())
}

func TestComposeProfileDeliversNotifications(t *testing.T) {
	t.Parallel()
	c := newComposition(t, "fcm")
	c.up("fcm")
	require.ElementsMatch(t, []string{"redis-1", "swrve-1", "firebase-1", "templates-1", "fcm-1"}, slices.Collect(maps.Keys(c.processes)))
	c.requireNoWarnings()
	c.waitSentBy("fcm-1", c.postAsDocumented("fcm-1", "../../docs/deployment.md"))
	_, ledger := c.get("firebase-1", "http://127.0.0.1:8091/ledger", "")
	require.Contains(t, ledger, "Welcome, Ada!")
	_, templates := c.get("templates-1", "http://127.0.0.1:8092/ledger", "")
	require.Contains(t, templates, "welcome_notification")

	// The simulator goes, and comes back with the key that pushq knows.
	c.processes["firebase-1"].Terminate()
	require.Zero(t, c.processes["firebase-1"].Wait(20*time.Second))
	c.start("firebase-1")
	c.waitHealthy("firebase-1")
	testenv.Eventually(t, 30*time.Second, "the history to have it", func() bool {
		status, found := c.get("fcm-1", "http://127.0.0.1:8080/history?status=SENT", "Bearer demo-key-0123456789")
		return status == http.StatusOK && strings.Contains(found, "welcome_notification")
	})
}

func (c *composition) requireNoWarnings() {
	c.t.Helper()
	for container, process := range c.processes {
		if container != "redis-1" {
			require.NotContains(c.t, strings.Join(process.Stderr(), "\n"), "level=WARN", container)
		}
	}
}

func (c *composition) postAsReadmeSays() (location string) {
	c.t.Helper()
	return c.postAsDocumented("api-1", "../../README.md")
}

var (
	documentedCurl     = regexp.MustCompile(`(?m)^curl -i http://127\.0\.0\.1:(\d+)(/\S+) .*demo-key.*$`)
	documentedArgument = regexp.MustCompile(`-([Hd]) '([^']*)'`)
)

// postAsDocumented sends what the document's curl line for a container sends, and returns
// the address of the push.
func (c *composition) postAsDocumented(container, document string) (location string) {
	c.t.Helper()
	text, err := os.ReadFile(document)
	require.NoError(c.t, err)
	line := documentedCurl.FindStringSubmatch(string(text))
	require.NotNil(c.t, line, "%s has no curl line for docker compose up", document)
	port := c.service(container).Ports[0]
	require.Equal(c.t, port.Published, line[1], "where %s is published", container)
	published := c.address(container, strconv.Itoa(int(port.Target)))
	request, err := http.NewRequest(http.MethodPost, "http://"+published+line[2], nil)
	require.NoError(c.t, err)
	for _, argument := range documentedArgument.FindAllStringSubmatch(line[0], -1) {
		if argument[1] == "d" {
			request.Body = io.NopCloser(strings.NewReader(argument[2]))
			continue
		}
		name, value, _ := strings.Cut(argument[2], ": ")
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	require.NoError(c.t, err)
	require.NoError(c.t, response.Body.Close())
	require.Equal(c.t, http.StatusAccepted, response.StatusCode)
	return response.Header.Get("Location")
}

func (c *composition) waitSent(location string) {
	c.t.Helper()
	c.waitSentBy("api-1", location)
}

func (c *composition) waitSentBy(container, location string) {
	c.t.Helper()
	testenv.Eventually(c.t, 30*time.Second, location+" to be SENT", func() bool {
		status, answer := c.get(container, "http://127.0.0.1:8080"+location, "Bearer demo-key-0123456789")
		var push pushAnswer
		return status == http.StatusOK && json.Unmarshal([]byte(answer), &push) == nil && push.Status == tasks.Sent
	})
}

// get fetches an address that a container's service publishes.
func (c *composition) get(container, url, authorization string) (int, string) {
	c.t.Helper()
	request, err := http.NewRequest(http.MethodGet, c.here(container, []string{url})[0], nil)
	require.NoError(c.t, err)
	request.Header.Set("Authorization", authorization)
	response, err := http.DefaultClient.Do(request)
	require.NoError(c.t, err)
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	require.NoError(c.t, err)
	return response.StatusCode, string(answer)
}
