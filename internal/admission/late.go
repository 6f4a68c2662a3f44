package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// LateMoney finds out whether money that came for a cancelled or expired order can have a unit. Every process runs one,
// and none of them is special: the database says what is undecided, and each step may be repeated, by any of them.
//
// A process may die at any moment, and so may the servers:
//
//	the money is recorded              it is undecided
//	Redis reserves a unit              the entry of the stream has the order; asking again gives the same answer
//	a worker writes the entry          one transaction: the order is paid, the stock taken, the money decided
//	Redis forgets the reservation      the voucher is rebuilt without it; the money is still undecided
//	Redis has no unit left, or         the money is decided: it goes back. A reservation that a paused process makes
//	the user has another order         afterwards is given back when its entry is written
//
// The reservation is of the order itself, but does not look like its first one ([ledger.ReservedLate]).
type LateMoney struct {
	gate  *Gate
	store contract.LateStore
}

// LateMoney returns what decides about late money for the gate's vouchers.
func (g *Gate) LateMoney(store contract.LateStore) *LateMoney {
	return &LateMoney{gate: g, store: store}
}

const (
	// lateEvery is how often the database is asked for money that is undecided.
	lateEvery = 200 * time.Millisecond
	// latePerPage is how many payments are read at once, lateAtOnce how many are decided at the same time.
	latePerPage = 100
	lateAtOnce  = 32
)

// Run decides about late money until ctx ends.
func (l *LateMoney) Run(ctx context.Context) {
	for failing := false; ; {
		err := l.Round(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			l.gate.config.Log.Warn("money that came late is not decided yet, trying again", "error", err)
		}
		failing = err != nil
		if !sleep(ctx, lateEvery) {
			return
		}
	}
}

// Round takes the next step for each payment that is undecided. What fails is tried again in a later round; the error
// says why.
func (l *LateMoney) Round(ctx context.Context) error {
	if err := l.gate.config.paired(); err != nil {
		return err
	}
	var failed error
	for after, more := "", true; more; {
		inStore, cancel := context.WithTimeout(ctx, storeTimeout)
		page, err := l.store.LateMoney(inStore, after, latePerPage)
		cancel()
		if err != nil {
			return errors.Join(failed, err)
		}
		errs := make([]error, len(page))
		var group errgroup.Group
		group.SetLimit(lateAtOnce)
		for i, m := range page {
			after = m.PaymentID
			group.Go(func() error { errs[i] = l.decide(ctx, m); return nil })
		}
		_ = group.Wait() // the errors are in errs
		failed = errors.Join(append(errs, failed)...)
		more = len(page) == latePerPage && ctx.Err() == nil
	}
	return failed
}

// decide takes the next step for one payment.
func (l *LateMoney) decide(ctx context.Context, m contract.LateMoney) error {
	if m.Order.Status != order.Cancelled && m.Order.Status != order.Expired {
		return l.refund(ctx, m, order.RefundNotPayable) // another payment was faster
	}
	err := l.reserve(ctx, m.Order)
	if errors.Is(err, voucher.ErrEnded) { // Redis has forgotten the voucher
		inStore, cancel := context.WithTimeout(ctx, storeTimeout)
		err = l.store.PayForgotten(inStore, m)
		cancel()
	}
	switch {
	case errors.Is(err, voucher.ErrSoldOut):
		return l.refund(ctx, m, order.RefundNoStock)
	case errors.Is(err, order.ErrAlreadyOrdered):
		return l.refund(ctx, m, order.RefundOtherOrder)
	case err != nil:
		return fmt.Errorf("payment %s: %w", m.PaymentID, err)
	}
	return nil
}

func (l *LateMoney) refund(ctx context.Context, m contract.LateMoney, why order.Outcome) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return l.store.RefundLate(ctx, m, why)
}

// reserve reserves a unit for an order that was cancelled or expired. Before that, it tells Redis that the order's
// first unit came back. Once reserve has returned nil, a worker writes the order, as any other accepted order.
// Repeating the call changes nothing more.
//
// The errors are [voucher.ErrSoldOut], [order.ErrAlreadyOrdered], [voucher.ErrEnded] if Redis has forgotten the
// voucher, and those that leave the outcome unknown.
func (l *LateMoney) reserve(ctx context.Context, o order.Order) error {
	g := l.gate
	inStore, cancel := context.WithTimeout(ctx, storeTimeout)
	st, err := g.config.Store.EpochState(inStore, o.VoucherID)
	cancel()
	if err != nil {
		return err
	}
	v := voucherOf(o.VoucherID, st)
	s := g.voucher(v)
	s.clearSoldOut() // the unit that decides may have come back a moment ago
	b := s.bucketOf(o.UserID)
	epoch := b.knownState().Epoch
	err = b.queue.Do(ctx, pendingOrder{userID: o.UserID, orderID: o.ID, key: o.Key, late: true, arrived: g.now()})
	other := int64(0)
	if repeated, ok := errors.AsType[*order.RepeatedError](err); ok {
		other, err = repeated.ID, order.ErrAlreadyOrdered
	}
	switch {
	case err == nil:
		// An empty stream is not read for ever after the end of the sale, and money may come a week later.
		err := g.config.Workers.Watch(ctx, contract.AdmissionVoucher{VoucherID: o.VoucherID, Buckets: len(st.Seq)})
		return errors.Join(err, l.persistLost(ctx, b, epoch, o))
	case !errors.Is(err, order.ErrAlreadyOrdered):
		return err
	}
	if other == 0 {
		held, lookUp := g.OrderOf(ctx, v, o.UserID)
		if lookUp != nil {
			return unavailable(lookUp)
		}
		other = held.ID
	}
	if other == o.ID { // a return that was never told, because its epoch is being closed
		return unavailable(errNotReturned)
	}
	return order.ErrAlreadyOrdered
}

// persistLost writes an order whose reservation was found under an epoch, if the order's entry is gone from the stream:
// a worker of an earlier version may have removed it, taking the order for one that was written before. While the entry
// is there, persistLost does nothing.
//
// Whatever removes a reservation removes its entry before or with it, or ends the epoch. So a reservation that is there
// after the stream was found empty, under the same epoch as before, stays until the order is written.
func (l *LateMoney) persistLost(ctx context.Context, b *bucket, epoch int64, o order.Order) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	now := l.gate.reader.State(ctx, b.keys)
	if now.Err != nil {
		return unavailable(now.Err)
	}
	if epoch == 0 || now.Epoch != epoch || now.Pending > 0 {
		return nil
	}
	held := l.gate.reader.Reservations(ctx, []ledger.Query{{Bucket: b.keys, Users: []int64{o.UserID}}})[0]
	if err := cmp.Or(held.Users[0].Err, held.EpochErr); err != nil {
		return unavailable(err)
	}
	if held.Users[0].Order != o.ID || held.Epoch != epoch {
		return nil
	}
	_, err := l.store.Persist(ctx, []contract.Accepted{{
		OrderID: o.ID, VoucherID: o.VoucherID, UserID: o.UserID, Key: o.Key, At: time.UnixMilli(now.Now).UTC(), Late: true,
		Epoch: epoch, Ahead: true, Seq: max(now.Seq, b.knownState().Seq), Bucket: b.number,
	}})
	return err
}
