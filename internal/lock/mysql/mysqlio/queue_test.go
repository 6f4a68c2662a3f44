package mysqlio

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// A waiter that gives up, wherever it is in the queue, neither delays the waiters behind
// it nor admits one that is not first.
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
				if entered[i] != in[i] {
					t.Errorf("%s: waiter %d was admitted: %t", when, i, entered[i])
				}
			}
			if n := q.len("seat"); n != count {
				t.Errorf("%s: %d waiters, want %d", when, n, count)
			}
		}
		want("at first", 4, true, false, false, false)
		cancels[1]()
		want("when the second gave up", 3, true, false, false, false)
		if !errors.Is(errs[1], context.Canceled) {
			t.Errorf("the waiter that gave up got %v", errs[1])
		}
		leave[0]()
		want("when the first left", 2, true, false, true, false)
		leave[2]()
		want("when the third left", 1, true, false, true, true)
		leave[3]()
		if len(q.keys) != 0 {
			t.Errorf("an empty queue keeps %d keys", len(q.keys))
		}
	})
}
