package testenv

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// proxyConnection is one client's connection through a [Proxy]. The end of
// either side travels to the other like bytes do, after what was sent before.
type proxyConnection struct {
	proxy     *Proxy
	abandoned chan struct{}

	mutex    sync.Mutex
	client   *net.TCPConn
	server   *net.TCPConn // nil until connected
	requests int          // read from the client so far
	cutting  *cutting     // set while a reply is to be cut:
	cutAt    int          // the one to this request, counted from 0
}

// run passes bytes on until both directions have ended.
func (c *proxyConnection) run() {
	defer c.proxy.remove(c)
	defer c.client.Close()
	select {
	case <-c.proxy.currentPassage():
	case <-c.abandoned:
		return
	}
	if !c.connect() {
		return
	}
	defer c.server.Close()
	defer c.takeBackCutting()

	toServer, toClient := newDelayLine(), newDelayLine()
	var running sync.WaitGroup
	running.Go(func() { c.readRequests(toServer) })
	running.Go(func() { c.readReplies(toClient) })
	running.Go(func() {
		if toServer.deliver(c.server, c.proxy.currentPassage, c.abandoned) {
			_ = c.server.CloseWrite()
		}
	})
	running.Go(func() {
		toClient.deliver(c.client, c.proxy.currentPassage, c.abandoned)
		_ = c.client.Close()
	})
	running.Wait()
}

func (c *proxyConnection) connect() bool {
	server, err := net.DialTimeout("tcp", c.proxy.currentTarget(), time.Second)
	if err != nil {
		return false
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	select {
	case <-c.abandoned:
		_ = server.Close()
		return false
	default:
		c.server = server.(*net.TCPConn)
		return true
	}
}

// abandon closes both sides at once.
func (c *proxyConnection) abandon() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	select {
	case <-c.abandoned:
		return
	default:
	}
	close(c.abandoned)
	_ = c.client.Close()
	if c.server != nil {
		_ = c.server.Close()
	}
}

func (c *proxyConnection) readRequests(toServer *delayLine) {
	reader := bufio.NewReader(c.client)
	for {
		request, err := readValue(reader)
		if err != nil {
			toServer.finish(c.proxy.arrival())
			return
		}
		c.noteRequest(request)
		toServer.put(request, c.proxy.arrival())
	}
}

func (c *proxyConnection) readReplies(toClient *delayLine) {
	reader := bufio.NewReader(c.server)
	for replies := 0; ; {
		reply, err := readValue(reader)
		if err != nil {
			toClient.finish(c.proxy.arrival())
			return
		}
		if !isPush(reply) {
			if c.isToBeCut(replies, reply) {
				c.proxy.countCut()
				toClient.finish(c.proxy.arrival())
				return
			}
			replies++
		}
		toClient.put(c.proxy.worded(reply), c.proxy.arrival())
	}
}

// noteRequest is called before the request is passed on, so that its reply
// finds the mark.
func (c *proxyConnection) noteRequest(request []byte) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.cutting == nil {
		c.cutting = c.proxy.takeCutting(request)
		c.cutAt = c.requests
	}
	c.requests++
}

// isToBeCut tells whether to cut the reply with the given number.
func (c *proxyConnection) isToBeCut(number int, reply []byte) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.cutting == nil || number != c.cutAt {
		return false
	}
	notExecuted := isUnknownScript(reply)
	if notExecuted {
		c.proxy.takeBack(c.cutting)
	}
	c.cutting = nil
	return !notExecuted
}

// takeBackCutting is for a connection that ends before the reply came.
func (c *proxyConnection) takeBackCutting() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.cutting != nil {
		c.proxy.takeBack(c.cutting)
		c.cutting = nil
	}
}
