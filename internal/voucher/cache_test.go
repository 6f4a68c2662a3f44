package voucher_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// slowStore answers after a delay and counts the queries.
type slowStore struct {
	voucher.Store
	queries         atomic.Int64
	listed, created atomic.Int64
	delay           time.Duration
	stock           atomic.Int64
	fail            atomic.Pointer[error]
	unreadable      int64        // a voucher
	also            atomic.Int64 // a voucher that somebody else has created
}

func (s *slowStore) VouchersByID(ctx context.Context, ids []int64) (map[int64]voucher.Found, error) {
	s.queries.Add(1)
	if err := s.answer(ctx); err != nil {
		return nil, err
	}
	found, also := map[int64]voucher.Found{}, s.also.Load()
	for _, id := range ids {
		if id == s.unreadable {
			found[id] = voucher.Found{Err: errors.New("unreadable")}
		} else if id != 404 && id < 1_000_000 || id == also {
			found[id] = voucher.Found{Voucher: &voucher.Voucher{ID: id, Stock: s.stock.Load()}}
		}
	}
	return found, nil
}

// answer waits for the delay, and returns the error of the query.
//
// It starts no timer of zero: such a timer runs at once, in the goroutine that reads its channel. In a bubble of
// synctest they share one context of the race detector, which crashes if two run at the same time (Go 1.26).
func (s *slowStore) answer(ctx context.Context) error {
	if s.delay > 0 {
		select {
		case <-time.After(s.delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := s.fail.Load(); err != nil {
		return *err
	}
	return ctx.Err()
}

// Vouchers has the ids 1 to 250, and those that were created.
func (s *slowStore) Vouchers(ctx context.Context, list voucher.List, _ time.Time, limit int) (found []*voucher.Voucher, err error) {
	s.listed.Add(1)
	if err := s.answer(ctx); err != nil {
		return nil, err
	}
	for id := list.After.ID + 1; id <= 250+s.created.Load() && len(found) < limit; id++ {
		found = append(found, &voucher.Voucher{ID: id, Stock: s.stock.Load()})
	}
	return found, nil
}

// from is the list of all vouchers after one of them.
func from(id int64) voucher.List { return voucher.List{After: voucher.Position{ID: id}} }

// cached runs a test in a bubble of time, with a cache over a store.
func cached(t *testing.T, test func(t *testing.T, store *slowStore, cache *voucher.Cache)) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{}
		test(t, store, voucher.NewCache(store, 100*time.Millisecond, time.Now))
	})
}

// wantQueries checks how many queries and lists the store was asked for.
func (s *slowStore) wantQueries(t *testing.T, queries, lists int64) {
	t.Helper()
	if q, l := s.queries.Load(), s.listed.Load(); q != queries || l != lists {
		t.Errorf("%d queries and %d lists, want %d and %d", q, l, queries, lists)
	}
}

// wantStock looks a voucher up, for an order or for a reader.
func wantStock(t *testing.T, look func(context.Context, int64) (*voucher.Voucher, error), id, want int64) {
	t.Helper()
	if v, err := look(t.Context(), id); err != nil || v.Stock != want {
		t.Errorf("voucher %d: %+v, %v; want a stock of %d", id, v, err, want)
	}
}

func TestCacheSharesOneLoad(t *testing.T) {
	cached(t, func(t *testing.T, store *slowStore, cache *voucher.Cache) {
		store.delay = 20 * time.Millisecond
		store.stock.Store(7)
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() { wantStock(t, cache.Voucher, 1, 7) })
		}
		wg.Wait()
		store.wantQueries(t, 1, 0)
	})
}

func TestCacheServesStaleWhileItLoads(t *testing.T) {
	cached(t, func(t *testing.T, store *slowStore, cache *voucher.Cache) {
		store.delay = 20 * time.Millisecond
		store.stock.Store(7)
		wantStock(t, cache.Voucher, 1, 7)
		store.stock.Store(3)
		wantStock(t, cache.Voucher, 1, 7) // within the TTL
		simulate.Sleep(100 * time.Millisecond)
		var loader sync.WaitGroup
		loader.Go(func() { wantStock(t, cache.Voucher, 1, 3) })
		synctest.Wait()
		before := time.Now()
		if wantStock(t, cache.Voucher, 1, 7); time.Since(before) != 0 {
			t.Errorf("the stale stock was answered after %v", time.Since(before))
		}
		loader.Wait()
		wantStock(t, cache.Voucher, 1, 3)
	})
}

func TestCacheLoadSurvivesItsCaller(t *testing.T) {
	cached(t, func(t *testing.T, store *slowStore, cache *voucher.Cache) {
		store.delay = 20 * time.Millisecond
		store.stock.Store(1)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = cache.Voucher(ctx, 1) })
		synctest.Wait()
		wg.Go(func() {
			fail.If(t, fail.Of(cache.Voucher(t.Context(), 1)), "a caller lost its answer to another one's cancellation")
		})
		synctest.Wait()
		cancel()
		wg.Wait()

		waiter, give := context.WithCancel(t.Context())
		wg.Go(func() { _, _ = cache.Voucher(t.Context(), 2) })
		synctest.Wait()
		give()
		fail.Unless(t, fail.Of(cache.Voucher(waiter, 2)), context.Canceled, "a cancelled waiter")
		wg.Wait()
	})
}

// A store that fails is asked again after each TTL, not by every request.
func TestCacheRemembersAFailureShortly(t *testing.T) {
	cached(t, func(t *testing.T, store *slowStore, cache *voucher.Cache) {
		down := errors.New("down")
		store.fail.Store(&down)
		for range 3 {
			for range 10 {
				fail.NowUnless(t, fail.Of(cache.Voucher(t.Context(), 1)), down)
				fail.NowUnless(t, fail.Of(cache.Vouchers(t.Context(), voucher.List{}, 10)), down, "the list")
			}
			simulate.Sleep(100 * time.Millisecond)
		}
		store.wantQueries(t, 3, 3)
		store.fail.Store(nil)
		fail.If(t, fail.Of(cache.Voucher(t.Context(), 1)), "after the failure")
	})
}

// While the store is down or hangs, the cache serves the last answer after a short wait at most, and asks the store
// again after each TTL or each query that hung.
func TestCacheOutlivesItsStore(t *testing.T) {
	down := errors.New("down")
	for name, test := range map[string]struct {
		fall    func(*slowStore)
		queries int64
		waits   time.Duration
	}{
		"down":  {func(s *slowStore) { s.fail.Store(&down) }, 50, 0},
		"hangs": {func(s *slowStore) { s.delay = time.Hour }, 7, 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			cached(t, func(t *testing.T, store *slowStore, cache *voucher.Cache) {
				want := func(stock int64, within time.Duration) {
					t.Helper()
					begun := time.Now()
					if wantStock(t, cache.Voucher, 1, stock); time.Since(begun) > within {
						t.Errorf("answered after %v", time.Since(begun))
					}
				}
				store.stock.Store(5)
				want(5, 0)
				test.fall(store)
				store.stock.Store(4)
				store.queries.Store(0)
				for range 50 {
					simulate.Sleep(150 * time.Millisecond)
					for range 2 {
						want(5, test.waits)
					}
				}
				if n := store.queries.Load(); n > test.queries {
					t.Errorf("asked %d times, want %d", n, test.queries)
				}
				simulate.Sleep(5 * time.Second) // the last query that hangs
				synctest.Wait()
				store.fail.Store(nil)
				store.delay = 0
				want(4, 200*time.Millisecond)
			})
		})
	}
}

func TestCacheSoldOutMarkLiftsWhenStockReturns(t *testing.T) {
	cached(t, func(t *testing.T, store *slowStore, cache *voucher.Cache) {
		store.stock.Store(5)
		loaded, _ := cache.Voucher(t.Context(), 1)
		cache.SoldOut(1)
		wantStock(t, cache.Voucher, 1, 0)
		if loaded.Stock != 5 {
			t.Error("SoldOut changed a voucher that was returned earlier")
		}
		simulate.Sleep(100 * time.Millisecond)
		wantStock(t, cache.Voucher, 1, 5)
		cache.SoldOut(2) // never loaded: nothing to mark
		wantStock(t, cache.Voucher, 2, 5)
	})
}
