package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"path"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

// Options of a Tracer.
type Options struct {
	// Endpoint is the receiver's URL, without /v1/traces.
	Endpoint string
	// Ratio is the part of the traces that get spans, of those whose sender has not
	// decided.
	Ratio   float64
	Version string // of pushq
	Log     *slog.Logger
}

const (
	// scope is who makes the spans, for those who read them.
	scope = "pushq"
	// closeTimeout is how long the last spans may take: the process is about to end.
	closeTimeout = 3 * time.Second
)

// A Tracer makes spans and sends them to their receiver, many at a time. Nobody waits for
// that: spans that it does not take in time are lost. The nil Tracer makes none.
// It is safe for concurrent use.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	log      *slog.Logger
}

// Open prepares a tracer. Nothing is sent yet. Besides the options, the variables of
// OpenTelemetry count (OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES,
// OTEL_EXPORTER_OTLP_HEADERS and others), as its libraries read them.
//
// What goes wrong with spans later is logged: by the last tracer that was opened, since
// OpenTelemetry has one place for that.
func Open(ctx context.Context, options Options) (*Tracer, error) {
	receiver, err := url.Parse(options.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("the receiver of spans: %w", err)
	}
	to := []otlptracehttp.Option{
		otlptracehttp.WithEndpoint(receiver.Host), otlptracehttp.WithURLPath(path.Join("/", receiver.Path, "v1/traces")),
	}
	if receiver.Scheme == "http" {
		to = append(to, otlptracehttp.WithInsecure())
	}
	exporter, err := otlptracehttp.New(ctx, to...)
	if err != nil {
		return nil, fmt.Errorf("prepare the sending of spans: %w", err)
	}
	process, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", "pushq"), attribute.String("service.version", options.Version)),
		resource.WithFromEnv())
	if err != nil {
		options.Log.Warn("OTEL_RESOURCE_ATTRIBUTES cannot be read in full", slog.Any("error", err))
	}
	warnings := &rate.Sometimes{Interval: time.Minute}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		warnings.Do(func() {
			options.Log.Warn("spans are lost; further ones are not logged for a minute", slog.Any("error", err))
		})
	}))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter), sdktrace.WithResource(process),
		sdktrace.WithSampler(sdktrace.ParentBased(newRatioSampler(options.Ratio))),
	)
	return &Tracer{provider: provider, tracer: provider.Tracer(scope), log: options.Log}, nil
}

// Close sends the spans that have ended, for three seconds at most.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("the last spans are lost", slog.Any("error", err))
	}
}

// Serve starts the span of a request to pushq, which began at the given time.
func (t *Tracer) Serve(of Trace, name string, began time.Time) Span {
	return t.start(of, name, trace.SpanKindServer, began)
}

// Receive starts the span of a message from a queue.
func (t *Tracer) Receive(of Trace, name string, began time.Time) Span {
	return t.start(of, name, trace.SpanKindConsumer, began)
}

// Continue is Receive for what has gone through pushq's own queue. It begins no trace:
// whether there is one was decided when the push was accepted.
func (t *Tracer) Continue(of Trace, name string, began time.Time) Span {
	if of == (Trace{}) || !of.spanContext().HasTraceID() {
		return Span{trace: of}
	}
	return t.start(of, name, trace.SpanKindConsumer, began)
}

func (t *Tracer) start(of Trace, name string, kind trace.SpanKind, began time.Time) Span {
	if t == nil {
		return Span{trace: of}
	}
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), of.spanContext())
	_, span := t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithTimestamp(began))
	if !span.IsRecording() {
		return Span{trace: of}
	}
	if of.ID != "" {
		span.SetAttributes(attribute.String("pushq.trace_id", of.ID))
	}
	return Span{trace: of, span: span}
}
