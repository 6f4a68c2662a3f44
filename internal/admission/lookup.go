package admission

import (
	"cmp"
	"context"

	"golang.org/x/sync/errgroup"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
)

// lookups finds accepted orders that may not be in the database yet. All requests share scans, which read the orders of
// all users who wait for them. So the number of commands that Redis gets does not grow with the rate of requests; see
// scan.go. It does not grow with the number of vouchers either: [ledger.Ledger.Backlogs] reads those that have changed.
type lookups struct {
	*core
	scans scanner
	// open starts to open a voucher that a look-up found closed, and reports whether that is news. Otherwise a voucher
	// that no buyer can open, because memory refuses them all, would stay unknown to look-ups.
	open func(voucherID int64) bool
	// stuck reports whether a voucher has been closed for longer than look-ups wait for it.
	stuck func(voucherID int64) bool
}

func newLookups(c *core, open, stuck func(voucherID int64) bool) *lookups {
	l := &lookups{core: c, open: open, stuck: stuck}
	l.scans.closing, l.scans.spawn, l.scans.take = c.closing, c.spawn, l.takeScan
	return l
}

// lookup finds an order of a user. If a node has the order, lookup does not wait for others that hang.
func (l *lookups) lookup(ctx context.Context, userID, orderID int64) (order.Order, error) {
	var missing error
	for a, err := range l.scans.join(userID).answers(ctx) {
		if err != nil {
			return order.Order{}, err
		}
		for _, f := range a.found[userID] {
			if f.Err == nil && f.Order == orderID {
				o := f.of(userID)
				return o, l.replicated(ctx, f.keys, o) // the other buckets do not matter any more
			}
		}
		missing = cmp.Or(missing, a.missing(userID))
	}
	return order.Order{}, cmp.Or(missing, order.ErrNotFound)
}

// ordersOf finds all orders of a user.
func (l *lookups) ordersOf(ctx context.Context, userID int64) ([]order.Order, error) {
	var found []foundOrder
	for a, err := range l.scans.join(userID).answers(ctx) {
		if err == nil {
			err = a.missing(userID)
		}
		if err != nil {
			return nil, err
		}
		found = append(found, a.found[userID]...)
	}
	orders := make([]order.Order, len(found))
	waiting, waitCtx := errgroup.WithContext(ctx)
	for i, f := range found {
		orders[i] = f.of(userID)
		waiting.Go(func() error { return l.replicated(waitCtx, f.keys, orders[i]) })
	}
	if err := waiting.Wait(); err != nil {
		return nil, err
	}
	return orders, nil
}

// orderOf finds the user's order in the one bucket of a voucher that may have it.
func (l *lookups) orderOf(ctx context.Context, voucherID int64, keys ledger.Keys, userID int64) (order.Order, error) {
	read, cancel := context.WithTimeout(ctx, l.config.AttemptTimeout)
	defer cancel()
	bucket := l.reader.Reservations(read, []ledger.Query{{Bucket: keys, Users: []int64{userID}}})[0]
	has := bucket.Users[0]
	if has.Err == nil && has.Order != 0 {
		o := pendingOrderOf(voucherID, userID, has)
		return o, l.replicated(ctx, keys, o)
	}
	err := order.ErrNotFound
	if has.Err != nil {
		err = unavailable(has.Err)
	} else if unknown := l.allUsers(ctx, voucherID, bucket); unknown != nil {
		err = unknown
	}
	return order.Order{}, cmp.Or(ctx.Err(), err)
}

func pendingOrderOf(voucherID, userID int64, r ledger.Reservation) order.Order {
	return order.Order{ID: r.Order, VoucherID: voucherID, UserID: userID, Status: order.Pending, Key: r.Key}
}

// allUsers returns nil if Redis holds all users of the voucher, because the voucher is open or was forgotten.
func (l *lookups) allUsers(ctx context.Context, voucherID int64, bucket ledger.Reservations) error {
	switch {
	case bucket.EpochErr != nil:
		return unavailable(bucket.EpochErr)
	case bucket.Epoch > 0 && bucket.Epoch%2 == 0:
		return nil
	}
	st, err := l.config.Store.EpochState(ctx, voucherID)
	if err != nil || neverOpened(st.Epoch) || st.Forgotten {
		return err
	}
	l.open(voucherID)
	return unavailable(errOpening)
}

// replicated waits until enough replicas have an order that was found in Redis. The error is [order.ErrUnavailable] if
// they do not, or if the order is gone meanwhile.
func (l *lookups) replicated(ctx context.Context, keys ledger.Keys, o order.Order) error {
	if l.config.WaitReplicas == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.config.AttemptTimeout)
	defer cancel()
	switch there, err := l.ledger.Replicate(ctx, keys, o); {
	case err != nil:
		return unavailable(err)
	case !there:
		return unavailable(errDataLost)
	}
	return nil
}
