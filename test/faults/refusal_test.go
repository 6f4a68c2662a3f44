package faults

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// While the database refuses for reasons of its own, no request is answered with 500. Requests that need the database
// are answered with 503 and Retry-After, all others as usual. Readiness and a metric say that accepted orders wait, and
// all of them are confirmed afterwards.
func TestDatabaseRefusesRequests(t *testing.T) {
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		refuseRequests(t, testkit.NewMariaDB(t, testkit.SmallTablespace()...), 1045, 1142, 1146, 1040, 1290, errFull)
	})
	t.Run("mysql", func(t *testing.T) { // what it has alone
		t.Parallel()
		refuseRequests(t, testkit.NewMySQL(t, testkit.SmallTablespace()...), 1792, 3032)
	})
}

// All refusals on both servers.
func TestSoakDatabaseRefusesRequests(t *testing.T) {
	testkit.Soak(t)
	t.Run("mariadb", func(t *testing.T) { refuseRequests(t, testkit.NewMariaDB(t, testkit.SmallTablespace()...)) })
	t.Run("mysql", func(t *testing.T) { refuseRequests(t, testkit.NewMySQL(t, testkit.SmallTablespace()...)) })
}

// blocked is the metric of a process whose accepted orders wait for the database.
var blocked = regexp.MustCompile(`(?m)^seckill_fulfil_blocked_since_timestamp_seconds\{reason="(\w+)"\} [1-9]`)

// The errors after which another table can be written.
const (
	errFull    = 1114
	errNoTable = 1146
)

// refuseRequests begins the refusals with some errors, or all of them if there is none, one after the other.
func refuseRequests(t *testing.T, server *testkit.SQLServer, only ...uint16) {
	where := harness.Stores{DB: server.Account(t, server.Database(t)), Redis: []string{testkit.NewRedis(t).Addr()}}
	p := harness.Start(t, where)
	locked := harness.OpenSale(t, 10_000, `{}`, p)
	admitted := harness.OpenSale(t, 10_000, `{"flow":"admission"}`, p)
	bought := locked.BuyUntilAnswered(0, 1, "first")
	fail.NowUnequal(t, bought.Code, "created")
	if got := admitted.BuyUntilAnswered(0, 1, "first"); got.Code != "accepted" { // the process knows the voucher from here on
		t.Fatalf("told %+v", got)
	}
	page := func(path string) (status int, body string) {
		return harness.Call(t, http.MethodGet, p.URL+path, nil, "")
	}
	user := 100
	for _, refusal := range testkit.Refusals(server, where.DB) {
		if len(only) > 0 && !slices.Contains(only, refusal.Number) {
			continue
		}
		t.Run(refusal.Name, func(t *testing.T) {
			end, err := refusal.Begin(t.Context())
			fail.NowIf(t, err)
			for _, key := range []string{"", "key"} {
				testkit.Until(t, "an order under a lock has its answer", func() bool {
					user++
					got := locked.Buy(0, user, key)
					if refusal.Number == errFull && got.Code == "created" {
						return false // the table's last page has room left
					}
					fail.Unequal(t, got.Code, "unavailable", "under a lock, key %q", key)
					return true
				})
			}
			reason := ""
			testkit.Until(t, "readiness and a metric say that accepted orders wait", func() bool {
				user++
				fail.Unequal(t, admitted.BuyUntilAnswered(0, user, "admitted").Code, "accepted", "admission")
				_, ready := page("/readyz")
				_, metrics := page("/metrics")
				if found := blocked.FindStringSubmatch(metrics); found != nil && strings.Contains(ready, `"persistence":"failing"`) {
					reason = found[1]
				}
				return reason != ""
			})
			t.Logf("error %d: blocked, with the reason %s", refusal.Number, reason)
			for _, path := range []string{
				"/api/v1/vouchers", "/api/v1/vouchers/" + locked.Voucher, "/api/v1/orders", "/api/v1/orders/" + bought.Order,
				"/api/v1/vouchers/" + locked.Voucher + "/audit",
			} {
				status, body := harness.Call(t, http.MethodGet, p.URL+path, http.Header{"X-User-Id": {"1"}}, "")
				if status != http.StatusOK && status != http.StatusServiceUnavailable {
					t.Errorf("GET %s: %d %s", path, status, body)
				}
			}
			voucher := `{"title":"t","stock":1,"begin_at":"2026-01-01T00:00:00Z","end_at":"2036-01-01T00:00:00Z"}`
			status, body := harness.Call(t, http.MethodPost, p.URL+"/api/v1/vouchers", nil, voucher)
			concerned := refusal.Number != errFull && refusal.Number != errNoTable
			if status != http.StatusServiceUnavailable && (concerned || status != http.StatusCreated) {
				t.Errorf("a new voucher: %d %s", status, body)
			}
			if status, body := page("/readyz"); status != http.StatusOK {
				t.Errorf("not ready: %d %s", status, body)
			}
			if status, body := page("/readyz?strict=1"); status != http.StatusServiceUnavailable {
				t.Errorf("strictly ready: %d %s", status, body)
			}
			fail.If(t, end(t.Context()))
			testkit.Until(t, "nothing says that orders wait", func() bool {
				status, _ := page("/readyz?strict=1")
				_, metrics := page("/metrics")
				return status == http.StatusOK && !blocked.MatchString(metrics)
			})
		})
	}
	if a := admitted.AtRest(0); !a.Balanced {
		t.Errorf("%+v", a)
	}
}
