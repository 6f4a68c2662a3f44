package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/room"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// answered is the expected answer for an error.
type answered struct {
	err    error
	status int
	code   string
}

// domainErrors has every exported sentinel of the domain. A new one fails TestEveryErrorHasAnAnswer until it is added
// here with its answer.
func domainErrors() map[string]answered {
	const conflict, unavailable, internal = http.StatusConflict, http.StatusServiceUnavailable, http.StatusInternalServerError
	return map[string]answered{
		"voucher.ErrNotFound":   {voucher.ErrNotFound, http.StatusNotFound, "voucher_not_found"},
		"voucher.ErrNotStarted": {voucher.ErrNotStarted, conflict, "sale_not_started"},
		"voucher.ErrEnded":      {voucher.ErrEnded, conflict, "sale_ended"},
		"voucher.ErrSoldOut":    {voucher.ErrSoldOut, conflict, "sold_out"},
		"voucher.ErrPaused":     {voucher.ErrPaused, conflict, "sale_paused"},
		"voucher.ErrRevision":   {voucher.ErrRevision, http.StatusPreconditionFailed, "precondition_failed"},
		"voucher.ErrBegun":      {voucher.ErrBegun, conflict, "sale_begun"},
		"voucher.ErrTooFew":     {voucher.ErrTooFew, conflict, "not_enough_stock"},
		"voucher.ErrHasOrders":  {voucher.ErrHasOrders, conflict, "has_orders"},
		"voucher.ErrNotDrained": {voucher.ErrNotDrained, conflict, "busy"},
		"voucher.ErrChanged":    {voucher.ErrChanged, conflict, "busy"},
		"voucher.ErrInvalid":    {voucher.ErrInvalid, http.StatusBadRequest, "invalid_request"},
		"voucher.ErrLabOnly":    {voucher.ErrLabOnly, http.StatusForbidden, "lab_only"},
		"voucher.ErrBusy":       {voucher.ErrBusy, http.StatusServiceUnavailable, "unavailable"},

		"order.ErrNotFound":       {order.ErrNotFound, http.StatusNotFound, "order_not_found"},
		"order.ErrAlreadyOrdered": {order.ErrAlreadyOrdered, conflict, "already_ordered"},
		"order.ErrBusy":           {order.ErrBusy, conflict, "busy"},
		"order.ErrConflict":       {order.ErrConflict, conflict, "busy"},
		"order.ErrStale":          {order.ErrStale, conflict, "busy"},
		"order.ErrUnavailable":    {order.ErrUnavailable, unavailable, "unavailable"},
		"order.ErrRefused":        {fmt.Errorf("%w: %w", order.ErrUnavailable, order.ErrRefused), unavailable, "unavailable"},
		"order.ErrVoucherMissing": {fmt.Errorf("%w: %w", order.ErrUnavailable, order.ErrVoucherMissing), unavailable, "unavailable"},
		"order.ErrOverloaded":     {order.ErrOverloaded, unavailable, "unavailable"},
		"order.ErrStaleEpoch":     {order.ErrStaleEpoch, internal, "internal"},
		"order.ErrFutureEpoch":    {order.ErrFutureEpoch, internal, "internal"},
		"order.ErrIDTaken":        {order.ErrIDTaken, internal, "internal"},

		"order.ErrPassRequired":       {order.ErrPassRequired, http.StatusForbidden, "pass_required"},
		"order.ErrPassOver":           {order.ErrPassOver, http.StatusForbidden, "pass_required"},
		"room.ErrNoRoom":              {room.ErrNoRoom, http.StatusNotFound, "room_not_found"},
		"room.ErrNotOpen":             {room.ErrNotOpen, conflict, "room_not_open"},
		"room.ErrTicket":              {room.ErrTicket, http.StatusForbidden, "ticket_refused"},
		"room.ErrAddress":             {room.ErrAddress, conflict, "address_full"},
		"room.ErrWork":                {room.ErrWork, http.StatusForbidden, "work_required"},
		"room.ErrMissing":             {fmt.Errorf("%w: %w", order.ErrUnavailable, room.ErrMissing), unavailable, "unavailable"},
		"order.ErrNotCancellable":     {order.ErrNotCancellable, conflict, "not_cancellable"},
		"order.ErrNotPayable":         {order.ErrNotPayable, conflict, "not_payable"},
		"order.ErrNotRefundable":      {order.ErrNotRefundable, conflict, "not_refundable"},
		"order.ErrPaymentUnavailable": {order.ErrPaymentUnavailable, unavailable, "unavailable"},
		"order.ErrPaymentRefused":     {order.ErrPaymentRefused, conflict, "not_payable"},
		"order.ErrPaymentUnusable":    {order.ErrPaymentUnusable, http.StatusBadGateway, "payment_unusable"},
		"order.ErrPaymentNotFound":    {order.ErrPaymentNotFound, internal, "internal"},

		"lock.ErrNotAcquired":   {lock.ErrNotAcquired, conflict, "busy"},
		"lock.ErrNotHeld":       {lock.ErrNotHeld, unavailable, "unavailable"},
		"lock.ErrExpired":       {lock.ErrExpired, unavailable, "unavailable"},
		"lock.ErrLost":          {lock.ErrLost, unavailable, "unavailable"},
		"lock.ErrUnavailable":   {lock.ErrUnavailable, unavailable, "unavailable"},
		"lock.ErrUnknown":       {lock.ErrUnknown, unavailable, "unavailable"},
		"lock.ErrNotConfigured": {lock.ErrNotConfigured, unavailable, "unavailable"},
		"lock.ErrReleased":      {lock.ErrReleased, unavailable, "unavailable"},
		"lock.ErrInjected":      {lock.ErrInjected, unavailable, "unavailable"},
		"lock.ErrAbandoned":     {lock.ErrAbandoned, unavailable, "unavailable"},
		"lock.ErrInvalid":       {lock.ErrInvalid, internal, "internal"},
		"lock.ErrWrongKind":     {lock.ErrWrongKind, internal, "internal"},
	}
}

func TestErrorsAreAnswered(t *testing.T) {
	cases := domainErrors()
	cases["a deadline"] = answered{context.DeadlineExceeded, http.StatusServiceUnavailable, "unavailable"}
	cases["a cancellation, with the client still there"] = answered{context.Canceled, http.StatusServiceUnavailable, "unavailable"}
	cases["something else"] = answered{errors.New("dial tcp: secret-host: refused"), http.StatusInternalServerError, "internal"}
	cases["busy, with the holder"] = answered{fmt.Errorf("%w: %w", order.ErrBusy, &lock.NotAcquiredError{Key: "k"}), http.StatusConflict, "busy"}
	cases["unavailable and busy"] = answered{errors.Join(lock.ErrNotAcquired, lock.ErrUnavailable), http.StatusServiceUnavailable, "unavailable"}
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, lab)
			r.undescribed = true // every error, by the one operation
			r.orders.place = func(context.Context, order.Request) (order.Order, error) {
				return order.Order{}, fmt.Errorf("while placing: %w", want.err)
			}
			rec := r.do(t, call{"POST", "/api/v1/vouchers/1/orders", "", []string{"X-User-ID: 42"}})
			p := wantProblem(t, rec, want.status, want.code)
			if strings.Contains(rec.Body.String(), "secret-host") {
				t.Errorf("the answer shows the inside: %s", rec.Body)
			}
			retry := want.code == "busy" || want.code == "unavailable"
			if got := rec.Header().Get("Retry-After"); (got != "") != retry || retry && got != "1" {
				t.Errorf("Retry-After is %q", got)
			}
			if errors.Is(want.err, order.ErrOverloaded) || errors.Is(want.err, voucher.ErrBusy) { // a line for each would be the next thing that is too much
				if log := r.log.String(); strings.Contains(log, `"WARN"`) {
					t.Errorf("logged as a warning: %s", log)
				}
			} else if want.status >= 500 {
				fail.Unequal(t, strings.Count(r.log.String(), p.RequestID), 1, "times in the log: %s", r.log.String())
				if !strings.Contains(r.log.String(), "while placing") {
					t.Errorf("the log does not say why: %s", r.log.String())
				}
			}
		})
	}
}

func TestEveryErrorHasAnAnswer(t *testing.T) {
	known := domainErrors()
	found := 0
	for _, pkg := range []string{"voucher", "order", "room", "lock"} {
		for _, name := range sentinels(t, filepath.Join("..", pkg)) {
			found++
			if _, ok := known[pkg+"."+name]; !ok {
				t.Errorf("%s.%s: what is a client told?", pkg, name)
			}
		}
	}
	if found < len(known) {
		t.Errorf("found %d sentinels, the test knows %d", found, len(known))
	}
}

// sentinels lists the exported Err… variables of a package.
func sentinels(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	fail.NowIf(t, err)
	declared := regexp.MustCompile(`(?m)^(?:var |\t)(Err\w+) += `)
	for _, file := range files {
		text, err := os.ReadFile(file)
		fail.NowIf(t, err)
		for _, found := range declared.FindAllSubmatch(text, -1) {
			names = append(names, string(found[1]))
		}
	}
	return names
}

func TestDetailOfThePolicy(t *testing.T) {
	r := newFixture(t)
	rec := r.do(t, call{"POST", "/api/v1/vouchers", voucherBody("policy", `{"lock": "naive"}`),
		[]string{"Authorization: Bearer " + adminToken}})
	fail.Unequal(t, wantProblem(t, rec, http.StatusForbidden, "lab_only").Detail, `lock "naive"`)
}

func TestPanic(t *testing.T) {
	r := newFixture(t, lab)
	r.orders.place = func(context.Context, order.Request) (order.Order, error) { panic(voucher.ErrSoldOut) }
	place := call{"POST", "/api/v1/vouchers/1/orders", "", []string{"X-User-ID: 42", "Idempotency-Key: k"}}
	wantProblem(t, r.do(t, place), http.StatusInternalServerError, "internal")
	if log := r.log.String(); !strings.Contains(log, "fakeOrders") || strings.Count(log, "\n") != 1 {
		t.Errorf("want one line with the stack: %s", log)
	}
	fail.Unequal(t, r.metric(t, "seckill_http_panics_total"), 1, "panics counted")
	fail.Unequal(t, r.metric(t, "seckill_http_requests_in_flight"), 0, "requests in flight")
	r.orders.place = nil
	place.headers = place.headers[:1]
	r.want(t, place, http.StatusCreated)
}

func TestRequestID(t *testing.T) {
	r := newFixture(t)
	seen := map[string]bool{}
	for given, kept := range map[string]bool{
		"": false, "abc-1.2_3:/+=": true, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false,
		"a b": false, "<x>": false, `a"b`: false, "a\tb": false, "日本": false,
	} {
		rec := r.do(t, call{"GET", "/nowhere", "", []string{"X-Request-ID: " + given}})
		p := wantProblem(t, rec, http.StatusNotFound, "not_found")
		got := rec.Header().Get("X-Request-ID")
		if (got == given) != kept || p.RequestID != got || seen[got] {
			t.Errorf("sent %q, got %q back and %q in the problem; kept %t", given, got, p.RequestID, kept)
		}
		seen[got] = true
	}
	rec := r.do(t, call{"GET", "/nowhere", "", []string{"X-Request-ID: a", "X-Request-ID: b"}})
	if got := rec.Header().Values("X-Request-ID"); len(got) != 1 || got[0] == "a" || got[0] == "b" {
		t.Errorf("two ids were sent, got %q back", got)
	}
}

func TestRetryAfter(t *testing.T) {
	for ttl, want := range map[time.Duration]string{
		0: "1", -time.Second: "1", time.Millisecond: "1", time.Second: "1", time.Second + 1: "2",
		4*time.Second + time.Millisecond: "5", 5 * time.Second: "5", 6 * time.Second: "5", time.Hour: "5", lock.NoExpiry: "5",
	} {
		r := newFixture(t, lab)
		r.orders.place = func(context.Context, order.Request) (order.Order, error) {
			return order.Order{}, fmt.Errorf("%w: %w", order.ErrBusy, &lock.NotAcquiredError{Key: "k", Holder: "h", TTL: ttl})
		}
		rec := r.do(t, call{"POST", "/api/v1/vouchers/1/orders", "", []string{"X-User-ID: 42"}})
		wantProblem(t, rec, http.StatusConflict, "busy")
		fail.Unequal(t, rec.Header().Get("Retry-After"), want, "the lease runs another %v: Retry-After", ttl)
	}
}
