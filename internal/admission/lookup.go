package admission

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"golang.org/x/sync/errgroup"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
)

// lookups finds accepted orders that may not be in the database yet. All requests share scans of the
// buckets that have pending orders; see scan.go.
type lookups struct {
	*core
	scans scanner
}

func newLookups(c *core) *lookups {
	l := &lookups{core: c}
	l.scans.closing, l.scans.spawn, l.scans.take = c.closing, c.spawn, l.takeScan
	return l
}

// lookup finds an order of a user.
func (l *lookups) lookup(ctx context.Context, userID, orderID int64) (order.Order, error) {
	s := l.scans.join()
	if err := s.wait(ctx); err != nil {
		return order.Order{}, err
	}
	var read []userReservation
	for r := range l.search(ctx, s, userID) {
		if r.OrderErr == nil && r.Order == orderID {
			o := r.order(userID)
			return o, l.replicated(ctx, r.keys, o) // the other buckets do not matter any more
		}
		read = append(read, r)
	}
	if err := l.complete(ctx, read); err != nil {
		return order.Order{}, err
	}
	return order.Order{}, order.ErrNotFound
}

// orderOf finds the user's order in the one bucket of a voucher that may have it.
func (l *lookups) orderOf(ctx context.Context, voucherID int64, keys ledger.Keys, userID int64) (order.Order, error) {
	read, cancel := context.WithTimeout(ctx, l.config.AttemptTimeout)
	defer cancel()
	r := userReservation{voucherID: voucherID, keys: keys, Reservation: l.reader.Reservations(read, userID, []ledger.Keys{keys})[0]}
	if r.OrderErr == nil && r.Order != 0 {
		o := r.order(userID)
		return o, l.replicated(ctx, keys, o)
	}
	if err := l.complete(ctx, []userReservation{r}); err != nil {
		return order.Order{}, err
	}
	return order.Order{}, order.ErrNotFound
}

// ordersOf finds all orders of a user.
func (l *lookups) ordersOf(ctx context.Context, userID int64) ([]order.Order, error) {
	s := l.scans.join()
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	read := slices.Collect(l.search(ctx, s, userID))
	if err := l.complete(ctx, read); err != nil {
		return nil, err
	}
	var found []order.Order
	waiting, waitCtx := errgroup.WithContext(ctx)
	for _, r := range read {
		if r.OrderErr == nil && r.Order != 0 {
			o := r.order(userID)
			found = append(found, o)
			waiting.Go(func() error { return l.replicated(waitCtx, r.keys, o) })
		}
	}
	if err := waiting.Wait(); err != nil {
		return nil, err
	}
	return found, nil
}

// userReservation is what a bucket has of a user.
type userReservation struct {
	voucherID int64
	keys      ledger.Keys
	ledger.Reservation
}

func (r *userReservation) order(userID int64) order.Order {
	return order.Order{ID: r.Order, VoucherID: r.voucherID, UserID: userID, Status: order.Pending, Key: r.Key}
}

// search reads the user's reservations in the buckets that have pending orders. The database has all
// orders of the other buckets, apart from the unknown ones, which search yields with their errors. A
// node that hangs comes last: what the other nodes have is found without waiting for it.
func (l *lookups) search(ctx context.Context, s *scan, userID int64) iter.Seq[userReservation] {
	return func(yield func(userReservation) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		answers := make(chan []userReservation, len(s.nodes)) // nobody may be left to receive them
		for _, n := range s.nodes {
			go func() { answers <- l.searchNode(ctx, n, userID) }()
		}
		for range s.nodes {
			for _, r := range <-answers {
				if !yield(r) {
					return
				}
			}
		}
	}
}

func (l *lookups) searchNode(ctx context.Context, n *nodeScan, userID int64) (read []userReservation) {
	select {
	case <-n.done:
	case <-ctx.Done():
		return nil // complete returns the context's error
	}
	for _, b := range n.unknown {
		if b.has(userID) {
			unknown := ledger.Reservation{OrderErr: b.err}
			read = append(read, userReservation{voucherID: b.VoucherID, keys: b.keys, Reservation: unknown})
		}
	}
	var own []scannedBucket
	for _, b := range n.pending {
		if b.has(userID) {
			own = append(own, b)
		}
	}
	if len(own) == 0 {
		return read
	}
	ctx, cancel := context.WithTimeout(ctx, l.config.AttemptTimeout)
	defer cancel()
	for i, r := range l.reader.Reservations(ctx, userID, keysOf(own)) {
		read = append(read, userReservation{voucherID: own[i].VoucherID, keys: own[i].keys, Reservation: r})
	}
	return read
}

// complete returns nil if everything there is was read: wherever the user has no order, Redis has
// all users of the voucher, because the voucher is open or was forgotten.
func (l *lookups) complete(ctx context.Context, read []userReservation) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, r := range read {
		var err error
		switch {
		case r.OrderErr != nil:
			err = unavailable(r.OrderErr)
		case r.Order == 0:
			err = l.hasAllUsers(ctx, r)
		}
		if err != nil {
			return cmp.Or(ctx.Err(), err)
		}
	}
	return nil
}

func (l *lookups) hasAllUsers(ctx context.Context, r userReservation) error {
	switch {
	case r.EpochErr != nil:
		return unavailable(r.EpochErr)
	case r.Epoch > 0 && r.Epoch%2 == 0:
		return nil
	}
	st, err := l.config.Store.EpochState(ctx, r.voucherID)
	if err != nil || neverOpened(st.Epoch) || st.Forgotten {
		return err
	}
	return unavailable(errOpening)
}

// replicated waits until enough replicas have an order that was found in Redis. The error is
// [order.ErrUnavailable] if they do not, or if the order is gone meanwhile.
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
