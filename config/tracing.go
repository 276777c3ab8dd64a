package config

// Tracing says where spans go.
type Tracing struct {
	OTLPEndpoint string  `key:"otlpEndpoint" default:"" allowed:"http or https" doc:"Receiver of spans, by OpenTelemetry's protocol OTLP over HTTP: http://localhost:4318 is a collector on this host; pushq posts to /v1/traces below it. Empty makes no spans; traces are passed on all the same."`
	Ratio        float64 `key:"ratio" default:"1" min:"0" max:"1" doc:"Part of the traces that get spans: of those that begin here, and of those whose sender has named nothing but their id. With a traceparent, its sender has decided."`
}
