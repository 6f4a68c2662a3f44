package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/simulate"
	"seckill/internal/voucher"
)

// The body follows the cached voucher: it is rendered again after the voucher was loaded again.
func TestShownStockFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, lab)
		r.vouchers.Cache = voucher.NewCache(r.vouchers.store, 0, time.Now)
		r.want(t, call{"POST", "/api/v1/vouchers", voucherBody("", ""), nil}, http.StatusCreated)
		id := r.vouchers.store.list[0].ID
		look := func(stock int) {
			t.Helper()
			for _, path := range []string{fmt.Sprintf("/api/v1/vouchers/%d", id), "/api/v1/vouchers", "/api/v1/vouchers?limit=1"} {
				if got := r.do(t, call{"GET", path, "", nil}).Body.String(); !strings.Contains(got, fmt.Sprintf(`"stock":%d,`, stock)) {
					t.Errorf("%s: %s; want a stock of %d", path, got, stock)
				}
			}
		}
		look(100)
		r.vouchers.store.setStock(id, 60)
		look(100)
		simulate.Sleep(voucher.DefaultCacheTTL)
		look(60)
		r.want(t, call{"POST", "/api/v1/vouchers", voucherBody("", ""), nil}, http.StatusCreated)
		if got := r.do(t, call{"GET", "/api/v1/vouchers", "", nil}).Body.String(); strings.Count(got, `"title"`) != 2 {
			t.Errorf("a new voucher is not listed at once: %s", got)
		}
	})
}

// setStock replaces the voucher, so that one that was returned before does not change.
func (s *voucherStore) setStock(id, stock int64) {
	for i, v := range s.list {
		if v.ID == id {
			changed := *v
			changed.Stock = stock
			s.list[i] = &changed
		}
	}
}
