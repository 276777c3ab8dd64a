// Package swrvesim is a Swrve push service for tests, benchmarks and trials:
// it answers POST /push as Swrve does, misbehaves on request, counts strictly,
// and keeps a ledger of everything that arrived.
//
//	POST   /push    one push, form fields in the body or the query
//	GET    /ledger  every request in order of arrival
//	GET    /stats   the totals
//	DELETE /ledger  forget everything and begin a new round
//	GET    /health/live, /health/ready  200
//
// Every answer of POST /push is the two-field object {"code":…,"message":…},
// unless the user asks for something else by its prefix; see outcomeFor. The
// first rule that applies decides: too fast 429; unreadable body, or push_key
// or user missing 400; unknown push key 403. These refusals are immediate. All
// other answers, scripted failures included, come after the latency.
//
// Arrival is the moment when the handler is entered, before the body is read.
// All POST /push requests count towards the rate, refused ones too: a caller
// that stays above the limit is refused until it slows down.
package swrvesim

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"pushq/internal/simserver"
)

// Config says how a Simulator behaves. The zero value accepts every push key,
// knows no limit and answers at once.
type Config struct {
	// Rate is the largest number of requests in any sliding second; the next one
	// is answered 429. 0 means no limit.
	Rate int
	// Latency is the time between arrival and answer.
	Latency Latency
	// Keys are the known push keys; any other is answered 403. Empty: any key.
	Keys []string
	// Seed makes the latencies repeatable. 0 means a different series each time.
	Seed uint64
	// LedgerSize is how many requests the ledger keeps, the latest; 0 means
	// 200,000. It also never holds more than 256 MiB of field values.
	LedgerSize int
}

const defaultLedgerSize = 200_000

// Simulator is one simulated Swrve. Its methods may be called concurrently.
type Simulator struct {
	config Config
	keys   map[string]bool
	began  time.Time
	server *simserver.Server

	mu       sync.Mutex
	random   *rand.Rand
	inFlight int
	round    *round
	outcome  string // a prefix that every user is taken to have
}

// New returns a simulator that serves nothing yet: call Start, or mount Handler.
// Either way, Close it.
func New(config Config) *Simulator {
	if config.LedgerSize == 0 {
		config.LedgerSize = defaultLedgerSize
	}
	seed := config.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	keys := make(map[string]bool, len(config.Keys))
	for _, key := range config.Keys {
		keys[key] = true
	}
	return &Simulator{
		config: config,
		keys:   keys,
		began:  time.Now(),
		server: simserver.New("Swrve simulator"),
		random: rand.New(rand.NewPCG(seed, seed)),
		round:  newRound(config.LedgerSize, 0),
	}
}

// Handler returns the simulator's HTTP interface. Connections and scheduling lag
// are measured only on a simulator that was started with Start.
func (s *Simulator) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /push", s.servePush)
	mux.HandleFunc("/push", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", http.MethodPost)
		writeJSON(w, http.StatusMethodNotAllowed, answer{http.StatusMethodNotAllowed, "Method Not Allowed"})
	})
	mux.HandleFunc("GET /ledger", s.serveLedger)
	mux.HandleFunc("DELETE /ledger", s.serveReset)
	mux.HandleFunc("GET /stats", s.serveStats)
	mux.HandleFunc("GET /health/live", simserver.Healthy)
	mux.HandleFunc("GET /health/ready", simserver.Healthy)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusNotFound, answer{http.StatusNotFound, "Not Found"})
	})
	return mux
}

// Start listens on a TCP address such as "127.0.0.1:0" and serves until Close.
// It returns the base URL, for example "http://127.0.0.1:39157"; pushes go to
// that URL + "/push". A simulator can be started once.
func (s *Simulator) Start(listen string) (string, error) {
	url, err := s.server.Start(listen, s.Handler(), s.countConnection)
	if err != nil {
		return "", err
	}
	s.server.Go(s.measureLag)
	return url, nil
}

// Close stops listening, breaks off every request that has no answer yet, and
// returns when all of the simulator's goroutines have ended. The ledger and the
// statistics stay readable. Closing twice is harmless.
func (s *Simulator) Close() error { return s.server.Close() }

// Ledger returns the requests that have arrived in this round, in order, the
// latest Config.LedgerSize of them. Older ones were dropped, as the first
// sequence number tells. It may be called under load: arrivals are held up for
// well under a millisecond at a time.
func (s *Simulator) Ledger() []Request {
	s.mu.Lock()
	round := s.round
	last := round.stats.Requests
	requests := make([]Request, 0, len(round.ledger.requests))
	s.mu.Unlock()

	for next := 1; next <= last; {
		s.mu.Lock()
		part := round.ledger.copyPart(next, last)
		s.mu.Unlock()
		if len(part) == 0 {
			break
		}
		requests = append(requests, part...)
		next = part[len(part)-1].Sequence + 1
	}
	return requests
}

// Stats returns the totals of this round.
func (s *Simulator) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.round.totals(s.inFlight)
}

// Reset begins a new round: an empty ledger, zero statistics, scripted outcomes
// from their beginning, and a sliding second that has seen no arrival. Requests
// in flight are answered as decided, but appear only in the new round's
// concurrency. Connections that stay open are not counted again.
func (s *Simulator) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round = newRound(s.config.LedgerSize, s.inFlight)
}

func (s *Simulator) countConnection() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round.stats.Connections++
}
