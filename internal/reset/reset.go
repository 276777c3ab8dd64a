// Package reset breaks connections off, for servers that misbehave on purpose.
package reset

import (
	"net"
	"net/http"
)

// Connection resets the connection of a request (RST) without an answer. Where that is
// impossible, as on HTTP/2, net/http breaks it off in its own way.
func Connection(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = connection.Close()
}
