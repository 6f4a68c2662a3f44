package order

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// sale is one order on its way through the locked flow.
type sale struct {
	*Service
	voucher *voucher.Voucher
	order   Order
	locker  lock.Locker
	faults  *lock.Faults
}

func (s *Service) placeLocked(ctx context.Context, v *voucher.Voucher, o Order) error {
	locker, err := s.lockers.Locker(v.Policy.Lock)
	if err != nil {
		return err
	}
	faults, err := lock.NewFaults(v.Policy.FaultsFor(o.UserID), nil)
	if err != nil {
		return err
	}
	sl := &sale{Service: s, voucher: v, order: o, locker: locker, faults: faults}
	if v.Policy.Placement == voucher.InsideTx {
		return sl.lockInsideTx(ctx)
	}
	return sl.lockAroundTx(ctx)
}

// lockAroundTx is the right order: the transaction is committed before the lock
// goes, so the next holder sees what this one did; and none is open while waiting.
func (s *sale) lockAroundTx(ctx context.Context) error {
	return s.locked(ctx, func(ctx context.Context, lease lock.Lease) error {
		err := s.store.Transact(ctx, func(ctx context.Context, tx Tx) error {
			if err := s.sell(ctx, tx, lease); err != nil {
				return err
			}
			return s.faults.PassDeaf(ctx, lock.BeforeCommit)
		})
		if err != nil {
			return lostFirst(lease, err)
		}
		return s.faults.PassDeaf(ctx, lock.AfterCommit)
	})
}

// lockInsideTx is the wrong order, which a transactional method with the lock in
// its body has: between the release and the commit the next holder looks, and
// sees nothing.
func (s *sale) lockInsideTx(ctx context.Context) error {
	err := s.store.Transact(ctx, func(ctx context.Context, tx Tx) error {
		err := s.locked(ctx, func(_ context.Context, lease lock.Lease) error {
			// The transaction outlives the lock, so its work cannot run under the
			// lease's context.
			return s.sell(ctx, tx, lease)
		})
		if err != nil {
			return err
		}
		return s.faults.PassDeaf(ctx, lock.BeforeCommit)
	})
	if err != nil {
		return err
	}
	return s.faults.PassDeaf(ctx, lock.AfterCommit)
}

// locked runs work while holding the lock of this sale.
func (s *sale) locked(ctx context.Context, work func(context.Context, lock.Lease) error) (err error) {
	lease, err := s.locker.Acquire(ctx, s.key(), lock.Options{
		Wait: s.voucher.Policy.Wait(), TTL: s.voucher.Policy.TTL(), Faults: s.faults,
	})
	if errors.Is(err, lock.ErrNotAcquired) {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	if err != nil {
		return err
	}
	defer func() { s.release(ctx, lease, err) }()
	if err := s.faults.PassDeaf(ctx, lock.HolderCrash); err != nil {
		return err
	}
	return work(lease.Context(), lease)
}

// sell does the work that the lock is there for: has this user one already? one
// less in the stock, one more order.
func (s *sale) sell(ctx context.Context, tx Tx, lease lock.Lease) error {
	if err := s.onePerUser(ctx, tx); err != nil {
		return err
	}
	take, err := s.look(ctx, tx, lease)
	if err != nil {
		return err
	}
	if err := s.faults.PassDeaf(ctx, lock.CriticalSection); err != nil {
		return err
	}
	if err := take(ctx); err != nil {
		return err
	}
	if err := tx.Insert(ctx, s.order, s.voucher.Policy.Unique); err != nil {
		return err
	}
	if s.faults == nil {
		return nil // with the commit, in one round trip where the store can
	}
	return tx.Flush(ctx) // a fault from here on finds the writes done
}

// onePerUser asks whether the user has an order already. Where the database
// enforces it, writing the order asks just that, and a question beforehand would
// be a round trip for nothing.
func (s *sale) onePerUser(ctx context.Context, tx Tx) error {
	if s.voucher.Policy.Unique {
		return nil
	}
	ordered, err := tx.Ordered(ctx, s.voucher.ID, s.order.UserID)
	if err != nil {
		return err
	}
	if ordered {
		return ErrAlreadyOrdered
	}
	return nil
}

// look makes the checks that the policy's stock strategy makes before it writes,
// and returns the write.
func (s *sale) look(ctx context.Context, tx Tx, lease lock.Lease) (take func(context.Context) error, err error) {
	id := s.voucher.ID
	switch strategy := s.voucher.Policy.Stock; strategy {
	case voucher.StockConditional:
		return func(ctx context.Context) error { return tx.Decrement(ctx, id) }, nil
	case voucher.StockFenced:
		return func(ctx context.Context) error { return tx.DecrementFenced(ctx, id, lease.Token()) }, nil
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

// release gives the lock back, unless the work ended as a dead holder's does. What
// the release says changes nothing about an order that is committed: it is logged.
func (s *sale) release(ctx context.Context, lease lock.Lease, workErr error) {
	if workErr == nil || !errors.Is(workErr, lock.ErrAbandoned) {
		workErr = s.faults.PassDeaf(ctx, lock.BeforeRelease)
	}
	if errors.Is(workErr, lock.ErrAbandoned) {
		lease.Abandon()
		return
	}
	if err := lock.Release(ctx, lease); err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "lock release failed",
			slog.String("lock", s.voucher.Policy.Lock), slog.String("key", lease.Key()),
			slog.String("owner", string(lease.Owner())), slog.Any("error", err))
	}
}

// key names what the lock guards.
func (s *sale) key() string {
	id := strconv.FormatInt(s.voucher.ID, 10)
	if s.voucher.Policy.Scope == voucher.ScopeVoucher {
		return "stock:" + id
	}
	return "order:" + id + ":" + strconv.FormatInt(s.order.UserID, 10)
}

// lostFirst names the loss of the lock as the reason where it is one: work under
// a lease's context that ends sees only that the context was cancelled.
func lostFirst(lease lock.Lease, err error) error {
	if !errors.Is(err, context.Canceled) {
		return err
	}
	// The context ends before Lost is closed, so it is the one to ask. Its cause may be
	// the request's own.
	cause := context.Cause(lease.Context())
	for _, loss := range []error{lock.ErrExpired, lock.ErrLost, lock.ErrUnavailable} {
		if errors.Is(cause, loss) {
			return fmt.Errorf("%w: %w", cause, err)
		}
	}
	return err
}
