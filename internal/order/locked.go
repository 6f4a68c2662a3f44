package order

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// lockedOrder is one order on its way through the locked flow.
type lockedOrder struct {
	store   Store
	locker  lock.Locker
	voucher *voucher.Voucher
	order   Order
	now     func() time.Time
	log     *slog.Logger
	// attempts is how often the transaction was begun.
	attempts int
	// beforeWrite comes before the write to the stock; nil but in the laboratory.
	beforeWrite func(ctx context.Context) error
}

// placeLocked returns the order as it was stored. repeated says that an earlier attempt of the transaction collided.
func (s *Service) placeLocked(ctx context.Context, v *voucher.Voucher, o Order) (placed Order, repeated bool, err error) {
	locker, err := s.lockers.Locker(v.Policy.Lock)
	if err != nil {
		return Order{}, false, err
	}
	p := &lockedOrder{store: s.store, locker: locker, voucher: v, order: o, now: s.now, log: s.log}
	if len(v.Policy.Faults) > 0 { // in the laboratory only
		if err := p.injectFaults(); err != nil {
			return Order{}, false, err
		}
	}
	place := p.lockAroundTx
	switch {
	case v.Policy.Stock == voucher.StockGrouped:
		place = p.lockAroundGroup
	case v.Policy.Placement == voucher.InsideTx:
		place = p.lockInsideTx
	}
	if err := place(ctx); err != nil {
		return Order{}, p.attempts > 1, err
	}
	return p.order, false, nil
}

// lockAroundTx is the correct order. The transaction commits before the lock is released, so the
// next holder reads what this one wrote. No transaction is open while the order waits for the lock.
func (p *lockedOrder) lockAroundTx(ctx context.Context) error {
	return p.withLock(ctx, func(ctx context.Context, lease lock.Lease) error {
		err := p.store.Transact(ctx, func(ctx context.Context, tx Tx) error {
			p.attempts++
			return p.decrementAndInsert(ctx, tx, lease)
		})
		return withCauseOfLoss(lease, err)
	})
}

// lockAroundGroup leaves the transaction to the store, which has one for the orders of several buyers.
func (p *lockedOrder) lockAroundGroup(ctx context.Context) error {
	return p.withLock(ctx, func(ctx context.Context, lease lock.Lease) (err error) {
		p.beginTimeToPay()
		p.attempts, err = p.store.PlaceGrouped(ctx, p.order, p.voucher.Revision)
		return withCauseOfLoss(lease, err)
	})
}

// lockInsideTx is the wrong order. It is what a transactional method does whose body takes the lock:
// between the release and the commit the next holder reads the old state.
func (p *lockedOrder) lockInsideTx(ctx context.Context) error {
	return p.store.Transact(ctx, func(ctx context.Context, tx Tx) error {
		p.attempts++
		return p.withLock(ctx, func(_ context.Context, lease lock.Lease) error {
			// The transaction outlives the lock, so its work cannot use the lease's context.
			return p.decrementAndInsert(ctx, tx, lease)
		})
	})
}

// withLock runs work while it holds the lock of this order.
func (p *lockedOrder) withLock(ctx context.Context, work func(context.Context, lock.Lease) error) error {
	lease, err := p.locker.Acquire(ctx, p.lockKey(), lock.Options{
		Wait: p.voucher.Policy.Wait(), TTL: p.voucher.Policy.TTL(),
	})
	if errors.Is(err, lock.ErrNotAcquired) {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	if err != nil {
		return err
	}
	defer p.release(ctx, lease)
	return work(lease.Context(), lease)
}

// lockKey names what the lock guards: the user's order of the voucher, or the voucher's stock.
func (p *lockedOrder) lockKey() string {
	if p.voucher.Policy.Scope == voucher.ScopeVoucher {
		return p.voucher.StockKey()
	}
	return "order:" + strconv.FormatInt(p.voucher.ID, 10) + ":" + strconv.FormatInt(p.order.UserID, 10)
}

// decrementAndInsert is the work that the lock guards: check that the user has no order yet,
// decrement the stock, insert the order.
func (p *lockedOrder) decrementAndInsert(ctx context.Context, tx Tx, lease lock.Lease) error {
	if err := p.checkOnePerUser(ctx, tx); err != nil {
		return err
	}
	tx.AtRevision(p.voucher.Revision)
	decrement, err := p.prepareDecrement(ctx, tx, lease)
	if err != nil {
		return err
	}
	if p.beforeWrite != nil {
		if err := p.beforeWrite(ctx); err != nil {
			return err
		}
	}
	if err := decrement(ctx); err != nil {
		return err
	}
	p.beginTimeToPay()
	return tx.Insert(ctx, p.order, p.voucher.Policy.Unique)
}

// beginTimeToPay sets until when the order is to be paid. The buyer could not pay while it waited for the lock.
func (p *lockedOrder) beginTimeToPay() {
	if p.voucher.AsksForPayment() {
		p.order.PayBy = stamp(p.now()).Add(p.voucher.PayWithin)
	}
}

// checkOnePerUser returns [ErrAlreadyOrdered] if the user has an order already. Where the database
// enforces that with a unique index, the insert itself checks it, and a query beforehand would be a
// wasted round trip.
func (p *lockedOrder) checkOnePerUser(ctx context.Context, tx Tx) error {
	if p.voucher.Policy.Unique {
		return nil
	}
	ordered, err := tx.Ordered(ctx, p.voucher.ID, p.order.UserID)
	if err != nil {
		return err
	}
	if ordered {
		return ErrAlreadyOrdered
	}
	return nil
}

// prepareDecrement does the reads that the policy's stock strategy does before it writes, and
// returns the write.
func (p *lockedOrder) prepareDecrement(ctx context.Context, tx Tx, lease lock.Lease) (
	decrement func(context.Context) error, err error,
) {
	id := p.voucher.ID
	switch strategy := p.voucher.Policy.Stock; strategy {
	case voucher.StockConditional:
		return func(ctx context.Context) error { return tx.Decrement(ctx, id) }, nil
	case voucher.StockFenced:
		return func(ctx context.Context) error { return tx.DecrementFenced(ctx, id, lease.Token()) }, nil
	case voucher.StockRows:
		row := p.voucher.FirstPart(p.order.UserID)
		return func(ctx context.Context) error { return tx.DecrementRow(ctx, id, row) }, nil
	case voucher.StockUnits:
		from := p.voucher.FirstPart(p.order.UserID)
		return func(ctx context.Context) error { return tx.TakeUnit(ctx, id, from) }, nil
	case voucher.StockUnguarded, voucher.StockVersion:
		stock, version, err := tx.StockOf(ctx, id)
		if err != nil {
			return nil, err
		}
		if stock <= 0 {
			return nil, voucher.ErrSoldOut
		}
		if strategy == voucher.StockVersion {
			return func(ctx context.Context) error { return tx.DecrementVersion(ctx, id, version) }, nil
		}
		return func(ctx context.Context) error { return tx.SetStock(ctx, id, stock-1) }, nil
	default:
		return nil, fmt.Errorf("%w: unknown stock strategy %q", voucher.ErrInvalid, strategy)
	}
}

// release releases the lock. A failed release changes nothing about an order that is committed, so
// it is only logged.
func (p *lockedOrder) release(ctx context.Context, lease lock.Lease) {
	if err := lock.Release(ctx, lease); err != nil {
		p.log.LogAttrs(ctx, slog.LevelWarn, "lock release failed",
			slog.String("lock", p.voucher.Policy.Lock), slog.String("key", lease.Key()),
			slog.String("owner", string(lease.Owner())), slog.Any("error", err))
	}
}

// withCauseOfLoss adds the reason why the lock was lost to an error of work that the loss
// cancelled: the work itself sees only [context.Canceled].
func withCauseOfLoss(lease lock.Lease, err error) error {
	if !errors.Is(err, context.Canceled) {
		return err
	}
	// The lease's context ends before its channel Lost is closed, so the context is asked. Its cause
	// may also be that the request itself was cancelled.
	cause := context.Cause(lease.Context())
	for _, loss := range []error{lock.ErrExpired, lock.ErrLost, lock.ErrUnavailable} {
		if errors.Is(cause, loss) {
			return fmt.Errorf("%w: %w", cause, err)
		}
	}
	return err
}
