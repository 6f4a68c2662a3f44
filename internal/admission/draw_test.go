package admission

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/admission/admkey"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

const drawBuckets = 4

// of is the nth user of a bucket.
func of(bucket, n int) int64 {
	return usersOf(n+1, drawBuckets, func(b int) bool { return b == bucket })[n]
}

func TestSoldOutMarksOfASplitVoucher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSplitBubble(t, drawBuckets, 1, nil)
		looks := b.fake.looks.Load()
		if err := b.buy(t.Context(), of(1, 0)); err != nil {
			t.Errorf("whose bucket is empty, with stock in another: %v", err)
		}
		if n := b.fake.looks.Load() - looks; n != 1 {
			t.Errorf("%d looks for one draw", n)
		}
		if err := b.buy(t.Context(), of(2, 0)); !errors.Is(err, voucher.ErrSoldOut) {
			t.Errorf("after the last one: %v", err)
		}
		calls, looks := b.fake.calls.Load(), b.fake.looks.Load()
		for n := range 200 {
			if err := b.buy(t.Context(), of(n%drawBuckets, n/drawBuckets+1)); !errors.Is(err, voucher.ErrSoldOut) {
				t.Errorf("of any bucket: %v", err)
			}
		}
		if b.fake.calls.Load() != calls || b.fake.looks.Load() != looks {
			t.Error("Redis was asked although nothing is left")
		}
		// Two are given back to one bucket. The first who is let through, of any other,
		// finds them; and with that everybody else does.
		b.fake.mu.Lock()
		b.fake.buckets[3].state.stock = 2
		b.fake.mu.Unlock()
		if err := b.buy(t.Context(), of(2, 70)); !errors.Is(err, voucher.ErrSoldOut) {
			t.Errorf("within the recheck: %v", err)
		}
		time.Sleep(b.config.Recheck)
		for _, bucket := range []int{2, 0} {
			if err := b.buy(t.Context(), of(bucket, 80)); err != nil {
				t.Errorf("bucket %d, after the recheck: %v", bucket, err)
			}
		}
		if err := b.buy(t.Context(), of(1, 80)); !errors.Is(err, voucher.ErrSoldOut) {
			t.Errorf("after the last one: %v", err)
		}
		_ = b.Close()
	})
}

// While nothing is left, one buyer of the whole voucher is let through from time to
// time, whatever the number of buckets, and one look serves all.
func TestLooksAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSplitBubble(t, drawBuckets, 0, nil)
		looks := b.fake.looks.Load()
		var wg sync.WaitGroup
		for n := range 400 {
			wg.Go(func() {
				if err := b.buy(t.Context(), of(n%drawBuckets, n/drawBuckets)); !errors.Is(err, voucher.ErrSoldOut) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := b.fake.looks.Load() - looks; n != 1 {
			t.Errorf("%d looks for a rush on nothing, want 1", n)
		}
		calls, looks := b.fake.calls.Load(), b.fake.looks.Load()
		for n := range 1000 { // 1 s
			time.Sleep(time.Millisecond)
			if err := b.buy(t.Context(), of(n%drawBuckets, 100)); !errors.Is(err, voucher.ErrSoldOut) {
				t.Error(err)
			}
		}
		if c, l := b.fake.calls.Load()-calls, b.fake.looks.Load()-looks; c > 10 || l > 10 {
			t.Errorf("%d calls and %d looks in a second, want about one in %v", c, l, b.config.Recheck)
		}
		_ = b.Close()
	})
}

// A step of a draw fails, having been carried out or not.
func TestBrokenDraws(t *testing.T) {
	for _, step := range []string{"look", "give", "take"} {
		for _, done := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				b := newSplitBubble(t, drawBuckets, 9, nil)
				var failed atomic.Bool
				b.fake.broken = func(name string) (bool, error) {
					if name == step && !failed.Swap(true) {
						return done, io.EOF
					}
					return true, nil
				}
				for n := range 9 {
					if err := b.buy(t.Context(), of(2, n)); err != nil {
						t.Errorf("%s, carried out %t: order %d: %v", step, done, n, err)
					}
				}
				if err := b.buy(t.Context(), of(2, 9)); !errors.Is(err, voucher.ErrSoldOut) {
					t.Errorf("%s, carried out %t: %v", step, done, err)
				}
				_ = b.Close()
			})
		}
	}
}

// Where nobody can tell what is left, nobody is told that nothing is.
func TestDrawsThatCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSplitBubble(t, drawBuckets, 9, nil)
		b.fake.broken = func(string) (bool, error) { return false, io.EOF }
		begun := time.Now()
		var wg sync.WaitGroup
		for n := range 20 {
			wg.Go(func() {
				if err := b.buy(t.Context(), of(1+n%3, n)); !errors.Is(err, order.ErrUnavailable) {
					t.Errorf("of an empty bucket: %v", err)
				}
			})
		}
		if err := b.buy(t.Context(), of(0, 0)); err != nil {
			t.Errorf("of the bucket that has stock: %v", err)
		}
		wg.Wait()
		if took := time.Since(begun); took != b.config.Patience {
			t.Errorf("took %v, want the patience, %v", took, b.config.Patience)
		}
		b.fake.broken = nil
		if err := b.buy(t.Context(), of(1, 99)); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		_ = b.Close()
	})
}

// A refusal waits for the end of the doubt here, too.
func TestEmptyBucketWithDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSplitBubble(t, drawBuckets, 0, func(c *Config) { c.AttemptTimeout = 300 * time.Millisecond })
		user := of(2, 0)
		b.fake.spoil = func(n int64) (bool, error) {
			switch n {
			case 1:
				return false, io.EOF
			case 3: // in the meantime the first one has come through
				b.fake.mu.Lock()
				b.fake.users[user] = 10 * user
				b.fake.mu.Unlock()
			}
			return true, nil
		}
		if err := b.buy(t.Context(), user); err != nil {
			t.Errorf("%v, but the order was accepted", err)
		}
		_ = b.Close()
	})
}

// The stock of a voucher is shared out equally.
func TestParts(t *testing.T) {
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
		sh := newShelf(c.stock)
		sh.split(c.buckets)
		p := newPool(newGate(Config{}.WithDefaults(), nil), &sh.voucher)
		for bucket, want := range c.want {
			st := order.Standing{Epoch: 4, Seq: []int64{5, 6, 7, 8}, Stock: c.stock}
			if got := p.part(st, bucket); got.stock != want || got.seq != st.Seq[bucket] || got.epoch != 4 {
				t.Errorf("%d in %d buckets: bucket %d gets %+v, want %d", c.stock, c.buckets, bucket, got, want)
			}
		}
		if bound := p.bound() * int64(c.buckets); bound < p.gate.config.MaxPending {
			t.Errorf("%d orders in %d buckets may be on their way, want at least %d", bound, c.buckets, p.gate.config.MaxPending)
		}
		for user := range int64(50) {
			if l := p.line(user); l.bucket != admkey.Bucket(user, c.buckets) || l.keys != admkey.Of("", p.id, l.bucket) {
				t.Errorf("user %d is in the line of %+v", user, l.keys)
			}
		}
	}
}

// One bucket is out of reach: what the others have is sold, and nobody is told that
// nothing is left.
func TestBucketOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSplitBubble(t, drawBuckets, 9, nil)
		b.fake.mu.Lock()
		b.fake.buckets[3].state.stock, b.fake.buckets[3].state.err = 5, io.EOF
		b.fake.mu.Unlock()
		for n := range 9 {
			if err := b.buy(t.Context(), of(1+n%2, n)); err != nil {
				t.Errorf("order %d: %v", n, err)
			}
		}
		if err := b.buy(t.Context(), of(1, 20)); !errors.Is(err, order.ErrUnavailable) || !errors.Is(err, io.EOF) {
			t.Errorf("when the others are empty: %v", err)
		}
		b.fake.mu.Lock()
		b.fake.buckets[3].state.err = nil
		b.fake.mu.Unlock()
		for n := range 5 {
			if err := b.buy(t.Context(), of(0, n)); err != nil {
				t.Errorf("order %d after it is back: %v", n, err)
			}
		}
		if err := b.buy(t.Context(), of(0, 20)); !errors.Is(err, voucher.ErrSoldOut) {
			t.Errorf("at the end: %v", err)
		}
		_ = b.Close()
	})
}
