package faults

import (
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	_ "github.com/Shopify/toxiproxy/v2/toxics" // registers them
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// startToxiproxy puts a network that can be disturbed before an address
// (host:port). Its own address stays the same over Stop and Start.
func startToxiproxy(t *testing.T, address string) *toxiproxy.Proxy {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy := toxiproxy.NewProxy(server, t.Name(), testenv.FreeAddress(t), address)
	require.NoError(t, proxy.Start())
	t.Cleanup(proxy.Stop)
	return proxy
}
