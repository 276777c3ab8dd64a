package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/config"
	"pushq/handlers/swrve"
	"pushq/internal/testenv"
	"pushq/tasks"
)

// longestStop is how long a worker may take to stop, with the default settings.
func longestStop() time.Duration {
	settings := config.Default().Swrve
	provider := swrve.New(swrve.Config{Timeout: settings.Timeout()})
	defer provider.Close()
	return provider.MaxDuration() + recordingTime
}

func TestComposeFileIsHardened(t *testing.T) {
	t.Parallel()
	project := readComposeFile(t)
	require.ElementsMatch(t, []string{"redis", "swrve", "api", "worker"}, project.ServiceNames())
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
			require.Greater(t, time.Duration(*service.StopGracePeriod), longestStop(), name)
			requireCommandLine(t, service.Command)
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
	for container, process := range c.processes {
		if container != "redis-1" {
			require.NotContains(t, strings.Join(process.Stderr(), "\n"), "level=WARN", container)
		}
	}

	// One worker goes, as in a rolling restart; the other goes on.
	first := c.postAsReadmeSays()
	c.waitSent(first)
	c.processes["worker-1"].Terminate()
	require.Zero(t, c.processes["worker-1"].Wait(longestStop()))
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

var (
	readmeCurl     = regexp.MustCompile(`(?m)^curl .*demo-key.*$`)
	readmeURL      = regexp.MustCompile(`http://127\.0\.0\.1:8080/push`)
	readmeArgument = regexp.MustCompile(`-([Hd]) '([^']*)'`)
)

// postAsReadmeSays sends what README's curl line for the composition sends, and
// returns the address of the push.
func (c *composition) postAsReadmeSays() (location string) {
	c.t.Helper()
	readme, err := os.ReadFile("../../README.md")
	require.NoError(c.t, err)
	line := readmeCurl.FindString(string(readme))
	url := readmeURL.FindString(line)
	require.NotEmpty(c.t, url, "README has no curl line for docker compose up")
	var header []string
	var body string
	for _, argument := range readmeArgument.FindAllStringSubmatch(line, -1) {
		if argument[1] == "d" {
			body = argument[2]
			continue
		}
		name, value, _ := strings.Cut(argument[2], ": ")
		header = append(header, name, value)
	}
	status, answer, text, err := tryPost(strings.TrimSuffix(c.here("api-1", []string{url})[0], "/push"), body, header...)
	require.NoError(c.t, err)
	require.Equal(c.t, http.StatusAccepted, status, text)
	return answer.Get("Location")
}

func (c *composition) waitSent(location string) {
	c.t.Helper()
	testenv.Eventually(c.t, 30*time.Second, location+" to be SENT", func() bool {
		status, answer := c.get("api-1", "http://127.0.0.1:8080"+location, "Bearer demo-key-0123456789")
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
