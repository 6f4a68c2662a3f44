// Package samesite refuses the requests that a page of another site can make a browser send to a server that asks for
// no token: it is then enough that the browser can reach the server.
//
//	DNS rebinding               The name of the page is made to resolve to this server, so that the browser
//	                            takes both for the same site. The Host header then has that name, so only
//	                            known names are accepted.
//	cross-site request forgery  A form or a fetch to this server. The browser shows that in
//	                            Sec-Fetch-Site or Origin, and such a request is refused if it could change
//	                            something.
//
// The address at which the connection arrived is a known name too: DNS has no part in a URL with an address.
package samesite

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// The reasons to refuse a request.
var (
	// ErrHost says that the Host header is not a name of this server.
	ErrHost = errors.New("samesite: the Host header is not a name of this server")
	// ErrForged says that a page of another site has sent a request that could change something.
	ErrForged = errors.New("samesite: a page of another site has sent this")
)

// Guard decides whether a request is refused. It is safe for use by several goroutines.
type Guard struct {
	names map[string]bool
	// forgery applies to methods other than GET, HEAD and OPTIONS. It accepts a request without either header, which
	// does not come from a browser.
	forgery http.CrossOriginProtection
}

// New returns a Guard that accepts the given host names and addresses, without ports, and those of the loopback
// interface.
func New(names ...string) *Guard {
	g := &Guard{names: map[string]bool{"localhost": true}}
	for _, name := range names {
		g.names[hostName(name)] = true
	}
	return g
}

// Check returns nil, [ErrHost] or [ErrForged].
func (g *Guard) Check(r *http.Request) error {
	if !g.serves(r) {
		return ErrHost
	}
	if g.forgery.Check(r) != nil {
		return ErrForged
	}
	return nil
}

// CheckRead is Check for a GET that costs something, on a listener that has any name. The name counts only if the
// connection arrived at a loopback address: only there the browser of the user reaches what others do not.
func (g *Guard) CheckRead(r *http.Request) error {
	if arrivedAt(r).IsLoopback() && !g.serves(r) {
		return ErrHost
	}
	asked := *r
	asked.Method = http.MethodPost // the protection lets every GET pass
	if g.forgery.Check(&asked) != nil {
		return ErrForged
	}
	return nil
}

// serves reports whether the Host header names this server. A request without the header does not come from a browser;
// a health check in HTTP/1.0 has none, and only reads. A browser resolves every name below localhost to this machine
// (RFC 6761).
func (g *Guard) serves(r *http.Request) bool {
	host := r.Host
	if host == "" {
		return r.Method == http.MethodGet || r.Method == http.MethodHead
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		addr = addr.WithZone("")
		return addr.IsLoopback() || addr.Unmap() == arrivedAt(r) || g.names[hostName(host)]
	}
	name := hostName(host)
	return g.names[name] || strings.HasSuffix(name, ".localhost")
}

// arrivedAt returns the address of this server that the client connected to.
func arrivedAt(r *http.Request) netip.Addr {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if local == nil {
		return netip.Addr{}
	}
	return local.AddrPort().Addr().Unmap()
}

// hostName normalizes a host name or an address for comparison.
func hostName(name string) string {
	if addr, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return addr.Unmap().String()
	}
	return strings.ToLower(strings.TrimSuffix(name, "."))
}
