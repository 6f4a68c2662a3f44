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
)

// lease is what this process knows of one lease it was granted.
type lease struct {
	*request
	dog watchdog.Lease[*lease] // what the watchdog knows of it

	uncertain atomic.Bool // a release was sent and its outcome is unknown
}

// lease makes a lease of a grant and puts it under watch.
func (s *Session) lease(ctx context.Context, r *request, granted grant) *lock.Held {
	g := &lease{request: r}
	grant := lock.Grant{
		Key: r.key, Owner: r.owner, Token: granted.token,
		Until:   watchdog.Until(granted.start, cmp.Or(granted.first, r.ttl)),
		Release: func(ctx context.Context) error { return s.release(ctx, g) },
		Extend:  func(ctx context.Context, ttl time.Duration) (time.Time, error) { return s.extend(ctx, g, ttl) },
		Stop:    func() { s.watchdog.Forget(&g.dog) },
	}
	if !r.renewed {
		grant.TTL = r.ttl
	}
	g.dog = watchdog.Lease[*lease]{
		Held: lock.NewHeld(ctx, grant), Start: granted.start, First: granted.first, TTL: r.ttl, Renewed: r.renewed, Of: g,
	}
	s.watchdog.Watch(&g.dog)
	return g.dog.Held
}

// sameHold reports whether two leases end together when the lock is gone.
func sameHold(a, b *lease) bool { return a.lock() == b.lock() && a.owner == b.owner }

// release gives a lease back in one round trip, and makes sure of it where an
// attempt to acquire is still unaccounted for and might be carried out only now.
// The same command passes the lock on to who is next in this process.
func (s *Session) release(ctx context.Context, g *lease) error {
	next := s.room.successor(g.request, s.config.Passes)
	sent := time.Now()
	reply, err := s.sendRelease(ctx, g, next)
	s.settleSuccessor(next, sent, reply, err)
	if err == nil {
		err = g.verdict(reply)
	}
	if g.unanswered.Load() && !errors.Is(err, lock.ErrUnavailable) { // that one may be made again
		s.giveBack(g.request)
	}
	return err
}

func (s *Session) sendRelease(ctx context.Context, g *lease, next *successor) (any, error) {
	var err error
	owner, id, ttl, passes, place := next.args()
	for range 2 {
		c := s.pipe.run(ctx, s.scripts.release, g.keys, string(g.owner), g.lease, owner, id, ttl, passes, s.config.PlaceTimeout.Milliseconds(), place)
		if !c.wait(ctx) {
			g.uncertain.Store(true)
			return nil, fmt.Errorf("%w: %w", lock.ErrUnavailable, errors.Join(ctx.Err(), s.closing.Err()))
		}
		if c.err == nil {
			return c.val, nil
		}
		if answered(c.err) {
			return nil, redisio.Error(ctx, c.err)
		}
		if err = c.err; never(err) {
			break
		}
		g.uncertain.Store(true)
	}
	return nil, fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
}

// settleSuccessor tells who was to be next what became of it.
func (s *Session) settleSuccessor(next *successor, sent time.Time, reply any, err error) {
	if next == nil {
		return
	}
	handed, isHanded := reply.([]any)
	code, _ := reply.(int64)
	out := handOver{grant: grant{start: sent}, kept: code == stillHeld}
	switch {
	case err != nil:
		out.unknown = true
	case isHanded && len(handed) > 0:
		token, ok := handed[0].(int64)
		out.granted, out.token = ok, uint64(token)
	}
	if abandoned := s.room.settle(next.waiter, out); abandoned {
		// In the background: the waiter is not here any more, and whoever releases
		// need not wait for its clean-up.
		s.background(func() { s.settle(next.waiter.r, func() {}) })
	}
}

// Replies of a release.
const (
	givenBack = 1
	stillHeld = 2 // given back, and the owner has other leases
	notThere  = 0
	notMine   = -1
)

// verdict is what a reply of the release means. "Not there" is success where an
// earlier attempt may have been the one that took it away, as long as the lease
// could not have run out by itself.
func (g *lease) verdict(reply any) error {
	mine := g.uncertain.Load() && g.dog.Held.Remaining() > 0
	handed, isHanded := reply.([]any)
	code, ok := reply.(int64)
	switch {
	case isHanded && (len(handed) == 1 || mine):
		return nil
	case isHanded: // somebody else's already, and not by this release
		return fmt.Errorf("%w: %q", lock.ErrLost, g.key)
	case !ok || code < notMine || code > stillHeld:
		return strange(reply)
	case code == givenBack || code == stillHeld || mine:
		return nil
	case code == notThere:
		return fmt.Errorf("%w: %q", lock.ErrExpired, g.key)
	}
	return fmt.Errorf("%w: %q", lock.ErrLost, g.key)
}

// extend asks for ttl from now; for the lease's own way where ttl is 0.
func (s *Session) extend(ctx context.Context, g *lease, ttl time.Duration) (time.Time, error) {
	if ttl == 0 {
		ttl = g.ttl
	}
	ttl = ttl.Truncate(time.Millisecond)
	start := time.Now()
	c := s.pipe.run(ctx, s.scripts.renew, g.keys, string(g.owner), g.lease, ttl.Milliseconds())
	out := s.renewed(ctx, c)
	switch {
	case errors.Is(out.Err, lock.ErrUnavailable):
		// It may have been carried out, and have made the lease shorter.
		s.watchdog.AtMost(&g.dog, watchdog.Until(start, ttl))
		return time.Time{}, errors.Join(out.Err, ctx.Err())
	case out.Err != nil:
		return time.Time{}, fmt.Errorf("%w: %q", out.Err, g.key)
	}
	until := watchdog.Until(start, ttl)
	s.watchdog.Extended(&g.dog, until)
	return until, nil
}

// renew asks for a whole lease again, for all of batch at once. It is how the
// watchdog reaches Redis.
func (s *Session) renew(ctx context.Context, batch []*watchdog.Lease[*lease]) []watchdog.Outcome {
	calls := make([]*call, len(batch))
	for i, g := range batch {
		calls[i] = s.pipe.send(ctx, s.renewal(g.Of, "evalsha", s.scripts.renew.digest))
	}
	outcome := make([]watchdog.Outcome, len(batch))
	for i, g := range batch {
		c := calls[i]
		if c.wait(ctx) && unknownScript(c.err) {
			c = s.pipe.send(ctx, s.renewal(g.Of, "eval", s.scripts.renew.source))
		}
		outcome[i] = s.renewed(ctx, c)
	}
	return outcome
}

func (s *Session) renewal(g *lease, verb, program string) once {
	return command(verb, program, g.keys, []any{string(g.owner), g.lease, g.ttl.Milliseconds()})
}

// renewed makes sense of a reply to the renewal.
func (s *Session) renewed(ctx context.Context, c *call) watchdog.Outcome {
	if !c.wait(ctx) {
		return watchdog.Outcome{Err: fmt.Errorf("%w: %w", lock.ErrUnavailable, errNoReply)}
	}
	if c.err != nil {
		return watchdog.Outcome{Err: redisio.Error(context.Background(), c.err)}
	}
	switch c.val {
	case int64(1):
		return watchdog.Outcome{}
	case int64(0):
		return watchdog.Outcome{Err: lock.ErrExpired, Whole: true}
	case int64(-1):
		return watchdog.Outcome{Err: lock.ErrLost, Whole: true}
	case int64(-2):
		return watchdog.Outcome{Err: lock.ErrExpired}
	}
	return watchdog.Outcome{Err: strange(c.val)}
}
