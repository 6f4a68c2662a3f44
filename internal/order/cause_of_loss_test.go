package order

import (
	"context"
	"errors"
	"testing"

	"seckill/internal/lock"
)

// endedLease is a lease whose context has ended and whose channel Lost is not closed yet.
type endedLease struct {
	lock.Lease
	ctx context.Context
}

func (l endedLease) Context() context.Context { return l.ctx }
func (endedLease) Lost() <-chan struct{}      { return make(chan struct{}) }

func TestLossOfTheLockIsReportedAsTheCause(t *testing.T) {
	gaveUp := errors.New("the client went away")
	for _, c := range []struct {
		cause, err, want error
	}{
		{lock.ErrLost, context.Canceled, lock.ErrLost},
		{lock.ErrExpired, context.Canceled, lock.ErrExpired},
		{lock.ErrUnavailable, context.Canceled, lock.ErrUnavailable},
		{gaveUp, context.Canceled, context.Canceled},
		{nil, context.Canceled, context.Canceled},
		{lock.ErrLost, ErrConflict, ErrConflict}, // the work's own error stays
	} {
		ctx, end := context.WithCancelCause(t.Context())
		end(c.cause)
		got := withCauseOfLoss(endedLease{ctx: ctx}, c.err)
		if !errors.Is(got, c.want) || !errors.Is(got, c.err) || errors.Is(c.cause, gaveUp) && errors.Is(got, gaveUp) {
			t.Errorf("the lease ended with %v, the work with %v: got %v, want %v", c.cause, c.err, got, c.want)
		}
	}
}
