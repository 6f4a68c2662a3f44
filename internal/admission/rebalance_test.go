package admission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

const testBuckets = 4

// of returns the nth user of a bucket.
func of(bucket, n int) int64 {
	return usersOf(n+1, testBuckets, func(b int) bool { return b == bucket })[n]
}

func TestSoldOutIsCachedForAllBuckets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newSplitBubble(t, testBuckets, 1, nil)
		readings := b.readings.Load()
		fail.Unless(t, b.buy(t.Context(), of(1, 0)), nil, "whose bucket is empty, with stock in another")
		fail.Unequal(t, b.readings.Load()-readings, 1, "readings for one transfer")
		fail.Unless(t, b.buy(t.Context(), of(2, 0)), voucher.ErrSoldOut, "after the last one")
		calls, readings := b.calls.Load(), b.readings.Load()
		for n := range 200 {
			fail.Unless(t, b.buy(t.Context(), of(n%testBuckets, n/testBuckets+1)), voucher.ErrSoldOut, "of any bucket")
		}
		if b.calls.Load() != calls || b.readings.Load() != readings {
			t.Error("Redis was asked although the voucher is sold out")
		}
		// Two are given back to one bucket. The first request that asks Redis, of any other bucket, finds them, and
		// then all requests do.
		b.put(3, 2)
		fail.Unless(t, b.buy(t.Context(), of(2, 70)), voucher.ErrSoldOut, "within the recheck")
		simulate.Sleep(b.config.RecheckEvery)
		for _, bucket := range []int{2, 0} {
			fail.If(t, b.buy(t.Context(), of(bucket, 80)), "bucket %d, after the recheck", bucket)
		}
		fail.Unless(t, b.buy(t.Context(), of(1, 80)), voucher.ErrSoldOut, "after the last one")
	})
}

// While the voucher is sold out, one request of the whole voucher asks Redis at intervals, whatever the number of
// buckets, and one reading serves all.
func TestBucketsShareOneReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newSplitBubble(t, testBuckets, 0, nil)
		readings := b.readings.Load()
		var wg sync.WaitGroup
		for n := range 400 {
			wg.Go(func() {
				fail.Unless(t, b.buy(t.Context(), of(n%testBuckets, n/testBuckets)), voucher.ErrSoldOut)
			})
		}
		wg.Wait()
		fail.Unequal(t, b.readings.Load()-readings, 1, "readings for a rush on a sold-out voucher")
		calls, readings := b.calls.Load(), b.readings.Load()
		for n := range 1000 { // 1 s
			simulate.Sleep(time.Millisecond)
			fail.Unless(t, b.buy(t.Context(), of(n%testBuckets, 100)), voucher.ErrSoldOut)
		}
		if c, l := b.calls.Load()-calls, b.readings.Load()-readings; c > 10 || l > 10 {
			t.Errorf("%d calls and %d readings in a second, want about one in %v", c, l, b.config.RecheckEvery)
		}
	})
}

// A step of a transfer fails, after it was executed or without. If that was the last unit, no bucket has stock any
// more.
func TestTransferWithAFailedStep(t *testing.T) {
	t.Parallel()
	for _, stock := range []int{9, 1} {
		for _, step := range []string{"states", "give", "take"} {
			for _, done := range []bool{true, false} {
				synctest.Test(t, func(t *testing.T) { transferWithAFailedStep(t, stock, step, done) })
			}
		}
	}
}

func transferWithAFailedStep(t *testing.T, stock int, step string, done bool) {
	b := newSplitBubble(t, testBuckets, int64(stock), nil)
	var failed atomic.Bool
	b.broken = func(name string) (bool, error) {
		if name == step && !failed.Swap(true) {
			return done, io.EOF
		}
		return true, nil
	}
	what := fmt.Sprintf("%d units, %s, carried out %t", stock, step, done)
	for n := range stock {
		fail.Unless(t, b.buy(t.Context(), of(2, n)), nil, what)
	}
	fail.Unless(t, b.buy(t.Context(), of(2, stock)), voucher.ErrSoldOut, what)
}

// The process that gave the last unit to a bucket has died. A buyer of a third bucket gets it.
func TestLastUnitInTransitIsSold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newSplitBubble(t, testBuckets, 1, nil)
		fail.NowIf(t, fail.Of(b.sent.Give(t.Context(), b.redis.keys, b.store.epochState.Epoch, 2, true)))
		fail.Unless(t, b.buy(t.Context(), of(1, 0)), nil, "the last unit")
		fail.Unless(t, b.buy(t.Context(), of(1, 1)), voucher.ErrSoldOut, "no unit")
	})
}

// If the stock of a bucket is unknown, the voucher is not reported as sold out.
func TestSoldOutIsNotGuessed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newSplitBubble(t, testBuckets, 9, nil)
		b.broken = func(string) (bool, error) { return false, io.EOF }
		begun := time.Now()
		var wg sync.WaitGroup
		for n := range 20 {
			wg.Go(func() {
				fail.Unless(t, b.buy(t.Context(), of(1+n%3, n)), order.ErrUnavailable, "of an empty bucket")
			})
		}
		fail.Unless(t, b.buy(t.Context(), of(0, 0)), nil, "of the bucket that has stock")
		wg.Wait()
		fail.Unequal(t, time.Since(begun), b.config.DecisionTimeout, "the DecisionTimeout")
		b.broken = nil
		fail.Unless(t, b.buy(t.Context(), of(1, 99)), nil, "afterwards")
	})
}

// The stock of a voucher is divided equally.
func TestStockIsDividedEqually(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		buckets int
		stock   int64
		want    []int64
	}{
		{1, 7, []int64{7}},
		{3, 7, []int64{3, 2, 2}},
		{4, 2, []int64{1, 1, 0, 0}},
		{3, 0, []int64{0, 0, 0}},
	} {
		sh := newStore(c.stock)
		sh.split(c.buckets)
		p := newVoucherState(newCore(Config{}.WithDefaults(), nil), &sh.voucher)
		for bucket, want := range c.want {
			st := contract.EpochState{Epoch: 4, Seq: []int64{5, 6, 7, 8}, Stock: c.stock}
			if got := p.opening(st, bucket); got.Stock != want || got.Seq != st.Seq[bucket] || got.Epoch != 4 {
				t.Errorf("%d in %d buckets: bucket %d gets %+v, want %d", c.stock, c.buckets, bucket, got, want)
			}
		}
		if bound := p.maxPending() * int64(c.buckets); bound < p.config.MaxPending {
			t.Errorf("%d orders in %d buckets may be pending, want at least %d", bound, c.buckets, p.config.MaxPending)
		}
		for user := range int64(50) {
			if l := p.bucketOf(user); l.number != ledger.BucketOf(user, c.buckets) || l.keys != ledger.KeysOf("", p.id, l.number) {
				t.Errorf("user %d is in the bucket of %+v", user, l.keys)
			}
		}
	}
}

// One bucket cannot be reached: the stock of the others is sold, and the voucher is not reported as sold out.
func TestUnreachableBucket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newSplitBubble(t, testBuckets, 9, nil)
		b.put(3, 5)
		b.unread = func(context.Context) error { return io.EOF }
		for n := range 9 {
			fail.If(t, b.buy(t.Context(), of(1+n%2, n)), "order %d", n)
		}
		if err := b.buy(t.Context(), of(1, 20)); !errors.Is(err, order.ErrUnavailable) || !errors.Is(err, io.EOF) {
			t.Errorf("when the others are empty: %v", err)
		}
		b.unread = nil
		for n := range 5 {
			fail.If(t, b.buy(t.Context(), of(0, n)), "order %d after it is back", n)
		}
		fail.Unless(t, b.buy(t.Context(), of(0, 20)), voucher.ErrSoldOut, "at the end")
	})
}
