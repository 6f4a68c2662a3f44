package zkio

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"seckill/internal/lock"
)

// Attempt is one acquisition of one key by a mechanism.
type Attempt struct {
	Key    string
	Record Record
	// TTL is the fixed lease, counted from Began. 0 means as long as the session lives.
	TTL   time.Duration
	Began time.Time
	// Node holds the record. Marker exists exactly as long as the lock is held by this attempt. Both may be one node if
	// its name is unique to the attempt.
	Node, Marker string
	// Handover says how the lock came to this attempt.
	Handover lock.Handover
	// Delete deletes the nodes of this attempt and no others. It returns zk.ErrNoNode if they do not exist.
	Delete func(*zk.Conn) error
	// Holder returns the record of the holder, or zk.ErrNoNode if there is none.
	Holder func(*zk.Conn) (Record, error)
}

// lease is a granted attempt. ZooKeeper has sessions and no leases, so this type ends a fixed lease.
type lease struct {
	Attempt
	session *Session
	held    *lock.Held
	ended   chan struct{} // released or abandoned

	mu        sync.Mutex
	until     time.Time   // of a fixed lease
	timer     *time.Timer // deletes the nodes at the end
	uncertain bool        // a delete was sent and its outcome is unknown
}

// Hold makes a lease of a granted attempt and delivers it. token is the zxid of the node's creation, which grows with
// every change on the server. The holder is told when gone is closed.
func (s *Session) Hold(ctx context.Context, a Attempt, token int64, gone <-chan struct{}) (lock.Lease, error) {
	l := &lease{Attempt: a, session: s, ended: make(chan struct{})}
	grant := lock.Grant{
		Key: a.Key, Owner: a.Record.Owner, Token: uint64(token), Handover: a.Handover, TTL: a.TTL,
		Release: l.release, Extend: l.extend, Stop: l.stop,
	}
	s.mu.Lock()
	if grant.Until = s.provenUntil(); a.TTL > 0 {
		l.until = a.Began.Add(a.TTL)
		grant.Until = l.until
	}
	l.held = lock.NewHeld(ctx, grant)
	cause := s.cause
	if cause == nil {
		s.leases[l] = struct{}{}
		s.client.running.Go(func() { l.watch(gone) })
	}
	s.mu.Unlock()
	if cause != nil {
		l.held.Lose(cause)
	}
	if a.TTL > 0 {
		l.mu.Lock()
		l.timer = time.AfterFunc(time.Until(l.until), l.expire)
		l.mu.Unlock()
	}
	return lock.Deliver(ctx, l.held)
}

// watch tells the holder when its node was deleted. If the session is over, the session tells the holder the reason.
func (l *lease) watch(gone <-chan struct{}) {
	select {
	case <-l.ended:
	case <-gone:
		if !l.session.Over() {
			l.held.Lose(fmt.Errorf("%w: the node was deleted", lock.ErrExpired))
		}
	}
}

// expire ends a fixed lease. It tells the holder before another owner can get the lock.
func (l *lease) expire() {
	l.mu.Lock()
	if left := time.Until(l.until); left > 0 { // extended meanwhile
		l.timer.Reset(left)
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	l.held.Lose(fmt.Errorf("%w: the fixed lease has ended", lock.ErrExpired))
	l.session.DeleteEventually(l.Delete)
}

// stop is called by a release and by Abandon. After Abandon the nodes are deleted as those of a dead process would be:
// at the end of the fixed lease, or a session timeout from now.
func (l *lease) stop() {
	close(l.ended)
	s := l.session
	s.mu.Lock()
	delete(s.leases, l)
	timeout := s.timeout
	s.mu.Unlock()
	if l.TTL == 0 {
		l.mu.Lock()
		l.timer = time.AfterFunc(timeout, func() { s.DeleteEventually(l.Delete) })
		l.mu.Unlock()
	}
}

// release deletes the nodes. If the session is over, or ends during the request, it uses a new session, because the
// server may not have ended the old one yet. If the server does not answer, it does not try a new session, which would
// get no answer either.
func (l *lease) release(ctx context.Context) error {
	s := l.session
	if !s.Over() {
		uncertain, err := l.deleteNodes(ctx, s)
		if !errors.Is(err, lock.ErrExpired) {
			return l.released(ctx, s, uncertain, err)
		}
	}
	s, err := s.client.Session(ctx)
	if err != nil {
		return err
	}
	uncertain, err := l.deleteNodes(ctx, s)
	return l.released(ctx, s, uncertain, err)
}

func (l *lease) deleteNodes(ctx context.Context, s *Session) (uncertain bool, err error) {
	_, uncertain, err = Do(ctx, s, func(c *zk.Conn) (struct{}, error) { return struct{}{}, l.Delete(c) })
	return uncertain, err
}

// released returns the result of a release whose request ended with err.
func (l *lease) released(ctx context.Context, s *Session, uncertain bool, err error) error {
	l.mu.Lock()
	l.uncertain = l.uncertain || uncertain
	over := l.TTL > 0 && !time.Now().Before(l.until)
	mine := l.uncertain && !over && !l.session.Over() // only this release can have deleted the nodes
	if (err == nil || Answered(err)) && l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	switch {
	case err == nil && over: // the lease had already ended
		return fmt.Errorf("%w: %q", lock.ErrExpired, l.Key)
	case err == nil || errors.Is(err, zk.ErrNoNode) && mine:
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return l.lossReason(ctx, s)
	}
	return Error(err)
}

// lossReason returns why the nodes no longer exist.
func (l *lease) lossReason(ctx context.Context, s *Session) error {
	_, _, err := Do(ctx, s, l.Holder)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return fmt.Errorf("%w: %q", lock.ErrExpired, l.Key)
	case err == nil || errors.Is(err, lock.ErrWrongKind):
		return fmt.Errorf("%w: %q", lock.ErrLost, l.Key)
	}
	return Error(err)
}

// extend moves the end of a fixed lease, also in the record. For a lease without a fixed end it checks that the nodes
// still exist.
func (l *lease) extend(ctx context.Context, ttl time.Duration) (time.Time, error) {
	s, began := l.session, time.Now()
	if s.Over() {
		return time.Time{}, s.endError()
	}
	ops := []any{&zk.CheckVersionRequest{Path: l.Marker, Version: -1}}
	if ttl > 0 {
		data := NewRecord(l.Record.ID, l.Record.Owner, ttl).Bytes()
		ops = append(ops, &zk.SetDataRequest{Path: l.Node, Data: data, Version: -1})
	}
	_, _, err := Do(ctx, s, func(c *zk.Conn) ([]zk.MultiResponse, error) { return c.Multi(ops...) })
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return time.Time{}, l.lossReason(ctx, s)
	case err != nil:
		return time.Time{}, Error(err)
	}
	if ttl == 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.provenUntil(), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = began.Add(ttl)
	l.timer.Reset(time.Until(l.until))
	return l.until, nil
}

// DeleteEventually deletes the nodes of a failed acquisition or of a lease that has ended. It waits a short time for
// the server's answer. If the server cannot be reached, it continues in the background until the session is over and
// its nodes with it.
func (s *Session) DeleteEventually(remove func(*zk.Conn) error) {
	s.mu.Lock()
	if s.cause != nil {
		s.mu.Unlock()
		return
	}
	tried := make(chan struct{}) // closed after the first try, successful or not
	s.client.running.Go(func() {
		first := sync.OnceFunc(func() { close(tried) })
		defer first()
		for !s.Over() {
			_, _, err := Do(s.ctx, s, func(c *zk.Conn) (struct{}, error) { return struct{}{}, remove(c) })
			if err == nil || Answered(err) {
				return
			}
			first()
		}
	})
	s.mu.Unlock()
	timer := time.NewTimer(2 * s.client.config.CommandTimeout)
	defer timer.Stop()
	select {
	case <-tried:
	case <-timer.C:
	}
}
