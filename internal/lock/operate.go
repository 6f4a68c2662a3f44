package lock

import (
	"context"
	"time"
)

// Inspector is a [Locker] that can say who holds a key.
type Inspector interface {
	// Inspect returns what the store knows of key at this moment; it may have changed by the time it returns.
	// [ErrUnavailable] where the store could not be asked.
	Inspect(ctx context.Context, key string) (State, error)
}

// ForceReleaser is a [Locker] whose locks an operator can take away.
type ForceReleaser interface {
	// ForceRelease frees key, no matter who holds it, wakes the waiters, and reports whether anybody held it. The
	// holder is told as it is when its key is deleted, and may go on writing until then. Use it where the holder is
	// known to be dead.
	ForceRelease(ctx context.Context, key string) (bool, error)
}

// State describes a key.
type State struct {
	// Owner holds the key; empty when it is free. Of several readers it is one.
	Owner Owner
	// Count is the number of leases on the key: re-entries of one owner, or readers.
	Count int
	// Shared: the leases are readers' and may have several owners.
	Shared bool
	// Token is the newest fencing token; 0 where the mechanism has none.
	Token uint64
	// TTL is how long the key stays taken unless it is renewed or released. [NoExpiry] where it has no end, 0 when it
	// is free.
	TTL time.Duration
	// Waiting is the number of waiters as far as the mechanism knows: all of them where it keeps a queue in its store,
	// else those of this process, else [WaitingUnknown].
	Waiting int
	// Queue lists the owners that wait, in order, where the store knows them.
	Queue []Owner
}

// WaitingUnknown stands for an unknown number of waiters: they poll.
const WaitingUnknown = -1
