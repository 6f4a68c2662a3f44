package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/lock/watchdog"
	"seckill/internal/redisscript"
)

// heldLease is what this process knows of a lease that it holds.
type heldLease struct {
	*request
	watched watchdog.Entry[*heldLease]

	releaseUnknown atomic.Bool // a release was sent and its outcome is unknown
}

// hold makes a lease of a grant and registers it with the watchdog.
func (s *Session) hold(ctx context.Context, r *request, g grant) *lock.Held {
	l := &heldLease{request: r}
	grant := lock.Grant{
		Key: r.key, Owner: r.owner, Token: g.token, Handover: g.how,
		Until:   watchdog.Until(g.start, cmp.Or(g.firstTTL, r.ttl)),
		Release: func(ctx context.Context) error { return s.release(ctx, l) },
		Extend:  func(ctx context.Context, ttl time.Duration) (time.Time, error) { return s.extend(ctx, l, ttl) },
		Stop:    func() { s.watchdog.Unwatch(&l.watched) },
	}
	if !r.autoRenew {
		grant.TTL = r.ttl
	}
	l.watched = watchdog.Entry[*heldLease]{
		Held: lock.NewHeld(ctx, grant), Start: g.start, FirstTTL: g.firstTTL, TTL: r.ttl, AutoRenew: r.autoRenew, Value: l,
	}
	s.watchdog.Watch(&l.watched)
	return l.watched.Held
}

// sameHolder reports whether two leases end together when the lock is gone.
func sameHolder(a, b *heldLease) bool { return a.lock() == b.lock() && a.owner == b.owner }

// release releases a lease in one round trip. The same command hands the lock to the next waiter of this process. Where
// an attempt to acquire is unaccounted for and may still be carried out, a clean-up follows.
func (s *Session) release(ctx context.Context, l *heldLease) error {
	h := s.waiters.startHandover(l.request, s.config.MaxLocalHandovers)
	sent := time.Now()
	reply, err := s.sendRelease(ctx, l, h)
	s.endHandover(h, sent, reply, err)
	if err == nil {
		err = l.releaseError(reply)
	}
	if l.unanswered.Load() && !errors.Is(err, lock.ErrUnavailable) { // else the caller may release again
		s.cleanUp(l.request)
	}
	return err
}

func (s *Session) sendRelease(ctx context.Context, l *heldLease, h *handover) (any, error) {
	owner, leaseID, ttl, overOthers, queueEntry := h.args()
	for again, last := false, false; ; again = true {
		c := s.batcher.runDirect(ctx, s.scripts.release, l.keys, string(l.owner), l.leaseID, owner, leaseID, ttl, overOthers,
			s.config.QueueEntryTTL.Milliseconds(), queueEntry)
		if !c.wait(ctx) {
			l.releaseUnknown.Store(true)
			return nil, fmt.Errorf("%w: %w", lock.ErrUnavailable, errors.Join(ctx.Err(), s.closing.Err()))
		}
		if c.err == nil {
			return c.val, nil
		}
		if redisscript.Answered(c.err) {
			return nil, redisio.Error(ctx, c.err)
		}
		known := notSent(c.err)
		if !known {
			l.releaseUnknown.Store(true)
		}
		if known || last {
			return nil, fmt.Errorf("%w: %w", lock.ErrUnavailable, c.err)
		}
		last = again || !c.cut // as for an attempt to acquire
	}
}

// endHandover gives the next waiter the outcome of the release.
func (s *Session) endHandover(h *handover, sent time.Time, reply any, err error) {
	if h == nil {
		return
	}
	handed, isHandover := reply.([]any)
	code, _ := reply.(int64)
	result := handoverResult{grant: grant{start: sent}, kept: code == releasedOne}
	switch {
	case err != nil:
		result.unknown = true
	case isHandover && len(handed) > 0:
		token, ok := handed[0].(int64)
		result.granted, result.token = ok, uint64(token)
	}
	if orphaned := s.waiters.endHandover(h.to, result); orphaned {
		// In the background: the waiter has left, and the releasing holder need not wait for its clean-up.
		s.background(func() { s.revoke(h.to.req, func() {}) })
	}
}

// Replies of the release script.
const (
	released    = 1
	releasedOne = 2 // the owner has other leases
	notFound    = 0
	notOwner    = -1
)

// releaseError returns the error that a reply to the release stands for. "Not found" is success where an earlier
// attempt may have released the lease, as long as the lease could not have expired.
func (l *heldLease) releaseError(reply any) error {
	releasedBefore := l.releaseUnknown.Load() && l.watched.Held.Remaining() > 0
	handed, isHandover := reply.([]any)
	code, ok := reply.(int64)
	switch {
	case isHandover && (len(handed) == 1 || releasedBefore):
		return nil
	case isHandover: // the next waiter holds it, but not because of this release
		return fmt.Errorf("%w: %q", lock.ErrLost, l.key)
	case !ok || code < notOwner || code > releasedOne:
		return unexpected(reply)
	case code == released || code == releasedOne || releasedBefore:
		return nil
	case code == notFound:
		return fmt.Errorf("%w: %q", lock.ErrExpired, l.key)
	}
	return fmt.Errorf("%w: %q", lock.ErrLost, l.key)
}

// extend makes the lease end ttl from now; ttl 0 stands for the request's TTL.
func (s *Session) extend(ctx context.Context, l *heldLease, ttl time.Duration) (time.Time, error) {
	if ttl == 0 {
		ttl = l.ttl
	}
	ttl = ttl.Truncate(time.Millisecond)
	start := time.Now()
	c := s.batcher.run(ctx, s.scripts.renew, l.keys, string(l.owner), l.leaseID, ttl.Milliseconds())
	outcome := s.parseRenewal(ctx, c)
	switch {
	case errors.Is(outcome.Err, lock.ErrUnavailable):
		// The server may have carried it out, and so have shortened the lease.
		s.watchdog.Shorten(&l.watched, watchdog.Until(start, ttl))
		return time.Time{}, errors.Join(outcome.Err, ctx.Err())
	case outcome.Err != nil:
		return time.Time{}, fmt.Errorf("%w: %q", outcome.Err, l.key)
	}
	until := watchdog.Until(start, ttl)
	s.watchdog.Extended(&l.watched, until)
	return until, nil
}

// renew renews a batch of leases. The watchdog calls it.
func (s *Session) renew(ctx context.Context, batch []*watchdog.Entry[*heldLease]) []watchdog.Outcome {
	calls := make([]*call, len(batch))
	for i, l := range batch {
		calls[i] = s.batcher.send(ctx, s.scripts.renew.ByDigest(context.Background(), renewalArgs(l.Value.request)))
	}
	outcomes := make([]watchdog.Outcome, len(batch))
	for i, l := range batch {
		c := calls[i]
		if c.wait(ctx) && redisscript.Missing(c.err) {
			c = s.batcher.send(ctx, s.scripts.renew.BySource(context.Background(), renewalArgs(l.Value.request)))
		}
		outcomes[i] = s.parseRenewal(ctx, c)
	}
	return outcomes
}

func renewalArgs(r *request) []any {
	return redisscript.Args(r.keys, string(r.owner), r.leaseID, r.ttl.Milliseconds())
}

// parseRenewal parses the reply to a renewal.
func (s *Session) parseRenewal(ctx context.Context, c *call) watchdog.Outcome {
	if !c.wait(ctx) {
		return watchdog.Outcome{Err: fmt.Errorf("%w: %w", lock.ErrUnavailable, errNoReply)}
	}
	return renewalOutcome(c.val, c.err)
}

func renewalOutcome(reply any, err error) watchdog.Outcome {
	if err != nil {
		return watchdog.Outcome{Err: redisio.Error(context.Background(), err)}
	}
	switch reply {
	case int64(1):
		return watchdog.Outcome{}
	case int64(0):
		return watchdog.Outcome{Err: lock.ErrExpired, AllOfHolder: true}
	case int64(-1):
		return watchdog.Outcome{Err: lock.ErrLost, AllOfHolder: true}
	case int64(-2):
		return watchdog.Outcome{Err: lock.ErrExpired}
	}
	return watchdog.Outcome{Err: unexpected(reply)}
}
