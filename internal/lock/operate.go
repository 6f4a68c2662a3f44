package lock

import (
	"context"
	"time"
)

// Inspector is a [Locker] that can say who holds a key.
type Inspector interface {
	// Inspect says what the store knows of key at this moment: by the time it
	// returns, that may have changed. [ErrUnavailable] when it could not be asked.
	Inspect(ctx context.Context, key string) (State, error)
}

// Breaker is a [Locker] whose locks an operator can take away.
type Breaker interface {
	// ForceRelease frees key whoever holds it, wakes who waits, and reports
	// whether there was anything to free. The holder is told as it is when its key
	// is deleted; it may go on writing until then. It is for an operator who knows
	// that the holder is dead.
	ForceRelease(ctx context.Context, key string) (bool, error)
}

// State is what is known of a key.
type State struct {
	// Owner holds the key; empty when it is free. Of several readers it is one.
	Owner Owner
	// Count is by how many leases: re-entries of one owner, or readers.
	Count int
	// Shared: the leases are readers' and may be of several owners.
	Shared bool
	// Token is the newest fencing token; 0 where the mechanism has none.
	Token uint64
	// TTL is how long the key stays taken if nothing happens; [NoExpiry] where it
	// has no end, 0 when it is free.
	TTL time.Duration
	// Waiting is how many wait, as far as the mechanism knows: every waiter where
	// it keeps a queue in its store, else those of this process, else
	// [WaitingUnknown].
	Waiting int
	// Queue names who waits, first first, where the store knows.
	Queue []Owner
}

// WaitingUnknown is a queue whose length nobody knows: waiters that poll.
const WaitingUnknown = -1
