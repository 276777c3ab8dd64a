package testenv

import (
	"bytes"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Proxy stands between clients and a Redis and makes the network between them
// slow, silent, closed, or forgetful of replies. It understands the Redis
// protocol (RESP 2 and 3, without TLS) and passes on whole requests and whole
// replies, in order. All methods are safe for concurrent use and take effect at
// once on open connections too.
type Proxy struct {
	t       testing.TB
	address string
	running sync.WaitGroup

	mutex       sync.Mutex
	target      string
	reworded    map[string]string
	listener    *net.TCPListener // nil while refusing
	connections map[*proxyConnection]struct{}
	oneWay      time.Duration
	passage     chan struct{}       // closed while bytes may pass
	cuttings    map[string]*cutting // by marker
	cut         int
}

// NewProxy starts a proxy on a free loopback port in front of target
// (host:port), which need not be up: while it is not, a connection is accepted
// and then closed. The proxy is closed when the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{
		t:           t,
		address:     FreeAddress(t),
		target:      target,
		reworded:    map[string]string{},
		connections: map[*proxyConnection]struct{}{},
		passage:     make(chan struct{}),
		cuttings:    map[string]*cutting{},
	}
	close(p.passage)
	p.Refuse(false)
	t.Cleanup(func() {
		p.Refuse(true)
		p.running.Wait()
	})
	return p
}

// Addr returns the address of the proxy, 127.0.0.1:port.
func (p *Proxy) Addr() string { return p.address }

// URL returns the address of the proxy as a redis:// URL for database 0.
func (p *Proxy) URL() string { return "redis://" + p.address + "/0" }

// CutReplyTo loses the replies to the next `times` requests that have the
// marker among their strings, compared exactly: a command's name as the client
// writes it (go-redis: lower case), the SHA1 of a script, a key. The request is
// executed; when its reply arrives, the replies before it are delivered, and
// then the connection is closed in both directions. Requests that came behind it
// on that connection may be executed or not; their replies are lost too.
//
// A later call with the same marker replaces an earlier one; 0 ends it.
// Requests already on their way are not affected.
//
// NOSCRIPT is passed on and not counted, because the script was not executed.
// The EVAL that a client sends then does not have the SHA1, so load a script
// before its reply is to be cut. In a transaction mark "exec": the others are
// answered QUEUED. Replies are told apart by counting them, which does not work
// on connections that subscribe.
func (p *Proxy) CutReplyTo(marker string, times int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.cuttings[marker] = &cutting{left: times}
}

// Cut returns how many replies were lost so far. A reply is counted before the
// client's connection is closed.
func (p *Proxy) Cut() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.cut
}

// SetLatency adds d to the round trip of everything that is sent from now on,
// half of it in each direction, up to about a millisecond more each way (the
// precision of Go's timers). Throughput is not limited: any number of
// requests are under way at once. Connecting is not delayed.
func (p *Proxy) SetLatency(d time.Duration) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.oneWay = d / 2
}

// LeadTo makes new connections lead to another target. Those that are open stay
// where they are, as with an address that moves on a failover.
func (p *Proxy) LeadTo(target string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.target = target
}

// Reword puts another text in the place of errors that begin with code, such as
// READONLY, as some proxies do.
func (p *Proxy) Reword(code, text string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.reworded[code] = text
}

// Refuse closes all connections and refuses new ones, or (false) accepts them
// again.
func (p *Proxy) Refuse(refuse bool) {
	if !refuse {
		p.listen()
		return
	}
	for _, connection := range p.stopListening() {
		connection.abandon()
	}
}

// Blackhole makes the network silent: connections stay open and new ones are
// accepted, but nothing passes in either direction, not even the end of a
// connection. What is sent meanwhile arrives after Blackhole(false), as after a
// broken link was mended.
func (p *Proxy) Blackhole(silent bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	select {
	case <-p.passage:
		if silent {
			p.passage = make(chan struct{})
		}
	default:
		if !silent {
			close(p.passage)
		}
	}
}

func (p *Proxy) listen() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.listener != nil {
		return
	}
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		p.t.Errorf("proxy: %v", err)
		return
	}
	p.listener = listener.(*net.TCPListener)
	p.running.Go(func() { p.accept(listener.(*net.TCPListener)) })
}

// stopListening returns the connections that are open; none is added after it.
func (p *Proxy) stopListening() []*proxyConnection {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.listener != nil {
		closeListener(p.listener)
		p.listener = nil
	}
	return slices.Collect(maps.Keys(p.connections))
}

// closeListener closes the listener for good. Closing alone leaves it listening
// for a moment in a process that is being started just then and has a copy of
// every descriptor until its program is loaded.
func closeListener(listener *net.TCPListener) {
	if socket, err := listener.SyscallConn(); err == nil {
		_ = socket.Control(func(descriptor uintptr) { _ = syscall.Shutdown(int(descriptor), syscall.SHUT_RD) })
	}
	_ = listener.Close()
}

func (p *Proxy) accept(listener *net.TCPListener) {
	for {
		client, err := listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of file descriptors, perhaps for a moment.
			time.Sleep(5 * time.Millisecond)
			continue
		}
		if connection := p.add(listener, client); connection != nil {
			p.running.Go(connection.run)
		}
	}
}

// add registers a connection, unless the proxy has begun to refuse meanwhile.
func (p *Proxy) add(listener *net.TCPListener, client *net.TCPConn) *proxyConnection {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.listener != listener {
		_ = client.Close()
		return nil
	}
	connection := &proxyConnection{proxy: p, client: client, abandoned: make(chan struct{})}
	p.connections[connection] = struct{}{}
	return connection
}

func (p *Proxy) remove(connection *proxyConnection) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.connections, connection)
}

// arrival is when something that is sent now gets to the other side.
func (p *Proxy) arrival() time.Time {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return time.Now().Add(p.oneWay)
}

func (p *Proxy) currentPassage() <-chan struct{} {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.passage
}

func (p *Proxy) currentTarget() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.target
}

// worded is the reply as it is passed on.
func (p *Proxy) worded(reply []byte) []byte {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for code, text := range p.reworded {
		if bytes.HasPrefix(reply, []byte("-"+code)) {
			return []byte("-" + text + "\r\n")
		}
	}
	return reply
}

// cutting is what CutReplyTo asked for one marker.
type cutting struct {
	left int // requests whose replies are still to be cut
}

// takeCutting returns the cutting that the request falls under and counts it
// off; nil if the reply is to be delivered.
func (p *Proxy) takeCutting(request []byte) *cutting {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for marker, cutting := range p.cuttings {
		if cutting.left > 0 && hasBulkString(request, marker) {
			cutting.left--
			return cutting
		}
	}
	return nil
}

// takeBack counts a request on again, because its reply was not cut.
func (p *Proxy) takeBack(cutting *cutting) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	cutting.left++
}

func (p *Proxy) countCut() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.cut++
}
