package mysqlio

import (
	"context"
	"testing"
	"testing/synctest"

	"seckill/internal/testkit/fail"
)

// A waiter that gives up, wherever it is in the queue, neither delays the waiters behind it nor admits one that is not
// first.
func TestQueueServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		leave := make([]func(), 4)
		entered := make([]bool, 4)
		cancels := make([]context.CancelFunc, 4)
		errs := make([]error, 4)
		for i := range leave {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cancels[i] = cancel
			go func() {
				leave[i], errs[i] = q.enter(ctx, "seat")
				entered[i] = errs[i] == nil
			}()
			synctest.Wait() // it is in the queue
		}
		want := func(when string, count int, in ...bool) {
			t.Helper()
			synctest.Wait()
			for i := range in {
				fail.Unequal(t, entered[i], in[i], "%s: whether waiter %d was admitted", when, i)
			}
			fail.Unequal(t, q.len("seat"), count, "%s: waiters", when)
		}
		want("at first", 4, true, false, false, false)
		cancels[1]()
		want("when the second gave up", 3, true, false, false, false)
		fail.Unless(t, errs[1], context.Canceled, "the waiter that gave up")
		leave[0]()
		want("when the first left", 2, true, false, true, false)
		leave[2]()
		want("when the third left", 1, true, false, true, true)
		leave[3]()
		fail.Unequal(t, len(q.keys), 0, "keys of an empty queue")
	})
}
