// Package loopback tells addresses of this host that no other host reaches.
package loopback

import (
	"net/netip"
	"strings"
)

// Is reports whether a host (no port, no brackets) is a loopback address or
// "localhost", in any case and with or without the dot at its end. Other names are
// not looked up.
func Is(host string) bool {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}
