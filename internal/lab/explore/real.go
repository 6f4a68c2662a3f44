package explore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// The times of a run on real servers. They are far from the differences that decide a run: of leases, polls and patience,
// which are 400 ms at least.
const (
	// stillFor is how long nothing may move until nothing moves.
	stillFor = 10 * time.Millisecond
	// instant is how far apart may come what has the same time in a bubble: there the steps between took none.
	instant = 150 * time.Millisecond
	// stepWithin is how long a step may take to become possible.
	stepWithin = 10 * time.Second
)

// PlayOn is [Play] in real time, on a redis-server that nobody else uses and that is emptied. The messages still wait for
// their steps. A step of time really waits. What cannot be brought about from outside is [ErrUnsupported].
func PlayOn(ctx context.Context, c Config, s Schedule, addr string) (Played, error) {
	c.Lock, c.Buyers = s.Lock, s.Buyers
	c, err := c.withDefaults()
	switch {
	case err != nil:
		return Played{}, err
	case slices.ContainsFunc(s.Steps, func(one Step) bool { return one.Action == Jump }):
		return Played{}, fmt.Errorf("%w on a real server: a jump of its clock cannot be brought about from outside", ErrUnsupported)
	case c.nodes(c.Mechanism) > 1:
		return Played{}, fmt.Errorf("%w on real servers: %s gives each node 50 ms to answer, and there the steps between take as long", ErrUnsupported, s.Lock)
	}
	var closers closers
	defer closers.close()
	one := &realServer{ctx: ctx, addr: addr, client: redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})}
	closers.Cleanup(func() { _ = one.client.Close() })
	one.flush()
	p, err := play(ctx, &closers, c, s, place{servers: []server{one}, rest: one.rest, drain: drain, instant: instant, stop: ctx.Done()})
	return p, errors.Join(err, one.failure())
}

// rest returns when nothing has moved for a while.
func (s *realServer) rest(b *bed) {
	for before := -1; before != b.moved() && s.ctx.Err() == nil; {
		before = b.moved()
		s.note(s.client.Ping(s.ctx).Err()) // what reached the server before is carried out by then
		wait(s.ctx, stillFor)
	}
}

// wait returns after d, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// moved counts what has moved.
func (b *bed) moved() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.moves
}

// drain waits until all buyers are done, who are told to go.
func drain(b *bed) {
	for _, p := range b.procs {
		if p.started {
			<-p.done
		}
	}
}

// closers are called in the reverse order.
type closers []func()

// Cleanup implements cleaner.
func (c *closers) Cleanup(one func()) { *c = append(*c, one) }

func (c *closers) close() {
	for _, one := range slices.Backward(*c) {
		one()
	}
}

// realServer is a redis-server in another process.
type realServer struct {
	ctx    context.Context
	addr   string
	client *redis.Client // past the schedule

	mu    sync.Mutex
	conns []net.Conn
	err   error
}

// note keeps the first error: a run with one says nothing.
func (s *realServer) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && err != nil {
		s.err = fmt.Errorf("explore: the server at %s: %w", s.addr, err)
	}
}

func (s *realServer) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *realServer) dial() (net.Conn, error) {
	return new(net.Dialer).DialContext(s.ctx, "tcp", s.addr)
}

func (s *realServer) connect(w *wire) error {
	conn, err := s.dial()
	if err != nil {
		return err
	}
	w.toServer = conn
	s.mu.Lock()
	s.conns = append(s.conns, conn)
	s.mu.Unlock()
	go func() {
		far := &end{Conn: conn, wire: w, server: true}
		defer far.Close()
		data := make([]byte, 64<<10)
		for {
			n, err := conn.Read(data)
			if n > 0 {
				if _, err := far.Write(data[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return nil
}

func (s *realServer) keys() map[string]time.Duration {
	all := map[string]time.Duration{}
	for _, k := range s.names() {
		switch left, err := s.client.PTTL(s.ctx, k).Result(); {
		case err != nil:
			s.note(err)
		case left == -2: // it has ended meanwhile
		default:
			all[k] = max(0, left)
		}
	}
	return all
}

func (s *realServer) names() []string {
	all, err := s.client.Keys(s.ctx, "*").Result()
	s.note(err)
	slices.Sort(all)
	return all
}

func (s *realServer) dump() string {
	var text strings.Builder
	for _, k := range s.names() {
		value, err := s.client.Dump(s.ctx, k).Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		s.note(err)
		fmt.Fprintf(&text, "%s %x\n", k, value)
	}
	return text.String()
}

func (s *realServer) flush() { s.note(s.client.FlushAll(s.ctx).Err()) }

// restart does what a restart does as far as clients can tell: their connections break, data and scripts are gone.
func (s *realServer) restart() {
	s.mu.Lock()
	conns := s.conns
	s.conns = nil
	s.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
	}
	s.flush()
	s.note(s.client.ScriptFlush(s.ctx).Err())
}

// jump is not called: [PlayOn] has refused it.
func (s *realServer) jump() {}
