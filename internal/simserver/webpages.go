package simserver

import (
	"net"
	"net/http"
	"net/netip"

	"pushq/internal/sameorigin"
)

// withoutWebPages answers 403 to what browsers ask for on behalf of pages of other sites,
// and, if only this host reaches the address, to requests under another name than this
// host's: that of a page which has been pointed here.
func withoutWebPages(handler http.Handler, listen net.Addr) http.Handler {
	address, err := netip.ParseAddrPort(listen.String())
	thisHostOnly := err == nil && address.Addr().IsLoopback()
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case thisHostOnly && !sameorigin.NamesThisHost(r):
			http.Error(w, "the address must begin with localhost, 127.0.0.1 or [::1]", http.StatusForbidden)
		case sameorigin.Check(protection, r) != nil:
			http.Error(w, "the request comes from a page of another site", http.StatusForbidden)
		default:
			handler.ServeHTTP(w, r)
		}
	})
}
