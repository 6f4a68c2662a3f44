package httpapi_test

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"seckill/internal/httpapi"
	"seckill/internal/lock"
	"seckill/internal/lock/local"
)

// fakeLocks is a registry with any names.
type fakeLocks map[string]lock.Locker

var _ httpapi.Locks = fakeLocks{}

func (f fakeLocks) Locker(name string) (lock.Locker, error) {
	if l, ok := f[name]; ok {
		return l, nil
	}
	return nil, lock.ErrUnknown
}

func (f fakeLocks) Names() []string { return slices.Sorted(maps.Keys(f)) }

// fakeLocker locks in this process, records its calls, and returns the errors that a test sets.
type fakeLocker struct {
	local     *local.Locker
	until     time.Time // end of the leases; the zero time: never
	refuse    error     // of Acquire
	releasing error     // of a release, which takes place all the same

	mu     sync.Mutex
	keys   []string // that were granted
	opts   []lock.Options
	leases []*lock.Held
	free   int // releases
}

func newFakeLocker() *fakeLocker { return &fakeLocker{local: local.New()} }

func (f *fakeLocker) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if f.refuse != nil {
		return nil, f.refuse
	}
	inner, err := f.local.Acquire(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	held := lock.NewHeld(ctx, lock.Grant{Key: key, Owner: inner.Owner(), Until: f.until, Release: func(ctx context.Context) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.free++
		return cmp.Or(ctx.Err(), inner.Release(ctx), f.releasing)
	}})
	f.keys, f.opts, f.leases = append(f.keys, key), append(f.opts, opts), append(f.leases, held)
	return held, nil
}

// last is the newest lease.
func (f *fakeLocker) last() *lock.Held { return f.leases[len(f.leases)-1] }

// held counts the leases that were not released.
func (f *fakeLocker) held() int { return len(f.keys) - f.free }

// inspectable is a locker that operators can inspect. It returns what a test sets.
type inspectable struct {
	*fakeLocker
	state  lock.State
	broke  bool
	err    error
	broken []string
	hangs  bool
}

var (
	_ lock.Inspector     = (*inspectable)(nil)
	_ lock.ForceReleaser = (*inspectable)(nil)
)

func (o *inspectable) Inspect(ctx context.Context, _ string) (lock.State, error) {
	if o.hangs {
		<-ctx.Done()
		return lock.State{}, ctx.Err()
	}
	return o.state, o.err
}

func (o *inspectable) ForceRelease(_ context.Context, key string) (bool, error) {
	o.broken = append(o.broken, key)
	return o.broke, o.err
}
