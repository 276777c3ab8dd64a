// Package simserver serves a simulator over HTTP, and ends with every request that it has.
package simserver

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Server is the HTTP server of one simulator. Its methods may be called concurrently.
type Server struct {
	name string // in errors and logs
	// stopped is closed by Close.
	stopped chan struct{}
	// running counts requests, the goroutine of Start, and those of Go.
	running sync.WaitGroup

	mutex  sync.Mutex
	closed bool
	server *http.Server
}

// New returns a server that serves nothing yet. Requests that the simulator gets without
// Start count too.
func New(name string) *Server { return &Server{name: name, stopped: make(chan struct{})} }

// Start listens on a TCP address such as "127.0.0.1:0" and serves until Close. It returns
// the base URL, for example "http://127.0.0.1:39157". connected is called for every
// connection, if it is not nil. A server can be started once.
//
// A simulator asks nobody for a key, and its ledger has what users were sent, so it keeps
// web pages away as pushq does without keys.
func (s *Server) Start(listen string, handler http.Handler, connected func()) (string, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closed {
		return "", fmt.Errorf("start the %s: it is closed", s.name)
	}
	if s.server != nil {
		return "", fmt.Errorf("start the %s: it is started already", s.name)
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return "", fmt.Errorf("start the %s: %w", s.name, err)
	}
	s.server = &http.Server{
		Handler: withoutWebPages(handler, listener.Addr()),
		// No ReadTimeout and WriteTimeout: they would end hanging and slow requests.
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew && connected != nil {
				connected()
			}
		},
	}
	server := s.server
	s.running.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			slog.Error(s.name+" stopped serving", slog.Any("error", err))
		}
	})
	return "http://" + listener.Addr().String(), nil
}

// Close stops listening, breaks off every request that has no answer yet, and returns when
// all of them and the server have ended. Closing twice is harmless.
func (s *Server) Close() error {
	s.mutex.Lock()
	if !s.closed {
		s.closed = true
		close(s.stopped)
	}
	server := s.server
	s.mutex.Unlock()

	var err error
	if server != nil {
		err = server.Close()
	}
	s.running.Wait()
	if err != nil {
		return fmt.Errorf("close the %s: %w", s.name, err)
	}
	return nil
}

// Go runs a task that has to end when stopped is closed. After Close it does nothing.
func (s *Server) Go(task func(stopped <-chan struct{})) {
	if !s.Enter() {
		return
	}
	go func() {
		defer s.Leave()
		task(s.stopped)
	}()
}

// Enter keeps Close waiting for a request, until Leave. It is false after Close.
func (s *Server) Enter() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.closed {
		s.running.Add(1)
	}
	return !s.closed
}

// Leave is the end of a request that has entered.
func (s *Server) Leave() { s.running.Done() }

// Healthy answers as pushq does, for health checks.
func Healthy(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ready") }

// Wait returns true when it is due, never if due is nil, and false when nobody waits for an
// answer any more.
func (s *Server) Wait(r *http.Request, due <-chan time.Time) bool {
	select {
	case <-due:
		return true
	case <-r.Context().Done():
		return false
	case <-s.stopped:
		return false
	}
}
