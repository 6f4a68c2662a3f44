package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"seckill/internal/lock"
)

// inspectTimeout bounds the query of all mechanisms: a store that hangs must not delay the answers of the others.
const inspectTimeout = 2 * time.Second

// breakTimeout bounds a forced release.
const breakTimeout = 5 * time.Second

// locksJSON is the state of a key in each mechanism.
type locksJSON struct {
	Key   string     `json:"key"`
	Locks []lockJSON `json:"locks"`
	// Unanswered names the mechanisms whose store did not answer. It is unknown whether they hold the key.
	Unanswered []string `json:"unanswered,omitempty"`
}

// lockJSON is the state of a key in one mechanism.
type lockJSON struct {
	Mechanism string     `json:"mechanism"`
	Held      bool       `json:"held"`
	Owner     lock.Owner `json:"owner"` // "" if the key is free
	// Count is the number of leases: re-entries or readers.
	Count int `json:"count"`
	// Shared says that the holders are readers. Owner is one of them.
	Shared bool `json:"shared"`
	// Token is the newest fencing token; "0" if the mechanism has none.
	Token string `json:"token"`
	// TTLMS is the remaining time of the lock in ms; null if it does not expire.
	TTLMS *int64 `json:"ttl_ms"`
	// Waiting is the number of waiters; null if it is unknown.
	Waiting *int `json:"waiting"`
	// Queue lists the waiters in order, if the store knows them.
	Queue []lock.Owner `json:"queue"`
}

func newLockJSON(mechanism string, s lock.State) lockJSON {
	l := lockJSON{
		Mechanism: mechanism, Held: isHeld(s), Owner: s.Owner, Count: s.Count, Shared: s.Shared,
		Token: strconv.FormatUint(s.Token, 10), Queue: append([]lock.Owner{}, s.Queue...),
	}
	if s.TTL != lock.NoExpiry {
		l.TTLMS = new(s.TTL.Milliseconds())
	}
	if s.Waiting != lock.WaitingUnknown {
		l.Waiting = new(s.Waiting)
	}
	return l
}

func isHeld(s lock.State) bool { return s.Owner != "" || s.Count > 0 }

// showLock is GET /api/v1/locks/{key}. It returns the state of the key in the mechanism that ?lock= names, or without
// ?lock= in every mechanism in which it is held.
func (a *API) showLock(ctx context.Context, r *request) (reply, error) {
	key, mechanism, err := a.lockParams(r)
	if err != nil {
		return reply{}, err
	}
	out := locksJSON{Key: key}
	if mechanism == "" {
		out.Locks, out.Unanswered = a.inspectAll(ctx, key)
		return a.render(http.StatusOK, out)
	}
	locker, err := a.locker(mechanism)
	if err != nil {
		return reply{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	state, err := inspect(ctx, locker, key)
	if err != nil {
		return reply{}, mechanismError("be asked who holds a key", mechanism, err)
	}
	out.Locks = []lockJSON{newLockJSON(mechanism, state)}
	return a.render(http.StatusOK, out)
}

// inspectAll asks every mechanism at once. It leaves out those that do not support inspection.
func (a *API) inspectAll(ctx context.Context, key string) (held []lockJSON, unanswered []string) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	names := a.deps.Lockers.Names()
	states, errs := make([]lock.State, len(names)), make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			locker, err := a.deps.Lockers.Locker(name)
			if err == nil {
				states[i], err = inspect(ctx, locker, key)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	held = []lockJSON{}
	for i, name := range names {
		switch {
		case errors.Is(errs[i], errors.ErrUnsupported):
		case errs[i] != nil:
			unanswered = append(unanswered, name)
			a.deps.Log.LogAttrs(ctx, slog.LevelWarn, "lock not inspected",
				slog.String("lock", name), slog.String("key", key), slog.Any("error", errs[i]))
		case isHeld(states[i]):
			held = append(held, newLockJSON(name, states[i]))
		}
	}
	return held, unanswered
}

func inspect(ctx context.Context, locker lock.Locker, key string) (lock.State, error) {
	if i, ok := locker.(lock.Inspector); ok {
		return i.Inspect(ctx, key)
	}
	return lock.State{}, errors.ErrUnsupported
}

// releasedJSON says whether there was a lock to release.
type releasedJSON struct {
	Released bool `json:"released"`
}

// breakLock is DELETE /api/v1/locks/{key}?lock=…. It releases the lock, no matter who holds it.
func (a *API) breakLock(ctx context.Context, r *request) (reply, error) {
	key, mechanism, err := a.lockParams(r)
	if err != nil {
		return reply{}, err
	}
	if mechanism == "" {
		return reply{}, invalid("say which lock to take away: ?lock= and one of %s", strings.Join(a.deps.Lockers.Names(), ", "))
	}
	locker, err := a.locker(mechanism)
	if err != nil {
		return reply{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, breakTimeout)
	defer cancel()
	breaker, ok := locker.(lock.ForceReleaser)
	if !ok {
		return reply{}, mechanismError("take a lock away", mechanism, errors.ErrUnsupported)
	}
	released, err := breaker.ForceRelease(ctx, key)
	a.logBreak(ctx, r, mechanism, key, released, err)
	if err != nil {
		return reply{}, mechanismError("take a lock away", mechanism, err)
	}
	return a.render(http.StatusOK, releasedJSON{Released: released})
}

// logBreak logs who broke which lock. Lab mode needs no authentication, so the client's address is logged too.
func (a *API) logBreak(ctx context.Context, r *request, mechanism, key string, released bool, err error) {
	attrs := []slog.Attr{
		slog.String("lock", mechanism), slog.String("key", key), slog.Bool("released", released),
		slog.String("remote", r.RemoteAddr), slog.String("request_id", r.id),
	}
	if a.authenticateUser(r) == nil {
		attrs = append(attrs, slog.Int64("user", r.user))
	}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	a.deps.Log.LogAttrs(ctx, slog.LevelWarn, "lock taken away by an operator", attrs...)
}

// lockParams reads the key of a request and, if given, the mechanism.
func (a *API) lockParams(r *request) (key, mechanism string, err error) {
	if !a.cfg.Lab {
		return "", "", errLabOnly
	}
	key = strings.TrimPrefix(r.gin.Param("key"), "/")
	switch {
	case key == "" || len(key) > lock.MaxKey:
		return "", "", invalid("the key in the address has %d bytes; 1 to %d", len(key), lock.MaxKey)
	case strings.ContainsAny(key, "{}"):
		return "", "", invalid("the key %q has a brace", clip(key))
	case !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl):
		return "", "", invalid("the key in the address is not UTF-8 without control characters")
	}
	query, err := r.query()
	switch {
	case err != nil:
		return "", "", err
	case len(query["lock"]) > 1:
		return "", "", invalid("lock is given %d times", len(query["lock"]))
	case query.Has("lock") && query.Get("lock") == "":
		return "", "", invalid("lock is empty")
	}
	return key, query.Get("lock"), nil
}

// locker returns the mechanism that a client named.
func (a *API) locker(name string) (lock.Locker, error) {
	locker, err := a.deps.Lockers.Locker(name)
	if errors.Is(err, lock.ErrUnknown) || errors.Is(err, lock.ErrNotConfigured) {
		return nil, invalid("lock is %q; available here: %s", clip(name), strings.Join(a.deps.Lockers.Names(), ", "))
	}
	return locker, err
}

// mechanismError turns an error of a mechanism into one with a text for the client. Other errors stay as they are.
func mechanismError(do, mechanism string, err error) error {
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return invalid("the lock %s cannot %s", mechanism, do)
	case errors.Is(err, lock.ErrWrongKind):
		return invalid("what is stored under the key is no lock of %s", mechanism)
	case errors.Is(err, lock.ErrInvalid):
		return invalid("the key is none for %s", mechanism)
	}
	return err
}
