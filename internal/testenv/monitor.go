package testenv

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// CountCommands counts the commands that clients send to a Redis (host:port)
// from now on, with its own MONITOR. What a script calls is not counted: it costs
// no round trip.
func CountCommands(t testing.TB, address string) *atomic.Int64 {
	t.Helper()
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatalf("connect to count commands: %v", err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	lines := bufio.NewReader(connection)
	if _, err := fmt.Fprint(connection, "MONITOR\r\n"); err != nil {
		t.Fatalf("monitor redis: %v", err)
	}
	if answer, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(answer, "+OK") {
		t.Fatalf("monitor redis: %q %v", answer, err)
	}
	count := new(atomic.Int64)
	go func() { // ends with the connection
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			// +1700000000.123456 [0 127.0.0.1:50000] "evalsha" …, or [0 lua]
			if _, client, found := strings.Cut(line, "["); found && !strings.HasPrefix(client, "0 lua]") {
				count.Add(1)
			}
		}
	}()
	return count
}
