package explore

import (
	"bytes"
	"net"
	"slices"
	"strings"

	"seckill/internal/embedded"
)

// queue is what is under way from one place to another: the requests or the replies of a connection, or the work of a
// holder. Its items arrive one by one, in order, each by a step.
type queue struct {
	action Action
	proc   *process
	wire   *wire // nil: no connection
	items  []item
	// slow says that its items are held back, at the price of one preemption, until a step delivers the last of them.
	slow bool
}

// item is a message: everything that was written between two moments of rest. Those of one moment have the order of the
// connections.
type item struct {
	seq  int // 0 until nothing moves
	data []byte
}

// conn is the connection's number, 0 for work.
func (q *queue) conn() int {
	if q.wire == nil {
		return 0
	}
	return q.wire.number
}

// waiting reports whether something is to be delivered. A paused process reads nothing and does no work; what it has sent
// before is under way.
func (q *queue) waiting() bool {
	return len(q.items) > 0 && (q.action == Request || !q.proc.paused)
}

// wire is a connection of a process with a server. Neither side's writes arrive before a step delivers them.
type wire struct {
	bed    *bed
	proc   *process
	node   *node
	number int // in its process, from 1

	toClient, toServer net.Conn // where delivered data is written
	requests, replies  *queue

	// Guarded by bed.mu.
	fresh        [2][]byte // written since the last moment of rest: by the client, by the server
	handshakes   int       // requests of the handshake without a reply
	subscribed   bool      // the server may send at any time
	clientClosed bool
	dead         bool // it broke, or the server closed it
}

// end is one side's end of a wire.
type end struct {
	net.Conn
	wire   *wire
	server bool
}

// connect makes a wire from a process to a server, and returns the client's end.
func (b *bed) connect(p *process, n *node) (net.Conn, error) {
	client, toClient := embedded.Pipe()
	b.mu.Lock()
	if p.dead { // an error would make the driver complain: it is closed at once
		b.mu.Unlock()
		return client, toClient.Close()
	}
	w := &wire{bed: b, proc: p, node: n, toClient: toClient}
	w.requests = &queue{action: Request, proc: p, wire: w}
	w.replies = &queue{action: Reply, proc: p, wire: w}
	b.mu.Unlock()
	if err := n.connect(w); err != nil {
		return nil, err
	}
	b.mu.Lock()
	p.dialled = append(p.dialled, w)
	b.mu.Unlock()
	return &end{Conn: client, wire: w}, nil
}

// numberWires gives those new connections of a process their numbers that are used: the driver's pool may dial one too many.
// They go by server, since goroutines dial in any order.
func (p *process) numberWires() {
	slices.SortStableFunc(p.dialled, func(x, y *wire) int { return x.node.number - y.node.number })
	p.dialled = slices.DeleteFunc(p.dialled, func(w *wire) bool {
		if len(w.requests.items) == 0 {
			return false
		}
		p.wires = append(p.wires, w)
		p.queues = append(p.queues, w.requests, w.replies)
		w.number = len(p.wires)
		return true
	})
}

// Write keeps p until a step delivers it.
func (e *end) Write(p []byte) (int, error) {
	w := e.wire
	written := len(p)
	if !e.server {
		learnScript(p)
		if w.bed.config.rewrite != nil {
			p = rewritten(p, w.bed.config.rewrite)
		}
	}
	w.bed.mu.Lock()
	defer w.bed.mu.Unlock()
	switch {
	case w.dead, !e.server && w.clientClosed, !e.server && w.proc.dead:
		return 0, net.ErrClosed
	case e.server && w.clientClosed:
		return written, nil // nobody reads it
	case w.bed.open:
		w.bed.moves++
		_, err := w.forward(e.server, p)
		return written, err
	}
	side := 0
	if e.server {
		side = 1
	}
	w.fresh[side] = append(w.fresh[side], p...)
	w.bed.notice(w.proc)
	return written, nil
}

func (w *wire) forward(fromServer bool, p []byte) (int, error) {
	if fromServer {
		return w.toClient.Write(p)
	}
	return w.toServer.Write(p)
}

// Close closes the connection. What the client has sent still arrives.
func (e *end) Close() error {
	w := e.wire
	w.bed.mu.Lock()
	if e.server {
		w.breakDown()
	} else if !w.clientClosed {
		w.clientClosed = true
		w.replies.items, w.fresh[1] = nil, nil
		if w.proc.paused {
			w.fresh[0] = nil // it was never sent
		}
		if len(w.requests.items) == 0 && len(w.fresh[0]) == 0 {
			_ = w.toServer.Close()
		}
		w.bed.notice(w.proc)
	}
	w.bed.mu.Unlock()
	return e.Conn.Close()
}

// breakDown ends the connection with what is under way on it. The mutex is held.
func (w *wire) breakDown() {
	if w.dead {
		return
	}
	w.dead = true
	w.requests.drop()
	w.replies.drop()
	w.fresh = [2][]byte{}
	_ = w.toClient.Close()
	_ = w.toServer.Close()
	w.bed.notice(w.proc)
}

func (q *queue) drop() { q.items, q.slow = nil, false }

// collect moves what was written since the last moment of rest to the queues. Handshakes pass: it reports whether there
// were any. The mutex is held.
func (w *wire) collect() (passed bool) {
	for side, q := range []*queue{w.requests, w.replies} {
		data := w.fresh[side]
		if side == 0 && w.proc.paused && !isHandshake(data) {
			continue // it is sent when the process goes on; the driver makes connections while others wait for its mutex
		}
		w.fresh[side] = nil
		switch {
		case len(data) == 0:
			continue
		case side == 0 && isHandshake(data):
			w.handshakes++
			_, _ = w.forward(false, data)
			passed = true
			continue
		case side == 1 && w.handshakes > 0:
			w.handshakes--
			_, _ = w.forward(true, data)
			passed = true
			continue
		case side == 1 && bytes.HasPrefix(data, []byte("-NOSCRIPT")): // the client will send the script, in the same step
			w.proc.sendsScript = true
			_, _ = w.forward(true, data)
			passed = true
			continue
		case side == 0 && w.proc.sendsScript && bytes.Contains(data, []byte("eval\r\n")):
			w.proc.sendsScript = false
			_, _ = w.forward(false, data)
			passed = true
			continue
		}
		if side == 0 && strings.Contains(strings.ToLower(string(data)), "subscribe") {
			w.subscribed = true
		}
		q.items = append(q.items, item{data: data})
	}
	return passed
}

// isHandshake reports whether a request belongs to the making of a connection.
func isHandshake(request []byte) bool {
	words := bytes.SplitN(request, []byte("\r\n"), 4)
	if len(words) < 3 {
		return false
	}
	switch strings.ToLower(string(words[2])) {
	case "hello", "client", "auth", "select":
		return true
	}
	return false
}
