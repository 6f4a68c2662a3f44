package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// Guard declares a lock around a handler, as an annotation such as @DistributedLock(key = "#id") does in other
// frameworks. A request of the route is carried out while it holds the key, and under the context of the lease, so that
// the work stops when the lock is lost. A key that names what the route does not have keeps the service from starting.
type Guard struct {
	// Key has parts between colons, as in "audit:#id". #id is the path parameter :id of the route, #user the user's id
	// on a route that needs a user; every other part is literal. Values are escaped as in a URL query, so that none can
	// look like two parts. The key also excludes other routes, and the order flow, if they lock the same key with the
	// same mechanism.
	Key string
	// Lock is the mechanism's name. Without a fixed lease, which a guard does not have, a mechanism renews its own.
	Lock string
	// Wait is how long a request waits for the key before it is answered with busy, 0 to [voucher.MaxLockWait]. 0 tries
	// once.
	Wait time.Duration
	// BestEffort says that the lock only avoids duplicate work and that nothing goes wrong without it. If the
	// mechanism's server is unavailable or does not answer, the request is carried out without the lock. A lock that is
	// lost meanwhile changes neither the work nor the answer. If another request holds the key for the whole wait, the
	// answer is busy all the same.
	BestEffort bool
}

// guarded returns the handler of a route, wrapped in its guard.
func (a *API) guarded(rt route) (handler, error) {
	if rt.guard == nil {
		return rt.handler, nil
	}
	locker, err := a.deps.Lockers.Locker(rt.guard.Lock)
	if err = errors.Join(err, rt.guard.check(rt)); err != nil {
		return nil, fmt.Errorf("httpapi: guard of %s %s: %w", rt.method, rt.path, err)
	}
	g := &guard{Guard: *rt.guard, locker: locker, owners: lock.NewOwners(), log: a.deps.Log}
	return g.wrap(rt.handler), nil
}

// check returns what is wrong with a guard of a route.
func (g *Guard) check(rt route) error {
	names := rt.params()
	if rt.who == user {
		names = append(names, "user")
	}
	for part := range strings.SplitSeq(g.Key, ":") {
		if name, ok := strings.CutPrefix(part, "#"); ok && !slices.Contains(names, name) {
			return fmt.Errorf("key %q: the route has no #%s; it has %q", g.Key, name, names)
		}
	}
	if g.Wait > voucher.MaxLockWait {
		return fmt.Errorf("the wait limit is %v; at most %v", g.Wait, voucher.MaxLockWait)
	}
	return lock.Check(g.Key, lock.Options{Wait: g.Wait})
}

// keyFor returns the key for a request, which every mechanism accepts, or an [errInvalid].
func (g *Guard) keyFor(r *request) (string, error) {
	parts := strings.Split(g.Key, ":")
	for i, part := range parts {
		if part == "#user" {
			parts[i] = formatID(r.user)
		} else if name, ok := strings.CutPrefix(part, "#"); ok {
			parts[i] = url.QueryEscape(r.gin.Param(name))
		}
	}
	key := strings.Join(parts, ":")
	if len(key) == 0 || len(key) > lock.MaxKey {
		return "", invalid("the lock's key would be %d bytes long; 1 to %d", len(key), lock.MaxKey)
	}
	return key, nil
}

// guard is a [Guard] with what it works with.
type guard struct {
	Guard
	locker lock.Locker
	owners *lock.Owners
	log    *slog.Logger
}

// wrap returns a handler that runs h while it holds the lock.
//
// It releases the lock before the answer is sent, so the answer can still report that the lock was lost. The answer is
// then unavailable, whatever h returned: the next holder may have worked at the same time, so neither a success nor a
// refusal is certain. A client with an Idempotency-Key repeats the request and gets the outcome. If the outcome of the
// release is unknown, the answer stays: the work ended while the lease still ran.
func (g *guard) wrap(h handler) handler {
	return func(ctx context.Context, r *request) (out reply, err error) {
		key, err := g.keyFor(r)
		if err != nil {
			return reply{}, err
		}
		// One owner for the whole request: an inner lock on the same key is a re-entry.
		ctx = lock.WithOwner(ctx, g.owners.From(ctx))
		lease, err := g.locker.Acquire(ctx, key, lock.Options{Wait: g.Wait})
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

// serverUnavailable reports whether an acquisition failed because the mechanism's server does not answer. A wait that
// timed out is ambiguous: the key may be held, or the server may hang. A server that answers an inspection was not the
// reason.
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
	if err != nil {
		g.log.LogAttrs(ctx, slog.LevelWarn, "lock release failed", slog.String("lock", g.Lock),
			slog.String("key", lease.Key()), slog.String("owner", string(lease.Owner())), slog.Any("error", err))
	}
	select {
	case <-lease.Lost():
		return context.Cause(lease.Context())
	default:
	}
	if expired || errors.Is(err, lock.ErrExpired) || errors.Is(err, lock.ErrLost) {
		return cmp.Or(err, lock.ErrExpired)
	}
	return nil
}
