package config_test

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"pushq/config"
)

// The manifest for Kubernetes in docs/deployment.md sets what exists, and gives a balancer
// time for two looks.
func TestTheDocumentedDeployment(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../docs/deployment.md")
	require.NoError(t, err)
	text := regexp.MustCompile("(?s)```yaml\n(apiVersion:.*?)```").FindSubmatch(document)
	require.NotNil(t, text)
	var manifest struct {
		Spec struct {
			Template struct {
				Spec struct {
					TerminationGracePeriodSeconds int `yaml:"terminationGracePeriodSeconds"`
					Containers                    []struct {
						Env            []struct{ Name, Value string }
						ReadinessProbe struct {
							PeriodSeconds int `yaml:"periodSeconds"`
						} `yaml:"readinessProbe"`
					}
				}
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(text[1], &manifest))
	pod := manifest.Spec.Template.Spec
	require.Len(t, pod.Containers, 1)
	var environ []string
	for _, variable := range pod.Containers[0].Env {
		environ = append(environ, variable.Name+"="+variable.Value)
	}
	secrets := files{"/run/secrets/pushq/redis-url": "redis://redis/0", "/run/secrets/pushq/api-keys": `{"backend":"0123456789abcdef"}`}
	loaded, err := config.Load(config.Options{ReadFile: secrets.read, Environ: environ, RequireRedis: true})
	require.NoError(t, err)
	require.Empty(t, loaded.Warnings)
	require.Len(t, loaded.Config.HTTP.APIKeys, 1)
	delay := loaded.Config.HTTP.ShutdownDelay
	require.Equal(t, 5*time.Second, delay)
	require.Greater(t, delay, 2*time.Duration(pod.Containers[0].ReadinessProbe.PeriodSeconds)*time.Second)
	require.GreaterOrEqual(t, pod.TerminationGracePeriodSeconds, 30+int(delay.Seconds()))
}
