package testenv

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// SpanReceiver takes spans by OTLP over HTTP. It is safe for concurrent use.
type SpanReceiver struct {
	server *httptest.Server
	hung   chan struct{} // closed at the end; requests wait for it if the receiver hangs

	mutex   sync.Mutex
	spans   []*spans.Span
	process map[string]string
	calls   int
}

// StartSpanReceiver starts a receiver, which ends with the test.
func StartSpanReceiver(t testing.TB) *SpanReceiver {
	t.Helper()
	r := &SpanReceiver{}
	r.server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.server.Close)
	return r
}

// StartHangingSpanReceiver starts a receiver that never answers.
func StartHangingSpanReceiver(t testing.TB) *SpanReceiver {
	t.Helper()
	r := &SpanReceiver{hung: make(chan struct{})}
	r.server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(func() {
		close(r.hung)
		r.server.Close()
	})
	return r
}

// URL is what tracing.otlpEndpoint has to be.
func (r *SpanReceiver) URL() string { return r.server.URL }

// Spans returns what has come so far.
func (r *SpanReceiver) Spans() []*spans.Span {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return append([]*spans.Span(nil), r.spans...)
}

// Process returns what the latest spans say of the process that they are from.
func (r *SpanReceiver) Process() map[string]string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.process
}

// Calls counts the requests.
func (r *SpanReceiver) Calls() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.calls
}

func (r *SpanReceiver) serve(w http.ResponseWriter, request *http.Request) {
	r.mutex.Lock()
	r.calls++
	r.mutex.Unlock()
	if r.hung != nil {
		<-r.hung
		return
	}
	sent, err := readSpans(request)
	if err != nil || request.URL.Path != "/v1/traces" {
		http.Error(w, "no spans", http.StatusBadRequest)
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, process := range sent.GetResourceSpans() {
		r.process = Attributes(process.GetResource().GetAttributes())
		for _, scope := range process.GetScopeSpans() {
			r.spans = append(r.spans, scope.GetSpans()...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func readSpans(request *http.Request) (*collector.ExportTraceServiceRequest, error) {
	var body io.Reader = request.Body
	if request.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(body); err != nil {
			return nil, err
		}
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	sent := &collector.ExportTraceServiceRequest{}
	return sent, proto.Unmarshal(text, sent)
}

// Attributes returns them by name, as text.
func Attributes(all []*common.KeyValue) map[string]string {
	byName := make(map[string]string, len(all))
	for _, one := range all {
		switch value := one.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			byName[one.GetKey()] = value.StringValue
		default:
			byName[one.GetKey()] = one.GetValue().String()
		}
	}
	return byName
}
