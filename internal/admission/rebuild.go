package admission

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
)

// rebuild closes all buckets of the voucher and opens them with what the database has:
//
//  1. close the epoch in the database, then in every bucket
//  2. drain: wait until no order is pending
//  3. open the next epoch in the database, which makes entries of earlier epochs stale
//  4. copy the users from the database
//  5. open every bucket with its share of the stock
//
// Wherever rebuild fails, something stays closed, and the next attempt begins at step 1: a bucket that was opened
// already is closed and drained again.
func (v *voucherState) rebuild(ctx context.Context) error {
	st, err := v.closeEpoch(ctx)
	if err != nil {
		return err
	}
	if err := v.drain(ctx, st.Epoch); err != nil {
		return err
	}
	st, err = v.openEpoch(ctx, st.Epoch)
	if err != nil {
		return err
	}
	if err := v.openBuckets(ctx, st); err != nil {
		v.discardPrepared(ctx, st.Epoch)
		return err
	}
	return nil
}

// openBuckets opens all buckets under the epoch of st, with the users from the database.
func (v *voucherState) openBuckets(ctx context.Context, st contract.EpochState) error {
	copied, err := v.copyUsers(ctx, st.Epoch)
	if err != nil {
		return err
	}
	return v.eachBucket(ctx, func(ctx context.Context, b *bucket) error {
		o := v.opening(st, b.number)
		o.Users = copied[b.number]
		opened, err := v.ledger.Open(ctx, b.keys, o)
		if err == nil && !opened {
			err = fmt.Errorf("%w: %d is over", errEpochChanged, st.Epoch)
		}
		return err
	})
}

// closeEpoch closes the voucher in the database, and then all buckets under the same epoch.
func (v *voucherState) closeEpoch(ctx context.Context) (contract.EpochState, error) {
	inStore, cancel := context.WithTimeout(ctx, storeTimeout)
	st, err := v.config.Store.Close(inStore, v.id)
	cancel()
	if err != nil {
		return st, err
	}
	redis, err := v.closeBuckets(ctx, st.Epoch)
	if err != nil || redis == st.Epoch {
		return st, err
	}
	if st, err = v.closeAbove(ctx, redis); err != nil {
		return st, err
	}
	if redis, err = v.closeBuckets(ctx, st.Epoch); err == nil && redis != st.Epoch {
		err = fmt.Errorf("%w: Redis has %d, the database %d", errEpochChanged, redis, st.Epoch)
	}
	return st, err
}

// closeBuckets closes all buckets under an epoch, and returns the latest epoch that a bucket then has.
func (v *voucherState) closeBuckets(ctx context.Context, closed int64) (latest int64, err error) {
	epochs := make([]int64, len(v.buckets))
	err = v.eachBucket(ctx, func(ctx context.Context, b *bucket) (err error) {
		epochs[b.number], err = v.ledger.Close(ctx, b.keys, closed)
		return err
	})
	return slices.Max(epochs), err
}

// closeAbove closes the voucher in the database, above an epoch that Redis holds. The database is behind Redis if it
// was restored from older data, or an older copy of it took over. If it is not behind, another process has opened the
// voucher meanwhile, and closeAbove changes nothing.
func (v *voucherState) closeAbove(ctx context.Context, redis int64) (contract.EpochState, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	st, err := v.config.Store.CloseAbove(ctx, v.id, redis)
	switch {
	case err != nil:
		return st, err
	case st.Epoch <= redis:
		return st, fmt.Errorf("%w: Redis has %d, the database %d", errEpochChanged, redis, st.Epoch)
	}
	v.config.Log.Warn("the database was behind Redis: it has older data", "voucher", v.id, "redis_epoch", redis, "epoch", st.Epoch)
	return st, nil
}

// openEpoch opens the epoch after a closed one in the database.
func (v *voucherState) openEpoch(ctx context.Context, closed int64) (contract.EpochState, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	st, err := v.config.Store.Open(ctx, v.id, closed)
	return bounded(st), err
}

const (
	// drainPoll is how often drain first asks whether orders are pending. An outage of the database lasts longer, so
	// the pause grows: to a sixteenth of the time that the drain has taken, and to maxDrainPoll at most.
	drainPoll    = 10 * time.Millisecond
	maxDrainPoll = 250 * time.Millisecond
	// drainWarning is how often a drain that does not end is logged.
	drainWarning = time.Minute
)

// drain waits until no order is pending under a closed epoch. The consumers persist the orders. A bucket with another
// epoch is on a replica that was promoted without the closed one: it may still accept orders.
func (v *voucherState) drain(ctx context.Context, closed int64) error {
	begun := time.Now()
	for next := begun; ; { // when it is logged next
		all := v.states(ctx)
		if err := firstError(all); err != nil {
			return err
		}
		var pending int64
		for i := range all {
			if all[i].Epoch != closed {
				return fmt.Errorf("%w: bucket %d has %d instead of %d", errEpochChanged, i, all[i].Epoch, closed)
			}
			pending += all[i].Pending
		}
		if pending == 0 {
			return nil
		}
		took := time.Since(begun)
		switch now := time.Now(); {
		case now.Before(next):
		case next.Equal(begun):
			v.config.Log.Info("admission waits for pending orders", "voucher", v.id, "orders", pending)
			next = now.Add(drainWarning)
		default:
			v.config.Log.Warn("admission stays closed until the database takes the pending orders",
				"voucher", v.id, "orders", pending, "since", took.Round(time.Second).String())
			next = now.Add(drainWarning)
		}
		if !sleep(ctx, min(max(drainPoll, took/16), maxDrainPoll)) {
			return context.Cause(ctx)
		}
	}
}

// opening returns the data that a bucket is opened with. Each bucket gets an equal share of the stock. If the stock
// cannot be divided equally, the first buckets get one more each.
func (v *voucherState) opening(st contract.EpochState, number int) ledger.Opening {
	n := int64(len(v.buckets))
	stock := st.Stock / n
	if int64(number) < st.Stock%n {
		stock++
	}
	return ledger.Opening{Epoch: st.Epoch, Seq: st.Seq[number], Stock: stock, Window: windowIn(st)}
}

const (
	// pageSize is how many orders are copied at a time. It bounds how long one command keeps Redis busy, at about 1 µs
	// an order.
	pageSize = 5000
	// pagesAhead is how many pages may be read from the database and not yet written to Redis. The voucher is closed
	// until all are copied, so both servers work at the same time.
	pagesAhead = 4
)

// copyUsers prepares the users of an epoch: the users of all live orders, each in its own bucket. It returns how many
// there are in each bucket.
func (v *voucherState) copyUsers(ctx context.Context, epoch int64) ([]int64, error) {
	copied := make([]int64, len(v.buckets))
	group, ctx := errgroup.WithContext(ctx)
	pages := make(chan []order.Order, pagesAhead)
	group.Go(func() error {
		defer close(pages)
		for after := int64(0); ; {
			page, err := v.liveOrders(ctx, after)
			if err != nil || len(page) == 0 {
				return err
			}
			after = page[len(page)-1].UserID
			select {
			case pages <- page:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
	group.Go(func() error {
		for page := range pages {
			if err := v.ledger.Prepare(ctx, v.usersByBucket(page, epoch)); err != nil {
				return fmt.Errorf("copy the users of voucher %d: %w", v.id, err)
			}
			for _, o := range page {
				copied[v.bucketOf(o.UserID).number]++
			}
		}
		return nil
	})
	return copied, group.Wait()
}

// discardPrepared removes the users that were prepared for an epoch. The next attempt has another epoch, and copies
// them again: without discardPrepared each copy would occupy memory for [ledger.PreparedFor]. If Redis does not answer,
// it does.
func (v *voucherState) discardPrepared(ctx context.Context, epoch int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	var discarding errgroup.Group
	discarding.SetLimit(bucketsAtOnce)
	for _, b := range v.buckets {
		discarding.Go(func() error { return v.ledger.Discard(ctx, b.keys, epoch) })
	}
	if err := discarding.Wait(); err != nil {
		v.config.Log.Warn("admission cannot remove the users that were prepared", "voucher", v.id, "error", err)
	}
}

func (v *voucherState) liveOrders(ctx context.Context, afterUser int64) ([]order.Order, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return v.config.Store.LiveOrders(ctx, v.id, afterUser, pageSize)
}

// usersByBucket sorts orders by the buckets of their users.
func (v *voucherState) usersByBucket(page []order.Order, epoch int64) []ledger.Users {
	users := make([]ledger.Users, len(v.buckets))
	for _, o := range page {
		to := &users[v.bucketOf(o.UserID).number]
		to.Orders = append(to.Orders, o)
	}
	for i, b := range v.buckets {
		users[i].Key = b.keys.PreparedUsers(epoch)
	}
	return slices.DeleteFunc(users, func(u ledger.Users) bool { return len(u.Orders) == 0 })
}

// bucketsAtOnce is how many buckets are closed or opened at the same time.
const bucketsAtOnce = 8

// eachBucket calls do for all buckets, some at a time.
func (v *voucherState) eachBucket(ctx context.Context, do func(context.Context, *bucket) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(bucketsAtOnce)
	for _, b := range v.buckets {
		group.Go(func() error { return do(ctx, b) })
	}
	return group.Wait()
}
