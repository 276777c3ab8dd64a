package testenv

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
)

// StartRawHTTP listens, reads requests as they come, and lets answer write what it
// likes to the connection; false from it closes the connection.
func StartRawHTTP(t testing.TB, answer func(connection net.Conn, request *http.Request, body string) bool) (base string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	serve := func(connection net.Conn) {
		defer connection.Close()
		reader := bufio.NewReader(connection)
		for {
			request, err := http.ReadRequest(reader)
			if err != nil {
				return
			}
			body, err := io.ReadAll(request.Body)
			if err != nil || !answer(connection, request, string(body)) {
				return
			}
		}
	}
	running.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { serve(connection) })
		}
	})
	return "http://" + listener.Addr().String()
}
