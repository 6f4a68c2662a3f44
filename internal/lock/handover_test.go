package lock_test

import (
	"context"
	"testing"

	"seckill/internal/lock"
	"seckill/internal/testkit/fail"
)

// Only leases of watched keys are counted, by key, by mechanism and by how the key came to them.
func TestHandovers(t *testing.T) {
	var h lock.Handovers
	grant := func(mechanism, key string, how lock.Handover) {
		h.Of(mechanism)(lock.NewHeld(t.Context(), lock.Grant{Key: key, Handover: how}))
	}
	grant("fair", "seat", lock.PassedInProcess) // nobody watches
	counts, stop := h.Watch("fair", "seat")
	same, stopSame := h.Watch("fair", "seat")
	grant("fair", "seat", lock.FoundFree)
	grant("fair", "seat", lock.PassedInProcess)
	grant("fair", "seat", lock.PassedInProcess)
	grant("fair", "seat", lock.PassedByStore)
	grant("fair", "other", lock.PassedByStore)
	grant("lua", "seat", lock.PassedByStore)
	want := lock.HandoverCounts{FoundFree: 1, InProcess: 2, ByStore: 1}
	if counts() != want || same() != want {
		t.Errorf("%+v and %+v, want %+v", counts(), same(), want)
	}
	stop()
	stop() // the second call must not end the other watch
	grant("fair", "seat", lock.FoundFree)
	if want.FoundFree++; same() != want {
		t.Errorf("after one of two watches has ended: %+v, want %+v", same(), want)
	}
	stopSame()
	again, stop := h.Watch("fair", "seat")
	defer stop()
	fail.Unequal(t, again(), (lock.HandoverCounts{}), "a new watch begins with")
}

// Decorators of leases pass on how the key came to the holder.
func TestObserveKeepsHandover(t *testing.T) {
	var granted lock.Lease
	l := lock.Observe(passed{}, lock.Observer{Granted: func(l lock.Lease) { granted = l }})
	lease, err := l.Acquire(t.Context(), "seat", lock.Options{})
	fail.NowIf(t, err)
	if lock.HandoverOf(lease) != lock.PassedByStore || lock.HandoverOf(granted) != lock.PassedByStore {
		t.Errorf("%v and %v", lock.HandoverOf(lease), lock.HandoverOf(granted))
	}
}

// passed grants a key that the store has passed on.
type passed struct{}

func (passed) Acquire(ctx context.Context, key string, _ lock.Options) (lock.Lease, error) {
	return lock.NewHeld(ctx, lock.Grant{
		Key: key, Handover: lock.PassedByStore, Release: func(context.Context) error { return nil },
	}), nil
}
