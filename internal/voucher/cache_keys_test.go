package voucher

import (
	"testing"
	"time"
)

// Whatever ids and pages clients ask for, the cache has a bounded number of each, and keeps the first page.
func TestCacheKeysAreBounded(t *testing.T) {
	c := NewCache(nil, 0, time.Now)
	c.addPage(0)
	for i := range int64(3 * maxVouchers) {
		c.add(1 + i) // nobody has found a voucher there
		c.addPage(1 + i)
		c.keep(&entry{id: -1 - i})
		if len(c.absent) > maxAbsent || len(c.pages) > maxPages || len(c.vouchers) > maxVouchers {
			t.Fatalf("after %d keys of each: %d absent, %d pages, %d vouchers", i+1, len(c.absent), len(c.pages), len(c.vouchers))
		}
	}
	if c.page(0) == nil {
		t.Error("the first page was dropped")
	}
}
