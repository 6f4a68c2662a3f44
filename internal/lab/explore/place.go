package explore

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/embedded"
)

// place is where a bed stands: in a bubble of virtual time, or in front of real servers.
type place struct {
	servers []server
	rest    func(*bed) // returns when nothing moves
	drain   func(*bed) // returns when the goroutines of all processes have ended
	// instant is how long it may take until everything has come that is due at one instant of virtual time.
	instant time.Duration
	stop    <-chan struct{} // ends what waits in real time
}

// cleaner keeps what is to be closed.
type cleaner interface{ Cleanup(close func()) }

// server is one that keeps locks.
type server interface {
	// connect sets where a wire's delivered requests are written. What the server sends, it writes to the wire's other
	// end.
	connect(w *wire) error
	dial() (net.Conn, error) // past the schedule
	// keys returns the time that each key still has; 0: it has no end.
	keys() map[string]time.Duration
	dump() string // what it holds, without the ends
	flush()
	restart() // without its data and scripts
	jump()    // of its clock, by a lease
}

// node is a server with its number, from 1.
type node struct {
	number int
	server
}

// bubble starts servers inside the bubble of t.
func bubble(t *testing.T, c Config) (place, error) {
	in := place{rest: func(*bed) { synctest.Wait() }, drain: func(*bed) { time.Sleep(horizon) }}
	for range c.nodes(c.Mechanism) {
		one, err := embedded.NewRedis()
		if err != nil {
			return in, err
		}
		t.Cleanup(one.Close)
		in.servers = append(in.servers, inProcess{one})
	}
	return in, nil
}

// inProcess is a server in this process.
type inProcess struct{ *embedded.Redis }

func (s inProcess) connect(w *wire) error {
	var conn net.Conn
	w.toServer, conn = embedded.Pipe()
	return s.Serve(&end{Conn: conn, wire: w, server: true})
}

func (s inProcess) dial() (net.Conn, error) { return s.Dial(context.Background(), "tcp", "") }

func (s inProcess) keys() map[string]time.Duration {
	all := map[string]time.Duration{}
	for _, k := range s.Mini().Keys() {
		all[k] = s.Mini().TTL(k)
	}
	return all
}

func (s inProcess) dump() string {
	_ = s.Mini().Keys() // removes what has ended
	return s.Mini().Dump()
}

func (s inProcess) flush() { s.Mini().FlushAll() }

func (s inProcess) restart() {
	s.Stop()
	s.flush()
	s.Start()
}

func (s inProcess) jump() { s.Mini().FastForward(lease) }
