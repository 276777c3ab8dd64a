package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/config"
)

func TestWhereSpansCannotGo(t *testing.T) {
	t.Parallel()
	for setting, problem := range map[string]string{
		"PUSHQ_TRACING_OTLPENDPOINT=localhost:4317":                  "must start with http:// or https://",
		"PUSHQ_TRACING_OTLPENDPOINT=grpc://localhost:4317":           "must start with http:// or https://",
		"PUSHQ_TRACING_OTLPENDPOINT=https://user:pass@localhost":     "must not hold a user or password",
		"PUSHQ_TRACING_OTLPENDPOINT=http://localhost:4318/?key=ab":   "must not have a part after ? or #",
		"PUSHQ_TRACING_OTLPENDPOINT=http://localhost:4318/v1/traces": "must end before /v1/traces, which pushq puts behind it",
		"PUSHQ_TRACING_RATIO=1.1":                                    "must be from 0 to 1",
		"PUSHQ_TRACING_RATIO=-0.1":                                   "must be from 0 to 1",
	} {
		_, err := config.Load(config.Options{Environ: []string{setting}, ReadFile: files{}.read})
		require.ErrorContains(t, err, problem, setting)
	}
	_, err := config.Load(config.Options{Environ: []string{"PUSHQ_TRACING_OTLPENDPOINT=https://spans.example/otlp"}, ReadFile: files{}.read})
	require.NoError(t, err)
}
