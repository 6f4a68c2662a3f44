package httpserver

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// readTimeout bounds header and body together. net/http lifts it once the body was read, so that it does not
	// interrupt the work. A shorter timeout for the header alone would be one more timer per request.
	readTimeout    = 10 * time.Second
	maxHeaderBytes = 16 << 10
)

// DefaultIdleTimeout is how long a connection without a request stays open.
const DefaultIdleTimeout = 2 * time.Minute

// ErrStopping is the cause with which the context of a request ends that [Server.Stop] cuts off.
var ErrStopping = errors.New("httpserver: the server is stopping")

// Config configures a [Server]. All but Log is optional.
type Config struct {
	Log *slog.Logger
	// IdleTimeout is how long a connection without a request stays open; 0 means [DefaultIdleTimeout].
	IdleTimeout time.Duration
	// Connections bounds the open connections. Those from loopback have no bound for each client.
	Connections *Limiter
	// Refusal is the HTTP response to a connection beyond these bounds.
	Refusal string
	// AnswerTimeout is how long requests may take to answer after [Server.Stop] has cut them off.
	AnswerTimeout time.Duration
}

// Server serves on one listener and stops without failing a request.
type Server struct {
	handler       http.Handler
	http          http.Server
	listener      *listener
	answerTimeout time.Duration
	cutOff        context.CancelCauseFunc
	draining      atomic.Bool
	running       atomic.Int64 // handlers
}

// New returns a server for a handler. It owns the listener. The handler bounds the time of its work, see [Deadline].
func New(cfg Config, h http.Handler, l net.Listener) *Server {
	work, cutOff := context.WithCancelCause(context.Background())
	s := &Server{handler: h, listener: newListener(l, cfg), answerTimeout: cfg.AnswerTimeout, cutOff: cutOff}
	s.http = http.Server{
		Handler:           http.HandlerFunc(s.serveHTTP),
		BaseContext:       func(net.Listener) context.Context { return work },
		ConnContext:       connContext,
		ConnState:         connState,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       cmp.Or(cfg.IdleTimeout, DefaultIdleTimeout),
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelWarn),

		DisableGeneralOptionsHandler: true, // net/http would answer OPTIONS * without serveHTTP
	}
	return s
}

// Serve serves until Stop. It then returns nil.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// serveHTTP is in front of the handler.
//
// A connection ends with the answer to a body in chunks. One that has Content-Length too, which net/http does not tell,
// might end elsewhere for a proxy before this server, and what follows it is not to be trusted (RFC 9112, 6.3). In
// HTTP/1.0 there are no chunks, and net/http does not tell of a Transfer-Encoding at all (6.1).
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	s.running.Add(1)
	defer s.running.Add(-1)
	if s.draining.Load() || r.ContentLength < 0 || !r.ProtoAtLeast(1, 1) {
		w.Header().Set("Connection", "close")
	}
	connOf(r.Context()).beginBody(r.ContentLength)
	if r.Method == http.MethodOptions && r.RequestURI == "*" {
		w.Header().Set("Content-Length", "0")
		return
	}
	s.handler.ServeHTTP(w, r)
}

// Drain makes every connection close after its next answer, so that none is idle when the server stops.
func (s *Server) Drain() { s.draining.Store(true) }

// Stop accepts no more connections and waits for the running requests. When ctx ends, the contexts of the requests that
// still run end with [ErrStopping], and the connections that are still open after the time to answer are closed. Stop
// returns the error of ctx if a handler was still running then.
func (s *Server) Stop(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { s.cutOff(ErrStopping) })()
	s.listener.shortenDeadlines()
	closing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(s.answerTimeout, cancel) })()
	if s.http.Shutdown(closing) == nil {
		return nil
	}
	running := s.running.Load()
	_ = s.http.Close() // closes the connections even if it returns an error
	if running > 0 {
		return context.Cause(ctx)
	}
	return nil
}
