package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// dialReluctantly opens a connection that takes little, and writes a request.
func (s *testService) dialReluctantly(request string) net.Conn {
	s.t.Helper()
	connection, err := net.Dial("tcp", s.address)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = connection.Close() })
	require.NoError(s.t, connection.(*net.TCPConn).SetReadBuffer(16<<10))
	require.NoError(s.t, connection.SetDeadline(time.Now().Add(5*time.Minute)))
	_, err = io.WriteString(connection, request)
	require.NoError(s.t, err)
	return connection
}

// startNarrow serves connections that buffer next to nothing. A busy machine is slow:
// whoever reaches Redis has a minute, and whoever finds no slot is refused after a second.
func startNarrow(t *testing.T) *testService {
	t.Helper()
	s := prepareService(t)
	s.narrow = true
	s.options.RedisTimeout = time.Minute
	s.start()
	s.server.transferGrace = time.Minute
	s.server.batches.patience, s.server.lists.patience = time.Second, time.Second
	return s
}

// bigAnswer is a batch of one push that is accepted, with an answer of 400 KB, more than what
// a narrow connection buffers: it repeats the names of the others.
func bigAnswer(header ...string) string {
	body := "[" + strings.Repeat(`{"`+strings.Repeat("x", 2000)+`":1},`, 200) + push() + "]"
	return fmt.Sprintf("POST /push/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
		len(body), strings.Join(header, "\r\n"), body)
}

// The memory for a batch is needed until its answer is taken, so others wait until then.
func TestUnreadAnswersOfBatchesKeepTheirSlots(t *testing.T) {
	t.Parallel()
	s := startNarrow(t)
	var unread []net.Conn
	for range maxBatches {
		unread = append(unread, s.dialReluctantly(bigAnswer()))
	}
	testenv.Eventually(t, time.Minute, "all batches to be accepted", func() bool { return s.queued() == maxBatches })
	got := s.postBatch(jsonType, array(push()))
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Len(t, s.server.batches.all, maxBatches)

	response, err := http.ReadResponse(bufio.NewReader(unread[0]), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Len(t, s.items(answer{status: response.StatusCode, header: response.Header, body: string(body)}), 201, "who reads late gets all of it")
	require.Len(t, s.items(s.postBatch(jsonType, array(push()))), 1, "a slot is free")
}

// Who does not take the answer is cut off.
func TestUnreadAnswersAreCutOff(t *testing.T) {
	t.Parallel()
	s := startNarrow(t)
	s.server.transferGrace = 3 * time.Second
	var unread []net.Conn
	for range maxBatches {
		unread = append(unread, s.dialReluctantly(bigAnswer()))
	}
	testenv.Eventually(t, time.Minute, "all batches to be accepted", func() bool { return s.queued() == maxBatches })
	testenv.Eventually(t, 30*time.Second, "all slots to be free", func() bool { return len(s.server.batches.all) == 0 })
	response, err := http.ReadResponse(bufio.NewReader(unread[0]), nil)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
	}
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "the answer is not whole")
	require.Len(t, s.items(s.postBatch(jsonType, array(push()))), 1)
}

// Who has announced a batch and sends next to nothing of it keeps no slot.
func TestIdleUploadsHoldUpNoBatch(t *testing.T) {
	t.Parallel()
	s := startService(t)
	started := make([]net.Conn, 3*maxBatches)
	for place := range started {
		started[place] = s.dial()
		_, err := io.WriteString(started[place], "POST /push/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n[")
		require.NoError(t, err)
	}
	for range 5 {
		require.Len(t, s.items(s.postBatch(jsonType, array(push()))), 1)
	}
	require.Empty(t, s.server.batches.all)
}

// Of several keys none can take all slots.
func TestEachKeyHasItsShareOfTheSlots(t *testing.T) {
	t.Parallel()
	s := prepareService(t)
	s.options.APIKeys = map[string]string{"shop": shopKey, "bank": bankKey}
	s.readTimeout = time.Minute
	s.start()
	s.server.transferGrace = time.Minute
	for range 2 * maxBatches {
		half := "POST /push/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer " + shopKey +
			"\r\nContent-Length: 1000000\r\n\r\n[" + strings.Repeat(" ", 2*firstPiece)
		_, err := io.WriteString(s.dial(), half)
		require.NoError(t, err)
	}
	testenv.Eventually(t, 10*time.Second, "half of the slots to be taken", func() bool { return len(s.server.batches.all) == maxBatches/2 })
	got := s.postBatch(jsonType, array(push()), "Authorization", "Bearer "+shopKey)
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Contains(t, got.problem.Detail, "4 batches of this key are under way here already")
	require.Len(t, s.items(s.postBatch(jsonType, array(push()), "Authorization", "Bearer "+bankKey)), 1)
	require.Len(t, s.server.batches.all, maxBatches/2)
}

func TestSharesOfSlots(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		keys   map[string]string
		caller string
		want   int
	}{
		"no keys":  {nil, "", 8},
		"one key":  {map[string]string{"a": "1"}, "a", 8},
		"two keys": {map[string]string{"a": "1", "b": "2"}, "a", 4},
	} {
		s := newSlots("batches", 8, test.keys, time.Second)
		require.Equal(t, test.want, cap(s.shares[test.caller]), name)
	}
}

// Pages of pushes can be as large as batches.
func TestUnreadListsKeepTheirSlots(t *testing.T) {
	t.Parallel()
	s := startNarrow(t)
	item := push("message", `"`+strings.Repeat("m", 10_000)+`"`)
	const items = 40
	testenv.Eventually(t, time.Minute, "a long list", func() bool { // a busy Redis may not take all of them
		missing := items - s.queued()
		if missing > 0 {
			s.postBatch(jsonType, repeated(item, missing))
		}
		return missing <= 0
	})
	const request = "GET /push?status=PENDING&limit=200 HTTP/1.1\r\nHost: localhost\r\n\r\n"
	var unread []net.Conn
	for range maxLists {
		unread = append(unread, s.dialReluctantly(request))
	}
	for _, connection := range unread { // their answers have begun, and stay in the way
		_, err := io.ReadFull(connection, make([]byte, len("HTTP/1.1 200 OK")))
		require.NoError(t, err)
	}
	require.Len(t, s.server.lists.all, maxLists)
	got := s.get("/push?status=PENDING")
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Contains(t, got.problem.Detail, "16 lists of pushes are under way here already")
	for _, connection := range unread {
		require.NoError(t, connection.Close())
	}
	testenv.Eventually(t, time.Minute, "all slots to be free", func() bool { return len(s.server.lists.all) == 0 })
	require.Equal(t, http.StatusOK, s.get("/push?status=SENT").status)
}

func TestDeadlineOfATransfer(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		bytes   int64
		elapsed time.Duration
		want    time.Duration
	}{
		"at its beginning":          {0, 0, 10 * time.Second},
		"nothing has come":          {0, 9 * time.Second, 10 * time.Second},
		"as slow as may be":         {100 * leastRate, 100 * time.Second, 110 * time.Second},
		"slower":                    {99 * leastRate, 100 * time.Second, 109 * time.Second},
		"faster":                    {1000 * leastRate, 100 * time.Second, 110 * time.Second},
		"all of the largest batch":  {256 << 20, 1024 * time.Second, 1034 * time.Second},
		"behind, and then too late": {leastRate, 30 * time.Second, 11 * time.Second},
	} {
		one := transfer{grace: transferGrace, started: start, bytes: test.bytes}
		require.Equal(t, test.want, one.deadline(start.Add(test.elapsed)).Sub(start), name)
	}
}
