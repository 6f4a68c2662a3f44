package httpserver

import (
	"bytes"
	"net/http"
)

// maxRenderings bounds the concurrent calls of one [Buffered] handler.
const maxRenderings = 4

// Buffered returns a handler that runs h into memory and sends the result afterwards. At most maxRenderings calls of h
// run at once. A client that reads slowly, or not at all, occupies none of those slots. Further requests wait for a
// slot as long as their client does. Those beyond the bounds are answered with 503 at once: each that waits, or whose
// result is being sent, may hold a result until a write times out.
func Buffered(h http.Handler, bounds *Limiter) http.Handler {
	slots := make(chan struct{}, maxRenderings)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client := ClientAt(r.RemoteAddr)
		if bounds.Enter(client) != nil {
			w.Header().Set("Retry-After", "1")
			w.Header().Set("Connection", "close")
			http.Error(w, "too many requests are on their way; try again", http.StatusServiceUnavailable)
			return
		}
		defer bounds.Leave(client)
		select {
		case slots <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		answer := Recorder{header: w.Header(), Status: http.StatusOK}
		func() {
			defer func() { <-slots }() // also if h panics
			h.ServeHTTP(&answer, r)
		}()
		w.WriteHeader(answer.Status)
		_, _ = w.Write(answer.Body.Bytes()) // the client may be gone
	})
}

// Recorder is a response in memory.
type Recorder struct {
	Status int
	Body   bytes.Buffer
	header http.Header
}

// NewRecorder returns an empty response.
func NewRecorder() *Recorder { return &Recorder{Status: http.StatusOK, header: http.Header{}} }

var _ http.ResponseWriter = (*Recorder)(nil)

// Header implements [http.ResponseWriter].
func (r *Recorder) Header() http.Header { return r.header }

// WriteHeader implements [http.ResponseWriter].
func (r *Recorder) WriteHeader(status int) { r.Status = status }

// Write implements [http.ResponseWriter].
func (r *Recorder) Write(p []byte) (int, error) { return r.Body.Write(p) }
