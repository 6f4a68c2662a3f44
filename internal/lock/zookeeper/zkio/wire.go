package zkio

import (
	"bytes"
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// wire is one connection. It reads along, since the driver does not say what a
// holder has to know: which timeout the server granted, and when the newest request
// was sent that has been answered.
//
// Every frame is a length, 4 bytes, and what follows. The first from the server
// is a protocol version and the timeout in ms; each later one begins with the
// number of the request that it answers, -2 for a ping, -1 for a watch that fires,
// and the zxid that the server has come to, 8 bytes.
//
// It also keeps that zxid in the driver's place. The driver tells the server the
// newest one when it connects again and when it sets its watches anew. For the
// latter it reads what the goroutine that receives writes at the same time, without
// a lock: a data race, and watches set from a zxid that is too new miss what
// happened while there was no connection. So the driver gets to see no zxid but 0,
// which it ignores, and the wire fills in the newest where the driver sends that 0.
type wire struct {
	net.Conn
	session *Session

	mu      sync.Mutex
	asked   time.Time // when the first frame was sent
	granted time.Duration
	sent    map[int32]time.Time // requests without an answer

	// Used by the reader alone.
	head    [16]byte
	have    int // bytes of head
	skip    int // bytes of the frame that are of no interest
	greeted bool
}

const (
	pingXid      = -2
	opSetWatches = 101
)

func newWire(conn net.Conn, s *Session) *wire {
	return &wire{Conn: conn, session: s, sent: make(map[int32]time.Time)}
}

// handshake says when the session was asked for and which timeout was granted.
func (w *wire) handshake() (asked time.Time, granted time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked, w.granted
}

// SetReadDeadline implements net.Conn. The driver would wait for the answer to its
// greeting for several session timeouts, and sends nothing meanwhile.
func (w *wire) SetReadDeadline(t time.Time) error {
	if limit := time.Now().Add(2 * w.session.client.config.CommandTimeout); !w.greeted && !t.IsZero() && t.After(limit) {
		t = limit
	}
	return w.Conn.SetReadDeadline(t)
}

// Write implements net.Conn. The driver writes one frame at a time.
func (w *wire) Write(p []byte) (int, error) {
	switch {
	case w.noteSent(p): // the greeting: a protocol version, then the zxid
		p = w.stamped(p, 8)
	case len(p) >= 20 && binary.BigEndian.Uint32(p[8:]) == opSetWatches: // the xid, the opcode, then the zxid
		p = w.stamped(p, 12)
	}
	return w.Conn.Write(p)
}

// stamped is the frame p with the newest zxid put in.
func (w *wire) stamped(p []byte, at int) []byte {
	p = bytes.Clone(p) // the driver's
	binary.BigEndian.PutUint64(p[at:], w.session.zxid.Load())
	return p
}

func (w *wire) noteSent(p []byte) (greeting bool) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked.IsZero() {
		w.asked = now
		return true
	}
	xid := int32(binary.BigEndian.Uint32(p[4:]))
	if _, waits := w.sent[xid]; !waits { // of several pings without an answer the oldest counts
		w.sent[xid] = now
	}
	return false
}

// Read implements net.Conn.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.scan(p[:n])
	return n, err
}

// scan reads the head of every frame, and blots out the zxid in it.
func (w *wire) scan(p []byte) {
	const zxid = 8 // where it begins
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
func (w *wire) noteReceived() {
	if !w.greeted {
		w.greeted = true
		w.mu.Lock()
		w.granted = time.Duration(binary.BigEndian.Uint32(w.head[8:])) * time.Millisecond
		w.mu.Unlock()
		return
	}
	xid, zxid := int32(binary.BigEndian.Uint32(w.head[4:])), int64(binary.BigEndian.Uint64(w.head[8:]))
	if xid > 0 && zxid > 0 { // as the driver would have it
		w.session.zxid.Store(uint64(zxid))
	}
	w.mu.Lock()
	at, known := w.sent[xid]
	delete(w.sent, xid)
	w.mu.Unlock()
	if known {
		w.session.contacted(at, xid == pingXid)
	}
}
