package fulfil

import (
	"context"
	"errors"

	"seckill/internal/order"
	"seckill/internal/voucher"
)

// saysNothing reports whether an error says nothing about the orders: the next ones, of any voucher, probably fail like
// these. A database that refuses an order, or does not have its voucher, may take those of other vouchers.
func saysNothing(err error) bool {
	return !mayBlameOrder(err) && !errors.Is(err, order.ErrVoucherMissing)
}

// mayBlameOrder reports whether an error may be the order's own fault: the database, or this program, objected while it
// processed that order.
func mayBlameOrder(err error) bool { return !transient(err) || errors.Is(err, order.ErrRefused) }

// transient reports whether an error means that the database could not be reached or did not answer in time.
func transient(err error) bool {
	return errors.Is(err, order.ErrUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// rejectionReason returns the reason if the database refused an order for good.
func rejectionReason(err error) (Reason, bool) {
	for _, final := range []struct {
		err    error
		reason Reason
	}{
		{order.ErrAlreadyOrdered, AlreadyOrdered},
		{order.ErrStaleEpoch, StaleEpoch},
		{order.ErrFutureEpoch, FutureEpoch},
		{order.ErrIDTaken, IDTaken},
		{voucher.ErrSoldOut, SoldOut},
	} {
		if errors.Is(err, final.err) {
			return final.reason, true
		}
	}
	return "", false
}
