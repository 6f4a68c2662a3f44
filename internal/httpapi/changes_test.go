package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// changing is the part of the store that changes vouchers: one voucher, in memory.
type changing struct {
	*voucherStore
	mu      sync.Mutex
	asked   voucher.Change
	records []voucher.Record
}

func (s *changing) ChangeVoucher(ctx context.Context, id, _ int64, c voucher.Change, now time.Time) (*voucher.Voucher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = c
	v, err := s.voucherStore.Voucher(ctx, id)
	if err != nil {
		return nil, err
	}
	changed, fields, err := c.Apply(*v, now)
	if err != nil {
		return nil, err
	}
	*v = changed
	s.records = append([]voucher.Record{{VoucherID: id, Revision: v.Revision, At: now, By: c.By, Fields: fields}}, s.records...)
	return &changed, nil
}

// Voucher returns a copy: it may be read while the voucher is changed.
func (s *changing) Voucher(ctx context.Context, id int64) (*voucher.Voucher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.voucherStore.Voucher(ctx, id)
	if err != nil {
		return nil, err
	}
	return new(*v), nil
}

func (s *changing) DeleteVoucher(ctx context.Context, id, _ int64, c voucher.Change, now time.Time) error {
	v, err := s.Voucher(ctx, id)
	if err == nil {
		_, _, err = c.Apply(*v, now)
	}
	if err == nil && v.Stock < v.InitialStock {
		err = voucher.ErrHasOrders
	}
	if err == nil {
		s.list = nil
	}
	return err
}

func (s *changing) Changes(_ context.Context, _, before int64, limit int) (found []voucher.Record, _ error) {
	for _, r := range s.records {
		if r.Revision < before && len(found) < limit {
			found = append(found, r)
		}
	}
	return found, nil
}

// newChanging has voucher 1, whose sale is open, with 3 of 10 units left.
func newChanging(t *testing.T, options ...option) (*fixture, *changing) {
	r := newFixture(t, options...)
	store := &changing{voucherStore: r.vouchers.store}
	r.vouchers.Store = store
	store.list = []*voucher.Voucher{{
		ID: 1, Title: "a", Stock: 3, InitialStock: 10, Revision: 4, BeginAt: start().Add(-time.Hour), EndAt: start().Add(time.Hour), Policy: voucher.DefaultPolicy(),
	}}
	return r, store
}

func patch(body string, headers ...string) call {
	return call{"PATCH", "/api/v1/vouchers/1", body, append(headers, "Content-Type: application/json", "Authorization: Bearer "+adminToken)}
}

// A change has its voucher, its author and its fields. The answer has the next ETag, and the change can be read.
func TestChangeOfAVoucher(t *testing.T) {
	r, store := newChanging(t)
	seen := r.do(t, call{"GET", "/api/v1/vouchers/1", "", nil})
	fail.Unequal(t, seen.Header().Get("ETag"), `"4"`, "ETag")
	rec := r.do(t, patch(`{"title":"b","end_at":"2030-01-02T05:00:00+01:00","stock":{"add":-3},"paused":true}`, `If-Match: "4"`))
	fail.Unequal(t, rec.Code, http.StatusOK, rec.Body.String())
	fail.Unequal(t, rec.Header().Get("ETag"), `"5"`, "ETag")
	v := store.list[0]
	if v.Title != "b" || v.Stock != 0 || v.InitialStock != 7 || !v.Paused || !v.EndAt.Equal(time.Date(2030, 1, 2, 4, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", v)
	}
	if by := store.asked.By; by.Name != "admin" || by.Address != "192.0.2.1" || by.RequestID != rec.Header().Get("X-Request-Id") {
		t.Errorf("by %+v", by)
	}
	rec = r.do(t, patch(`{"paused":false}`, "If-Match: *"))
	fail.Unequal(t, rec.Header().Get("ETag"), `"6"`, "ETag")
	listed := r.do(t, call{"GET", "/api/v1/vouchers/1/changes?limit=1", "", []string{"Authorization: Bearer " + adminToken}}).Body.String()
	if !strings.Contains(listed, `"next_before":"6"`) || !strings.Contains(listed, `"fields":[{"field":"paused","from":true,"to":false}]`) {
		t.Errorf("changes: %s", listed)
	}
}

// What cannot be done changes nothing, and the answer says what can.
func TestChangesThatAreRefused(t *testing.T) {
	const match = `If-Match: "4"`
	for name, c := range map[string]struct {
		call   call
		status int
		code   string
		says   string // the detail, and what it names
	}{
		"without If-Match":    {patch(`{"paused":true}`), http.StatusPreconditionRequired, "precondition_required", "or with *"},
		"another revision":    {patch(`{"paused":true}`, `If-Match: "3"`), http.StatusPreconditionFailed, "precondition_failed", "its revision is 4, not 3"},
		"a weak tag":          {patch(`{"paused":true}`, `If-Match: W/"4"`), http.StatusPreconditionFailed, "precondition_failed", "a number in quotes"},
		"no quotes":           {patch(`{"paused":true}`, `If-Match: 4`), http.StatusPreconditionFailed, "precondition_failed", "a number in quotes"},
		"two tags":            {patch(`{"paused":true}`, match, `If-Match: "5"`), http.StatusPreconditionFailed, "precondition_failed", "a number in quotes"},
		"nothing":             {patch(`{}`, match), http.StatusBadRequest, "invalid_request", "nothing to change"},
		"the price":           {patch(`{"price_cents":1}`, match), http.StatusBadRequest, "invalid_request", `"price_cents" is not a known field`},
		"a new stock":         {patch(`{"stock":5}`, match), http.StatusBadRequest, "invalid_request", "stock is a number; an object"},
		"no number of units":  {patch(`{"stock":{}}`, match), http.StatusBadRequest, "invalid_request", "stock.add is missing"},
		"too many units":      {patch(`{"stock":{"add":-4}}`, match), http.StatusConflict, "not_enough_stock", "-3 at least: that many are unsold 3 "},
		"beyond the bound":    {patch(`{"stock":{"add":10000000}}`, match), http.StatusBadRequest, "invalid_request", "9999990 at most: a voucher has up to 10000000 units 0 stock.add\n"},
		"a begun sale begins": {patch(`{"begin_at":"2030-01-02T03:30:00Z"}`, match), http.StatusConflict, "sale_begun", "until 2030-01-02T02:04:05Z"},
		"ends before":         {patch(`{"end_at":"2029-01-02T03:30:00Z"}`, match), http.StatusBadRequest, "invalid_request", "end_at must be after begin_at 0 end_at\n"},
		"no title":            {patch(`{"title":" "}`, match), http.StatusBadRequest, "invalid_request", "title is missing 0 title\n"},
		"a voucher with orders": {call{"DELETE", "/api/v1/vouchers/1", "", []string{match, "Authorization: Bearer " + adminToken}},
			http.StatusConflict, "has_orders", ""},
		"not the administrator": {call{"PATCH", "/api/v1/vouchers/1", `{"paused":true}`, []string{match, "Content-Type: application/json"}},
			http.StatusUnauthorized, "unauthenticated", ""},
	} {
		r, store := newChanging(t)
		before := *store.list[0]
		if p := wantProblem(t, r.do(t, c.call), c.status, c.code); !strings.Contains(fmt.Sprintln(p.Detail, p.Most, p.Field), c.says) {
			t.Errorf("%s: %+v; want it to say %q", name, p, c.says)
		}
		if len(store.list) != 1 || !reflect.DeepEqual(*store.list[0], before) {
			t.Errorf("%s: %+v", name, store.list)
		}
	}
}

// A voucher without orders is deleted.
func TestDeleteOfAVoucher(t *testing.T) {
	r, store := newChanging(t, lab)
	store.list[0].Stock = 10
	rec := r.do(t, call{"DELETE", "/api/v1/vouchers/1", "", []string{"If-Match: *"}})
	if rec.Code != http.StatusNoContent || rec.Body.Len() > 0 || len(store.list) > 0 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	wantProblem(t, r.do(t, call{"DELETE", "/api/v1/vouchers/1", "", []string{"If-Match: *"}}), http.StatusNotFound, "voucher_not_found")
	wantProblem(t, r.do(t, call{"GET", "/api/v1/vouchers/1/changes", "", nil}), http.StatusNotFound, "voucher_not_found")
}
