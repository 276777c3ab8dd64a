package main

import (
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// image is what the Dockerfile at the root makes.
type image struct {
	builder     string // the image that the build runs in
	build       string // the command line that builds the binary
	base        string
	copied      []string // arguments of each COPY into the final stage
	user        string
	environment []string
	entrypoint  []string
	command     []string
	healthCheck []string
}

// readDockerfile understands the instructions and forms that ours has.
func readDockerfile(t *testing.T) image {
	t.Helper()
	content, err := os.ReadFile("../../Dockerfile")
	require.NoError(t, err)
	var result image
	for line := range strings.Lines(strings.ReplaceAll(string(content), "\\\n", " ")) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "FROM":
			result.builder = result.base
			result.base = strings.Fields(text)[0]
			result.copied = nil
		case "RUN":
			if strings.Contains(text, "go build") {
				result.build = text
			}
		case "COPY":
			result.copied = append(result.copied, text)
		case "USER":
			result.user = text
		case "ENV":
			result.environment = append(result.environment, text)
		case "ENTRYPOINT":
			result.entrypoint = execForm(t, text)
		case "CMD":
			result.command = execForm(t, text)
		case "HEALTHCHECK":
			_, command, found := strings.Cut(text, "CMD ")
			require.True(t, found)
			result.healthCheck = execForm(t, command)
		}
	}
	return result
}

// execForm reads the form that needs no shell.
func execForm(t *testing.T, text string) []string {
	t.Helper()
	var arguments []string
	require.NoError(t, json.Unmarshal([]byte(text), &arguments), text)
	return arguments
}

// buildAsInImage runs the Dockerfile's own command line.
func (i image) buildAsInImage(t *testing.T) (path string) {
	t.Helper()
	const output = "/out/pushq"
	require.Contains(t, i.build, " -o "+output+" ")
	path = filepath.Join(t.TempDir(), "pushq")
	build := exec.Command("sh", "-c", strings.Replace(i.build, output, path, 1))
	build.Dir = "../.."
	build.Env = append(os.Environ(), "VERSION=of-the-test")
	printed, err := build.CombinedOutput()
	require.NoError(t, err, string(printed))
	return path
}

func TestImage(t *testing.T) {
	t.Parallel()
	image := readDockerfile(t)

	module, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(module))[1]
	require.Regexp(t, `^golang:`+regexp.QuoteMeta(version)+`\b`, image.builder, "the Go of go.mod")

	require.Equal(t, "scratch", image.base)
	require.Regexp(t, `^[1-9]\d*(:[1-9]\d*)?$`, image.user, "numeric, so that Kubernetes can tell that it is not root")
	require.Contains(t, strings.Join(image.copied, "\n"), "/etc/ssl/certs/ca-certificates.crt", "Swrve is called over https")
	require.Contains(t, strings.Join(image.copied, "\n"), "/out/pushq "+image.entrypoint[0])
	require.Equal(t, []string{"/pushq"}, image.entrypoint)
	requireCommandLine(t, image.command)
	require.Equal(t, image.entrypoint[0], image.healthCheck[0])
	requireCommandLine(t, image.healthCheck[1:])
}

// .dockerignore lets through what it names with "!"; everything else stays away.
func TestImageIsGivenWhatTheBuildNeeds(t *testing.T) {
	t.Parallel()
	ignore, err := os.ReadFile("../../.dockerignore")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^\*$`, string(ignore))
	list := exec.Command("go", "list", "-deps", "-f",
		`{{if .Module}}{{if .Module.Main}}{{$package := .}}{{range .GoFiles}}{{$package.ImportPath}}/{{.}} {{end}}{{range .EmbedFiles}}{{$package.ImportPath}}/{{.}} {{end}}{{end}}{{end}}`, ".")
	output, err := list.Output()
	require.NoError(t, err)
	files := strings.Fields(string(output))
	require.Contains(t, files, "pushq/cmd/pushq/main.go")
	for _, file := range append(files, "pushq/go.mod", "pushq/go.sum") {
		path := strings.TrimPrefix(file, "pushq/")
		top, _, _ := strings.Cut(path, "/")
		require.Regexp(t, `(?m)^!`+regexp.QuoteMeta(top)+`$`, string(ignore), "%s does not reach the build", path)
		require.NotContains(t, path, "testdata")
	}
}

// requireCommandLine requires arguments that pushq understands.
func requireCommandLine(t *testing.T, arguments []string) {
	t.Helper()
	command, rest, err := newRootCommand().Find(arguments)
	require.NoError(t, err, arguments)
	require.False(t, command.HasSubCommands(), "%v names no command", arguments)
	require.NoError(t, command.ParseFlags(rest), arguments)
	require.NoError(t, command.ValidateArgs(command.Flags().Args()), arguments)
	require.NoError(t, command.ValidateRequiredFlags(), arguments)
}

func requireStatic(t *testing.T, path string) {
	t.Helper()
	binary, err := elf.Open(path)
	require.NoError(t, err)
	defer func() { _ = binary.Close() }()
	for _, program := range binary.Progs {
		require.NotEqual(t, elf.PT_INTERP, program.Type, "it needs a loader, which the image has not")
	}
	libraries, err := binary.ImportedLibraries()
	require.NoError(t, err)
	require.Empty(t, libraries)
}
