package zkio

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"seckill/internal/lock"
)

// Watch is the state of a watched node.
type Watch struct {
	Data []byte
	Stat zk.Stat
	// Gone is closed when this node was deleted or the session is over.
	Gone <-chan struct{}
}

// watch is shared by all callers in this process that watch one node. The driver keeps a watch until it fires. If each
// waiter set a watch of its own, the driver would keep the watches of waiters that gave up as long as the node exists.
type watch struct {
	ready chan struct{} // closed when the other fields are set
	err   error
	data  []byte
	stat  zk.Stat
	gone  chan struct{}
}

// Watch watches a node. It shares an existing watch of the node. It returns zk.ErrNoNode if the node does not exist.
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

// Gone is [Session.Watch] for callers that do not need the state of the node. The channel is closed when the node is
// gone, or at once if it does not exist.
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
		return nil, s.endError()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, ok := s.watches[path]; ok {
		return w, nil
	}
	w := &watch{ready: make(chan struct{}), gone: make(chan struct{})}
	if s.cause != nil { // it ended meanwhile
		w.err = s.cause
		close(w.ready)
		close(w.gone)
		return w, nil
	}
	s.watches[path] = w
	s.client.running.Go(func() { s.keepWatching(path, w) })
	return w, nil
}

// watchResult is what the server returned when the watch was set.
type watchResult struct {
	data  []byte
	stat  *zk.Stat
	fires <-chan zk.Event
}

// keepWatching watches a node until it is gone. If the data of the node changed, it reads the node again. If the node
// was deleted and created again meanwhile, it counts as gone. An outage of the server says nothing about the node.
func (s *Session) keepWatching(path string, w *watch) {
	defer close(w.gone)
	first := true
	for {
		now, _, err := Do(s.ctx, s, func(c *zk.Conn) (watchResult, error) {
			data, stat, fires, err := c.GetW(path)
			return watchResult{data, stat, fires}, err
		})
		if err != nil && !Answered(err) && !s.Over() {
			continue // Do has waited
		}
		if err != nil || !first && now.stat.Czxid != w.stat.Czxid {
			s.removeWatch(path, w)
			if first {
				if w.err = err; !Answered(err) { // the session is over: err may be that of its context
					w.err = s.endError()
				}
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
		s.removeWatch(path, w)
		return
	}
}

// removeWatch removes a watch from the list, so that the next caller sets a new one.
func (s *Session) removeWatch(path string, w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches[path] == w {
		delete(s.watches, path)
	}
}
