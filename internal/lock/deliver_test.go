package lock_test

import (
	"testing"
	"time"

	"seckill/internal/lock"
)

// A process may survive a panic, and then nobody in it would have the lease.
func TestDeliverGivesBackOnPanic(t *testing.T) {
	var g grant
	faults := plan(t, nil, lock.Fault{Point: lock.AfterAcquireBeforeReply, Effect: lock.EffectPanic})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not go on")
			}
		}()
		_, _ = lock.Deliver(t.Context(), g.hold(t.Context(), time.Time{}), faults)
	}()
	g.mustHave(t, 1, 1)
}
