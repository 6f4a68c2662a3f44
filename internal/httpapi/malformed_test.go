package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// voucherBody is a valid voucher with one member replaced by raw JSON, or removed if raw is empty.
func voucherBody(name, raw string) string {
	members := []string{"title", "stock", "begin_at", "end_at"}
	values := map[string]string{
		"title": `"Two coffees"`, "stock": `100`,
		"begin_at": `"2030-01-01T00:00:00Z"`, "end_at": `"2031-01-01T00:00:00+08:00"`,
	}
	if _, known := values[name]; !known && name != "" {
		members = append(members, name)
	}
	if name != "" {
		values[name] = raw
	}
	var parts []string
	for _, m := range members {
		if values[m] != "" {
			parts = append(parts, fmt.Sprintf("%q: %s", m, values[m]))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func TestMalformedRequests(t *testing.T) {
	const (
		vouchers = "/api/v1/vouchers"
		orders   = "/api/v1/vouchers/1/orders"
		bad      = http.StatusBadRequest
		invalid  = "invalid_request"
	)
	user := "X-User-ID: 42"
	create := func(body string, headers ...string) call { return call{"POST", vouchers, body, headers} }
	with := func(name, raw string) call { return create(voucherBody(name, raw)) }
	policy := func(raw string) call { return with("policy", raw) }
	place := func(headers ...string) call { return call{"POST", orders, "", headers} }
	get := func(path string) call { return call{"GET", path, "", []string{user}} }

	for _, c := range []struct {
		name   string
		call   call
		status int
		code   string
		detail string // what the detail must have in it
	}{
		{"no body", create(""), bad, invalid, "empty"},
		{"not JSON", create("title=Coffee"), bad, invalid, "not valid JSON"},
		{"a form", create(voucherBody("", ""), "Content-Type: application/x-www-form-urlencoded"), bad, invalid, "Content-Type"},
		{"no content type", create(voucherBody("", ""), "Content-Type: "), bad, invalid, "Content-Type"},
		{"a content type that is none", create(voucherBody("", ""), "Content-Type: ;;"), bad, invalid, "Content-Type"},
		{"an array", create(`[]`), bad, invalid, "the body is an array"},
		{"a string", create(`"voucher"`), bad, invalid, "the body is a string"},
		{"null", create(`null`), bad, invalid, "the body is null"},
		{"two objects", create(voucherBody("", "") + `{}`), bad, invalid, "not valid JSON"},
		{"not UTF-8", with("title", "\"\xff\xfe\""), bad, invalid, "UTF-8"},
		{"unknown field", with("colour", `"red"`), bad, invalid, `"colour"`},
		{"field in capitals", with("Title", `"Coffee"`), bad, invalid, `"Title"`},
		{"field twice", create(`{"stock": 1, "stock": 2}`), bad, invalid, "stock is given twice"},
		{"field twice inside", policy(`{"unique": true, "unique": false}`), bad, invalid, "policy.unique is given twice"},
		{"nested too deep", with("title", strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)), bad, invalid, ""},
		{"too large", with("title", `"`+strings.Repeat("x", 65<<10)+`"`), http.StatusRequestEntityTooLarge, "payload_too_large", "65536"},

		{"no title", with("title", ""), bad, invalid, "title"},
		{"title null", with("title", `null`), bad, invalid, "title is null; a string"},
		{"title a number", with("title", `5`), bad, invalid, "title is a number; a string"},
		{"stock zero", with("stock", `0`), bad, invalid, "stock is 0"},
		{"stock a string", with("stock", `"100"`), bad, invalid, "stock is a string; a number"},
		{"stock a fraction", with("stock", `1.5`), bad, invalid, "stock is 1.5; a whole number"},
		{"stock with an exponent", with("stock", `1e2`), bad, invalid, "stock is 1e2; a whole number"},
		{"stock past 2^63", with("stock", `9223372036854775808`), bad, invalid, "stock is 9223372036854775808; out of range"},
		{"value null", with("value_cents", `null`), bad, invalid, "value_cents is null"},
		{"begin not a time", with("begin_at", `"tomorrow"`), bad, invalid, "begin_at is \"tomorrow\""},
		{"begin without a zone", with("begin_at", `"2030-01-01T00:00:00"`), bad, invalid, "begin_at"},
		{"begin at 5:00", with("begin_at", `"2030-01-01T5:00:00Z"`), bad, invalid, "begin_at is \"2030-01-01T5:00:00Z\""},
		{"begin with a comma", with("begin_at", `"2030-01-01T05:00:00,5Z"`), bad, invalid, "begin_at"},
		{"begin 24 hours off", with("begin_at", `"2030-01-01T00:00:00+24:00"`), bad, invalid, "begin_at"},
		{"begin 60 minutes off", with("begin_at", `"2030-01-01T00:00:00-00:60"`), bad, invalid, "begin_at"},
		{"a title of control characters", with("title", `"\u0007"`), bad, invalid, "title has the character U+0007"},
		{"a title that nobody sees", with("title", `"\u200b"`), bad, invalid, "title has no visible character"},
		{"begin a number", with("begin_at", `1700000000`), bad, invalid, "begin_at is a number"},
		{"end before begin", with("end_at", `"2029-01-01T00:00:00Z"`), bad, invalid, "end_at"},
		{"an id of its own", with("id", `"5"`), bad, invalid, `"id"`},

		{"policy null", policy(`null`), bad, invalid, "policy is null"},
		{"policy a string", policy(`"safe"`), bad, invalid, "policy is a string"},
		{"policy with an unknown field", policy(`{"speed": 9}`), bad, invalid, `"policy.speed"`},
		{"flow that this server does not have", policy(`{"flow": "admission"}`), bad, invalid, "admission"},
		{"unknown lock", policy(`{"lock": "hope"}`), bad, invalid, "policy.lock"},
		{"lock not configured", policy(`{"lock": "zk-queue"}`), bad, invalid, "policy.lock"},
		{"two mistakes", policy(`{"scope": "galaxy", "stock": "?"}`), bad, invalid, `policy.scope is "galaxy"; one of ["user" "voucher"]`},
		{"unique not a boolean", policy(`{"unique": "yes"}`), bad, invalid, "policy.unique is a string; true or false"},
		{"wait a fraction", policy(`{"lock_wait_ms": 0.5}`), bad, invalid, "policy.lock_wait_ms is 0.5"},
		{"buckets a fraction", policy(`{"flow": "admission", "buckets": 1.5}`), bad, invalid, "policy.buckets is 1.5; a whole number"},
		{"buckets past 2^63", policy(`{"flow": "admission", "buckets": 9223372036854775808}`), bad, invalid, "policy.buckets is 9223372036854775808; out of range"},
		{"faults an object", policy(`{"faults": {}}`), bad, invalid, "policy.faults is an object; an array"},
		{"a fault that is none", policy(`{"faults": [1]}`), bad, invalid, "policy.faults[0] is a number"},
		{"a fault with an unknown field", policy(`{"faults": [{"point": "before-commit", "pause": 5}]}`), bad, invalid, `"policy.faults[0].pause"`},
		{"a fault too probable", policy(`{"faults": [{"point": "before-commit", "pause_ms": 5, "probability": 2}]}`), bad, invalid, "probability"},
		{"a fault beyond numbers", policy(`{"faults": [{"point": "before-commit", "probability": 1e999}]}`), bad, invalid, "probability is 1e999"},

		{"order with a body", call{"POST", orders, `{"quantity": 2}`, []string{user}}, bad, invalid, `"quantity"`},
		{"order with an array", call{"POST", orders, `[]`, []string{user}}, bad, invalid, "an array"},
		{"order with a large body", call{"POST", orders, strings.Repeat(" ", 65<<10) + "{}", []string{user}}, http.StatusRequestEntityTooLarge, "payload_too_large", ""},
		{"order of a very long voucher", call{"POST", "/api/v1/vouchers/" + strings.Repeat("9", 5000) + "/orders", "", []string{user}}, bad, invalid, "…"},
		{"user id not a number", place("X-User-ID: alice"), bad, invalid, "X-User-ID"},
		{"user id 0", place("X-User-ID: 0"), bad, invalid, "X-User-ID"},
		{"user id negative", place("X-User-ID: -42"), bad, invalid, "X-User-ID"},
		{"user id empty", place("X-User-ID: "), bad, invalid, "X-User-ID"},
		{"user id twice", place(user, user), bad, invalid, "X-User-ID"},
		{"nobody", place(), http.StatusUnauthorized, "unauthenticated", "X-User-ID"},
		{"basic authentication", place("Authorization: Basic NDI6"), http.StatusUnauthorized, "unauthenticated", "Bearer"},
		{"a token that is none", place("Authorization: Bearer nonsense"), http.StatusUnauthorized, "unauthenticated", ""},
		{"idempotency key empty", place(user, "Idempotency-Key: "), bad, invalid, "Idempotency-Key"},
		{"idempotency key too long", place(user, "Idempotency-Key: "+strings.Repeat("k", 129)), bad, invalid, "Idempotency-Key"},
		{"idempotency key in Chinese", place(user, "Idempotency-Key: 键"), bad, invalid, "Idempotency-Key"},
		{"idempotency key twice", place(user, "Idempotency-Key: a", "Idempotency-Key: b"), bad, invalid, "Idempotency-Key"},

		{"token for nobody", call{"POST", "/api/v1/tokens", `{}`, nil}, bad, invalid, "user_id is missing"},
		{"token for a number", call{"POST", "/api/v1/tokens", `{"user_id": 42}`, nil}, bad, invalid, "user_id is a number; a string"},
		{"token for user 0", call{"POST", "/api/v1/tokens", `{"user_id": "0"}`, nil}, bad, invalid, "user_id"},
		{"token without a body", call{"POST", "/api/v1/tokens", "", nil}, bad, invalid, "empty"},

		{"lock of no key", get("/api/v1/locks/"), bad, invalid, "0 bytes"},
		{"lock of a long key", get("/api/v1/locks/" + strings.Repeat("k", 257)), bad, invalid, "257 bytes"},
		{"lock with a brace", get("/api/v1/locks/%7Bk%7D"), bad, invalid, "brace"},
		{"lock with a zero", get("/api/v1/locks/a%00b"), bad, invalid, "control"},
		{"lock that is not UTF-8", get("/api/v1/locks/%ff"), bad, invalid, "UTF-8"},
		{"lock of an unknown mechanism", get("/api/v1/locks/k?lock=padlock"), bad, invalid, `"padlock"; available here: reentrant`},
		{"lock of a long mechanism", get("/api/v1/locks/k?lock=" + strings.Repeat("x", 5000)), bad, invalid, "…"},
		{"lock of no mechanism", get("/api/v1/locks/k?lock="), bad, invalid, "lock is empty"},
		{"lock of two mechanisms", get("/api/v1/locks/k?lock=lua&lock=fair"), bad, invalid, "lock is given 2 times"},
		{"lock, query unreadable", get("/api/v1/locks/k?lock=%zz"), bad, invalid, "query"},
		{"lock that cannot be looked at", get("/api/v1/locks/k?lock=reentrant"), bad, invalid, "reentrant cannot be asked who holds a key"},
		{"lock taken away, whose", call{"DELETE", "/api/v1/locks/k", "", nil}, bad, invalid, "say which lock"},
		{"lock taken away, unknown", call{"DELETE", "/api/v1/locks/k?lock=padlock", "", nil}, bad, invalid, `"padlock"`},
		{"lock that cannot be taken away", call{"DELETE", "/api/v1/locks/k?lock=reentrant", "", nil}, bad, invalid, "reentrant cannot take a lock away"},
		{"lock taken away, no key", call{"DELETE", "/api/v1/locks/?lock=reentrant", "", nil}, bad, invalid, "0 bytes"},
		{"lock by POST", call{"POST", "/api/v1/locks/k?lock=reentrant", "", nil}, http.StatusMethodNotAllowed, "method_not_allowed", ""},

		{"no such voucher", get("/api/v1/vouchers/99"), http.StatusNotFound, "voucher_not_found", ""},
		{"a slash for a separator", call{"POST", "/api/v1/vouchers/1%2Forders", "", []string{user}}, http.StatusNotFound, "not_found", ""},
		{"no such order", get("/api/v1/orders/99"), http.StatusNotFound, "order_not_found", ""},
		{"a slash in a lock's key", get("/api/v1/locks/a%2Fb?lock=reentrant"), bad, invalid, "reentrant cannot be asked"},
		{"a method too many", call{"PUT", "/api/v1/vouchers/1", "", nil}, http.StatusMethodNotAllowed, "method_not_allowed", ""},
		{"a method of no protocol", call{"BREW", vouchers, "", nil}, http.StatusMethodNotAllowed, "method_not_allowed", ""},
		{"refund by GET", get("/api/v1/orders/1/refund"), http.StatusMethodNotAllowed, "method_not_allowed", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newFixture(t, lab)
			p := wantProblem(t, r.do(t, c.call), c.status, c.code)
			if !strings.Contains(p.Detail, c.detail) {
				t.Errorf("detail %q; want it to say %q", p.Detail, c.detail)
			}
			if len(r.orders.requests()) > 0 || len(r.vouchers.store.list) > 0 {
				t.Error("the request had an effect")
			}
		})
	}
}

// A path or a query that cannot be read is refused, and says why.
func TestMalformedAddresses(t *testing.T) {
	r := newFixture(t, lab)
	for says, paths := range map[string][]string{
		"wait":                              {"orders/7?wait=2", "orders/7?wait=-1s", "orders/7?wait=31s", "orders/7?wait="},
		"state":                             {"orders/7?wait=2s&state=sold", "orders/7?wait=2s&state="},
		"query":                             {"orders/7?wait=%zz", "orders?before=%zz", "orders?limit=5;before=7"},
		"limit":                             {"orders?limit=0", "orders?limit=101", "vouchers?limit=all"},
		`one of ["open" "soon" "over"]`:     {"vouchers?state=sold", "vouchers?state=", "vouchers?state=Open"},
		`one of ["begin_at" "-begin_at"]`:   {"vouchers?sort=end_at", "vouchers?sort=", "vouchers?sort=%2Bbegin_at"},
		"the next_after of the page before": {"vouchers?sort=begin_at&after=7", "vouchers?sort=-begin_at&after=x-7", "vouchers?sort=begin_at&after=253402300800000000-7"},
		"decimal": {
			"orders/latest", "orders?before=-5", "vouchers?after=x", "vouchers?after=1893553445000000-7", "vouchers?sort=begin_at&after=1893553445000000-0", "vouchers/x/audit", "vouchers/1%252F2", "vouchers/%2e%2e", "vouchers/1;v=1",
			"vouchers/1%00", "vouchers/%c0%b1", "vouchers/0", "vouchers/-1", "vouchers/+1", "vouchers/01", "vouchers/1%20", "vouchers/0x1",
			"vouchers/1_0", "vouchers/9223372036854775808",
		},
	} {
		for _, path := range paths {
			rec := r.do(t, call{"GET", "/api/v1/" + path, "", []string{"X-User-ID: 42"}})
			if p := wantProblem(t, rec, http.StatusBadRequest, "invalid_request"); !strings.Contains(p.Detail, says) {
				t.Errorf("%s: detail %q; want it to say %q", path, p.Detail, says)
			}
		}
	}
}

// A slash that is encoded separates nothing, and no other way of writing an address leads to a route.
func TestAddressesThatDoNotExist(t *testing.T) {
	r := newFixture(t, lab)
	for _, path := range []string{
		"/api/v2/vouchers", "/api/v1/vouchers/", "/api/v1/vouchers/1%2F2", "/api/v1%2Fvouchers", "/api/v1/vouchers%2f1",
		"/api/v1%2flocks/k?lock=reentrant", "/api/v1/locks", "//api/v1/vouchers", "/api/v1//vouchers", "/api/v1/vouchers;v=1", "/api/v1/vouchers%c0%af1",
		`/api/v1\vouchers`, "/api/v1%5cvouchers", "/api/v1/../../etc/passwd", "/debug/pprof/",
	} {
		wantProblem(t, r.do(t, call{"GET", path, "", []string{"X-User-ID: 42"}}), http.StatusNotFound, "not_found")
	}
}

// The valid bodies from which those of TestMalformedRequests differ.
func TestWellFormedRequests(t *testing.T) {
	r := newFixture(t, lab)
	for name, c := range map[string]call{
		"voucher":                 {"POST", "/api/v1/vouchers", voucherBody("", ""), nil},
		"voucher, charset":        {"POST", "/api/v1/vouchers", voucherBody("", ""), []string{"Content-Type: application/json; charset=utf-8"}},
		"order":                   {"POST", "/api/v1/vouchers/1/orders", "", []string{"X-User-ID: 42"}},
		"order, {}":               {"POST", "/api/v1/vouchers/1/orders", " {} ", []string{"X-User-ID: 42"}},
		"order, the largest user": {"POST", "/api/v1/vouchers/9223372036854775807/orders", "", []string{"X-User-ID: 9223372036854775807"}},
		"order, letters encoded":  {"POST", "/api/v1/%76ouchers/%31/orders", "", []string{"X-User-ID: 42"}},
		"token":                   {"POST", "/api/v1/tokens", `{"user_id": "42"}`, nil},
	} {
		t.Run(name, func(t *testing.T) { r.want(t, c, http.StatusCreated) })
	}
	const limit = 64 << 10
	for size, want := range map[int]int{limit: http.StatusCreated, limit + 1: http.StatusRequestEntityTooLarge} {
		body := voucherBody("", "")
		body += strings.Repeat(" ", size-len(body))
		r.want(t, call{"POST", "/api/v1/vouchers", body, nil}, want)
		chunks := io.MultiReader(strings.NewReader(body)) // its length is not known
		if rec := ask(t.Context(), r.handler, "POST", "/api/v1/vouchers", chunks, "Content-Type: application/json"); rec.Code != want {
			t.Errorf("a body of %d bytes in chunks: %d %s", size, rec.Code, rec.Body)
		}
	}
	r.orders.orders = []order.Order{{ID: 7, VoucherID: 1, UserID: 42, Status: order.Confirmed}}
	for _, path := range []string{
		"/api/v1/vouchers", "/api/v1/vouchers?limit=1&after=1&colour=red", "/api/v1/orders", "/api/v1/orders?before=9223372036854775807&limit=100",
		"/api/v1/orders/7", "/api/v1/orders/7?wait=2s", "/api/v1/vouchers/1/audit",
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			r.want(t, call{method, path, "", []string{"X-User-ID: 42"}}, http.StatusOK)
		}
	}
}

func TestAllow(t *testing.T) {
	rec := newFixture(t).do(t, call{"PUT", "/api/v1/vouchers", "", nil})
	wantProblem(t, rec, http.StatusMethodNotAllowed, "method_not_allowed")
	for _, method := range []string{"GET", "HEAD", "POST"} {
		if allow := rec.Header().Get("Allow"); !strings.Contains(allow, method) {
			t.Errorf("Allow is %q; want %s in it", allow, method)
		}
	}
}

// FuzzCreateVoucher checks that any body is answered with a voucher or a client error, never with a server error.
func FuzzCreateVoucher(f *testing.F) {
	f.Add([]byte(voucherBody("", "")))
	f.Add([]byte(voucherBody("policy", `{"lock": "naive", "faults": [{"point": "critical-section", "pause_ms": 400, "probability": 0.05}]}`)))
	f.Add([]byte(`{"title": "\ud800", "stock": -0, "begin_at": "0000-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"": {"": [null]}}`))
	f.Add([]byte("\xff"))
	r := newFixture(f, lab)
	f.Fuzz(func(t *testing.T, body []byte) {
		rec := r.do(t, call{"POST", "/api/v1/vouchers", string(body), []string{"Content-Type: application/json"}})
		switch rec.Code {
		case http.StatusCreated, http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		default:
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
		r.vouchers.store.list = nil
	})
}

// The domain tests the values of a policy. This test checks that they are decoded.
func TestPolicyIsDecoded(t *testing.T) {
	r := newFixture(t, lab)
	body := voucherBody("policy", `{"lock": "naive", "scope": "voucher", "placement": "inside-tx", "stock": "unguarded", "unique": false,
		"lock_ttl_ms": 200, "lock_wait_ms": 1000, "fault_seed": 7, "faults": [{"point": "critical-section", "effect": "error", "pause_ms": 400, "probability": 0.05}]}`)
	r.want(t, call{"POST", "/api/v1/vouchers", body, nil}, http.StatusCreated)
	got := r.vouchers.store.list[0].Policy
	fail.NowUnequal(t, len(got.Faults), 1, "faults of %+v", got)
	fault := got.Faults[0]
	got.Faults = nil
	if fmt.Sprint(got) != fmt.Sprint(voucher.Policy{
		Flow: "locked", Lock: "naive", Scope: "voucher", Placement: "inside-tx", Stock: "unguarded",
		LockTTLMS: 200, LockWaitMS: 1000, FaultSeed: 7,
	}) || fault.Point != "critical-section" || fault.Effect != "error" || fault.PauseMS != 400 || fault.Probability != 0.05 {
		t.Errorf("policy %+v, fault %+v", got, fault)
	}
}

// A voucher that is not split has no member buckets.
func TestBucketsAreDecodedAndShown(t *testing.T) {
	r := newFixture(t, lab)
	r.vouchers.Admission = true
	for given, want := range map[string]struct {
		buckets int
		shown   string
	}{
		`{"flow": "admission"}`:               {0, ""},
		`{"flow": "admission", "buckets": 0}`: {0, ""},
		`{"buckets": 0}`:                      {0, ""},
		fmt.Sprintf(`{"flow": "admission", "buckets": %d}`, voucher.MaxBuckets): {voucher.MaxBuckets, fmt.Sprintf(`"buckets":%d`, voucher.MaxBuckets)},
	} {
		r.vouchers.store.list = nil
		created := r.do(t, call{"POST", "/api/v1/vouchers", voucherBody("policy", given), nil})
		if created.Code != http.StatusCreated || r.vouchers.store.list[0].Policy.Buckets != want.buckets {
			t.Fatalf("%s: %d %s", given, created.Code, created.Body)
		}
		shown := r.do(t, call{"GET", created.Header().Get("Location"), "", nil})
		for _, body := range []string{created.Body.String(), shown.Body.String()} {
			if want.shown == "" && strings.Contains(body, "buckets") || !strings.Contains(body, want.shown) {
				t.Errorf("%s is shown as %s", given, body)
			}
		}
	}
}
