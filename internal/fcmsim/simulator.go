// Package fcmsim is a Firebase Cloud Messaging for tests and trials: it answers as
// Firebase does, both forms of its API and Google's token endpoint, misbehaves on
// request, and keeps a ledger of every message that arrived.
//
//	POST   /token                              an access token for a signed assertion
//	POST   /v1/projects/{project}/messages:send  a message, HTTP v1
//	POST   /fcm/send                           a message, legacy protocol
//	GET    /ledger                             every message in order of arrival
//	GET    /stats                              the totals
//	DELETE /ledger                             forget everything and begin a new round
//	POST   /_sim/outcome?prefix=…              every message as if its token began so; "" ends that
//	POST   /_sim/token?fault=…&life=…          what the token endpoint does; "" is well
//	POST   /_sim/revoke                        no access token is valid any more
//	GET    /health/live, /health/ready         200
//
// Tokens of devices ask for outcomes by their prefix, see script. The first rule that
// applies decides: too fast, unknown access token or key, unreadable message, then the
// prefix. Only what is decided by the prefix, or delivered, takes the latency.
package fcmsim

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"pushq/internal/simserver"
	"pushq/internal/slidingsecond"
)

// Config says how a Simulator behaves. The zero value answers at once and knows no limit.
type Config struct {
	// Key is the service account's. nil makes one.
	Key *rsa.PrivateKey
	// Project is the only one that there is. "" takes any.
	Project string
	// ServerKey is the only one that the legacy protocol takes. "" takes any.
	ServerKey string
	// Latency is the time between the arrival of a message and the answer.
	Latency time.Duration
	// Rate is the largest number of messages in any sliding second; the next one is
	// refused. 0 means no limit.
	Rate int
	// TokenLife is how long access tokens are valid, in whole seconds. 0 means an hour.
	TokenLife time.Duration
}

const (
	ledgerSize = 200_000
	usualLife  = time.Hour
)

// Simulator is one simulated Firebase. Its methods may be called concurrently.
type Simulator struct {
	key    *rsa.PrivateKey
	server *simserver.Server
	began  time.Time

	mutex      sync.Mutex
	config     Config
	inFlight   int
	round      *round
	outcome    string // a prefix that every device's token is taken to have
	tokenFault string
	tokens     map[string]time.Time // the access tokens, and their ends
}

// New returns a simulator that serves nothing yet: call Start, or mount Handler.
// Either way, Close it.
func New(config Config) (*Simulator, error) {
	if config.TokenLife == 0 {
		config.TokenLife = usualLife
	}
	key := config.Key
	if key == nil {
		made, err := rsa.GenerateKey(rand.Reader, keyBits)
		if err != nil {
			return nil, fmt.Errorf("make the service account's key: %w", err)
		}
		key = made
	}
	return &Simulator{
		key:    key,
		server: simserver.New("Firebase simulator"),
		began:  time.Now(),
		config: config,
		round:  newRound(0),
		tokens: map[string]time.Time{},
	}, nil
}

// Handler returns the simulator's HTTP interface. Connections are counted only on a
// simulator that was started with Start.
func (s *Simulator) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", s.serveToken)
	mux.HandleFunc("POST /v1/projects/{project}/{call}", s.serveV1)
	mux.HandleFunc("POST /fcm/send", s.serveLegacy)
	mux.HandleFunc("GET /ledger", s.serveLedger)
	mux.HandleFunc("DELETE /ledger", s.serveReset)
	mux.HandleFunc("GET /stats", s.serveStats)
	mux.HandleFunc("POST /_sim/outcome", s.serveSetOutcome)
	mux.HandleFunc("POST /_sim/token", s.serveSetToken)
	mux.HandleFunc("POST /_sim/revoke", s.serveRevoke)
	mux.HandleFunc("GET /health/live", simserver.Healthy)
	mux.HandleFunc("GET /health/ready", simserver.Healthy)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { write(w, page(http.StatusNotFound)) })
	return mux
}

// Start listens on a TCP address such as "127.0.0.1:0" and serves until Close.
// It returns the base URL, for example "http://127.0.0.1:39157". A simulator can be
// started once.
func (s *Simulator) Start(listen string) (string, error) {
	return s.server.Start(listen, s.Handler(), s.countConnection)
}

// Close stops listening, breaks off every request that has no answer yet, and
// returns when all of the simulator's goroutines have ended. The ledger and the
// statistics stay readable. Closing twice is harmless.
func (s *Simulator) Close() error { return s.server.Close() }

func (s *Simulator) countConnection() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.round.stats.Connections++
}

// Stats are the totals of a round: since the start or the latest reset.
type Stats struct {
	// Requests counts the arrivals of messages.
	Requests int `json:"requests"`
	// Delivered counts those that reach the device; see Request.Delivered.
	Delivered int `json:"delivered"`
	// Answers counts finished requests by HTTP status, 0 for those without an answer.
	Answers map[int]int `json:"answers"`
	// RateLimited counts requests refused because they came too fast. Scripted refusals
	// are in Answers only.
	RateLimited int `json:"rateLimited"`
	// LargestSecond is the largest number of arrivals in any sliding second.
	LargestSecond int `json:"largestSecond"`
	// InFlight counts requests without an answer now, PeakInFlight at the worst
	// moment. Requests of an earlier round that are still open count in both.
	InFlight     int `json:"inFlight"`
	PeakInFlight int `json:"peakInFlight"`
	// Connections counts TCP connections opened, to any path.
	Connections int `json:"connections"`
	// TokenRequests counts the arrivals at /token, TokensIssued those that got one.
	TokenRequests int `json:"tokenRequests"`
	TokensIssued  int `json:"tokensIssued"`
	// LedgerDropped counts messages that the ledger no longer holds.
	LedgerDropped int `json:"ledgerDropped"`
}

// round is everything that a reset forgets. The simulator's mutex guards it.
type round struct {
	requests []*Request
	dropped  int
	second   slidingsecond.Count
	stats    Stats
	// played counts, by device, how often a limited scripted outcome was used.
	played map[string]int
}

func newRound(inFlight int) *round {
	return &round{stats: Stats{Answers: map[int]int{}, PeakInFlight: inFlight}, played: map[string]int{}}
}

// Stats returns the totals of this round.
func (s *Simulator) Stats() Stats {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	totals := s.round.stats
	totals.Answers = maps.Clone(totals.Answers)
	totals.LargestSecond = s.round.second.Largest()
	totals.InFlight = s.inFlight
	totals.LedgerDropped = s.round.dropped
	return totals
}

// Reset begins a new round: an empty ledger, zero statistics, and scripted outcomes from
// their beginning. Requests in flight are answered as decided, but appear only in the
// new round's concurrency. Access tokens stay valid.
func (s *Simulator) Reset() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.round = newRound(s.inFlight)
}
