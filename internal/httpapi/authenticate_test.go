package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"seckill/internal/httpapi"
	"seckill/internal/testkit/fail"
)

func TestUserAuthentication(t *testing.T) {
	good := "Authorization: " + newFixture(t).bearer(t, 42)
	const in, out, bad = http.StatusCreated, http.StatusUnauthorized, http.StatusBadRequest
	for _, c := range []struct {
		name    string
		headers []string
		sale    int // the status outside lab mode
		lab     int // and in it
	}{
		{"a good token", []string{good}, in, in},
		{"a good token, small letters", []string{strings.Replace(good, "Bearer", "bearer", 1)}, in, in},
		{"nothing", nil, out, out},
		{"user id", []string{"X-User-ID: 42"}, out, in},
		{"user id that is none", []string{"X-User-ID: 4x2"}, out, bad},
		{"both, the same", []string{good, "X-User-ID: 42"}, in, in},
		{"both, different", []string{good, "X-User-ID: 43"}, in, bad},
		{"a bad token and a user id", []string{good + "x", "X-User-ID: 42"}, out, out},
		{"two tokens", []string{good, good}, out, out},
		{"no scheme", []string{strings.Replace(good, "Bearer ", "", 1)}, out, out},
		{"no token", []string{"Authorization: Bearer"}, out, out},
		{"the admin token", []string{"Authorization: Bearer " + adminToken}, out, out},
	} {
		for _, mode := range []struct {
			name    string
			want    int
			options []option
		}{{"sale", c.sale, nil}, {"lab", c.lab, []option{lab}}} {
			t.Run(c.name+"/"+mode.name, func(t *testing.T) {
				r := newFixture(t, mode.options...)
				rec := r.do(t, call{"POST", "/api/v1/vouchers/1/orders", "", c.headers})
				fail.NowUnequal(t, rec.Code, mode.want, "%s", rec.Body)
				switch mode.want {
				case in:
					if got := r.orders.requests(); len(got) != 1 || got[0].VoucherID != 1 || got[0].UserID != 42 || got[0].Key != 0 || got[0].ID != 0 {
						t.Errorf("placed %+v; want one order of voucher 1 for user 42", got)
					}
				case out:
					wantProblem(t, rec, out, "unauthenticated")
					if got := rec.Header().Get("WWW-Authenticate"); !strings.HasPrefix(got, "Bearer") {
						t.Errorf("WWW-Authenticate %q; want a Bearer challenge", got)
					}
				}
			})
		}
	}
}

func TestAdminAuthentication(t *testing.T) {
	noAdmin := func(c *httpapi.Config, _ *fixture) { c.AdminToken = "" }
	const out = http.StatusUnauthorized
	for _, c := range []struct {
		name   string
		sent   string // in the header Authorization; "-": no header
		status int
		option option
	}{
		{"the token", "Bearer " + adminToken, http.StatusOK, nil},
		{"a beginning of it", "Bearer " + adminToken[:10], out, nil},
		{"nothing, in the lab", "-", http.StatusOK, lab},
		{"nonsense, in the lab", "Bearer nonsense", http.StatusOK, lab},
		{"no admin token set, none sent", "-", out, noAdmin},
		{"no admin token set, one sent", "Bearer " + adminToken, out, noAdmin},
		{"no admin token set, an empty one sent", "Bearer ", out, noAdmin},
	} {
		t.Run(c.name, func(t *testing.T) {
			var options []option
			if c.option != nil {
				options = append(options, c.option)
			}
			audit := call{"GET", "/api/v1/vouchers/1/audit", "", nil}
			if c.sent != "-" {
				audit.headers = []string{"Authorization: " + c.sent}
			}
			rec := newFixture(t, options...).do(t, audit)
			if c.status == out {
				wantProblem(t, rec, out, "unauthenticated")
			} else if rec.Code != c.status {
				t.Errorf("%d %s; want %d", rec.Code, rec.Body, c.status)
			}
		})
	}
}

// What is an administrator's is refused to nobody and to users, and has no effect. Some of it exists in the lab only.
func TestAdministratorsRoutes(t *testing.T) {
	r := newFixture(t, labWithInspectors, func(c *httpapi.Config, _ *fixture) { c.Lab = false })
	as := func(authorization string) []string {
		return []string{"Authorization: " + authorization, "X-User-ID: 42"}
	}
	for _, c := range []struct {
		method, path, body string
		status             int // what the administrator is told
		code               string
	}{
		{"GET", "/api/v1/vouchers/7/live", "", http.StatusNotFound, "voucher_not_found"},
		{"GET", "/api/v1/vouchers/7/orders", "", http.StatusNotFound, "voucher_not_found"},
		{"POST", "/api/v1/vouchers/7/rush", `{"buyers":1}`, http.StatusForbidden, "lab_only"},
		{"GET", "/api/v1/locks/k?lock=fenced", "", http.StatusForbidden, "lab_only"},
		{"DELETE", "/api/v1/locks/k?lock=fenced", "", http.StatusForbidden, "lab_only"},
		{"POST", "/api/v1/orders/7/refund", "x", http.StatusBadRequest, "invalid_request"},
		{"POST", "/api/v1/vouchers", "x", http.StatusBadRequest, "invalid_request"},
		{"GET", "/api/v1/vouchers/0/audit", "", http.StatusBadRequest, "invalid_request"},
	} {
		wantProblem(t, r.do(t, call{c.method, c.path, c.body, []string{"X-User-ID: 42"}}), http.StatusUnauthorized, "unauthenticated")
		wantProblem(t, r.do(t, call{c.method, c.path, c.body, as("Bearer nonsense")}), http.StatusUnauthorized, "unauthenticated")
		wantProblem(t, r.do(t, call{c.method, c.path, c.body, as(r.bearer(t, 42))}), http.StatusForbidden, "forbidden")
		wantProblem(t, r.do(t, call{c.method, c.path, c.body, as("Bearer " + adminToken)}), c.status, c.code)
	}
	wantProblem(t, r.do(t, call{"POST", "/api/v1/tokens", `{"user_id": "42"}`, nil}), http.StatusForbidden, "lab_only")
	if broken := r.inspectable("fenced").broken; len(broken) > 0 {
		t.Errorf("locks were taken away: %q", broken)
	}
}

func TestMintedTokenWorks(t *testing.T) {
	r := newFixture(t, lab)
	rec := r.do(t, call{"POST", "/api/v1/tokens", `{"user_id": "42"}`, nil})
	var got struct {
		Token     string
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != http.StatusCreated {
		t.Fatalf("%d %s: %v", rec.Code, rec.Body, err)
	}
	if id, err := r.tokens.Verify(got.Token); id != 42 || err != nil {
		t.Errorf("the token is for %d, %v; want 42", id, err)
	}
	r.now = r.now.Add(got.ExpiresAt.Sub(start()) + time.Minute)
	if _, err := r.tokens.Verify(got.Token); err == nil {
		t.Error("the token is good for longer than was said")
	}
}
