package httpserver

import (
	"context"
	"net"
	"os"
	"sync"
	"time"
)

// reader reads a connection for net/http, and spares it two things that it does for each request. [ADR 15] has the
// measurements.
//
//   - While a handler runs, net/http reads one byte in the background, to learn whether the client has left. The
//     read finds nothing, waits in the poller and is interrupted at the end of the request. Here it returns at
//     once with nothing. Only when somebody waits for the end of the request's context does the reader read
//     that byte itself, see watch.
//   - net/http sets the deadline for reads six times for each request. Here it is set when a read begins that
//     needs another one, or while a read is in progress.
//
// A reader knows only what net/http asks of a connection. So it relies on what these functions of net/http/server.go do
// (Go 1.26). It is the only one that does, and TestNetHTTPReadsAsAssumed fails where they change:
//
//	startBackgroundRead  lifts the deadline, and reads one byte in a goroutine of its own
//	backgroundRead       takes no byte and no error for the end of the read, and does not repeat it
//	abortPendingRead     sets a deadline that has passed, waits for the end of the read, and lifts the deadline
//	conn.serve           begins no background read before the body was read to its end
//	conn.readRequest     sets a deadline that holds for header and body: with a ReadTimeout, no other read of one
//	                     byte has no deadline
//
// A handler must not hijack the connection.
//
// [ADR 15]: ../../docs/adr/0015-no-background-read.md
type reader struct {
	conn net.Conn
	// clientLeft ends the contexts of the connection's requests.
	clientLeft context.CancelFunc

	mu      sync.Mutex
	wanted  time.Time // net/http's deadline
	set     time.Time // the connection's
	reading bool      // a read is in progress: a deadline is set at once

	watchers int // how many want to know when the client leaves
	// declined: net/http's background read was asked for and returned with nothing.
	declined bool
	ownRead  chan struct{} // closed when the reader's own background read ends; nil without one
	stopping bool          // that read was interrupted
	early    []byte        // what it has read: the beginning of the next request, or of a body
	byteBuf  [1]byte
}

// watch makes sure that the context of a request ends when its client leaves, from now until endWatch is called. That
// must be before the handler returns.
func (r *reader) watch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watchers++
	if !r.declined || r.ownRead != nil || len(r.early) > 0 {
		return // net/http has not asked yet, or there is no need to
	}
	r.ownRead = make(chan struct{})
	r.reading, r.set = true, time.Time{}
	_ = r.conn.SetReadDeadline(time.Time{}) // fails for a closed connection, whose read fails as well
	go r.awaitLeaving(r.ownRead)
}

// awaitLeaving is the reader's own background read.
func (r *reader) awaitLeaving(ended chan struct{}) {
	n, err := r.conn.Read(r.byteBuf[:])
	r.mu.Lock()
	r.early = r.byteBuf[:n]
	left := n == 0 && err != nil && !r.stopping
	r.reading, r.stopping, r.ownRead = false, false, nil
	r.mu.Unlock()
	close(ended)
	if left {
		r.clientLeft()
	}
}

func (r *reader) endWatch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watchers--; r.watchers == 0 {
		r.stopOwnRead()
	}
}

// stopOwnRead ends the reader's own background read. The lock is held, but not meanwhile.
func (r *reader) stopOwnRead() {
	for r.ownRead != nil {
		ended := r.ownRead
		r.stopping, r.set = true, aLongTimeAgo
		_ = r.conn.SetReadDeadline(aLongTimeAgo) // fails for a closed connection, whose read ends by itself
		r.mu.Unlock()
		<-ended
		r.mu.Lock()
	}
}

// aLongTimeAgo is a deadline that has passed.
var aLongTimeAgo = time.Unix(1, 0)

// begin begins a read of net/http's into p. It reports whether that is a background read that ends at once, with err.
// The lock is held.
func (r *reader) begin(p []byte) (ended bool, err error) {
	background := len(p) == 1 && r.wanted.IsZero()
	r.declined = background && r.watchers == 0
	switch {
	case len(p) == 1 && !background && !r.wanted.After(time.Now()):
		return true, os.ErrDeadlineExceeded // interrupted before it began
	case r.declined:
		return true, nil
	}
	r.stopOwnRead()
	return false, nil
}

// read reads into p after begin. The lock is held, but not meanwhile.
func (r *reader) read(p []byte) (int, error) {
	if len(r.early) > 0 {
		n := copy(p, r.early)
		r.early = r.early[n:]
		return n, nil
	}
	if !r.set.Equal(r.wanted) && !covers(r.set, r.wanted, time.Now()) {
		if err := r.setDeadline(); err != nil {
			return 0, err
		}
	}
	r.reading = true
	r.mu.Unlock()
	n, err := r.conn.Read(p)
	r.mu.Lock()
	r.reading = false
	return n, err
}

// want is told net/http's deadline.
func (r *reader) want(deadline time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = deadline
	if r.reading && !r.stopping && !deadline.Equal(r.set) {
		return r.setDeadline()
	}
	return nil
}

// setDeadline sets the deadline that is wanted. The lock is held.
func (r *reader) setDeadline() error {
	r.set = r.wanted
	return r.conn.SetReadDeadline(r.wanted)
}
