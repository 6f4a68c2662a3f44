package httpapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits of a server. The time to read a request is short. The time to answer it is bounded by the deadline
// of the request. The time for the client to read the answer is bounded for each write, by the [listener].
const (
	// readTimeout bounds header and body together. net/http lifts it once the body was read, so that it
	// does not interrupt the work. A shorter timeout for the header alone would be one more timer per
	// request.
	readTimeout    = 10 * time.Second
	maxHeaderBytes = 16 << 10
)

// DefaultIdleTimeout is how long a connection without a request stays open.
const DefaultIdleTimeout = 2 * time.Minute

// NewServer returns a server for a handler of this package. It has all limits except that of writes, and
// logs its own errors.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           tellBody(h),
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       DefaultIdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       noticeable,
		ConnState:         tellEnd,

		DisableGeneralOptionsHandler: true, // see tellBody
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// Server serves the API on one listener and stops without failing a request.
type Server struct {
	api      *API
	http     *http.Server
	listener *listener
}

// Server returns a server for one of the API's handlers, or for a handler that wraps one. The server owns
// the listener.
func (a *API) Server(h http.Handler, l net.Listener) *Server {
	s := NewServer(a.closeAfterReply(h), a.deps.Log)
	s.IdleTimeout = cmp.Or(a.cfg.IdleTimeout, DefaultIdleTimeout)
	s.BaseContext = func(net.Listener) context.Context { return a.work }
	return &Server{api: a, http: s, listener: newListener(l)}
}

// Serve serves until Stop. It then returns nil.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Stop accepts no more connections and waits for the running requests. When ctx ends, the contexts of the
// requests that still run are cancelled, and they are answered with unavailable. The connections that are
// still open answerTimeout after that are closed. Stop returns the error of ctx if that cut off a request
// of the API.
func (s *Server) Stop(ctx context.Context) error {
	defer context.AfterFunc(ctx, s.api.cancelWork)()
	s.listener.shortenDeadlines()
	closing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(answerTimeout, cancel) })()
	if s.http.Shutdown(closing) == nil {
		return nil
	}
	running := s.api.metrics.inFlight.Load()
	_ = s.http.Close() // closes the connections even if it returns an error
	if running > 0 {
		return context.Cause(ctx)
	}
	return nil
}

// answerTimeout is how long requests may take to answer after their contexts were cancelled. What was sent already
// goes on: a commit with its wait for the row (8 s while the database hangs), then the query for the outcome of the
// order (2 s), then the release of the lock (3 s).
const answerTimeout = 14 * time.Second

// closeAfterReply makes every connection close after its next answer once [API.Drain] was called.
func (a *API) closeAfterReply(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.health.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}
