package voucher_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
func (s *slowStore) Vouchers(ctx context.Context, after int64, limit int) (found []*voucher.Voucher, err error) {
	s.listed.Add(1)
	if err := s.answer(ctx); err != nil {
		return nil, err
	}
	for id := after + 1; id <= 250+s.created.Load() && len(found) < limit; id++ {
		found = append(found, &voucher.Voucher{ID: id, Stock: s.stock.Load()})
	}
	return found, nil
}

func newCache(t *testing.T, s *slowStore) *voucher.Cache {
	t.Helper()
	return voucher.NewCache(s, 100*time.Millisecond, time.Now)
}

func TestCacheSharesOneLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{delay: 20 * time.Millisecond}
		store.stock.Store(7)
		cache := newCache(t, store)
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() {
				if v, err := cache.Voucher(t.Context(), 1); err != nil || v.Stock != 7 {
					t.Errorf("Voucher = %v, %v", v, err)
				}
			})
		}
		wg.Wait()
		if n := store.queries.Load(); n != 1 {
			t.Errorf("the store was asked %d times, want 1", n)
		}
	})
}

func TestCacheServesStaleWhileItLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{delay: 20 * time.Millisecond}
		store.stock.Store(7)
		cache := newCache(t, store)
		stockOf := func() int64 {
			v, err := cache.Voucher(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			return v.Stock
		}
		stockOf()
		store.stock.Store(3)
		if got := stockOf(); got != 7 {
			t.Errorf("stock = %d within the TTL, want the 7 that is cached", got)
		}
		time.Sleep(100 * time.Millisecond)
		var loader sync.WaitGroup
		loader.Go(func() {
			if got := stockOf(); got != 3 {
				t.Errorf("the loader got stock %d, want the 3 it loaded", got)
			}
		})
		synctest.Wait()
		before := time.Now()
		if got := stockOf(); got != 7 || time.Since(before) != 0 {
			t.Errorf("stock = %d after %v, want the stale 7 at once", got, time.Since(before))
		}
		loader.Wait()
		if got := stockOf(); got != 3 {
			t.Errorf("stock = %d after the load, want 3", got)
		}
	})
}

func TestCacheLoadSurvivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{delay: 20 * time.Millisecond}
		store.stock.Store(1)
		cache := newCache(t, store)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = cache.Voucher(ctx, 1) })
		synctest.Wait()
		wg.Go(func() {
			if _, err := cache.Voucher(t.Context(), 1); err != nil {
				t.Errorf("a caller lost its answer to another one's cancellation: %v", err)
			}
		})
		synctest.Wait()
		cancel()
		wg.Wait()

		waiter, give := context.WithCancel(t.Context())
		wg.Go(func() { _, _ = cache.Voucher(t.Context(), 2) })
		synctest.Wait()
		give()
		if _, err := cache.Voucher(waiter, 2); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled waiter got %v", err)
		}
		wg.Wait()
	})
}

func TestCacheRemembersMissingVouchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{}
		cache := newCache(t, store)
		for range 3 {
			if _, err := cache.Voucher(t.Context(), 404); !errors.Is(err, voucher.ErrNotFound) {
				t.Fatalf("err = %v, want ErrNotFound", err)
			}
		}
		if n := store.queries.Load(); n != 1 {
			t.Errorf("asked %d times for a voucher that does not exist, want 1", n)
		}
	})
}

// A store that fails is asked again after each TTL, not by every request.
func TestCacheRemembersAFailureShortly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{}
		cache := newCache(t, store)
		down := errors.New("down")
		store.fail.Store(&down)
		for range 3 {
			for range 10 {
				if _, err := cache.Voucher(t.Context(), 1); !errors.Is(err, down) {
					t.Fatalf("err = %v, want the store's", err)
				}
				if _, err := cache.Vouchers(t.Context(), 0, 10); !errors.Is(err, down) {
					t.Fatalf("the list: err = %v, want the store's", err)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n, lists := store.queries.Load(), store.listed.Load(); n != 3 || lists != 3 {
			t.Errorf("asked %d and %d times, want 3", n, lists)
		}
		store.fail.Store(nil)
		if _, err := cache.Voucher(t.Context(), 1); err != nil {
			t.Errorf("after the failure: %v", err)
		}
	})
}

// A store that hangs does not block requests for which the cached value is good enough.
func TestCacheWhileItsStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{}
		cache := newCache(t, store)
		if _, err := cache.Voucher(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		store.delay = time.Hour
		for range 50 {
			time.Sleep(150 * time.Millisecond)
			begun := time.Now()
			if _, err := cache.Voucher(t.Context(), 1); err != nil || time.Since(begun) > 200*time.Millisecond {
				t.Fatalf("%v after %v", err, time.Since(begun))
			}
		}
		time.Sleep(time.Hour)
	})
}

// While the store is down, the cache serves the last answer and asks the store again after each TTL.
func TestCacheOutlivesItsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{}
		store.stock.Store(5)
		cache := newCache(t, store)
		if _, err := cache.Voucher(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		down := errors.New("down")
		store.fail.Store(&down)
		store.stock.Store(4)
		for range 3 {
			time.Sleep(150 * time.Millisecond)
			for range 2 {
				if v, err := cache.Voucher(t.Context(), 1); err != nil || v.Stock != 5 {
					t.Errorf("Voucher = %v, %v; want the cached one", v, err)
				}
			}
		}
		if n := store.queries.Load(); n != 4 {
			t.Errorf("asked %d times, want 4", n)
		}
		store.fail.Store(nil)
		time.Sleep(150 * time.Millisecond)
		if v, err := cache.Voucher(t.Context(), 1); err != nil || v.Stock != 4 {
			t.Errorf("Voucher = %v, %v; want the new one", v, err)
		}
	})
}

func TestCacheSoldOutMarkLiftsWhenStockReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{}
		store.stock.Store(5)
		cache := newCache(t, store)
		loaded, _ := cache.Voucher(t.Context(), 1)
		cache.SoldOut(1)
		if v, _ := cache.Voucher(t.Context(), 1); v.Stock != 0 {
			t.Errorf("stock = %d after SoldOut, want 0", v.Stock)
		}
		if loaded.Stock != 5 {
			t.Error("SoldOut changed a voucher that was returned earlier")
		}
		time.Sleep(100 * time.Millisecond)
		if v, _ := cache.Voucher(t.Context(), 1); v.Stock != 5 {
			t.Errorf("stock = %d after the TTL, want the store's 5", v.Stock)
		}
		cache.SoldOut(2) // never loaded: nothing to mark
		if v, err := cache.Voucher(t.Context(), 2); err != nil || v.Stock != 5 {
			t.Errorf("Voucher = %v, %v", v, err)
		}
	})
}
