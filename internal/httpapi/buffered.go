package httpapi

import (
	"bytes"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
)

// The limits of one [buffered] handler.
const (
	// maxRenderings bounds the concurrent calls of the handler.
	maxRenderings = 4
	// maxBuffered bounds the requests that wait for a call or whose result is being sent, maxBufferedPerAddress
	// those of one client. Each may hold a result until a write times out.
	maxBuffered           = 256
	maxBufferedPerAddress = 16
)

// buffered returns a handler that runs h into memory and sends the result afterwards. At most
// [maxRenderings] calls of h run at once. A client that reads slowly, or not at all, occupies none of those
// slots. Further requests wait for a slot as long as their client does; those beyond the limits are answered
// with 503 at once, and counted in shed.
func buffered(h http.Handler, shed prometheus.Counter) http.Handler {
	slots := make(chan struct{}, maxRenderings)
	all, clients := concurrency{limit: maxBuffered}, newClientCounter(maxBufferedPerAddress)
	refuse := func(w http.ResponseWriter) {
		shed.Inc()
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Connection", "close")
		http.Error(w, "too many requests are on their way; try again", http.StatusServiceUnavailable)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !all.enter() {
			refuse(w)
			return
		}
		defer all.leave()
		client := addressKey(r.RemoteAddr)
		if !clients.enter(client) {
			refuse(w)
			return
		}
		defer clients.leave(client)
		select {
		case slots <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		answer := bufferedResponse{header: w.Header(), status: http.StatusOK}
		func() {
			defer func() { <-slots }() // also if h panics
			h.ServeHTTP(&answer, r)
		}()
		w.WriteHeader(answer.status)
		_, _ = w.Write(answer.body.Bytes()) // the client may be gone
	})
}

// bufferedResponse is a response in memory.
type bufferedResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

var _ http.ResponseWriter = (*bufferedResponse)(nil)

// Header implements [http.ResponseWriter].
func (r *bufferedResponse) Header() http.Header { return r.header }

// WriteHeader implements [http.ResponseWriter].
func (r *bufferedResponse) WriteHeader(status int) { r.status = status }

// Write implements [http.ResponseWriter].
func (r *bufferedResponse) Write(p []byte) (int, error) { return r.body.Write(p) }
