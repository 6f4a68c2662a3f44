package zkio

import (
	"bytes"
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// observedConn is one connection. It reads every frame because the driver does not report two facts that a holder
// needs: the timeout that the server granted, and when the newest answered request was sent.
//
// A frame is a length (4 bytes) and its content. The first frame from the server has a protocol version and the timeout
// in ms. Each later one begins with the number of the answered request (-2 for a ping, -1 for a watch that fires) and
// the server's zxid (8 bytes).
//
// observedConn also stores that zxid instead of the driver. The driver sends the newest zxid to the server when it
// reconnects and when it sets its watches again. For the watches it reads the value without a lock while another
// goroutine writes it. That is a data race, and watches that are set from too new a zxid miss what happened while there
// was no connection. So the driver sees only zxid 0, which it ignores, and observedConn replaces this 0 by the newest
// zxid in the frames that the driver sends.
type observedConn struct {
	net.Conn
	session *Session

	mu      sync.Mutex
	asked   time.Time // when the first frame was sent
	granted time.Duration
	sent    map[int32]time.Time // the unanswered requests

	// Used only by the reading goroutine.
	head    [16]byte
	have    int // bytes in head
	skip    int // bytes of the frame that need not be read
	greeted bool
}

const (
	pingXid      = -2
	opSetWatches = 101
)

func newObservedConn(conn net.Conn, s *Session) *observedConn {
	return &observedConn{Conn: conn, session: s, sent: make(map[int32]time.Time)}
}

// handshake returns when the session was requested and the granted timeout.
func (w *observedConn) handshake() (asked time.Time, granted time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked, w.granted
}

// SetReadDeadline implements net.Conn. It shortens the deadline for the answer to the greeting, for which the driver
// waits several session timeouts and sends nothing meanwhile.
func (w *observedConn) SetReadDeadline(t time.Time) error {
	if limit := time.Now().Add(2 * w.session.client.config.CommandTimeout); !w.greeted && !t.IsZero() && t.After(limit) {
		t = limit
	}
	return w.Conn.SetReadDeadline(t)
}

// Write implements net.Conn. The driver writes one frame at a time.
func (w *observedConn) Write(p []byte) (int, error) {
	switch {
	case w.noteSent(p): // the greeting: a protocol version, then the zxid
		p = w.withZxid(p, 8)
	case len(p) >= 20 && binary.BigEndian.Uint32(p[8:]) == opSetWatches: // the xid, the opcode, then the zxid
		p = w.withZxid(p, 12)
	}
	return w.Conn.Write(p)
}

// withZxid returns a copy of frame p with the newest zxid at offset at.
func (w *observedConn) withZxid(p []byte, at int) []byte {
	p = bytes.Clone(p) // p belongs to the driver
	binary.BigEndian.PutUint64(p[at:], w.session.zxid.Load())
	return p
}

func (w *observedConn) noteSent(p []byte) (greeting bool) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked.IsZero() {
		w.asked = now
		return true
	}
	xid := int32(binary.BigEndian.Uint32(p[4:]))
	if _, waits := w.sent[xid]; !waits { // of several unanswered pings the oldest counts
		w.sent[xid] = now
	}
	return false
}

// Read implements net.Conn.
func (w *observedConn) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.scan(p[:n])
	return n, err
}

// scan reads the head of every frame and overwrites the zxid in it with 0.
func (w *observedConn) scan(p []byte) {
	const zxid = 8 // its offset
	for len(p) > 0 {
		if w.skip > 0 {
			n := min(w.skip, len(p))
			w.skip -= n
			p = p[n:]
			continue
		}
		n := copy(w.head[w.have:], p)
		if w.greeted {
			clear(p[min(n, max(0, zxid-w.have)):n])
		}
		w.have += n
		p = p[n:]
		if w.have == len(w.head) {
			w.have = 0
			w.skip = max(0, int(binary.BigEndian.Uint32(w.head[:]))+4-len(w.head))
			w.noteReceived()
		}
	}
}

// noteReceived is called when head is complete.
func (w *observedConn) noteReceived() {
	if !w.greeted {
		w.greeted = true
		w.mu.Lock()
		w.granted = time.Duration(binary.BigEndian.Uint32(w.head[8:])) * time.Millisecond
		w.mu.Unlock()
		return
	}
	xid, zxid := int32(binary.BigEndian.Uint32(w.head[4:])), int64(binary.BigEndian.Uint64(w.head[8:]))
	if xid > 0 && zxid > 0 { // as the driver would store it
		w.session.zxid.Store(uint64(zxid))
	}
	w.mu.Lock()
	at, known := w.sent[xid]
	delete(w.sent, xid)
	w.mu.Unlock()
	if known {
		w.session.recordContact(at, xid == pingXid)
	}
}
