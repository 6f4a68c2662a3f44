package reentrant

import (
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
func (l *Locker) lease(ctx context.Context, r *request, start time.Time) *lease {
	g := &lease{request: r}
	g.dog = watchdog.Lease[*lease]{
		Held: lock.NewHeld(ctx, lock.Grant{
			Key: r.key, Owner: r.owner, Until: watchdog.Until(start, r.ttl),
			Release: func(ctx context.Context) error { return l.release(ctx, g) },
			Stop:    func() { l.watchdog.Forget(&g.dog) },
		}),
		Start: start, TTL: r.ttl, Renewed: r.renewed, Of: g,
	}
	l.watchdog.Watch(&g.dog)
	return g
}

// sameHold reports whether two leases end together when the lock is gone.
func sameHold(a, b *lease) bool { return a.lock == b.lock && a.owner == b.owner }

// release gives a lease back in one round trip, and makes sure of it where an
// attempt to acquire is still unaccounted for and might be carried out only now.
func (l *Locker) release(ctx context.Context, g *lease) error {
	err := l.sendRelease(ctx, g)
	if g.unanswered && !errors.Is(err, lock.ErrUnavailable) { // that one may be made again
		l.giveBack(g.request)
	}
	return err
}

func (l *Locker) sendRelease(ctx context.Context, g *lease) error {
	var err error
	for range 2 {
		c := l.pipe.run(ctx, l.scripts.release, g.lock, g.channel, string(g.owner), g.lease)
		if !c.wait(ctx) {
			g.uncertain.Store(true)
			return fmt.Errorf("%w: %w", lock.ErrUnavailable, errors.Join(ctx.Err(), l.closing.Err()))
		}
		if c.err == nil {
			return g.verdict(c.val)
		}
		if answered(c.err) {
			return redisio.Error(ctx, c.err)
		}
		if err = c.err; never(err) {
			break
		}
		g.uncertain.Store(true)
	}
	return fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
}

// verdict is what a reply of release.lua means. "Not there" is success where an
// earlier attempt may have been the one that took it away, as long as the lease
// could not have run out by itself.
func (g *lease) verdict(reply any) error {
	code, ok := reply.(int64)
	mine := g.uncertain.Load() && g.dog.Held.Remaining() > 0
	switch {
	case !ok || code < -1 || code > 1:
		return strange(reply)
	case code == 1 || mine:
		return nil
	case code == 0:
		return fmt.Errorf("%w: %q", lock.ErrExpired, g.key)
	}
	return fmt.Errorf("%w: %q", lock.ErrLost, g.key)
}

// renew asks for a whole lease again, for all of batch at once. It is how the
// watchdog reaches Redis.
func (l *Locker) renew(ctx context.Context, batch []*watchdog.Lease[*lease]) []watchdog.Outcome {
	calls := make([]*call, len(batch))
	for i, g := range batch {
		calls[i] = l.pipe.send(ctx, l.renewal(g.Of, "evalsha", l.scripts.renew.digest))
	}
	outcome := make([]watchdog.Outcome, len(batch))
	for i, g := range batch {
		c := calls[i]
		if c.wait(ctx) && unknownScript(c.err) {
			c = l.pipe.send(ctx, l.renewal(g.Of, "eval", l.scripts.renew.source))
		}
		outcome[i] = l.renewed(ctx, c)
	}
	return outcome
}

func (l *Locker) renewal(g *lease, verb, program string) once {
	return newOnce(verb, program, l.scripts.renew.keys, []any{g.lock, string(g.owner), g.lease, g.ttl.Milliseconds()})
}

func (l *Locker) renewed(ctx context.Context, c *call) watchdog.Outcome {
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
