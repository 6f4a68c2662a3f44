package none

import (
	"context"

	"seckill/internal/lock"
)

// Locker grants every acquisition at once. It never waits, and its leases never end.
type Locker struct {
	owners *lock.Owners
}

var _ lock.Locker = (*Locker)(nil)

// New returns a Locker.
func New() *Locker { return &Locker{owners: lock.NewOwners()} }

// Acquire implements [lock.Locker]. It fails only on invalid arguments, on a context that has ended, and on injected
// faults.
func (l *Locker) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	lease := lock.NewHeld(ctx, lock.Grant{
		Key:     key,
		Owner:   l.owners.From(ctx),
		Release: func(context.Context) error { return nil },
	})
	return lock.Deliver(ctx, lease)
}
