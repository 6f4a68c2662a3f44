package httpapi

import (
	"testing"

	"seckill/internal/voucher"
)

// Whatever vouchers and pages clients ask for, the rendered bodies are bounded.
func TestRenderedBodiesAreBounded(t *testing.T) {
	rendered := newRenderCache()
	for i := range 3 * maxCachedVouchers {
		v := &voucher.Voucher{ID: int64(i)}
		rendered.vouchers.keep(v.ID, v, nil)
		rendered.lists.keep(voucherPage{voucher.List{After: voucher.Position{ID: int64(i)}}, 1 + i%100}, &v, nil)
		if len(rendered.vouchers.made) > maxCachedVouchers || len(rendered.lists.made) > maxCachedLists {
			t.Fatalf("%d vouchers and %d lists after %d of each", len(rendered.vouchers.made), len(rendered.lists.made), i+1)
		}
		if _, ok := rendered.vouchers.find(v.ID, v); !ok {
			t.Fatal("the newest body is not kept")
		}
	}
}
