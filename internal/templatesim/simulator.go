// Package templatesim is a template service for tests and trials: it has a few templates
// and takes more, misbehaves on request, and keeps a ledger of what it was asked for.
//
//	GET    /api/v1/templates/{code}?language=…  one template
//	GET    /ledger  every request for a template in order of arrival
//	GET    /stats   the totals
//	DELETE /ledger  forget everything that was asked
//	GET    /health/live, /health/ready  200
//
// An answer is {"id":…,"code":…,"type":"push","language":…,"version":…,
// "content":{"title":…,"body":…},"variables":[…]}, or 404 and {"error":…}, unless the
// code asks for trouble by its prefix; see troubleFor.
package templatesim

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"pushq/internal/simserver"
)

// Config says how a Simulator behaves. The zero value has the built-in templates and
// answers at once.
type Config struct {
	// Templates are there besides the built-in ones, and instead of those with the same
	// code and language.
	Templates []Template
	// Latency is the time between arrival and answer.
	Latency time.Duration
	// LedgerSize is how many requests the ledger keeps, the latest; 0 means 100,000.
	LedgerSize int
}

const defaultLedgerSize = 100_000

// Simulator is one simulated template service. Its methods may be called concurrently.
type Simulator struct {
	config    Config
	templates map[name]Template
	server    *simserver.Server

	mu      sync.Mutex
	books   *books
	trouble string // a prefix that every code is taken to have
}

// name is what a template is asked for by.
type name struct{ code, language string }

// New returns a simulator that serves nothing yet: call Start, or mount Handler. Either
// way, Close it.
func New(config Config) *Simulator {
	if config.LedgerSize == 0 {
		config.LedgerSize = defaultLedgerSize
	}
	templates := make(map[name]Template)
	for _, list := range [][]Template{builtIn, config.Templates} {
		for _, template := range list {
			templates[name{template.Code, template.Language}] = template
		}
	}
	return &Simulator{
		config:    config,
		templates: templates,
		server:    simserver.New("template simulator"),
		books:     newBooks(config.LedgerSize),
	}
}

// Handler returns the simulator's HTTP interface.
func (s *Simulator) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/templates/{code}", s.serveTemplate)
	mux.HandleFunc("GET /ledger", s.serveLedger)
	mux.HandleFunc("DELETE /ledger", s.serveReset)
	mux.HandleFunc("GET /stats", s.serveStats)
	mux.HandleFunc("GET /health/live", simserver.Healthy)
	mux.HandleFunc("GET /health/ready", simserver.Healthy)
	return mux
}

// Start listens on a TCP address such as "127.0.0.1:0" and serves until Close. It returns
// the base URL, for example "http://127.0.0.1:39157", which is pushq's template.url. A
// simulator can be started once.
func (s *Simulator) Start(listen string) (string, error) {
	return s.server.Start(listen, s.Handler(), nil)
}

// Close stops listening, breaks off every request that has no answer yet, and returns
// when all of the simulator's goroutines have ended. The ledger stays readable. Closing
// twice is harmless.
func (s *Simulator) Close() error { return s.server.Close() }

// SetTrouble makes every request that arrives from now on end as if its code began with
// the prefix, see troubleFor; "" ends that. A prefix that asks for nothing is an error.
func (s *Simulator) SetTrouble(prefix string) error {
	if _, plain := troubleFor(prefix); prefix != "" && plain != "" {
		return fmt.Errorf("trouble %q: use a prefix that asks for one, such as %q", prefix, "unavailable-")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = prefix
	return nil
}
