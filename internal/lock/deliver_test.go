package lock_test

import (
	"testing"
	"time"

	"seckill/internal/lock"
)

// A process may survive a panic, and then nobody in it would release the lease.
func TestDeliverReleasesOnPanic(t *testing.T) {
	var g grant
	faults := plan(t, nil, lock.Fault{Point: lock.AfterAcquireBeforeReply, Effect: lock.EffectPanic})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not continue")
			}
		}()
		_, _ = lock.Deliver(lock.WithFaults(t.Context(), faults), g.hold(t.Context(), time.Time{}))
	}()
	g.mustHave(t, 1, 1)
}
