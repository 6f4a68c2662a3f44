package lock

import (
	"context"
	"errors"
)

// Deliver is the last step of every Acquire: it returns a lease that was just granted, unless ctx has ended meanwhile.
// Then it releases the lease and returns the error of ctx.
//
// It is also the point [AfterAcquireBeforeReply] of fault injection. A fault there has the lease released too, except
// that a holder that dies there ([ErrAbandoned]) releases nothing. A panic continues after the release: the process may
// survive it, and then nobody in it would have the lease.
func Deliver(ctx context.Context, l Lease) (Lease, error) {
	panicked := true
	defer func() {
		if panicked {
			_ = Release(ctx, l)
		}
	}()
	err := FaultsFrom(ctx).Pass(ctx, AfterAcquireBeforeReply)
	panicked = false
	if err == nil {
		err = ctx.Err()
	}
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, ErrAbandoned):
		Abandon(l)
	default:
		_ = Release(ctx, l) // the caller needs the first error
	}
	return nil, err
}
