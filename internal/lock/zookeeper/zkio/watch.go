package zkio

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"seckill/internal/lock"
)

// Watch is a node that somebody looks at.
type Watch struct {
	Data []byte
	Stat zk.Stat
	// Gone is closed when that very node was deleted, or the session is over.
	Gone <-chan struct{}
}

// watch is shared by all in this process who look at one node. The driver never
// forgets a watch before it fires: with one for each waiter, those who gave up
// would stay on its list for as long as the node does.
type watch struct {
	ready chan struct{} // closed when the rest is set
	err   error
	data  []byte
	stat  zk.Stat
	gone  chan struct{}
}

// Watch looks at a node, and joins those who do so already. zk.ErrNoNode when it is
// not there.
func (s *Session) Watch(ctx context.Context, path string) (Watch, error) {
	w, err := s.watch(path)
	if err != nil {
		return Watch{}, err
	}
	limit := time.NewTimer(2 * s.client.config.CommandTimeout)
	defer limit.Stop()
	select {
	case <-w.ready:
	case <-ctx.Done():
		return Watch{}, ctx.Err()
	case <-limit.C:
		return Watch{}, fmt.Errorf("%w: %w", lock.ErrUnavailable, errNoConn)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return Watch{Data: w.data, Stat: w.stat, Gone: w.gone}, w.err
}

// Gone is [Session.Watch] for who does not want to wait for the sight: closed when the
// node is gone, and at once where it is already.
func (s *Session) Gone(path string) <-chan struct{} {
	w, err := s.watch(path)
	if err != nil {
		over := make(chan struct{})
		close(over)
		return over
	}
	return w.gone
}

func (s *Session) watch(path string) (*watch, error) {
	if s.Over() {
		return nil, s.because()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, ok := s.watches[path]; ok {
		return w, nil
	}
	w := &watch{ready: make(chan struct{}), gone: make(chan struct{})}
	if s.cause != nil { // it ended since
		w.err = s.cause
		close(w.ready)
		close(w.gone)
		return w, nil
	}
	s.watches[path] = w
	s.client.running.Go(func() { s.follow(path, w) })
	return w, nil
}

type sight struct {
	data  []byte
	stat  *zk.Stat
	fires <-chan zk.Event
}

// follow looks at a node until it is gone. A node whose data changed is looked at
// again; one that was created anew since is another one. A server that is away says
// nothing about the node.
func (s *Session) follow(path string, w *watch) {
	defer close(w.gone)
	first := true
	for {
		now, _, err := Do(s.ctx, s, func(c *zk.Conn) (sight, error) {
			data, stat, fires, err := c.GetW(path)
			return sight{data, stat, fires}, err
		})
		if err != nil && !answered(err) && !s.Over() {
			continue // Do has waited
		}
		if err != nil || !first && now.stat.Czxid != w.stat.Czxid {
			s.forget(path, w)
			if first {
				w.err = err
				close(w.ready)
			}
			return
		}
		s.mu.Lock()
		w.data, w.stat = now.data, *now.stat
		s.mu.Unlock()
		if first {
			close(w.ready)
			first = false
		}
		select {
		case e := <-now.fires:
			if e.Type == zk.EventNodeDataChanged {
				continue
			}
		case <-s.ctx.Done():
		}
		s.forget(path, w)
		return
	}
}

// forget takes a watch off the list, so that who comes now looks anew.
func (s *Session) forget(path string, w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches[path] == w {
		delete(s.watches, path)
	}
}
