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

// lease is a lock of a connection, which it has for itself.
type lease struct {
	*lock.Held
	keeper *Keeper
	claim  Claim

	stop    chan struct{} // closed by a release or by Abandon
	done    chan struct{} // closed when nobody watches any more
	changed chan struct{} // there is another end

	// unattended: a release did not wait for the watcher, which then gives back.
	unattended atomic.Bool

	mu        sync.Mutex
	session   *Session
	over      bool      // the session is gone
	freed     bool      // by a release
	uncertain bool      // it was given up by a release that could not make sure
	until     time.Time // the end of a fixed lease
}

// hold makes a lease of a session that has the key. The server knows no leases; a
// fixed one is counted here alone, so that it may count from now.
func (k *Keeper) hold(ctx context.Context, s *Session, key string, owner lock.Owner, ttl time.Duration, claim Claim) (*lease, error) {
	l := &lease{
		keeper: k, claim: claim, session: s,
		stop: make(chan struct{}), done: make(chan struct{}), changed: make(chan struct{}, 1),
	}
	if ttl > 0 {
		l.until = time.Now().Add(ttl)
	}
	l.Held = lock.NewHeld(ctx, lock.Grant{
		Key: key, Owner: owner, Until: l.until, TTL: ttl,
		Release: l.release, Extend: l.extend, Stop: func() { close(l.stop) },
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closing.Err() != nil {
		k.clean(s, claim)
		l.Held.Abandon()
		return nil, fmt.Errorf("%w: %w", lock.ErrUnavailable, errClosed)
	}
	k.holders.Store(s.id, owner)
	k.running.Go(l.watch)
	return l, nil
}

// finish says that the session is gone. l.mu is held.
func (l *lease) finish() {
	l.over = true
	l.keeper.holders.Delete(l.session.id)
}

// Abandon implements [lock.Lease]. A process that dies closes its connections, and
// so does this; it makes sure that the server has seen it.
func (l *lease) Abandon() {
	l.Held.Abandon()
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.finish()
		ctx, cancel := l.keeper.aside()
		defer cancel()
		_ = l.session.end(ctx) // nobody is left to be told
	}
}

// watch looks after the connection and ends a fixed lease.
func (l *lease) watch() {
	defer func() {
		close(l.done)
		if l.unattended.Load() {
			ctx, cancel := l.keeper.aside()
			defer cancel()
			_ = l.free(ctx) // the release has said that it does not know
		}
	}()
	tick := time.NewTicker(l.keeper.config.CheckEvery)
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
		case <-l.keeper.closing.Done():
			l.orphan()
			return
		case <-l.changed:
		case <-end.C:
			if l.expire() {
				return
			}
		case <-tick.C:
			if !l.check() {
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

// orphan ends a lease whose locker is closed.
func (l *lease) orphan() {
	l.Lose(fmt.Errorf("%w: %w", lock.ErrUnavailable, errClosed))
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.finish()
		l.session.discard()
	}
}

// expire tells the holder of a fixed lease that it is over, and then frees the key.
func (l *lease) expire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.until) || l.over {
		return l.over
	}
	if !l.Lose(lock.ErrExpired) {
		return true // released at this moment: the release gives the key back
	}
	l.finish()
	ctx, cancel := l.keeper.aside()
	defer cancel()
	if l.claim.Free(ctx, l.session) == nil {
		l.session.giveBack(ctx)
	} else if l.session.end(ctx) == nil {
		l.keeper.clear(ctx, l.claim)
	}
	return true
}

// check reports whether the connection still has the key, and else tells the holder.
func (l *lease) check() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	ctx, cancel := l.keeper.aside()
	defer cancel()
	if l.claim.Check(ctx, l.session) == nil {
		return true
	}
	l.tell(ctx)
	_ = l.lost() // a release asks again
	return false
}

// stillThere is how long the server may take to forget a connection that it has
// closed, before that counts as one that does not answer.
const stillThere = 100 * time.Millisecond

var errNoAnswer = errors.New("the holder's connection does not answer")

// tell says to the holder why its connection no longer has the key, as far as that
// is known. It comes before the end of the session, which may let the next one in.
// l.mu is held.
func (l *lease) tell(ctx context.Context) {
	began := time.Now()
	cause := l.verdict(ctx)
	for errors.Is(cause, errNoAnswer) && time.Since(began) < stillThere && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
		cause = l.verdict(ctx)
	}
	l.Lose(cause)
}

// lost ends a session that no longer has the key, and says why. The holder has been
// told, or is releasing. l.mu is held.
func (l *lease) lost() error {
	l.finish()
	ctx, cancel := l.keeper.aside()
	defer cancel()
	if err := l.session.end(ctx); err != nil {
		return err
	}
	l.keeper.clear(ctx, l.claim)
	return l.verdict(ctx)
}

// verdict is what became of a key that this lease no longer has.
func (l *lease) verdict(ctx context.Context) error {
	holder, err := l.keeper.holder(ctx, l.claim)
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

// extend lets a fixed lease run ttl from now, if the connection still has the key.
func (l *lease) extend(ctx context.Context, ttl time.Duration) (time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return time.Time{}, l.verdict(ctx)
	}
	if err := l.claim.Check(ctx, l.session); err != nil {
		ask, cancel := context.WithTimeout(ctx, l.keeper.config.Timeout)
		defer cancel()
		l.tell(ask)
		return time.Time{}, l.lost()
	}
	if ttl == 0 {
		return time.Time{}, nil // it has no end
	}
	l.until = time.Now().Add(ttl)
	select {
	case l.changed <- struct{}{}:
	default:
	}
	return l.until, nil
}

// release gives the key back when nobody watches the session any more. If ctx does
// not last until then, the watcher does so.
func (l *lease) release(ctx context.Context) error {
	select {
	case <-l.done:
		return l.free(ctx)
	case <-ctx.Done():
	}
	l.unattended.Store(true)
	select {
	case <-l.done: // perhaps before it could see that
		return l.free(ctx)
	default:
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, ctx.Err())
	}
}

// free gives the key back, once. Where the connection broke meanwhile it makes sure
// that the server has noticed.
func (l *lease) free(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.freed:
		return nil
	case l.uncertain:
		return l.settle(ctx, l.session.kill(ctx))
	case l.over:
		return l.verdict(ctx)
	case l.session.dead(ctx):
		return l.lost()
	}
	err := l.claim.Free(ctx, l.session)
	l.finish()
	switch {
	case err == nil:
		l.freed = true
		l.session.giveBack(ctx)
		return nil
	case !l.session.broken: // it lives, and does not have the key
		return l.lost()
	}
	return l.settle(ctx, l.session.end(ctx))
}

// settle ends a release in which the connection broke: if the server no longer
// knows it, the key is given back, by the release or by the end.
func (l *lease) settle(ctx context.Context, err error) error {
	l.uncertain = err != nil
	switch {
	case err != nil:
		return err
	case !l.until.IsZero() && !time.Now().Before(l.until):
		return l.verdict(ctx)
	}
	l.freed = true
	l.keeper.clear(ctx, l.claim)
	return nil
}
