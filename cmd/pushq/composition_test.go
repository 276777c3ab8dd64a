package main

import (
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// A composition runs the services of docker-compose.yml as processes: their
// commands, environments and health checks as they are written, except that
// the addresses in them become free ports on loopback.
type composition struct {
	t         *testing.T
	project   *types.Project
	image     image
	binary    string            // stands for the image's
	addresses map[string]string // container and port to the address here
	data      string            // the volume of Redis
	processes map[string]*testenv.Process
}

func readComposeFile(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../../docker-compose.yml"})
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context()) // checks the file by the schema of the Compose specification
	require.NoError(t, err)
	return project
}

func newComposition(t *testing.T) *composition {
	t.Helper()
	image := readDockerfile(t)
	return &composition{
		t: t, project: readComposeFile(t), image: image, binary: image.buildAsInImage(t),
		addresses: make(map[string]string), data: t.TempDir(), processes: make(map[string]*testenv.Process),
	}
}

// up starts all services, each after those that it depends on are healthy.
func (c *composition) up() {
	c.t.Helper()
	require.NoError(c.t, c.project.ForEachService(nil, func(_ string, service *types.ServiceConfig) error {
		for name, dependency := range service.DependsOn {
			require.Equal(c.t, types.ServiceConditionHealthy, dependency.Condition)
			for _, container := range c.containers(name) {
				c.waitHealthy(container)
			}
		}
		for _, container := range c.containers(service.Name) {
			c.start(container)
		}
		return nil
	}))
	for container := range c.processes {
		c.waitHealthy(container)
	}
}

// containers names a service's, such as worker-1 and worker-2.
func (c *composition) containers(service string) []string {
	definition := c.project.Services[service]
	var names []string
	for number := range definition.GetScale() {
		names = append(names, fmt.Sprintf("%s-%d", service, number+1))
	}
	return names
}

func (c *composition) service(container string) types.ServiceConfig {
	name, _, _ := strings.Cut(container, "-")
	return c.project.Services[name]
}

func (c *composition) start(container string) {
	c.t.Helper()
	service := c.service(container)
	var command []string
	if service.Build != nil {
		command = append(command, c.image.entrypoint...)
	}
	command = append(command, service.Command...)
	if service.Build == nil { // Redis: its port and directory are the image's
		_, port, err := net.SplitHostPort(c.address(container, "6379"))
		require.NoError(c.t, err)
		command = append(command, "--bind", "127.0.0.1", "--port", port, "--dir", c.data)
	}
	command = c.here(container, command)
	c.processes[container] = testenv.StartProgram(c.t, command[0], command[1:], c.environment(container)...)
}

func (c *composition) environment(container string) []string {
	service := c.service(container)
	var environment []string
	if service.Build != nil {
		environment = append(environment, c.image.environment...)
	}
	for name, value := range service.Environment {
		require.NotNil(c.t, value, name)
		environment = append(environment, name+"="+*value)
	}
	return c.here(container, environment)
}

// healthy runs a container's health check once.
func (c *composition) healthy(container string) bool {
	c.t.Helper()
	check := c.image.healthCheck
	if own := c.service(container).HealthCheck; own != nil {
		require.Equal(c.t, "CMD", own.Test[0], "without a shell")
		check = own.Test[1:]
	}
	check = c.here(container, check)
	command := exec.Command(check[0], check[1:]...)
	command.Env = c.environment(container)
	err := command.Run()
	code := command.ProcessState.ExitCode()
	require.Contains(c.t, []int{0, 1}, code, "%s: %v", container, err)
	return code == 0
}

func (c *composition) waitHealthy(container string) {
	c.t.Helper()
	testenv.Eventually(c.t, 60*time.Second, container+" to be healthy", func() bool { return c.healthy(container) })
}

// here turns texts of a container into what they must be on this host.
func (c *composition) here(container string, texts []string) []string {
	hosts := []string{`0\.0\.0\.0`, `127\.0\.0\.1`}
	for name := range c.project.Services {
		hosts = append(hosts, name)
	}
	address := regexp.MustCompile(`\b(` + strings.Join(hosts, "|") + `):(\d+)`)
	result := slices.Clone(texts)
	for place, text := range texts {
		if text == c.image.entrypoint[0] {
			result[place] = c.binary
			continue
		}
		result[place] = address.ReplaceAllStringFunc(text, func(found string) string {
			host, port, _ := strings.Cut(found, ":")
			if _, isService := c.project.Services[host]; isService {
				return c.address(c.containers(host)[0], port)
			}
			return c.address(container, port)
		})
	}
	return result
}

func (c *composition) address(container, port string) string {
	key := container + ":" + port
	if c.addresses[key] == "" {
		c.addresses[key] = testenv.FreeAddress(c.t)
	}
	return c.addresses[key]
}
