package swrvesim

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLedgerKeepsTheLatest(t *testing.T) {
	t.Parallel()
	simulator := New(Config{LedgerSize: 3})
	for i := range 8 {
		record(simulator, fmt.Sprintf("user%d", i+1))
	}
	ledger := simulator.Ledger()
	require.Len(t, ledger, 3)
	for i, request := range ledger {
		require.Equal(t, 6+i, request.Sequence)
		require.Equal(t, fmt.Sprintf("user%d", 6+i), request.User)
	}
	recorder := httptest.NewRecorder()
	simulator.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/ledger", nil))
	require.Contains(t, recorder.Body.String(), `{"dropped":5,"requests":[`)

	stats := simulator.Stats()
	require.Equal(t, 5, stats.LedgerDropped)
	require.Equal(t, 8, stats.Requests)
	require.Equal(t, 8, stats.Delivered)
}

func TestLedgerIsCopiedInParts(t *testing.T) {
	t.Parallel()
	ledger := ledger{size: 2 * ledgerPart}
	for i := range 3 * ledgerPart {
		ledger.add(&Request{Sequence: i + 1})
	}
	for _, test := range []struct{ next, last, from, to int }{
		{1, 3 * ledgerPart, ledgerPart + 1, 2 * ledgerPart}, // the first part was dropped
		{2*ledgerPart + 1, 3 * ledgerPart, 2*ledgerPart + 1, 3 * ledgerPart},
		{ledgerPart + 5, ledgerPart + 7, ledgerPart + 5, ledgerPart + 7},
	} {
		part := ledger.copyPart(test.next, test.last)
		require.Len(t, part, test.to-test.from+1)
		require.Equal(t, test.from, part[0].Sequence)
		require.Equal(t, test.to, part[len(part)-1].Sequence)
	}
	require.Empty(t, ledger.copyPart(1, ledgerPart), "all dropped meanwhile")
	require.Empty(t, ledger.copyPart(3*ledgerPart+1, 3*ledgerPart))
}

func TestLedgerOfManyParts(t *testing.T) {
	t.Parallel()
	simulator := New(Config{})
	for range 2*ledgerPart + 1 {
		simulator.arrive()
	}
	ledger := simulator.Ledger()
	require.Len(t, ledger, 2*ledgerPart+1)
	for i, request := range ledger {
		require.Equal(t, i+1, request.Sequence)
	}
}

func TestLedgerIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	ledger := ledger{size: 10}
	large := fields{message: strings.Repeat("x", ledgerTextLimit/4), user: "ann"}
	var requests []*Request
	for i := range 5 {
		requests = append(requests, &Request{Sequence: i + 1})
		ledger.add(requests[i])
	}
	for _, request := range requests[1:] {
		ledger.describe(request, large)
	}
	require.Equal(t, 2, ledger.dropped, "three large ones fit, the oldest two had to go")
	require.Len(t, ledger.copyPart(1, 5), 3)

	ledger.describe(requests[0], large)
	require.Equal(t, 2, ledger.dropped, "a dropped request takes no room")
	require.Equal(t, 3*(ledgerTextLimit/4+3), ledger.textBytes)
}
