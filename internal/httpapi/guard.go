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

// Guard declares a lock around a handler. A request of the route is carried out while it holds the key, and
// under the context of the lease, so that the work stops when the lock is lost.
//
// It corresponds to an annotation such as @DistributedLock(key = "#{…}") in other frameworks. It is part of
// the route table and compiled when the service starts: if the key names something that the route does not
// have, the service does not start.
type Guard struct {
	// Key is literal text with expressions in braces, as in "order:{user}:{path.id}". An expression is
	// one of github.com/expr-lang/expr over these names:
	//
	//	user        the user's id, on routes that need a user
	//	path.id     the path parameter :id of the route
	//	query.name  a query parameter; the first one if it is sent several times
	//	header("X") a header, likewise
	//	json.name   a member of the body, which must be a JSON object; not with GET
	//
	// Its result must be a string, a whole number or a boolean. If it is anything else or missing (write
	// {query.page ?? 1} for a default), the answer is invalid_request and nothing is locked. Values are
	// escaped as in a URL query, so that a value cannot look like another part of the key.
	//
	// The key is the mechanism's: it also excludes other routes and the order flow, if they lock the
	// same key with the same mechanism.
	Key string
	// Lock is the mechanism's name.
	Lock string
	// Wait is how long a request waits for the key before it is answered with busy, 0 to
	// [voucher.MaxLockWait]. 0 tries once.
	Wait time.Duration
	// Lease is a fixed lease, after which the key is free whatever the handler does. 0 leaves it to the
	// mechanism, see [lock.Options].
	Lease time.Duration
	// BestEffort says that the lock only avoids duplicate work and that nothing goes wrong without it.
	// If the mechanism's server is unavailable or does not answer, the request is carried out without the
	// lock. A lock that is lost meanwhile changes neither the work nor the answer. If another request
	// holds the key for the whole wait, the answer is busy all the same.
	BestEffort bool
}

// Locks finds mechanisms by name. [lock.Registry] implements it.
type Locks interface {
	// Locker fails with [lock.ErrUnknown] or [lock.ErrNotConfigured].
	Locker(name string) (lock.Locker, error)
	Names() []string
}

var _ Locks = (*lock.Registry)(nil)

// guard is a compiled [Guard].
type guard struct {
	Guard
	key    *keyTemplate
	locker lock.Locker
	owners *lock.Owners
	log    *slog.Logger
}

// guarded wraps the handler of a route in its guards, the first outermost.
func (a *API) guarded(rt route) (handler, error) {
	h := rt.handler
	for _, declared := range slices.Backward(rt.guards) {
		g, err := a.newGuard(declared, rt)
		if err != nil {
			return nil, fmt.Errorf("httpapi: guard of %s %s: %w", rt.method, rt.path, err)
		}
		h = g.wrap(h)
	}
	return h, nil
}

// newGuard compiles the guard that a route declares.
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

// wrap returns a handler that runs h while it holds the lock.
//
// It releases the lock before the answer is sent, so the answer can still report that the lock was lost.
// The answer is then unavailable, whatever h returned: the next holder may have worked at the same time,
// so neither a success nor a refusal is certain. A client with an Idempotency-Key repeats the request and
// gets the outcome. If the outcome of the release is unknown, the answer stays: the work ended while the
// lease still ran.
func (g *guard) wrap(h handler) handler {
	return func(ctx context.Context, r *request) (out reply, err error) {
		key, err := g.key.render(r)
		if err != nil {
			return reply{}, err
		}
		// One owner for the whole request: an inner lock on the same key is a re-entry.
		ctx = lock.WithOwner(ctx, g.owners.From(ctx))
		lease, err := g.locker.Acquire(ctx, key, lock.Options{Wait: g.Wait, TTL: g.Lease})
		if g.BestEffort && g.serverUnavailable(ctx, key, err) && ctx.Err() == nil {
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
				// The handler's own error is added as text, so that it does not choose the answer.
				out, err = reply{}, unavailable(fmt.Sprintf("lost the lock on %q during the work (%v)", key, err), lost)
			}
		}()
		return h(work, r)
	}
}

// probeTimeout bounds the check whether the lock's server answers at all.
const probeTimeout = 500 * time.Millisecond

// serverUnavailable reports whether an acquisition failed because the mechanism's server does not answer. A
// wait that timed out is ambiguous: the key may be held, or the server may hang. A server that answers an
// inspection was not the reason.
func (g *guard) serverUnavailable(ctx context.Context, key string, failed error) bool {
	switch {
	case errors.Is(failed, lock.ErrUnavailable):
		return true
	case !errors.Is(failed, lock.ErrNotAcquired):
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err := inspect(ctx, g.locker, key)
	return errors.Is(err, lock.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// release releases the lease. If the lease had ended before that, it returns the reason.
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
