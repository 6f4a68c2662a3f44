package mysqlio

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/lock"
)

// lease is a lock that lasts as long as its own connection.
type lease struct {
	*lock.Held
	locks   *ConnectionLocks
	attempt Attempt

	stop       chan struct{} // closed by a release or by Abandon
	done       chan struct{} // closed when the watcher has ended
	extensions chan extension

	// watcherReleases is set by a release that could not wait for the watcher. The watcher then releases the key.
	watcherReleases atomic.Bool

	mu        sync.Mutex
	session   *Session
	over      bool      // the session has ended
	freed     bool      // by a release
	uncertain bool      // a release gave it up without knowing the outcome
	until     time.Time // the end of a fixed lease
}

// extension asks the watcher to extend the lease.
type extension struct {
	ttl   time.Duration // 0: the lease has no end and is only checked
	reply chan<- extended
}

type extended struct {
	until time.Time
	err   error
}

// hold makes a lease of a session that has the key. The server does not know leases: a fixed lease is measured here
// only, so it may start now.
func (cl *ConnectionLocks) hold(ctx context.Context, s *Session, key string, owner lock.Owner, ttl time.Duration,
	attempt Attempt) (*lease, error) {
	l := &lease{
		locks: cl, attempt: attempt, session: s,
		stop: make(chan struct{}), done: make(chan struct{}), extensions: make(chan extension),
	}
	if ttl > 0 {
		l.until = time.Now().Add(ttl)
	}
	l.Held = lock.NewHeld(ctx, lock.Grant{
		Key: key, Owner: owner, Until: l.until, TTL: ttl,
		Release: l.release, Extend: l.extend, Stop: func() { close(l.stop) },
	})
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.closing.Err() != nil {
		cl.discardSession(s, attempt)
		l.Held.Abandon()
		return nil, fmt.Errorf("%w: %w", lock.ErrUnavailable, errClosed)
	}
	cl.holders.Store(s.id, owner)
	cl.running.Go(l.watch)
	return l, nil
}

// markOver marks the session as ended. The caller has locked l.mu.
func (l *lease) markOver() {
	l.over = true
	l.locks.holders.Delete(l.session.id)
}

// Abandon implements [lock.Abandoner]. Like a process that dies, it closes the connection. It makes sure that the
// server has noticed.
func (l *lease) Abandon() {
	l.Held.Abandon()
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.markOver()
		ctx, cancel := l.locks.cleanupContext()
		defer cancel()
		_ = l.session.terminate(ctx) // there is nobody to return it to
	}
}

// watch checks the connection, and extends and ends a fixed lease.
func (l *lease) watch() {
	defer func() {
		close(l.done)
		if l.watcherReleases.Load() {
			ctx, cancel := l.locks.cleanupContext()
			defer cancel()
			_ = l.free(ctx) // the release has already returned ErrUnavailable
		}
	}()
	tick := time.NewTicker(l.locks.config.CheckEvery)
	defer tick.Stop()
	end := time.NewTimer(0)
	defer end.Stop()
	for {
		if until := l.end(); until.IsZero() {
			end.Stop()
		} else {
			end.Reset(time.Until(until))
		}
		select {
		case <-l.stop:
			return
		case <-l.locks.closing.Done():
			l.endClosed()
			return
		case <-end.C:
			if l.expire() {
				return
			}
		case <-tick.C:
			if l.check() != nil {
				return
			}
		case e := <-l.extensions:
			x := l.checkAndExtend(e.ttl)
			e.reply <- x
			if x.err != nil {
				return
			}
		}
	}
}

func (l *lease) end() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// endClosed ends a lease because its locker was closed.
func (l *lease) endClosed() {
	l.Lose(fmt.Errorf("%w: %w", lock.ErrUnavailable, errClosed))
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.markOver()
		l.session.discard()
	}
}

// expire tells the holder that its fixed lease has ended, and then frees the key.
func (l *lease) expire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.until) || l.over {
		return l.over
	}
	if !l.Lose(lock.ErrExpired) {
		return true // a release is under way and frees the key
	}
	l.markOver()
	ctx, cancel := l.locks.cleanupContext()
	defer cancel()
	if l.attempt.Free(ctx, l.session) == nil {
		l.session.returnToPool(ctx)
	} else if l.session.terminate(ctx) == nil {
		l.locks.clearLeftovers(ctx, l.attempt)
	}
	return true
}

// check returns nil if the connection still has the key. If not, it tells the holder and returns the reason.
func (l *lease) check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := l.locks.cleanupContext()
	defer cancel()
	if l.attempt.Check(ctx, l.session) == nil {
		return nil
	}
	l.tellHolder(ctx)
	return l.endLost()
}

// checkAndExtend makes a fixed lease end ttl from now if the connection still has the key.
func (l *lease) checkAndExtend(ttl time.Duration) extended {
	if err := l.check(); err != nil || ttl == 0 {
		return extended{err: err}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = time.Now().Add(ttl)
	return extended{until: l.until}
}

// closeDelay is how long the server may take to forget a connection that it has closed. After that the connection
// counts as one that does not answer.
const closeDelay = 100 * time.Millisecond

var errNoAnswer = errors.New("the holder's connection does not answer")

// tellHolder tells the holder why its connection no longer has the key, as far as this is known. It must run before the
// session ends, because another owner may get the key then. The caller has locked l.mu.
func (l *lease) tellHolder(ctx context.Context) {
	began := time.Now()
	cause := l.lossReason(ctx)
	for errors.Is(cause, errNoAnswer) && time.Since(began) < closeDelay && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
		cause = l.lossReason(ctx)
	}
	l.Lose(cause)
}

// endLost ends a session that no longer has the key and returns the reason. The holder has been told or is releasing.
// The caller has locked l.mu.
func (l *lease) endLost() error {
	l.markOver()
	ctx, cancel := l.locks.cleanupContext()
	defer cancel()
	if err := l.session.terminate(ctx); err != nil {
		return err
	}
	l.locks.clearLeftovers(ctx, l.attempt)
	return l.lossReason(ctx)
}

// lossReason returns why this lease no longer has its key.
func (l *lease) lossReason(ctx context.Context) error {
	holder, err := l.locks.currentHolder(ctx, l.attempt)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
	case holder.Connection == 0:
		return fmt.Errorf("%w: %q", lock.ErrExpired, l.Key())
	case holder.Connection == l.session.id:
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, errNoAnswer)
	}
	return fmt.Errorf("%w: %q", lock.ErrLost, l.Key())
}

// extend has the watcher extend the lease. If ctx ends first, the check goes on without the caller: a statement that is
// cut short costs the connection, and so the lock.
func (l *lease) extend(ctx context.Context, ttl time.Duration) (time.Time, error) {
	if ctx.Err() != nil {
		return time.Time{}, fmt.Errorf("%w: %w", lock.ErrUnavailable, ctx.Err())
	}
	reply := make(chan extended, 1) // the watcher does not wait for a caller that has left
	select {
	case l.extensions <- extension{ttl, reply}:
	case <-l.stop:
		return time.Time{}, lock.ErrNotHeld
	case <-l.done:
		return time.Time{}, l.lossReason(ctx)
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("%w: %w", lock.ErrUnavailable, ctx.Err())
	}
	select {
	case x := <-reply:
		return x.until, x.err
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("%w: %w", lock.ErrUnavailable, ctx.Err())
	}
}

// release frees the key after the watcher has ended. If ctx ends earlier, the watcher frees it.
func (l *lease) release(ctx context.Context) error {
	select {
	case <-l.done:
		return l.free(ctx)
	case <-ctx.Done():
	}
	l.watcherReleases.Store(true)
	select {
	case <-l.done: // the watcher may have ended before it saw the flag
		return l.free(ctx)
	default:
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, ctx.Err())
	}
}

// free frees the key once. If the connection broke meanwhile, it makes sure that the server has noticed.
func (l *lease) free(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.freed:
		return nil
	case l.uncertain:
		return l.finishRelease(ctx, l.session.kill(ctx))
	case l.over:
		return l.lossReason(ctx)
	case l.session.dead(ctx):
		return l.endLost()
	}
	err := l.attempt.Free(ctx, l.session)
	l.markOver()
	switch {
	case err == nil:
		l.freed = true
		l.session.returnToPool(ctx)
		return nil
	case !l.session.broken: // the connection is intact and does not have the key
		return l.endLost()
	}
	return l.finishRelease(ctx, l.session.terminate(ctx))
}

// finishRelease ends a release during which the connection broke. If the server no longer knows the connection, the key
// is free: by the release or by the end of the connection.
func (l *lease) finishRelease(ctx context.Context, err error) error {
	l.uncertain = err != nil
	switch {
	case err != nil:
		return err
	case !l.until.IsZero() && !time.Now().Before(l.until):
		return l.lossReason(ctx)
	}
	l.freed = true
	l.locks.clearLeftovers(ctx, l.attempt)
	return nil
}
