package admission

import (
	"context"
	"fmt"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/lock"
	"seckill/internal/voucher"
)

var _ voucher.Gate = (*Gate)(nil)

// An administrator changes a voucher in the database first, and then in Redis. A process may die in between:
//
//	the transaction commits      the voucher has another revision, and window.lua is still to come. Every process refuses
//	                             what the change forbids as soon as its cache has the voucher, and finds at its next check
//	                             that Redis is behind: it closes the voucher, and rebuilds it
//	window.lua has run           Redis refuses it too, for all processes
//	the voucher is rebuilt       open.lua does not open it with a revision before that of window.lua
//
// Units that are added are given back to the first bucket: see return.lua. Units are taken away from the database while
// the voucher is closed and no order is pending: then the database has the whole stock, and Redis is opened with what
// is left.

// Changed implements [voucher.Gate].
func (g *Gate) Changed(ctx context.Context, id int64) error {
	if err := g.config.paired(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	st, err := g.config.Store.EpochState(ctx, id)
	if err != nil || st.Forgotten { // only the database has it; a buyer opens it again
		return err
	}
	v := newVoucherState(g.core, voucherOf(id, st)) // not kept: it may be open under another window in this process
	if err := v.eachBucket(ctx, func(ctx context.Context, b *bucket) error {
		return v.ledger.SetWindow(ctx, b.keys, windowIn(st))
	}); err != nil {
		return unavailable(err)
	}
	if st.ReturnedToFirst == 0 {
		return nil
	}
	given := contract.Return{VoucherID: id, Epoch: st.Epoch, Total: st.ReturnedToFirst}
	done, err := v.ledger.Return(ctx, v.buckets[0].keys, given)
	if err != nil {
		return unavailable(err)
	}
	if known := g.known(id); known != nil && done.Verdict == ledger.Decided {
		known.buckets[0].observeSeq(st.Epoch, done.Seq)
		known.clearSoldOut() // other processes learn of it when they ask Redis again
	}
	return nil
}

const (
	// drainWait bounds how long a change waits until no order is pending. reopenWait bounds how long it waits for the
	// voucher to open again. The voucher opens also if nobody waits for it.
	drainWait  = 10 * time.Second
	reopenWait = 2 * time.Second
)

// Drained implements [voucher.Gate]. Its lock keeps other processes from opening the voucher meanwhile. If the lock is
// lost, the change finds another epoch.
func (g *Gate) Drained(ctx context.Context, of *voucher.Voucher, change func(ctx context.Context, epoch int64) error) error {
	if err := g.config.paired(); err != nil {
		return err
	}
	v := g.voucher(of)
	if err := v.drained(ctx, change); err != nil {
		v.reopen()
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reopenWait)
	defer cancel()
	for _, b := range v.buckets {
		_, _ = v.awaitOpen(ctx, b, reopenWait)
	}
	return nil
}

func (v *voucherState) drained(ctx context.Context, change func(ctx context.Context, epoch int64) error) error {
	ctx, cancel := context.WithTimeout(ctx, drainWait)
	defer cancel()
	lease, err := v.config.Locker.Acquire(ctx, v.lockKey(), lock.Options{Wait: drainWait})
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release(ctx, lease) }()
	ctx = lease.Context()
	st, err := v.closeEpoch(ctx)
	if err != nil {
		return unavailable(err)
	}
	for number := range v.buckets {
		v.buckets[number].forgetEpoch(st.Epoch - 1)
	}
	if err := v.drain(ctx, st.Epoch); err != nil {
		return unavailable(fmt.Errorf("the orders that are pending: %w", err))
	}
	return change(ctx, st.Epoch)
}

// Remove implements [voucher.Gate].
func (g *Gate) Remove(ctx context.Context, of *voucher.Voucher, epoch int64) error {
	v := newVoucherState(g.core, of)
	return v.eachBucket(ctx, func(ctx context.Context, b *bucket) error {
		removed, err := v.ledger.Remove(ctx, b.keys, epoch, true)
		switch {
		case err != nil:
			return unavailable(err)
		case removed.Verdict != ledger.Removed:
			return unavailable(errEpochChanged)
		}
		return nil
	})
}
