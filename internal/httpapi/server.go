package httpapi

import (
	"log/slog"
	"net/http"
	"time"
)

// Limits of a server. What a client may take to say what it wants is short; what
// the service may take to answer is as long as its longest request.
const (
	// readTimeout bounds header and body together. net/http lifts it once the body
	// was read, so that it does not cut the work short. A shorter one for the header
	// alone would be one more timer for every request.
	readTimeout = 10 * time.Second
	// writeTimeout counts from the end of the header.
	writeTimeout   = readTimeout + requestTimeout + 10*time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 16 << 10
)

// NewServer returns a server for a handler of this package, with every limit set
// and its own complaints in the log.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}
