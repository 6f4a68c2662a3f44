package zkio

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"seckill/internal/lock"
)

// ready waits until requests can be made: [lock.ErrUnavailable] when the session
// is over, or has no connection for Config.CommandTimeout.
func (s *Session) ready(ctx context.Context) error {
	s.mu.Lock()
	up, isUp := s.up, s.isUp
	s.mu.Unlock()
	if s.Over() {
		return s.because()
	}
	if isUp {
		return nil
	}
	timer := time.NewTimer(s.client.config.CommandTimeout)
	defer timer.Stop()
	select {
	case <-up:
		return nil
	case <-s.ctx.Done():
		return s.because()
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, errNoConn)
	}
}

// attempts is how often a request is sent whose reply gets lost. It rests after each
// of them, for twice as long as the time before: 310 ms in all.
const (
	attempts  = 5
	firstRest = 10 * time.Millisecond
)

// Do makes a request, and repeats it where the connection broke before the reply, or
// the server's reply does not say what became of it (it is overloaded, or failed):
// unsure then says that an earlier attempt may have been carried out, so that a
// node that "exists" or is "not there" may be this request's own doing. Who calls it
// again after [lock.ErrUnavailable] need not rest in between: Do has. A request
// that ctx cuts short may be carried out later. The error is the server's, ctx's, or
// [lock.ErrUnavailable].
func Do[T any](ctx context.Context, s *Session, request func(*zk.Conn) (T, error)) (result T, unsure bool, err error) {
	for n := range attempts {
		if err := s.ready(ctx); err != nil {
			return result, unsure, err
		}
		result, err = send(ctx, s, request)
		switch {
		case err == nil || answered(err):
			return result, unsure, err
		case ctx.Err() != nil:
			return result, true, ctx.Err()
		}
		unsure = true
		if err := s.rest(ctx, firstRest<<n); err != nil {
			return result, unsure, err
		}
	}
	return result, unsure, fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
}

// rest waits for d, no longer than the session lives. The error is that of ctx.
func (s *Session) rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-s.ctx.Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send makes one attempt. A connection on which nothing arrives for
// Config.CommandTimeout is given up. As replies come in the order of the requests,
// one that is late behind others is none.
func send[T any](ctx context.Context, s *Session, request func(*zk.Conn) (T, error)) (T, error) {
	type reply struct {
		result T
		err    error
	}
	replies := make(chan reply, 1)
	go func() {
		result, err := request(s.conn)
		replies <- reply{result, err}
	}()
	patience := s.client.config.CommandTimeout
	sent, timer := time.Now(), time.NewTimer(patience)
	defer timer.Stop()
	var none T
	for {
		select {
		case r := <-replies:
			return r.result, r.err
		case <-timer.C:
			if left := patience - time.Since(s.heardSince(sent)); left > 0 {
				timer.Reset(left)
			} else {
				s.kick() // and the driver fails the request
			}
		case <-s.ctx.Done():
			return none, s.because()
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

// answered reports whether err says what became of a request. That of a connection or
// a session that broke does not, nor does an error of the server that is not about the
// request: after some of those it may have been carried out all the same, and what is
// to be given back still has to be.
func answered(err error) bool {
	for _, word := range []error{
		zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrBadVersion, zk.ErrNoChildrenForEphemerals,
		zk.ErrNoAuth, zk.ErrInvalidACL, zk.ErrAPIError, zk.ErrBadArguments, zk.ErrInvalidPath,
		lock.ErrWrongKind, // what was made of an answer
	} {
		if errors.Is(err, word) {
			return true
		}
	}
	return false
}

// Error translates what [Do] returned to an error of the lock contract.
// [lock.ErrWrongKind] is a node in the way that no mechanism put there.
func Error(err error) error {
	switch {
	case err == nil || errors.Is(err, lock.ErrUnavailable) || errors.Is(err, lock.ErrWrongKind):
		return err
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, zk.ErrNoChildrenForEphemerals):
		return fmt.Errorf("%w: %w", lock.ErrWrongKind, err)
	}
	return fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
}

// MakePath creates a persistent node and those above it, where they are missing.
func (s *Session) MakePath(ctx context.Context, path string) error {
	for end := 1; end <= len(path); end++ {
		if end < len(path) && path[end] != '/' {
			continue
		}
		_, _, err := Do(ctx, s, func(c *zk.Conn) (string, error) {
			return c.Create(path[:end], nil, zk.FlagPersistent, ACL())
		})
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return nil
}

// ACL lets everybody do everything, as the servers' networks are trusted to be
// closed.
func ACL() []zk.ACL { return zk.WorldACL(zk.PermAll) }

// Path is where a mechanism keeps its locks: below prefix ("" is /seckill/locks), in
// a folder of its own, so that two mechanisms never meet in one node.
func Path(prefix, mechanism string) string {
	if prefix == "" {
		prefix = "/seckill/locks"
	}
	return strings.TrimSuffix(prefix, "/") + "/" + mechanism
}
