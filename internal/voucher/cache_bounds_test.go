package voucher_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/voucher"
)

// Requests for ids without a voucher reach the store at a bounded rate and evict no voucher.
func TestCacheBoundsRequestsForMissingVouchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{}
		cache := newCache(t, store)
		if _, err := cache.Read(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		store.queries.Store(0)
		const seconds = 10
		busy := 0
		for i := range int64(seconds * 1000) {
			time.Sleep(time.Millisecond)
			_, err := cache.Read(t.Context(), 1_000_000+i)
			if errors.Is(err, voucher.ErrBusy) {
				busy++
			} else if !errors.Is(err, voucher.ErrNotFound) {
				t.Fatal(err)
			}
		}
		if n := store.queries.Load(); n > 100*(seconds+1) || busy == 0 {
			t.Errorf("the store was asked %d times in %d s, and %d requests were refused with ErrBusy", n, seconds, busy)
		}
		// Orders for vouchers that are not cached still reach the store.
		store.stock.Store(5)
		if v, err := cache.Voucher(t.Context(), 2); err != nil || v.Stock != 5 {
			t.Errorf("an order: %+v, %v", v, err)
		}
		if v, err := cache.Read(t.Context(), 1); err != nil || v.Stock != 5 {
			t.Errorf("a known voucher: %+v, %v", v, err)
		}
	})
}

// Requests for many pages reach the store at a bounded rate, and the first page stays cached.
func TestCacheListIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{}
		cache := newCache(t, store)
		const seconds = 10
		for i := range int64(seconds * 1000) {
			time.Sleep(time.Millisecond)
			if _, err := cache.Vouchers(t.Context(), 1+i*7919, 20); err != nil && !errors.Is(err, voucher.ErrBusy) {
				t.Fatal(err)
			}
			page, err := cache.Vouchers(t.Context(), 0, 1+int(i%100))
			if err != nil || len(page) != 1+int(i%100) || page[0].ID != 1 {
				t.Fatalf("the first page has %d: %v", len(page), err)
			}
		}
		if n := store.listed.Load(); n > (100+10)*(seconds+1) {
			t.Errorf("the store was asked %d times in %d s", n, seconds)
		}
	})
}

// Refreshes are bounded too: if more vouchers are requested, the answers are older.
func TestCacheRefreshesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{}
		cache := newCache(t, store)
		for id := range int64(200) {
			cache.Created(&voucher.Voucher{ID: 1 + id})
		}
		const seconds = 5
		for range seconds * 10 {
			time.Sleep(100 * time.Millisecond)
			for id := range int64(200) {
				if _, err := cache.Read(t.Context(), 1+id); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := store.queries.Load(); n > 500*(seconds+1) {
			t.Errorf("the store was asked %d times in %d s", n, seconds)
		}
	})
}

// A voucher that was created in this process is returned at once, even if it was requested before, or an earlier
// load is still running.
func TestCacheReturnsNewVouchersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{delay: 50 * time.Millisecond}
		cache := newCache(t, store)
		const id = 1_000_001 // the store answers that it does not exist
		list := func() int {
			page, err := cache.Vouchers(t.Context(), 249, 10)
			if err != nil {
				t.Fatal(err)
			}
			return len(page)
		}
		if n := list(); n != 1 {
			t.Fatalf("%d on the last page, want 1", n)
		}
		var early sync.WaitGroup
		early.Go(func() { _, _ = cache.Read(t.Context(), id) })
		synctest.Wait()
		time.Sleep(10 * time.Millisecond)
		cache.Created(&voucher.Voucher{ID: id, Stock: 9})
		store.created.Add(1)
		for range 2 {
			if v, err := cache.Read(t.Context(), id); err != nil || v.Stock != 9 {
				t.Errorf("Read = %+v, %v", v, err)
			}
			if n := list(); n != 2 {
				t.Errorf("%d on the last page, want 2", n)
			}
			early.Wait()
		}
	})
}

func TestCacheStaysBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{}
		cache := newCache(t, store)
		for id := range int64(10_000) {
			cache.Created(&voucher.Voucher{ID: 1000 + id})
		}
		// A bounded cache has forgotten most of them.
		busy := 0
		for id := range int64(10_000) {
			if _, err := cache.Read(t.Context(), 1000+id); errors.Is(err, voucher.ErrBusy) {
				busy++
			}
		}
		if busy < 5000 {
			t.Errorf("%d of 10,000 vouchers were not in memory: the cache does not forget", busy)
		}
	})
}

func BenchmarkCacheRead(b *testing.B) {
	cache := voucher.NewCache(&slowStore{}, time.Hour, time.Now)
	cache.Created(&voucher.Voucher{ID: 1})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := cache.Read(b.Context(), 1); err != nil {
			b.Fatal(err)
		}
	}
}
