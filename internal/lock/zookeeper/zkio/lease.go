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

// Claim is what a mechanism knows of one acquisition.
type Claim struct {
	Key    string
	Record Record
	// TTL is the fixed lease, counted from Began; 0: as long as the session lives.
	TTL    time.Duration
	Began  time.Time
	Faults *lock.Faults
	// Node holds the record. Proof exists if and only if the claim does: it may be
	// the same node, if its name is the claim's own.
	Node, Proof string
	// Delete takes the claim's nodes away and nobody else's: zk.ErrNoNode where they
	// are not there.
	Delete func(*zk.Conn) error
	// Holder says who has the key: zk.ErrNoNode for nobody.
	Holder func(*zk.Conn) (Record, error)
}

// lease is a claim that was granted. ZooKeeper knows sessions and no leases: the
// end of a fixed one is brought about here.
type lease struct {
	Claim
	session *Session
	held    *lock.Held
	ended   chan struct{} // released or abandoned

	mu     sync.Mutex
	until  time.Time   // of a fixed lease
	timer  *time.Timer // deletes the nodes at the end
	unsure bool        // a delete was sent and its outcome is unknown
}

// Hold makes a lease of a claim that was granted, and delivers it. token is the zxid
// of the node's creation, which grows with every change that the server makes. The
// holder is told when gone is closed.
func (s *Session) Hold(ctx context.Context, c Claim, token int64, gone <-chan struct{}) (lock.Lease, error) {
	l := &lease{Claim: c, session: s, ended: make(chan struct{})}
	grant := lock.Grant{
		Key: c.Key, Owner: c.Record.Owner, Token: uint64(token), TTL: c.TTL,
		Release: l.release, Extend: l.extend, Stop: l.stop,
	}
	s.mu.Lock()
	if grant.Until = s.provenUntil(); c.TTL > 0 {
		l.until = c.Began.Add(c.TTL)
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
	if c.TTL > 0 {
		l.mu.Lock()
		l.timer = time.AfterFunc(time.Until(l.until), l.expire)
		l.mu.Unlock()
	}
	return lock.Deliver(ctx, l.held, c.Faults)
}

// watch tells the holder when its node was deleted. When the session is over, that
// tells the holder itself, and why.
func (l *lease) watch(gone <-chan struct{}) {
	select {
	case <-l.ended:
	case <-gone:
		if !l.session.Over() {
			l.held.Lose(fmt.Errorf("%w: the node was deleted", lock.ErrExpired))
		}
	}
}

// expire ends a fixed lease: the holder is told before anybody can get in.
func (l *lease) expire() {
	l.mu.Lock()
	if left := time.Until(l.until); left > 0 { // extended meanwhile
		l.timer.Reset(left)
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	l.held.Lose(fmt.Errorf("%w: its time is up", lock.ErrExpired))
	l.session.GiveBack(l.Delete)
}

// stop is called on the way to a release and on Abandon. In case it is the latter,
// the nodes go as a dead process's would: with the fixed lease, or a session
// timeout from now.
func (l *lease) stop() {
	close(l.ended)
	s := l.session
	s.mu.Lock()
	delete(s.leases, l)
	timeout := s.timeout
	s.mu.Unlock()
	if l.TTL == 0 {
		l.mu.Lock()
		l.timer = time.AfterFunc(timeout, func() { s.GiveBack(l.Delete) })
		l.mu.Unlock()
	}
}

// release deletes the claim. After the end of its session it asks in a new one: the
// server may not have ended the old one yet. So it does where the session is found to have
// ended while it asks; not where no word came from the server, which a new one would
// wait for as well.
func (l *lease) release(ctx context.Context) error {
	s := l.session
	if !s.Over() {
		unsure, err := l.remove(ctx, s)
		if !errors.Is(err, lock.ErrExpired) {
			return l.released(ctx, s, unsure, err)
		}
	}
	s, err := s.client.Session(ctx)
	if err != nil {
		return err
	}
	unsure, err := l.remove(ctx, s)
	return l.released(ctx, s, unsure, err)
}

func (l *lease) remove(ctx context.Context, s *Session) (unsure bool, err error) {
	_, unsure, err = Do(ctx, s, func(c *zk.Conn) (struct{}, error) { return struct{}{}, l.Delete(c) })
	return unsure, err
}

// released says what came of a release that ended with err.
func (l *lease) released(ctx context.Context, s *Session, unsure bool, err error) error {
	l.mu.Lock()
	l.unsure = l.unsure || unsure
	over := l.TTL > 0 && !time.Now().Before(l.until)
	mine := l.unsure && !over && !l.session.Over() // nothing else can have deleted it
	if (err == nil || answered(err)) && l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	switch {
	case err == nil && over: // the timer was about to do it
		return fmt.Errorf("%w: %q", lock.ErrExpired, l.Key)
	case err == nil || errors.Is(err, zk.ErrNoNode) && mine:
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return l.verdict(ctx, s)
	}
	return Error(err)
}

// verdict says what became of a claim that is not there any more.
func (l *lease) verdict(ctx context.Context, s *Session) error {
	_, _, err := Do(ctx, s, l.Holder)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return fmt.Errorf("%w: %q", lock.ErrExpired, l.Key)
	case err == nil || errors.Is(err, lock.ErrWrongKind):
		return fmt.Errorf("%w: %q", lock.ErrLost, l.Key)
	}
	return Error(err)
}

// extend moves the end of a fixed lease, in the record too. Where the lease is the
// session's it asks whether the claim is still there.
func (l *lease) extend(ctx context.Context, ttl time.Duration) (time.Time, error) {
	s, began := l.session, time.Now()
	if s.Over() {
		return time.Time{}, s.because()
	}
	ops := []any{&zk.CheckVersionRequest{Path: l.Proof, Version: -1}}
	if ttl > 0 {
		data := NewRecord(l.Record.ID, l.Record.Owner, ttl).Bytes()
		ops = append(ops, &zk.SetDataRequest{Path: l.Node, Data: data, Version: -1})
	}
	_, _, err := Do(ctx, s, func(c *zk.Conn) ([]zk.MultiResponse, error) { return c.Multi(ops...) })
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return time.Time{}, l.verdict(ctx, s)
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

// GiveBack deletes what an acquisition may have created, or a lease that is over,
// and goes on in the background where the server cannot be reached until the
// session is over and its nodes with it. It waits for the server's word, but not
// for long.
func (s *Session) GiveBack(remove func(*zk.Conn) error) {
	s.mu.Lock()
	if s.cause != nil {
		s.mu.Unlock()
		return
	}
	tried := make(chan struct{}) // once: whether that was to any avail or not
	s.client.running.Go(func() {
		first := sync.OnceFunc(func() { close(tried) })
		defer first()
		for !s.Over() {
			_, _, err := Do(s.ctx, s, func(c *zk.Conn) (struct{}, error) { return struct{}{}, remove(c) })
			if err == nil || answered(err) {
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
