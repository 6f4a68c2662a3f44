package lock

import (
	"context"
	"strings"
	"time"
)

// Locker is one mechanism.
type Locker interface {
	// Acquire takes key for the owner in ctx (see [WithOwner]) and returns a
	// lease on it, or [ErrNotAcquired] once opts.Wait has passed, the error of
	// ctx once that ends, [ErrUnavailable] or [ErrInvalid].
	//
	// When it returns an error it leaves nothing behind: what the server may
	// have granted is given back on a context of its own.
	Acquire(ctx context.Context, key string, opts Options) (Lease, error)
}

// Options say how to acquire. The zero value tries once and lets the mechanism
// decide on the lease.
type Options struct {
	// Wait is how long to wait for a key that is taken. 0 tries once.
	Wait time.Duration
	// TTL is a fixed lease, at least [MinTTL], that nothing renews. 0 leaves it
	// to the mechanism: a renewed lease where it has a watchdog, else
	// [DefaultTTL], or no expiry where it has none.
	TTL time.Duration
	// Faults is what to do at the points this acquisition and its release pass.
	// nil does nothing.
	Faults *Faults
}

// Lease is a held lock. It is safe for use by several goroutines.
type Lease interface {
	// Key is the key as given to Acquire.
	Key() string
	// Owner is who holds the key.
	Owner() Owner
	// Token is the fencing token: it grows with every new holder of the key and
	// stays the same on re-entry. 0 where the mechanism has none.
	Token() uint64
	// Lost is closed when ownership was lost or can no longer be proven, and
	// never by a release.
	Lost() <-chan struct{}
	// Context derives from the context of the acquisition. It ends with the
	// cause of the loss, or with [ErrReleased] after the release: work done
	// under it stops with the lock. Ask context.Cause for the reason.
	Context() context.Context
	// Remaining is how long the lease still runs by this process's clock,
	// counted from before the attempt that won or renewed it. 0 or less: it ran
	// out. [NoExpiry] where it has no end.
	Remaining() time.Duration
	// Extend lets a fixed lease run ttl from now, whatever was left of it; ttl 0 is
	// the lease as it was given, and the one choice where a watchdog renews it
	// anyway: the store is then asked at once whether the holder still is one.
	// [ErrInvalid] for a lease that makes no sense, [ErrNotHeld], [ErrExpired] and
	// [ErrLost] when there is nothing to extend, [ErrUnavailable] when the outcome
	// is unknown (the lease then counts to the earlier of the two ends), and
	// [errors.ErrUnsupported] where the mechanism cannot.
	Extend(ctx context.Context, ttl time.Duration) error
	// Release gives the key back: [ErrNotHeld], [ErrExpired] or [ErrLost] when
	// there was nothing to give, [ErrUnavailable] when the outcome is unknown.
	// It is cut short by ctx; pass one that outlives the work (see [Release]).
	Release(ctx context.Context) error
	// Abandon walks away as a holder that died does: nothing is released and
	// nothing is renewed from here on. It exists for fault injection.
	Abandon()
}

// Limits and defaults of every mechanism.
const (
	// DefaultTTL is the lease of mechanisms that have an expiry, no watchdog,
	// and were given none.
	DefaultTTL = 10 * time.Second
	// MinTTL is the shortest lease. Redis counts in milliseconds, and a zero in
	// SET … PX is an error in some versions and "no key" in others.
	MinTTL = time.Millisecond
	// MaxTTL bounds what a policy may ask for.
	MaxTTL = time.Hour
	// MaxKey is the longest key, in bytes.
	MaxKey = 256
	// NoExpiry is what Remaining gives where a lease has no end.
	NoExpiry = time.Duration(1<<63 - 1)
	// ReleaseTimeout bounds a release made with the [Release] helper, and every
	// clean-up that a mechanism makes by itself.
	ReleaseTimeout = 3 * time.Second
)

// Release gives a lease back on a context that outlives ctx, bounded by
// [ReleaseTimeout]: a request that was cancelled still frees its lock.
func Release(ctx context.Context, l Lease) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ReleaseTimeout)
	defer cancel()
	return l.Release(ctx)
}

// Check says with [ErrInvalid] what no mechanism accepts: an empty or overlong
// key, one with a brace, a negative wait, a lease below [MinTTL] or above [MaxTTL].
func Check(key string, opts Options) error {
	switch {
	case key == "":
		return invalid("the key is empty")
	case len(key) > MaxKey:
		return invalid("the key is %d bytes long; at most %d", len(key), MaxKey)
	case strings.ContainsAny(key, "{}"):
		return invalid("the key %q has a brace; those delimit a hash tag", key)
	case opts.Wait < 0:
		return invalid("the wait limit is negative: %v", opts.Wait)
	case opts.TTL != 0 && opts.TTL < MinTTL:
		return invalid("the lease is %v; at least %v", opts.TTL, MinTTL)
	case opts.TTL > MaxTTL:
		return invalid("the lease is %v; at most %v", opts.TTL, MaxTTL)
	}
	return nil
}
