package lock

import (
	"context"
	"strings"
	"time"
)

// Locker is one mechanism.
type Locker interface {
	// Acquire takes key for the owner in ctx (see [WithOwner]) and returns a lease on it. The errors are
	// [ErrNotAcquired] once opts.Wait has passed, the error of ctx once that ends, [ErrUnavailable], [ErrWrongKind] and
	// [ErrInvalid].
	//
	// With an error it leaves nothing behind: it releases, on a context of its own, what the server may have granted.
	// The exception is a command that the server carries out after that clean-up: what it takes stays for its lease.
	// Packages say what their mechanisms do about it.
	Acquire(ctx context.Context, key string, opts Options) (Lease, error)
}

// Options say how to acquire. The zero value tries once and lets the mechanism decide on the lease.
type Options struct {
	// Wait is how long to wait for a key that is taken. 0 tries once.
	Wait time.Duration
	// TTL is the length of a fixed lease that nothing renews, at least [MinTTL]. 0 leaves it to the mechanism: a
	// renewed lease where it has a watchdog, else [DefaultTTL], or no expiry where the mechanism has none.
	TTL time.Duration
}

// Lease is a held lock. It is safe for use by several goroutines.
type Lease interface {
	// Key is the key that was passed to Acquire.
	Key() string
	// Owner is the holder of the key.
	Owner() Owner
	// Token is the fencing token: it grows with every new holder of the key and stays the same on re-entry. 0 where the
	// mechanism has none.
	Token() uint64
	// Lost is closed when ownership was lost or can no longer be proven. A release never closes it.
	Lost() <-chan struct{}
	// Context derives from the context of the acquisition. It ends with the cause of the loss, or with [ErrReleased]
	// after the release, so work done under it stops with the lock. context.Cause returns the reason.
	Context() context.Context
	// Remaining is how long the lease still runs by this process's clock, counted from before the attempt that acquired
	// or renewed it. 0 or less: it has run out. [NoExpiry] where it has no end.
	Remaining() time.Duration
	// Extend makes a fixed lease end ttl from now, whatever was left of it. ttl 0 stands for the length it was acquired
	// with; it is the only valid choice for a lease that a watchdog renews, and then asks the store at once whether the
	// holder still holds the key.
	//
	// The errors are [ErrInvalid] for an unacceptable ttl; [ErrNotHeld], [ErrExpired] and [ErrLost] where there is
	// nothing to extend; [ErrUnavailable] where the outcome is unknown (the lease then counts to the earlier of the two
	// ends); and [errors.ErrUnsupported] where the mechanism cannot extend.
	Extend(ctx context.Context, ttl time.Duration) error
	// Release gives the key back: [ErrNotHeld], [ErrExpired] or [ErrLost] where this lease no longer held it,
	// [ErrUnavailable] where the outcome is unknown. It is cut short by ctx; pass one that outlives the work (see
	// [Release]).
	Release(ctx context.Context) error
}

// Limits and defaults of every mechanism.
const (
	// DefaultTTL is the lease of a mechanism that has an expiry but no watchdog, when Options.TTL is 0.
	DefaultTTL = 10 * time.Second
	// MinTTL is the shortest lease. Redis counts in milliseconds; a zero in SET … PX is an error in some versions and
	// "no key" in others.
	MinTTL = time.Millisecond
	// MaxTTL is the longest lease that may be asked for.
	MaxTTL = time.Hour
	// MaxKey is the longest key, in bytes.
	MaxKey = 256
	// NoExpiry is what Remaining returns for a lease that has no end.
	NoExpiry = time.Duration(1<<63 - 1)
	// ReleaseTimeout bounds a release made with the [Release] helper, and every clean-up that a mechanism makes by
	// itself.
	ReleaseTimeout = 3 * time.Second
)

// Release releases a lease on a context that outlives ctx, bounded by
// [ReleaseTimeout]: a request that was cancelled still frees its lock.
func Release(ctx context.Context, l Lease) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ReleaseTimeout)
	defer cancel()
	return l.Release(ctx)
}

// Check returns [ErrInvalid] for what no mechanism accepts: an empty or overlong key, a key with a brace, a negative
// wait, a lease below [MinTTL] or above [MaxTTL].
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
