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

// ready waits until the session can send requests. It returns [lock.ErrUnavailable] if the session is over or has no
// connection for Config.CommandTimeout.
func (s *Session) ready(ctx context.Context) error {
	s.mu.Lock()
	up, isUp := s.up, s.isUp
	s.mu.Unlock()
	if s.Over() {
		return s.endError()
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
		return s.endError()
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, errNoConn)
	}
}

// attempts is how often a request is sent if its reply gets lost. Do waits after each attempt, twice as long as after
// the one before: 310 ms in all.
const (
	attempts     = 5
	firstBackoff = 10 * time.Millisecond
)

// Do sends a request. It repeats the request if the connection broke before the reply, or if the reply does not tell
// whether it was carried out (the server is overloaded or has failed). Then uncertain reports that an earlier attempt
// may have been carried out: a node that "exists" or "does not exist" may be the result of this same request. A caller
// that repeats Do after [lock.ErrUnavailable] need not wait in between, because Do has waited. A request that ctx cuts
// short may be carried out later. The error is that of the server, that of ctx, or [lock.ErrUnavailable].
func Do[T any](
	ctx context.Context, s *Session, request func(*zk.Conn) (T, error),
) (result T, uncertain bool, err error) {
	for n := range attempts {
		if err := s.ready(ctx); err != nil {
			return result, uncertain, err
		}
		result, err = send(ctx, s, request)
		switch {
		case err == nil || Answered(err):
			return result, uncertain, err
		case ctx.Err() != nil:
			return result, true, ctx.Err()
		}
		uncertain = true
		if err := s.pause(ctx, firstBackoff<<n); err != nil {
			return result, uncertain, err
		}
	}
	return result, uncertain, fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
}

// pause waits for d, or until the session is over. It returns the error of ctx if that ends first.
func (s *Session) pause(ctx context.Context, d time.Duration) error {
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

// send makes one attempt. If nothing arrives on the connection for Config.CommandTimeout, it drops the connection.
// Replies come in the order of the requests, so as long as other replies arrive, the connection works.
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
	limit := s.client.config.CommandTimeout
	sent, timer := time.Now(), time.NewTimer(limit)
	defer timer.Stop()
	var none T
	for {
		select {
		case r := <-replies:
			return r.result, r.err
		case <-timer.C:
			if left := limit - time.Since(s.lastHeard(sent)); left > 0 {
				timer.Reset(left)
			} else {
				s.dropConnection() // then the driver fails the request
			}
		case <-s.ctx.Done():
			return none, s.endError()
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

// Answered reports whether err tells the outcome of a request. The error of a broken connection or session does not,
// nor does an error of the server that is not about the request: after some of these the request may have been carried
// out, and its nodes still have to be deleted.
func Answered(err error) bool {
	for _, outcome := range []error{
		zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrBadVersion, zk.ErrNoChildrenForEphemerals,
		zk.ErrNoAuth, zk.ErrInvalidACL, zk.ErrAPIError, zk.ErrBadArguments, zk.ErrInvalidPath,
		lock.ErrWrongKind, // made from an answer
	} {
		if errors.Is(err, outcome) {
			return true
		}
	}
	return false
}

// Error translates an error of [Do] to the lock contract. [lock.ErrWrongKind] means that a node exists that no
// mechanism has created.
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

// MakePath creates a persistent node and its parents, as far as they are missing.
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

// ACL allows everything to everybody, because access to the servers' networks is assumed to be restricted.
func ACL() []zk.ACL { return zk.WorldACL(zk.PermAll) }

// Path returns the node below which a mechanism keeps its locks. prefix "" means /seckill/locks. Each mechanism has its
// own path, so that two never use the same node.
func Path(prefix, mechanism string) string {
	if prefix == "" {
		prefix = "/seckill/locks"
	}
	return strings.TrimSuffix(prefix, "/") + "/" + mechanism
}
