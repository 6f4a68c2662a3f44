package httpapi_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"seckill/internal/httpapi"
	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// The bodies are fixed: people write scripts against them.
func TestShapes(t *testing.T) {
	r := newFixture(t, lab)
	r.orders.orders = []order.Order{
		{ID: 9007199254740993, VoucherID: 1, UserID: 42, Status: order.Confirmed, CreatedAt: start()},
		{ID: 8, VoucherID: 2, UserID: 42, Status: order.Rejected, CreatedAt: start()},
		{ID: 7, VoucherID: 3, UserID: 42, Status: order.Pending}, // accepted, and the gate does not know since when
	}
	r.orders.audit = order.Audit{InitialStock: 100, Stock: 10, Orders: 91, DistinctUsers: 90, Pending: 2}
	const voucherShape = `{"id":"1001","title":"Two coffees","price_cents":0,"value_cents":0,"stock":100,"initial_stock":100,"paused":false,"revision":1,` +
		`"begin_at":"2030-01-01T00:00:00Z","end_at":"2030-12-31T16:00:00Z",` +
		`"policy":{"flow":"locked","lock":"reentrant","scope":"user","placement":"around-tx","stock":"conditional","unique":true,"lock_ttl_ms":0,"lock_wait_ms":0},` +
		`"created_at":"2030-01-02T03:04:05Z"}`
	user := []string{"X-User-ID: 42"}
	for _, c := range []struct {
		call     call
		status   int
		location string
		body     string
	}{
		{call{"POST", "/api/v1/vouchers", voucherBody("", ""), nil}, 201, "/api/v1/vouchers/1001", voucherShape},
		{call{"GET", "/api/v1/vouchers/1001", "", nil}, 200, "", voucherShape},
		{call{"GET", "/api/v1/vouchers", "", nil}, 200, "", `{"vouchers":[` + voucherShape + `]}`},
		{call{"GET", "/api/v1/vouchers?after=1001", "", nil}, 200, "", `{"vouchers":[]}`},
		{call{"POST", "/api/v1/vouchers/1/orders", "", user}, 201, "/api/v1/orders/7", `{"order_id":"7","status":"confirmed"}`},
		{call{"GET", "/api/v1/orders/9007199254740993?wait=2s", "", user}, 200, "",
			`{"order_id":"9007199254740993","voucher_id":"1","status":"confirmed","created_at":"2030-01-02T03:04:05Z"}`},
		{call{"GET", "/api/v1/orders?limit=1&before=9007199254740993", "", user}, 200, "",
			`{"orders":[{"order_id":"8","voucher_id":"2","status":"rejected","created_at":"2030-01-02T03:04:05Z"}],"next_before":"8"}`},
		{call{"GET", "/api/v1/orders?limit=1&before=8", "", user}, 200, "",
			`{"orders":[{"order_id":"7","voucher_id":"3","status":"pending"}]}`},
		{call{"GET", "/api/v1/orders", "", []string{"X-User-ID: 43"}}, 200, "", `{"orders":[]}`},
		{call{"GET", "/api/v1/vouchers/1/audit", "", nil}, 200, "",
			`{"initial_stock":100,"stock":10,"orders":91,"distinct_users":90,"oversold":0,"duplicate_orders":1,"unaccounted":-3,"pending":2,"balanced":false}`},
	} {
		rec := r.do(t, c.call)
		if rec.Code != c.status || rec.Body.String() != c.body || rec.Header().Get("Location") != c.location {
			t.Errorf("%s %s\n got %d %q %s\nwant %d %q %s", c.call.method, c.call.path,
				rec.Code, rec.Header().Get("Location"), rec.Body, c.status, c.location, c.body)
		}
		fail.Unequal(t, rec.Header().Get("Content-Type"), "application/json", "%s %s: Content-Type", c.call.method, c.call.path)
	}
}

// Pages follow each other without a gap or an overlap, and the last one has no link to a next one.
func TestPages(t *testing.T) {
	r := newFixture(t, lab)
	for i := range 7 {
		r.vouchers.store.list = append(r.vouchers.store.list, &voucher.Voucher{
			ID: int64(i + 1), BeginAt: start(), EndAt: start().Add(time.Hour), Policy: voucher.DefaultPolicy(), Revision: 1,
		})
	}
	var ids []string
	path := "/api/v1/vouchers?limit=3"
	for pages := 0; path != ""; pages++ {
		if pages == 5 {
			t.Fatal("the list does not end")
		}
		var page struct {
			Vouchers  []struct{ ID string }
			NextAfter string `json:"next_after"`
		}
		fail.NowIf(t, json.Unmarshal(r.do(t, call{"GET", path, "", nil}).Body.Bytes(), &page))
		for _, v := range page.Vouchers {
			ids = append(ids, v.ID)
		}
		if path = ""; page.NextAfter != "" {
			path = "/api/v1/vouchers?limit=3&after=" + page.NextAfter
		}
	}
	fail.Unequal(t, strings.Join(ids, " "), "1 2 3 4 5 6 7", "the pages have")
}

// The store is asked for the list that the query names, and a page names the place where the next one begins.
func TestListsOfVouchers(t *testing.T) {
	r := newFixture(t, lab)
	for id := range int64(3) {
		r.vouchers.store.list = append(r.vouchers.store.list, &voucher.Voucher{
			ID: id + 1, BeginAt: start(), EndAt: start().Add(time.Hour), Policy: voucher.DefaultPolicy(), Revision: 1,
		})
	}
	for query, want := range map[string]struct {
		list voucher.List
		next string
	}{
		"limit=2":                    {voucher.List{}, "2"},
		"limit=2&state=soon":         {voucher.List{State: voucher.StateSoon}, "2"},
		"limit=1&state=over&after=1": {voucher.List{State: voucher.StateOver, After: voucher.Position{ID: 1}}, "2"},
		"limit=2&sort=begin_at":      {voucher.List{Sort: voucher.SortBegin}, "1893553445000000-2"},
		"limit=3&sort=-begin_at":     {voucher.List{Sort: voucher.SortBeginDesc}, ""},
		"state=open&sort=-begin_at&after=1893553445000000-1&limit=1": {voucher.List{
			State: voucher.StateOpen, Sort: voucher.SortBeginDesc, After: voucher.Position{BeginAt: start().UnixMicro(), ID: 1},
		}, "1893553445000000-2"},
	} {
		var page struct {
			NextAfter string `json:"next_after"`
		}
		fail.NowIf(t, json.Unmarshal(r.do(t, call{"GET", "/api/v1/vouchers?" + query, "", nil}).Body.Bytes(), &page), query)
		fail.Unequal(t, r.vouchers.store.listed, want.list, query)
		fail.Unequal(t, page.NextAfter, want.next, query)
	}
}

func TestNewNeedsEverything(t *testing.T) {
	if _, err := httpapi.New(httpapi.Config{}, httpapi.Deps{}); err == nil {
		t.Error("an API without anything behind it was made")
	}
}
