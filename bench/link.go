package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	_ "github.com/Shopify/toxiproxy/v2/toxics" // registers latency
	"github.com/rs/zerolog"
)

// startLink puts a slow network before an address and returns the address of
// its near end. The delay is added to each answer and takes no throughput.
func startLink(t *stage, address string, delay time.Duration) string {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy := toxiproxy.NewProxy(server, "redis", "127.0.0.1:0", address)
	t.check(proxy.Start())
	t.Cleanup(proxy.Stop)
	latency := fmt.Sprintf(`{"type":"latency","stream":"downstream","attributes":{"latency":%d}}`, delay.Milliseconds())
	_, err := proxy.Toxics.AddToxicJson(strings.NewReader(latency))
	t.check(err)
	return proxy.Listen
}
