package zkio

import (
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
// number of the request that it answers, -2 for a ping, -1 for a watch that fires.
type wire struct {
	net.Conn
	session *Session

	mu      sync.Mutex
	asked   time.Time // when the first frame was sent
	granted time.Duration
	sent    map[int32]time.Time // requests without an answer

	// Used by the reader alone.
	head    [12]byte
	have    int // bytes of head
	skip    int // bytes of the frame that are of no interest
	greeted bool
}

const pingXid = -2

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
	w.noteSent(p)
	return w.Conn.Write(p)
}

func (w *wire) noteSent(p []byte) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked.IsZero() {
		w.asked = now
		return
	}
	if len(p) < 8 {
		return
	}
	xid := int32(binary.BigEndian.Uint32(p[4:8]))
	if _, waits := w.sent[xid]; !waits { // of several pings without an answer the oldest counts
		w.sent[xid] = now
	}
}

// Read implements net.Conn.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.scan(p[:n])
	return n, err
}

func (w *wire) scan(p []byte) {
	for len(p) > 0 {
		if w.skip > 0 {
			n := min(w.skip, len(p))
			w.skip -= n
			p = p[n:]
			continue
		}
		n := copy(w.head[w.have:], p)
		w.have += n
		p = p[n:]
		if w.have == len(w.head) {
			w.have = 0
			w.skip = max(0, int(binary.BigEndian.Uint32(w.head[:4]))+4-len(w.head))
			w.noteReceived(int32(binary.BigEndian.Uint32(w.head[4:8])), int32(binary.BigEndian.Uint32(w.head[8:])))
		}
	}
}

// noteReceived is told the first two numbers of a frame.
func (w *wire) noteReceived(first, second int32) {
	w.mu.Lock()
	if !w.greeted {
		w.greeted = true
		w.granted = time.Duration(second) * time.Millisecond
		w.mu.Unlock()
		return
	}
	at, known := w.sent[first]
	delete(w.sent, first)
	w.mu.Unlock()
	if known {
		w.session.contacted(at, first == pingXid)
	}
}
