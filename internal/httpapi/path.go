package httpapi

import (
	"context"
	"strings"
)

// inSegments returns errNoRoute for a request whose path matches the route only because gin took an encoded slash (%2F)
// for a separator. gin matches the decoded path, but an encoded slash belongs to its segment (RFC 3986 §2.2), and no
// segment of a route contains one. A catch-all, a lock's key, may contain it.
func (rt route) inSegments(h handler) handler {
	return func(ctx context.Context, r *request) (reply, error) {
		if r.URL.RawPath != "" && rt.splitsSegment(r.URL.RawPath) {
			return reply{}, errNoRoute
		}
		return h(ctx, r)
	}
}

// splitsSegment reports whether an encoded path has an encoded slash before the part that a catch-all of the route
// matches.
func (rt route) splitsSegment(raw string) bool {
	for wanted := range strings.SplitSeq(rt.path, "/") {
		if strings.HasPrefix(wanted, "*") {
			return false
		}
		var segment string
		segment, raw, _ = strings.Cut(raw, "/")
		if strings.Contains(strings.ToLower(segment), "%2f") {
			return true
		}
	}
	return false
}
