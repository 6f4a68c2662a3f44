package reentrant

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
)

// lease is what this process knows of one lease it was granted.
type lease struct {
	*request
	held  *lock.Held
	start time.Time // of the attempt that was granted
	watch watch     // the watchdog's

	uncertain atomic.Bool // a release was sent and its outcome is unknown
}

// lease makes a lease of a grant and puts it under watch.
func (l *Locker) lease(ctx context.Context, r *request, start time.Time) *lease {
	g := &lease{request: r, start: start}
	until := start.Add(r.ttl - margin(r.ttl))
	g.held = lock.NewHeld(ctx, lock.Grant{
		Key: r.key, Owner: r.owner, Until: until,
		Release: func(ctx context.Context) error { return l.release(ctx, g) },
		Stop:    func() { l.watchdog.forget(g) },
	})
	l.watchdog.watch(g, until)
	return g
}

// margin is by how much a lease ends earlier for its holder than for the server:
// the server counts from when the command arrives, which is later than the start
// of the attempt, and the margin covers clocks that do not run at one speed and a
// timer that is late. 2 %, at most 200 ms.
func margin(ttl time.Duration) time.Duration { return min(ttl/50, 200*time.Millisecond) }

// release gives a lease back in one round trip, and makes sure of it where an
// attempt to acquire is still unaccounted for and might be carried out only now.
func (l *Locker) release(ctx context.Context, g *lease) error {
	err := l.sendRelease(ctx, g)
	if g.unanswered && !errors.Is(err, lock.ErrUnavailable) { // that one may be made again
		l.giveBack(g.request)
	}
	l.config.Observer.released(time.Since(g.start), err)
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
	mine := g.uncertain.Load() && g.held.Remaining() > 0
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
func (l *Locker) renew(ctx context.Context, batch []*lease) []renewal {
	calls := make([]*call, len(batch))
	for i, g := range batch {
		calls[i] = l.pipe.send(ctx, l.renewal(g, "evalsha", l.scripts.renew.digest))
	}
	outcome := make([]renewal, len(batch))
	for i, g := range batch {
		c := calls[i]
		if c.wait(ctx) && unknownScript(c.err) {
			c = l.pipe.send(ctx, l.renewal(g, "eval", l.scripts.renew.source))
		}
		outcome[i] = l.renewed(ctx, c)
	}
	return outcome
}

func (l *Locker) renewal(g *lease, verb, program string) once {
	return newOnce(verb, program, l.scripts.renew.keys, []any{g.lock, string(g.owner), g.lease, g.ttl.Milliseconds()})
}

func (l *Locker) renewed(ctx context.Context, c *call) renewal {
	if !c.wait(ctx) {
		return renewal{err: fmt.Errorf("%w: %w", lock.ErrUnavailable, errNoReply)}
	}
	if c.err != nil {
		return renewal{err: redisio.Error(context.Background(), c.err)}
	}
	switch c.val {
	case int64(1):
		return renewal{}
	case int64(0):
		return renewal{err: lock.ErrExpired, whole: true}
	case int64(-1):
		return renewal{err: lock.ErrLost, whole: true}
	case int64(-2):
		return renewal{err: lock.ErrExpired}
	}
	return renewal{err: strange(c.val)}
}
