package voucher_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// However many ids without a voucher a client asks for, the store is queried at a bounded rate, and no request of
// others is refused: neither for a voucher that is cached, nor for one that another process has just created.
func TestCacheUnknownIDsTakeNothingFromOthers(t *testing.T) {
	cached(t, func(t *testing.T, store *slowStore, cache *voucher.Cache) {
		const seconds, clients = 2, 64 // as many requests as one user may have under way
		begun := time.Now()
		var flood sync.WaitGroup
		for client := range int64(clients) {
			flood.Go(func() {
				for id := 1_000_000 + client; time.Since(begun) < seconds*time.Second; id += clients {
					ask := cache.Read
					if client%2 == 0 {
						ask = cache.Voucher
					}
					fail.Unless(t, fail.Of(ask(t.Context(), id)), voucher.ErrNotFound, "an unknown id")
				}
			})
		}
		var slowest time.Duration
		for id := int64(1); time.Since(begun) < seconds*time.Second; id++ {
			for _, ask := range []func(context.Context, int64) (*voucher.Voucher, error){cache.Voucher, cache.Read} {
				for _, id := range []int64{1, 1 + id} { // the one is cached, the other is new
					asked := time.Now()
					fail.NowIf(t, fail.Of(ask(t.Context(), id)), "voucher %d", id)
					slowest = max(slowest, time.Since(asked))
				}
			}
			simulate.Sleep(10 * time.Millisecond)
		}
		flood.Wait()
		n := store.queries.Load()
		if n > 200*(seconds+1) || slowest > 10*time.Millisecond {
			t.Errorf("%d queries in %d s; a voucher was found after %v", n, seconds, slowest)
		}
	})
}

// fill has as many requests wait for unknown ids as may.
func fill(t *testing.T, cache *voucher.Cache) (waiting *sync.WaitGroup) {
	waiting = &sync.WaitGroup{}
	for id := range int64(5000) {
		waiting.Go(func() { _, _ = cache.Read(t.Context(), 1_000_000+id) })
	}
	synctest.Wait()
	return waiting
}

// While the store hangs, requests beyond a bound are refused. Once it answers, the cache does not ask it for the ids of
// requests that have given up.
func TestCacheOfAStoreThatHangs(t *testing.T) {
	cached(t, func(t *testing.T, store *slowStore, cache *voucher.Cache) {
		store.delay = time.Hour
		waiting := fill(t, cache)
		fail.Unless(t, fail.Of(cache.Read(t.Context(), 9998)), voucher.ErrBusy, "beyond the bound")
		waiting.Wait() // the query and those who waited have given up
		store.delay = 0
		store.queries.Store(0)
		begun := time.Now()
		if _, err := cache.Read(t.Context(), 9999); err != nil || time.Since(begun) > time.Second {
			t.Errorf("afterwards: %v after %v", err, time.Since(begun))
		}
		if n := store.queries.Load(); n > 1 {
			t.Errorf("%d queries, though only one waits", n)
		}
	})
}

// One voucher that cannot be read does not keep others from being read.
func TestCacheUnreadableVoucher(t *testing.T) {
	cached(t, func(t *testing.T, store *slowStore, cache *voucher.Cache) {
		store.delay, store.unreadable = 10*time.Millisecond, 3
		var asking sync.WaitGroup
		for id := int64(1); id <= 5; id++ {
			asking.Go(func() {
				if _, err := cache.Voucher(t.Context(), id); (err != nil) != (id == 3) {
					t.Errorf("voucher %d: %v", id, err)
				}
			})
		}
		asking.Wait()
		if n := store.queries.Load(); n > 2 {
			t.Errorf("%d queries for 5 vouchers that were asked for at once", n)
		}
	})
}

// Requests for many pages reach the store at a bounded rate, and the first page stays cached.
func TestCacheListIsBounded(t *testing.T) {
	cached(t, func(t *testing.T, store *slowStore, cache *voucher.Cache) {
		const seconds = 3
		for i := range int64(seconds * 1000) {
			simulate.Sleep(time.Millisecond)
			if _, err := cache.Vouchers(t.Context(), from(1+i*7919), 20); err != nil && !errors.Is(err, voucher.ErrBusy) {
				t.Fatal(err)
			}
			page, err := cache.Vouchers(t.Context(), from(0), 1+int(i%100))
			if err != nil || len(page) != 1+int(i%100) || page[0].ID != 1 {
				t.Fatalf("the first page has %d: %v", len(page), err)
			}
		}
		if n := store.listed.Load(); n > (100+10)*(seconds+1) {
			t.Errorf("the store was asked %d times in %d s", n, seconds)
		}
	})
}

// A client that asks for all cached pages again and again makes the store list about 50 pages a second. The first page
// is at most the TTL old, and each other page a second. None is refused.
func TestCachePagesAreRefreshedWithinABound(t *testing.T) {
	cached(t, func(t *testing.T, store *slowStore, cache *voucher.Cache) {
		begun := time.Now()
		// show returns how old a page is. The store's stock is the time in ms.
		show := func(after int64) time.Duration {
			store.stock.Store(time.Since(begun).Milliseconds())
			page, err := cache.Vouchers(t.Context(), from(after), 1)
			fail.NowIf(t, err, "page %d", after)
			return time.Since(begun) - time.Duration(page[0].Stock)*time.Millisecond
		}
		const seconds, pages = 3, 63
		var oldest time.Duration
		for i := range int64(seconds * 1000) {
			if age := show(0); age > 100*time.Millisecond {
				t.Fatalf("the first page is %v old", age)
			}
			oldest = max(oldest, show(1+i%pages))
			simulate.Sleep(time.Millisecond)
		}
		n := store.listed.Load() - seconds*10 // without the first page
		if n > (pages+1)*seconds+2*50 || oldest > time.Second+pages*time.Millisecond {
			t.Errorf("%d loads in %d s; the oldest page was %v old", n, seconds, oldest)
		}
		simulate.Sleep(2 * time.Second)
		for range 10 { // without the others it is as fresh as the first
			if age := show(7); age > 100*time.Millisecond {
				t.Errorf("a page that is asked for alone is %v old", age)
			}
			simulate.Sleep(130 * time.Millisecond)
		}
	})
}

// The stock that is shown is at most the TTL old, however many vouchers are asked for, and the store is queried at a
// bounded rate.
func TestCacheRefreshesAreBounded(t *testing.T) {
	cached(t, func(t *testing.T, store *slowStore, cache *voucher.Cache) {
		const vouchers = 500
		for id := range int64(vouchers) {
			cache.Stored(&voucher.Voucher{ID: 1000 + id})
		}
		const seconds = 2
		for i := range int64(seconds * 10) {
			simulate.Sleep(100 * time.Millisecond)
			store.stock.Store(i)
			var reading sync.WaitGroup
			for id := range int64(vouchers) {
				reading.Go(func() { wantStock(t, cache.Read, 1000+id, i) })
			}
			reading.Wait()
		}
		if n := store.queries.Load(); n > 200*seconds {
			t.Errorf("the store was asked %d times in %d s", n, seconds)
		}
	})
}

// The stock that is shown is not older than the TTL if the store answers within the time that a reader waits, even if
// nobody has asked for a while and others ask at the same time. If the store is slower, it is the last known.
func TestCacheShowsNoOldStock(t *testing.T) {
	cached(t, func(t *testing.T, store *slowStore, cache *voucher.Cache) {
		store.delay = 150 * time.Millisecond
		lists := func(ctx context.Context) (int64, error) {
			page, err := cache.Vouchers(ctx, from(0), 1)
			if err != nil {
				return 0, err
			}
			return page[0].Stock, nil
		}
		voucher := func(ctx context.Context) (int64, error) {
			v, err := cache.Read(ctx, 1)
			if err != nil {
				return 0, err
			}
			return v.Stock, nil
		}
		show := func(want int64) {
			t.Helper()
			var readers sync.WaitGroup
			for _, shown := range []func(context.Context) (int64, error){voucher, voucher, lists, lists} {
				readers.Go(func() {
					begun := time.Now()
					if got, err := shown(t.Context()); err != nil || got != want || time.Since(begun) > 200*time.Millisecond {
						t.Errorf("shown %d, %v, after %v; want %d", got, err, time.Since(begun), want)
					}
				})
			}
			readers.Wait()
		}
		for i := range int64(10) {
			store.stock.Store(i)
			show(i)
			simulate.Sleep(time.Duration(i+1) * 100 * time.Millisecond)
		}
		store.delay = time.Second
		store.stock.Store(77)
		show(9)
		simulate.Sleep(time.Second) // the load ends
	})
}

// A voucher that was created in this process is returned at once, even if it was requested before and an earlier load
// is still running, whether that finds nothing or fails.
func TestCacheReturnsNewVouchersAtOnce(t *testing.T) {
	down := errors.New("down")
	for name, failure := range map[string]*error{"the load finds nothing": nil, "the load fails": &down} {
		t.Run(name, func(t *testing.T) {
			cached(t, func(t *testing.T, store *slowStore, cache *voucher.Cache) {
				store.delay = 50 * time.Millisecond
				const id = 1_000_001 // the store answers that it does not exist
				list := func(want int) {
					t.Helper()
					if page, err := cache.Vouchers(t.Context(), from(249), 10); err != nil || len(page) != want {
						t.Errorf("%d on the last page, %v, want %d", len(page), err, want)
					}
				}
				list(1)
				store.fail.Store(failure)
				early := make(chan struct{})
				go func() { defer close(early); _, _ = cache.Read(t.Context(), id) }()
				synctest.Wait()
				simulate.Sleep(10 * time.Millisecond)
				cache.Stored(&voucher.Voucher{ID: id, Stock: 9})
				store.created.Add(1)
				for range 2 {
					wantStock(t, cache.Read, id, 9)
					if failure == nil {
						list(2)
					}
					<-early
				}
			})
		})
	}
}

// Vouchers that are cached are loaded again however many requests wait for unknown ids.
func TestCacheLoadsKnownVouchersFirst(t *testing.T) {
	cached(t, func(t *testing.T, store *slowStore, cache *voucher.Cache) {
		store.stock.Store(1)
		wantStock(t, cache.Read, 1, 1)
		store.delay = 10 * time.Millisecond
		simulate.Sleep(200 * time.Millisecond)
		waiting := fill(t, cache)
		fail.Unless(t, fail.Of(cache.Read(t.Context(), 2_000_000)), voucher.ErrBusy, "an unknown id beyond the bound")
		store.stock.Store(2)
		wantStock(t, cache.Read, 1, 2)
		waiting.Wait()
	})
}
