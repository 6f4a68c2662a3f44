package lock

import (
	"context"
	"crypto/rand"
	"strconv"
	"sync/atomic"
)

// Owner identifies a holder across processes. Two acquisitions are by the same holder if and only if their owners are
// equal.
type Owner string

// Owners creates owners that are unique across processes: a random prefix and a counter. It is the "UUID plus thread
// id" of the classic recipe; the counter replaces the thread id because goroutines have none.
type Owners struct {
	prefix string
	count  atomic.Uint64
}

// NewOwners returns a source of owners with a new random prefix.
func NewOwners() *Owners { return &Owners{prefix: rand.Text()} }

// New returns an owner that no earlier call returned, in any process.
func (o *Owners) New() Owner {
	return Owner(o.prefix + ":" + strconv.FormatUint(o.count.Add(1), 10))
}

// From returns the owner in ctx, or a new one where ctx carries none.
func (o *Owners) From(ctx context.Context) Owner {
	if owner, ok := OwnerFrom(ctx); ok {
		return owner
	}
	return o.New()
}

type ownerKey struct{}

// WithOwner returns a context under which owner acquires. A second acquisition of the same key is then re-entry, where
// the mechanism supports it.
func WithOwner(ctx context.Context, owner Owner) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// OwnerFrom returns the owner that ctx carries.
func OwnerFrom(ctx context.Context) (Owner, bool) {
	owner, ok := ctx.Value(ownerKey{}).(Owner)
	return owner, ok && owner != ""
}
