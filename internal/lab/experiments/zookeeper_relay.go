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

// relay stands between one process and ZooKeeper, passes on what they say and reads
// along: when the process is told that something happened to what it watches, and when
// it makes requests.
type relay struct {
	play     *lab.Play
	upstream string
	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex
	open     []net.Conn
	watching map[int32]bool // requests that set a watch: whether they are answered
	woken    []int64        // when it was told of something
	requests []int64        // when it asked for something; heartbeats do not count
}

// Of ZooKeeper's protocol. A frame is its length, 4 bytes, and what follows: from a
// client the number of the request, what is asked for, and with what; from the server
// the number of the request that it answers, a zxid, 8 bytes, and an error code. The
// first one each way has none of that. Those who read may ask for a watch, in the last
// byte.
const (
	relayFrame  = 1 << 20 // no request or answer is longer
	pingNumber  = -2
	watchNumber = -1 // of what the server says of its own accord
	readExists  = 3
	readData    = 4
)

// between makes a relay to ZooKeeper, for one process.
func between(p *lab.Play, upstream string) *relay {
	listener, err := new(net.ListenConfig).Listen(p.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		p.Fatalf("a relay to ZooKeeper: %w", err)
	}
	r := &relay{play: p, upstream: upstream, listener: listener, watching: map[int32]bool{}}
	r.running.Go(r.serve)
	p.Cleanup(r.close)
	return r
}

func (r *relay) addr() string { return r.listener.Addr().String() }

func (r *relay) close() {
	_ = r.listener.Close() // it cannot be in use any more: its actor has ended
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
		server, err := new(net.Dialer).DialContext(r.play.Context(), "tcp", r.upstream)
		if err != nil {
			_ = client.Close() // which is how the client is told
			continue
		}
		r.mu.Lock()
		r.open = append(r.open, client, server)
		r.mu.Unlock()
		r.running.Go(func() { r.pass(server, client, r.asked) })
		r.running.Go(func() { r.pass(client, server, r.told) })
	}
}

// pass copies frames until one side hangs up, and then hangs up on the other.
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

// readFrame reads one frame, its length with it.
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

// asked reads a request.
func (r *relay) asked(frame []byte) {
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

// told reads what the server says.
func (r *relay) told(frame []byte) {
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

// watches says whether the process watches something, and waits for no answer to a
// request to watch more.
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

// wokenIn is the first time in a period that the process was told of something.
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

// requestsIn is how many requests the process made in a period.
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
