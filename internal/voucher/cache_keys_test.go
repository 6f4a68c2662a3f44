package voucher

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/simulate"
)

// Whatever ids and pages clients ask for, the cache has a bounded number of each, and keeps the first pages.
func TestCacheKeysAreBounded(t *testing.T) {
	c := NewCache(nil, 0, time.Now)
	first := []List{{}, {State: StateOpen}, {State: StateOver, Sort: SortBeginDesc}}
	for _, list := range first {
		c.addPage(list)
	}
	for i := range int64(3 * maxVouchers) {
		c.add(1 + i) // nobody has found a voucher there
		c.addPage(List{Sort: SortBegin, After: Position{ID: 1 + i}})
		c.keep(&entry{id: -1 - i})
		if len(c.absent) > maxAbsent || len(c.pages) > maxPages || len(c.vouchers) > maxVouchers {
			t.Fatalf("after %d keys of each: %d absent, %d pages, %d vouchers", i+1, len(c.absent), len(c.pages), len(c.vouchers))
		}
	}
	for _, list := range first {
		if c.page(list) == nil {
			t.Errorf("the first page of %+v was dropped", list)
		}
	}
}

// hangingStore answers no look-up.
type hangingStore struct{ Store }

func (hangingStore) VouchersByID(ctx context.Context, _ []int64) (map[int64]Found, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// However many requests give up while a query hangs, few of them are kept.
func TestLookupsThatGaveUpAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lookups{store: hangingStore{}}
		kept := func() (all, alive int) {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.waiting), l.alive
		}
		go func() { _, _ = l.find(t.Context(), 1, false) }()
		simulate.Sleep(time.Second) // its query hangs
		gone, hangUp := context.WithCancel(t.Context())
		hangUp()
		for id := range int64(20 * maxLookups) {
			_, _ = l.find(gone, 2+id, false)
			if n, _ := kept(); n > 2*maxLookups+1 {
				t.Fatalf("%d are kept after %d have given up", n, id+1)
			}
		}
		if _, alive := kept(); alive != 0 {
			t.Errorf("%d wait", alive)
		}
		simulate.Sleep(2 * loadTimeout)
	})
}
