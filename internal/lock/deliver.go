package lock

import (
	"context"
	"errors"
)

// Deliver is the last step of every Acquire: it hands a lease that was just won
// to the caller, unless ctx has ended meanwhile or a fault at
// [AfterAcquireBeforeReply] strikes. The lease is then given back, and the error
// returned; a holder that dies there ([ErrAbandoned]) gives nothing back. A panic
// there goes on once the lease is given back: the process may live on, and nobody in
// it would have the lease.
func Deliver(ctx context.Context, l Lease, faults *Faults) (Lease, error) {
	passed := false
	defer func() {
		if !passed {
			_ = Release(ctx, l)
		}
	}()
	err := faults.Pass(ctx, AfterAcquireBeforeReply)
	passed = true
	if err == nil {
		err = ctx.Err()
	}
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, ErrAbandoned):
		l.Abandon()
	default:
		_ = Release(ctx, l) // what failed first is what the caller has to know
	}
	return nil, err
}
