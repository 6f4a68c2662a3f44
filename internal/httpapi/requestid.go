package httpapi

import (
	"crypto/rand"
	"net/http"
	"strconv"
	"sync/atomic"
)

// maxRequestID is the longest id taken from a client, in bytes.
const maxRequestID = 64

// requestIDs names requests: a random part drawn once and a counter, which is as
// unique as a UUID and costs a tenth of it.
type requestIDs struct {
	prefix string
	count  atomic.Uint64
}

func newRequestIDs() *requestIDs {
	return &requestIDs{prefix: rand.Text()[:12] + "-"}
}

// of is the client's X-Request-ID where that can be logged and echoed as it is,
// else an id of our own.
func (ids *requestIDs) of(r *http.Request) string {
	if given := r.Header["X-Request-Id"]; len(given) == 1 && saneRequestID(given[0]) {
		return given[0]
	}
	id := make([]byte, 0, 32)
	id = append(id, ids.prefix...)
	id = strconv.AppendUint(id, ids.count.Add(1), 36)
	return string(id)
}

// saneRequestID allows what needs no escaping in a header, in JSON and in a log.
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
