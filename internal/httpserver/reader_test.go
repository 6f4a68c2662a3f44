package httpserver_test

import (
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// observed is a connection that notes what net/http asks of it.
type observed struct {
	net.Conn
	declines bool // a read of one byte without a deadline returns with nothing

	mu         sync.Mutex
	calls      []string
	noDeadline bool
}

func (o *observed) note(call string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, call)
}

func (o *observed) SetReadDeadline(at time.Time) error {
	if at.IsZero() {
		o.note("lift")
	} else if at.Before(time.Now()) {
		o.note("interrupt")
	}
	o.mu.Lock()
	o.noDeadline = at.IsZero()
	o.mu.Unlock()
	return o.Conn.SetReadDeadline(at)
}

func (o *observed) Read(p []byte) (int, error) {
	o.mu.Lock()
	noDeadline := o.noDeadline
	o.mu.Unlock()
	if len(p) > 1 || !noDeadline {
		return o.Conn.Read(p)
	}
	if o.note("byte"); o.declines {
		return 0, nil
	}
	defer o.note("ended")
	return o.Conn.Read(p)
}

// ServeHTTP reads the body a byte at a time.
func (o *observed) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	simulate.Sleep(time.Second)
	if r.Body != http.NoBody {
		o.note("body")
		for one := make([]byte, 1); ; {
			_, err := r.Body.Read(one)
			if simulate.Sleep(time.Second); err != nil {
				break
			}
		}
	}
	if o.note("work"); r.Context().Err() != nil {
		o.note("canceled")
	}
}

// What a reader relies on. If a case fails on another release of Go, read the functions that it names in
// net/http/server.go, and adapt reader.
func TestNetHTTPReadsAsAssumed(t *testing.T) {
	const (
		get     = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
		post    = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
		chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"
	)
	long := "GET / HTTP/1.1\r\nHost: a\r\nLong: " + strings.Repeat("x", 9000) + "\r\n\r\n"
	for assumption, tt := range map[string]struct {
		sent     string
		declines bool
		want     string
	}{
		"startBackgroundRead lifts the deadline and reads one byte; abortPendingRead interrupts the read, awaits it and lifts the deadline": {
			get, false, "lift byte work interrupt ended lift"},
		"backgroundRead takes no byte and no error for the end of the read": {get, true, "lift byte work"},
		"conn.serve begins no background read before the body was read":     {post, true, "body lift byte work"},
		"readRequest: no other read of one byte has no deadline":            {long + chunked + get + post, true, "lift byte work body lift byte work lift byte work body lift byte work"},
	} {
		t.Run(assumption, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				l, o := simulate.Listen(), &observed{Conn: far, declines: tt.declines}
				server := http.Server{ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, Handler: o}
				go func() { _ = server.Serve(l) }()
				fail.NowIf(t, l.Connect(t.Context(), o))
				go func() { _, _ = io.Copy(io.Discard, near) }()
				for _, b := range []byte(tt.sent) {
					fail.NowIf(t, fail.Of(near.Write([]byte{b})))
				}
				simulate.Sleep(50 * time.Second)
				fail.If(t, server.Close())
				o.mu.Lock()
				defer o.mu.Unlock()
				if got := strings.Join(o.calls, " "); got != tt.want {
					t.Errorf("net/http of %s reads otherwise than reader assumes: %q, want %q", runtime.Version(), got, tt.want)
				}
			})
		})
	}
}
