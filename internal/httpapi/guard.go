package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// Guard declares a lock around a handler: a request that matches the route is carried
// out while it holds the key, and under the context of the lease, so that work whose
// lock is lost is told to stop.
//
// It is what an annotation such as @DistributedLock(key = "#{…}") is elsewhere,
// written down in the table of routes and compiled when the service starts: a key
// that names something the route does not have keeps it from starting.
type Guard struct {
	// Key is literal text with expressions in braces, as in "order:{user}:{path.id}".
	// An expression is one of github.com/expr-lang/expr over
	//
	//	user        the user's id, on routes that need a user
	//	path.id     the part of the address that the route calls :id
	//	query.name  a query parameter, the first where it is sent several times
	//	header("X") a header, likewise
	//	json.name   a member of the body, which has to be a JSON object; not with GET
	//
	// Its result is a string, a whole number or a boolean. A request for which it is
	// anything else, or missing (write {query.page ?? 1} for a default), is answered
	// with invalid_request, and nothing is locked. Values are escaped as in a query,
	// so that what a client sends cannot look like another part of the key.
	//
	// The key is that of the mechanism: whoever else locks the same one there, under
	// whatever route or in the order flow, is excluded too.
	Key string
	// Lock is the mechanism's name.
	Lock string
	// Wait is how long a request waits for the key before it is answered with busy,
	// 0 to [voucher.MaxLockWait]. 0: not at all.
	Wait time.Duration
	// Lease is a fixed lease, after which the key is free whatever the handler does.
	// 0 leaves it to the mechanism, see [lock.Options].
	Lease time.Duration
	// BestEffort says that the lock only spares work that would be done twice, and that
	// nothing goes wrong without it. The request is then carried out unlocked where the
	// mechanism's server is unavailable, and a lock that is lost at work changes
	// neither the work nor the answer. Who waited in vain is told busy all the same.
	BestEffort bool
}

// Locks are the mechanisms by name; [lock.Registry] has them.
type Locks interface {
	// Locker fails with [lock.ErrUnknown] or [lock.ErrNotConfigured].
	Locker(name string) (lock.Locker, error)
	Names() []string
}

var _ Locks = (*lock.Registry)(nil)

// guard is a Guard, ready for use.
type guard struct {
	Guard
	key    *keyTemplate
	locker lock.Locker
	owners *lock.Owners
	log    *slog.Logger
}

// guarded puts the guards of a route around its handler, the first outermost.
func (a *API) guarded(rt route) (handler, error) {
	h := rt.handler
	for _, declared := range slices.Backward(rt.guards) {
		g, err := a.newGuard(declared, rt)
		if err != nil {
			return nil, fmt.Errorf("httpapi: guard of %s %s: %w", rt.method, rt.path, err)
		}
		h = g.around(h)
	}
	return h, nil
}

// newGuard compiles what a route declares.
func (a *API) newGuard(declared Guard, rt route) (*guard, error) {
	key, err := compileKey(declared.Key, rt)
	if err != nil {
		return nil, err
	}
	if err := lock.Check("key", lock.Options{Wait: declared.Wait, TTL: declared.Lease}); err != nil {
		return nil, err
	}
	if declared.Wait > voucher.MaxLockWait {
		return nil, fmt.Errorf("the wait limit is %v; at most %v", declared.Wait, voucher.MaxLockWait)
	}
	locker, err := a.deps.Lockers.Locker(declared.Lock)
	if err != nil {
		return nil, err
	}
	return &guard{Guard: declared, key: key, locker: locker, owners: a.owners, log: a.deps.Log}, nil
}

// around returns h, carried out under the lock.
//
// The lock is given back before the answer is sent, so the answer can still say that
// it was lost. It then says unavailable, whatever the handler returned: what was done
// may have met what the next holder did, and neither success nor a refusal that was
// decided meanwhile can be vouched for. A client with an Idempotency-Key repeats the
// request and is told what became of it. A release without an outcome changes nothing:
// the work was over while the lease still ran.
func (g *guard) around(h handler) handler {
	return func(ctx context.Context, r *request) (out reply, err error) {
		key, err := g.key.render(r)
		if err != nil {
			return reply{}, err
		}
		// One owner for the whole request: who locks the same key further in re-enters.
		ctx = lock.WithOwner(ctx, g.owners.From(ctx))
		lease, err := g.locker.Acquire(ctx, key, lock.Options{Wait: g.Wait, TTL: g.Lease})
		if g.BestEffort && errors.Is(err, lock.ErrUnavailable) && ctx.Err() == nil {
			g.log.LogAttrs(ctx, slog.LevelWarn, "carried out without its lock",
				slog.String("lock", g.Lock), slog.String("key", key), slog.String("request_id", r.id), slog.Any("error", err))
			return h(ctx, r)
		}
		if err != nil {
			return reply{}, err
		}
		work := lease.Context()
		if g.BestEffort {
			work = ctx
		}
		defer func() { // also when the handler panics
			if lost := g.release(ctx, lease); lost != nil && !g.BestEffort {
				// The handler's own error is told as text: it must not choose the answer.
				out, err = reply{}, unavailable(fmt.Sprintf("lost the lock on %q at work (%v)", key, err), lost)
			}
		}()
		return h(work, r)
	}
}

// release gives the lease back, and returns why it was over before that, if it was.
func (g *guard) release(ctx context.Context, lease lock.Lease) (lost error) {
	expired := lease.Remaining() <= 0
	err := lock.Release(ctx, lease)
	select {
	case <-lease.Lost():
		lost = context.Cause(lease.Context())
	default:
		if errors.Is(err, lock.ErrExpired) || errors.Is(err, lock.ErrLost) {
			lost = err
		} else if expired {
			lost = lock.ErrExpired
		}
	}
	if err != nil {
		g.log.LogAttrs(ctx, slog.LevelWarn, "lock release failed",
			slog.String("lock", g.Lock), slog.String("key", lease.Key()),
			slog.String("owner", string(lease.Owner())), slog.Any("error", err))
	}
	return lost
}
