package sale

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"seckill/internal/auth"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

func TestProductionMode(t *testing.T) {
	t.Parallel()
	for _, engine := range []struct {
		name string
		open func(testkit.TB) testkit.Database
	}{{"mariadb", testkit.MariaDB}, {"mysql", testkit.MySQL}} {
		t.Run(engine.name, func(t *testing.T) {
			t.Parallel()
			s := harness.Stores{DB: engine.open(t), Redis: []string{testkit.NewRedis(t).Addr()}}
			p := harness.Start(t, s.With("SECKILL_LAB=0"))
			tokens, err := auth.NewTokens([]byte(harness.Secret), nil)
			fail.NowIf(t, err)
			jwt, err := tokens.Mint(42, time.Hour)
			fail.NowIf(t, err)
			admin := http.Header{"Authorization": {"Bearer " + harness.AdminToken}}
			buyer := http.Header{"Authorization": {"Bearer " + jwt}}
			voucher := func(policy string) string {
				return fmt.Sprintf(`{"title":"t","stock":2,"begin_at":"2020-01-01T00:00:00Z","end_at":"2120-01-01T00:00:00Z","policy":%s}`, policy)
			}
			expect := func(wantStatus int, wantBody, method, path string, who http.Header, body string) string {
				t.Helper()
				status, got := harness.Call(t, method, p.URL+path, who, body)
				if status != wantStatus || !strings.Contains(got, wantBody) {
					t.Errorf("%s %s: %d %s, want %d with %s", method, path, status, got, wantStatus, wantBody)
				}
				return got
			}
			expect(401, `"unauthenticated"`, "POST", "/api/v1/vouchers", nil, voucher(`{}`))
			expect(403, `"forbidden"`, "POST", "/api/v1/vouchers", buyer, voucher(`{}`))
			for _, weak := range []string{`{"lock":"naive"}`, `{"stock":"unguarded"}`, `{"unique":false}`, `{"placement":"inside-tx"}`,
				`{"faults":[{"point":"critical-section","pause_ms":5}]}`} {
				expect(403, `"lab_only"`, "POST", "/api/v1/vouchers", admin, voucher(weak))
			}
			expect(400, `policy.scope`, "POST", "/api/v1/vouchers", admin, voucher(`{"flow":"admission","scope":"voucher"}`))
			created := expect(201, `"id":"`, "POST", "/api/v1/vouchers", admin, voucher(`{}`))
			_, id, _ := strings.Cut(created, `"id":"`)
			id, _, _ = strings.Cut(id, `"`)
			orders := "/api/v1/vouchers/" + id + "/orders"
			expect(401, `"unauthenticated"`, "POST", orders, http.Header{"X-User-Id": {"42"}}, "")
			expect(201, `"confirmed"`, "POST", orders, buyer, "")
			expect(409, `"already_ordered"`, "POST", orders, buyer, "")
			expect(403, `"forbidden"`, "GET", "/api/v1/vouchers/"+id+"/audit", buyer, "")
			expect(200, `"balanced":true`, "GET", "/api/v1/vouchers/"+id+"/audit", admin, "")
			expect(403, `"lab_only"`, "POST", "/api/v1/tokens", nil, `{"user_id":"1"}`)

			// A weak voucher that a server in lab mode put on sale in the same database.
			weak := harness.OpenSale(t, 5, `{"lock":"none","stock":"unguarded"}`, harness.Start(t, s))
			expect(403, `"lab_only"`, "POST", "/api/v1/vouchers/"+weak.Voucher+"/orders", buyer, "")

			fail.If(t, p.Stop(), "SIGTERM")
			for _, hidden := range []string{harness.Secret, harness.AdminToken, jwt} {
				if strings.Contains(p.Output(), hidden) {
					t.Errorf("the output shows a secret:\n%s", p.Output())
				}
			}
		})
	}
}

// Both flows sell on a Redis Cluster, vouchers in several of its slots, and the locked one behind Sentinel, also after
// the primary was killed. TestDurabilitySentinelFailsOver and TestDurabilityClusterFailsOver have admission when one
// dies.
func TestRedisTopologies(t *testing.T) {
	t.Parallel()
	sell := func(t *testing.T, policy, outcome string, processes ...harness.Process) {
		t.Helper()
		sale := harness.OpenSale(t, 30, policy, processes...)
		codes, orders := sale.OrderAllUnder(sale.Voucher+"-", 60) // a key is of one request
		if codes[outcome] != 30 || codes["sold_out"] != 30 {
			t.Errorf("%s: %v", policy, codes)
		}
		sale.AtRest(0)
		sale.CheckBalanced(0, codes, orders)
	}
	const locked = `{"lock_wait_ms":5000}`
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		s := harness.Stores{DB: testkit.MariaDB(t), Redis: testkit.RedisCluster(t)}
		a, b := harness.Start(t, s), harness.Start(t, s)
		sell(t, locked, "created", a, b)
		for range 3 {
			sell(t, harness.AdmissionPolicy, "accepted", a, b)
		}
	})
	t.Run("sentinel, primary killed", func(t *testing.T) {
		t.Parallel()
		sentinel := testkit.RedisSentinel(t)
		p := harness.Start(t, harness.Stores{DB: testkit.MariaDB(t), Redis: sentinel.Addrs}.With("SECKILL_REDIS_MASTER="+sentinel.MasterName))
		sell(t, locked, "created", p)
		sentinel.KillPrimary()
		harness.WaitReady(t, p)
		sell(t, locked, "created", p)
	})
}
