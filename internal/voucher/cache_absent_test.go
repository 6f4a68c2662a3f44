package voucher_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// A client that hangs up on each of its requests for unknown ids takes no place from others, however many it sends.
func TestCacheOfAClientThatHangsUp(t *testing.T) {
	cached(t, func(t *testing.T, store *slowStore, cache *voucher.Cache) {
		store.delay = 50 * time.Millisecond
		const lasts = 2 * time.Second
		begun := time.Now()
		flood := make(chan struct{})
		go func() {
			defer close(flood)
			for id := int64(1_000_000); time.Since(begun) < lasts; id++ { // 4,000 a second
				ctx, hangUp := context.WithTimeout(t.Context(), 200*time.Microsecond)
				_, _ = cache.Read(ctx, id)
				hangUp()
				simulate.Sleep(50 * time.Microsecond)
			}
		}()
		for id := int64(1); time.Since(begun) < lasts; id++ {
			asked := time.Now()
			if _, err := cache.Voucher(t.Context(), id); err != nil || time.Since(asked) > 2*(store.delay+5*time.Millisecond) {
				t.Errorf("voucher %d: %v after %v", id, err, time.Since(asked))
			}
			simulate.Sleep(50 * time.Millisecond)
		}
		<-flood
		simulate.Sleep(5 * time.Second) // all loads have ended
	})
}

// Somebody else may have created a voucher since the store was asked for it: that there is none is not said when this
// is out of date, however the store is.
func TestCacheDoesNotServeAnOldAbsence(t *testing.T) {
	const id = 1_000_001
	down := errors.New("down")
	for name, test := range map[string]struct {
		later time.Duration
		store func(*slowStore)
		want  error
	}{
		"slow database":    {time.Hour, func(s *slowStore) { s.delay = time.Second }, nil},
		"database is down": {time.Hour, func(s *slowStore) { s.fail.Store(&down) }, down},
		"while another loads": {900 * time.Millisecond, func(s *slowStore) {
			s.delay = 20 * time.Millisecond
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cached(t, func(t *testing.T, store *slowStore, cache *voucher.Cache) {
				for range 2 {
					fail.NowUnless(t, fail.Of(cache.Read(t.Context(), id)), voucher.ErrNotFound)
				}
				store.wantQueries(t, 1, 0) // within the TTL
				store.also.Store(id)
				simulate.Sleep(test.later)
				test.store(store)
				other := make(chan error)
				go func() { _, err := cache.Read(t.Context(), id); other <- err }()
				synctest.Wait()
				fail.Unless(t, fail.Of(cache.Voucher(t.Context(), id)), test.want, "an order is told")
				fail.Unless(t, <-other, test.want, "a reader is told")
			})
		})
	}
}

// Those who wait for one page use up the loads of no other one, and an old failure is not answered.
func TestCachePagesAreCountedByLoad(t *testing.T) {
	cached(t, func(t *testing.T, store *slowStore, cache *voucher.Cache) {
		stockOf := func(after int64) (int64, error) {
			page, err := cache.Vouchers(t.Context(), from(after), 5)
			if err != nil {
				return 0, err
			}
			return page[0].Stock, nil
		}
		for _, after := range []int64{10, 20} {
			fail.NowIf(t, fail.Of(stockOf(after)))
		}
		down := errors.New("down")
		store.fail.Store(&down)
		fail.NowUnless(t, fail.Of(stockOf(30)), down)
		simulate.Sleep(time.Hour)
		store.fail.Store(nil)
		store.stock.Store(9)
		store.delay = 20 * time.Millisecond
		for range 2000 {
			go func() { _, _ = stockOf(10) }()
		}
		synctest.Wait()
		for _, after := range []int64{20, 30} {
			if n, err := stockOf(after); err != nil || n != 9 {
				t.Errorf("page %d shows %d, %v", after, n, err)
			}
		}
	})
}
