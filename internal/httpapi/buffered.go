package httpapi

import (
	"bytes"
	"net/http"
)

// maxRenderings bounds the concurrent calls of one [buffered] handler.
const maxRenderings = 4

// buffered returns a handler that runs h into memory and sends the result afterwards. At most
// [maxRenderings] calls of h run at once. A client that reads slowly, or not at all, occupies none of those
// slots. Further requests wait for a slot as long as their client does.
func buffered(h http.Handler) http.Handler {
	slots := make(chan struct{}, maxRenderings)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
