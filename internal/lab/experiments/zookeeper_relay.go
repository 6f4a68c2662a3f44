package experiments

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"seckill/internal/lab"
)

// relay forwards the traffic between one process and ZooKeeper, and reads it: when the server
// notifies the process about a watch, and when the process makes requests.
type relay struct {
	trial    *lab.Trial
	upstream string
	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex
	open     []net.Conn
	watching map[int32]bool // by request that sets a watch: whether it was answered
	woken    []int64        // when the process was notified
	requests []int64        // when it made a request, other than heartbeats
}

// ZooKeeper's protocol: a frame is its length, 4 bytes, and a body. From a client the body is
// the number of the request, its type and its arguments; from the server it is the number of
// the request, a zxid of 8 bytes and an error code. The first frame each way has none of that.
// A reading request may set a watch, in its last byte.
const (
	relayFrame  = 1 << 20 // no request or answer is longer
	pingNumber  = -2
	watchNumber = -1 // of notifications
	readExists  = 3
	readData    = 4
)

// newRelay starts a relay to ZooKeeper for one process.
func newRelay(t *lab.Trial, upstream string) *relay {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("a relay to ZooKeeper: %w", err)
	}
	r := &relay{trial: t, upstream: upstream, listener: listener, watching: map[int32]bool{}}
	r.running.Go(r.serve)
	t.Cleanup(r.close)
	return r
}

func (r *relay) addr() string { return r.listener.Addr().String() }

func (r *relay) close() {
	_ = r.listener.Close() // no longer in use: its client has ended
	r.mu.Lock()
	for _, conn := range r.open {
		_ = conn.Close()
	}
	r.mu.Unlock()
	r.running.Wait()
}

func (r *relay) serve() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(r.trial.Context(), "tcp", r.upstream)
		if err != nil {
			_ = client.Close() // this tells the client
			continue
		}
		r.mu.Lock()
		r.open = append(r.open, client, server)
		r.mu.Unlock()
		r.running.Go(func() { r.pass(server, client, r.readRequest) })
		r.running.Go(func() { r.pass(client, server, r.readReply) })
	}
}

// pass copies frames until one side closes its connection, and then closes the other.
func (r *relay) pass(to, from net.Conn, read func(frame []byte)) {
	defer to.Close()
	in := bufio.NewReader(from)
	for greeted := false; ; greeted = true {
		frame, err := readFrame(in)
		if err != nil {
			return
		}
		if greeted {
			read(frame[4:])
		}
		if _, err := to.Write(frame); err != nil {
			return
		}
	}
}

var errFrame = errors.New("not a frame of ZooKeeper's")

// readFrame reads one frame, including its length.
func readFrame(in *bufio.Reader) ([]byte, error) {
	head, err := in.Peek(4)
	if err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head)
	if n > relayFrame {
		return nil, fmt.Errorf("%w: %d bytes", errFrame, n)
	}
	frame := make([]byte, 4+n)
	_, err = io.ReadFull(in, frame)
	return frame, err
}

// readRequest reads a request.
func (r *relay) readRequest(frame []byte) {
	if len(frame) < 8 {
		return
	}
	number, what := int32(binary.BigEndian.Uint32(frame)), binary.BigEndian.Uint32(frame[4:])
	if number == pingNumber {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, time.Now().UnixNano())
	if (what == readExists || what == readData) && frame[len(frame)-1] == 1 {
		r.watching[number] = false
	}
}

// readReply reads a reply or a notification of the server.
func (r *relay) readReply(frame []byte) {
	if len(frame) < 4 {
		return
	}
	number := int32(binary.BigEndian.Uint32(frame))
	r.mu.Lock()
	defer r.mu.Unlock()
	if number == watchNumber {
		r.woken = append(r.woken, time.Now().UnixNano())
	}
	if _, asked := r.watching[number]; asked {
		r.watching[number] = true
	}
}

// watches reports whether the process watches a node and every request to set a watch has
// been answered.
func (r *relay) watches() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, answered := range r.watching {
		if !answered {
			return false
		}
	}
	return len(r.watching) > 0
}

// wokenIn returns the first time in a period at which the process was notified.
func (r *relay) wokenIn(from, to int64) (at int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range r.woken {
		if at >= from && at < to {
			return at, true
		}
	}
	return 0, false
}

// requestsIn returns how many requests the process made in a period.
func (r *relay) requestsIn(from, to int64) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range r.requests {
		if at >= from && at < to {
			n++
		}
	}
	return n
}
