package zkio

import (
	"context"

	"github.com/go-zookeeper/zk"
)

// look is a list that several wait for.
type look struct {
	done  chan struct{} // closed when the rest is set
	names []string
	err   error
}

// looker looks at one path, again and again while somebody wants it to.
type looker struct {
	next *look // the one that has not begun
}

// Look gives what list says of path, which nobody may change. Those of this process
// who ask for one path at the same time share an answer, to a request that was sent
// after each of them had asked: a thousand that stand in a queue need not have a
// thousand lists of a thousand. The error is that of [Do].
func (s *Session) Look(ctx context.Context, path string, list func(*zk.Conn) ([]string, error)) ([]string, error) {
	if s.Over() {
		return nil, s.because()
	}
	l := s.join(path, list)
	select {
	case <-l.done:
		return l.names, l.err
	case <-s.ctx.Done():
		return nil, s.because()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Session) join(path string, list func(*zk.Conn) ([]string, error)) *look {
	s.mu.Lock()
	defer s.mu.Unlock()
	by, works := s.lookers[path]
	if !works {
		by = &looker{}
		s.lookers[path] = by
	}
	if by.next == nil {
		by.next = &look{done: make(chan struct{})}
	}
	if !works && s.cause == nil {
		s.client.running.Go(func() { s.lookOn(path, by, list) })
	}
	return by.next
}

func (s *Session) lookOn(path string, by *looker, list func(*zk.Conn) ([]string, error)) {
	for {
		s.mu.Lock()
		l := by.next
		by.next = nil
		if l == nil {
			delete(s.lookers, path)
		}
		s.mu.Unlock()
		if l == nil {
			return
		}
		l.names, _, l.err = Do(s.ctx, s, list)
		close(l.done)
	}
}
