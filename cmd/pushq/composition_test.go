package main

import (
	"fmt"
	"net"
	"net/url"
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
	volumes   map[string]string // to their directories
	processes map[string]*testenv.Process
}

func readComposeFile(t *testing.T, profiles ...string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../../docker-compose.yml"}, cli.WithProfiles(profiles))
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context()) // checks the file by the schema of the Compose specification
	require.NoError(t, err)
	return project
}

func newComposition(t *testing.T, profiles ...string) *composition {
	t.Helper()
	image := readDockerfile(t)
	return &composition{
		t: t, project: readComposeFile(t, profiles...), image: image, binary: image.buildAsInImage(t),
		addresses: make(map[string]string), volumes: make(map[string]string), processes: make(map[string]*testenv.Process),
	}
}

// up starts the services, or all of them, each after those that it depends on are
// started and healthy.
func (c *composition) up(services ...string) {
	c.t.Helper()
	require.NoError(c.t, c.project.ForEachService(services, func(_ string, service *types.ServiceConfig) error {
		for name, dependency := range service.DependsOn {
			require.Equal(c.t, types.ServiceConditionHealthy, dependency.Condition)
			for _, container := range c.containers(name) {
				if c.processes[container] != nil {
					c.waitHealthy(container)
				}
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
	switch {
	case service.Build != nil:
		command = slices.Concat(c.image.entrypoint, []string(service.Command))
	case service.Name == "redis": // its port and directory are the image's
		_, port, err := net.SplitHostPort(c.address(container, "6379"))
		require.NoError(c.t, err)
		command = slices.Concat([]string(service.Command), []string{"--bind", "127.0.0.1", "--port", port, "--dir", c.directory("redis")})
	case service.Name == "rabbitmq":
		c.startRabbitMQ(container, service)
		return
	case service.Name == "postgres":
		c.startPostgres(container, service)
		return
	default:
		c.t.Fatalf("%s has an image that this test does not know: teach it", container)
	}
	command = c.here(container, command)
	c.processes[container] = testenv.StartProgram(c.t, command[0], command[1:], c.environment(container)...)
}

// startRabbitMQ starts one that has the user that the image makes.
func (c *composition) startRabbitMQ(container string, service types.ServiceConfig) {
	server := testenv.StartRabbitMQ(c.t)
	user := *service.Environment["RABBITMQ_DEFAULT_USER"]
	server.Control("add_user", user, *service.Environment["RABBITMQ_DEFAULT_PASS"])
	server.Control("set_permissions", user, ".*", ".*", ".*")
	c.addresses[container+":5672"] = server.Addr()
}

// startPostgres starts one that has the user and the database that the image makes.
func (c *composition) startPostgres(container string, service types.ServiceConfig) {
	server := testenv.StartPostgres(c.t)
	user, database := *service.Environment["POSTGRES_USER"], *service.Environment["POSTGRES_DB"]
	statements(c.t, server, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", user, *service.Environment["POSTGRES_PASSWORD"]))
	statements(c.t, server, fmt.Sprintf("CREATE DATABASE %s OWNER %s", database, user))
	address, err := url.Parse(server.URL())
	require.NoError(c.t, err)
	c.addresses[container+":5432"] = address.Host
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
		for _, volume := range c.service(container).Volumes {
			text = strings.ReplaceAll(text, volume.Target+"/", c.directory(volume.Source)+"/")
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

// directory is where a volume is here.
func (c *composition) directory(volume string) string {
	if c.volumes[volume] == "" {
		c.volumes[volume] = c.t.TempDir()
	}
	return c.volumes[volume]
}

func (c *composition) address(container, port string) string {
	key := container + ":" + port
	if c.addresses[key] == "" {
		c.addresses[key] = testenv.FreeAddress(c.t)
	}
	return c.addresses[key]
}
