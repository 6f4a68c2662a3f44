package zkio

import (
	"context"

	"github.com/go-zookeeper/zk"
)

// sharedRead is a list request that several callers wait for.
type sharedRead struct {
	done  chan struct{} // closed when names and err are set
	names []string
	err   error
}

// reader lists one path repeatedly while there are callers.
type reader struct {
	next *sharedRead // the request that has not been sent yet
}

// List returns what list reads at path. Callers must not modify the result. Concurrent callers of one path share a
// request that is sent after each of them has called, so that a thousand waiters in a queue do not each read a list of
// a thousand nodes. The error is that of [Do].
func (s *Session) List(ctx context.Context, path string, list func(*zk.Conn) ([]string, error)) ([]string, error) {
	if s.Over() {
		return nil, s.endError()
	}
	l := s.join(path, list)
	select {
	case <-l.done:
		return l.names, l.err
	case <-s.ctx.Done():
		return nil, s.endError()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Session) join(path string, list func(*zk.Conn) ([]string, error)) *sharedRead {
	s.mu.Lock()
	defer s.mu.Unlock()
	by, works := s.readers[path]
	if !works {
		by = &reader{}
		s.readers[path] = by
	}
	if by.next == nil {
		by.next = &sharedRead{done: make(chan struct{})}
	}
	if !works && s.cause == nil {
		s.client.running.Go(func() { s.readRepeatedly(path, by, list) })
	}
	return by.next
}

func (s *Session) readRepeatedly(path string, by *reader, list func(*zk.Conn) ([]string, error)) {
	for {
		s.mu.Lock()
		l := by.next
		by.next = nil
		if l == nil {
			delete(s.readers, path)
		}
		s.mu.Unlock()
		if l == nil {
			return
		}
		l.names, _, l.err = Do(s.ctx, s, list)
		close(l.done)
	}
}
