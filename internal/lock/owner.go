package lock

import (
	"context"
	"crypto/rand"
	"strconv"
	"sync/atomic"
)

// Owner identifies a holder across processes. Two acquisitions are by the same
// holder if and only if their owners are equal.
type Owner string

// Owners mints owners that are unique across processes: a random part drawn once
// and a counter. It is the "UUID plus thread id" of the classic recipe with the
// thread replaced by something that a goroutine cannot share by accident.
type Owners struct {
	prefix string
	count  atomic.Uint64
}

// NewOwners draws the random part.
func NewOwners() *Owners { return &Owners{prefix: rand.Text()} }

// New returns an owner that was never given out before.
func (o *Owners) New() Owner {
	return Owner(o.prefix + ":" + strconv.FormatUint(o.count.Add(1), 10))
}

// From is the owner in ctx, or a new one where ctx carries none.
func (o *Owners) From(ctx context.Context) Owner {
	if owner, ok := OwnerFrom(ctx); ok {
		return owner
	}
	return o.New()
}

type ownerKey struct{}

// WithOwner returns a context in which every acquisition is owner's: a second
// acquisition of the same key is then re-entry, where the mechanism has it.
func WithOwner(ctx context.Context, owner Owner) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// OwnerFrom returns the owner that ctx carries.
func OwnerFrom(ctx context.Context) (Owner, bool) {
	owner, ok := ctx.Value(ownerKey{}).(Owner)
	return owner, ok && owner != ""
}
