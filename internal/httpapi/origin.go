package httpapi

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// errCrossSite says that a page of another site may have made the user's browser send the request.
var errCrossSite = errors.New("httpapi: foreign request")

// sameSite refuses, in lab mode, the requests that a page of another site can make a browser send. Outside
// lab mode every call that matters needs a token, which such a page does not have. In lab mode it is enough
// that the browser can reach the server.
//
//	DNS rebinding               The name of the page is made to resolve to this server, so that the browser
//	                            takes both for the same site. The Host header then has that name, so only
//	                            known names are accepted.
//	cross-site request forgery  A form or a fetch to this server. The browser shows that in
//	                            Sec-Fetch-Site or Origin, and such a request is refused if it could change
//	                            something.
//
// The address at which the connection arrived is a known name too: DNS has no part in a URL with an
// address.
type sameSite struct {
	names map[string]bool
	// forgery applies to methods other than GET, HEAD and OPTIONS. It accepts a request without either
	// header, which does not come from a browser.
	forgery http.CrossOriginProtection
}

// newSameSite accepts the given names and those of the loopback interface.
func newSameSite(names []string) *sameSite {
	s := &sameSite{names: map[string]bool{"localhost": true}}
	for _, name := range names {
		s.names[hostName(name)] = true
	}
	return s
}

// check returns nil or an [errCrossSite].
func (s *sameSite) check(r *http.Request) error {
	if !s.serves(r) {
		return fmt.Errorf("%w: Host is %q; in lab mode it is a loopback name or address, or one that SECKILL_LAB_HOSTS has", errCrossSite, clip(r.Host))
	}
	if err := s.forgery.Check(r); err != nil {
		return fmt.Errorf("%w: a page of another site has sent this; in lab mode such a request changes nothing", errCrossSite)
	}
	return nil
}

// serves reports whether the Host header names this server.
func (s *sameSite) serves(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return addr.IsLoopback() || addr.Unmap() == arrivedAt(r) || s.names[addr.String()]
	}
	return s.names[hostName(host)]
}

// arrivedAt returns the address of this server that the client connected to.
func arrivedAt(r *http.Request) netip.Addr {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if local == nil {
		return netip.Addr{}
	}
	return local.AddrPort().Addr().Unmap()
}

// hostName normalizes a host name for comparison.
func hostName(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// requireSameSite refuses cross-site requests in front of a handler that does not go through adapt.
func (a *API) requireSameSite(next http.Handler) http.Handler {
	if a.site == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := a.site.check(r)
		if err == nil {
			next.ServeHTTP(w, r)
			return
		}
		out := a.renderError(&request{Request: r, id: a.ids.of(r)}, err)
		w.Header()["Content-Type"] = out.contentType
		w.WriteHeader(out.status)
		_, _ = w.Write(out.body) // the client may be gone
	})
}
