package service_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"seckill/internal/service"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// TestEmbeddedService runs the service as in the first minute of the README: nothing but Go, one command, one curl
// command. It listens on two sockets only, that of the API and that of the payment sandbox: its Redis and its database
// have none.
func TestEmbeddedService(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	before := listeners(t)
	s := harness.StartInProcess(t, nil, nil)
	if !strings.Contains(s.Banner, "embedded") || !strings.Contains(s.Banner, "lab mode") {
		t.Errorf("the banner is %q", s.Banner)
	}
	if n := listeners(t) - before; before >= 0 && n != 2 {
		t.Errorf("%d more listening sockets, want the API's and the sandbox's", n)
	}
	if status, body := s.Buy(t); status != http.StatusCreated || !strings.Contains(body, `"status":"confirmed"`) {
		t.Errorf("the first order: %d %s", status, body)
	}
	if status, body := s.Buy(t); status != http.StatusConflict || !strings.Contains(body, `"already_ordered"`) {
		t.Errorf("the second order: %d %s", status, body)
	}
	audit := strings.TrimSuffix(harness.CurlLine.FindStringSubmatch(s.Curl)[3], "/orders") + "/audit"
	if status, body := harness.Call(t, http.MethodGet, audit, nil, ""); status != http.StatusOK || !strings.Contains(body, `"balanced":true`) {
		t.Errorf("the audit: %d %s", status, body)
	}

	// The same by admission. What it reports of itself is what the dashboard shows.
	const stock = 20
	sale := harness.OpenSale(t, stock, harness.AdmissionPolicy, harness.Process{URL: s.URLOfBanner(t)})
	codes, orders := sale.OrderAll(2*stock, 1, nil)
	if codes["accepted"] != stock || codes["sold_out"] != stock {
		t.Errorf("%v", codes)
	}
	sale.CheckAllConfirmed(stock, orders)
	metrics := s.AwaitMetrics(t, `seckill_admission_decisions_total{outcome="accepted"} 20`, `seckill_fulfil_delay_seconds_count 20`,
		`seckill_fulfil_backlog_orders`, `seckill_orders_total{outcome="pending"} 20`)
	t.Run("dashboard", func(t *testing.T) { checkDashboard(t, metrics) })

	fail.If(t, s.End(), "a stop on request is an error")
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "seckill-*")); len(left) != 0 {
		t.Errorf("files left: %v", left)
	}
	if logs := harness.Noticed(s.Logs.String()); logs != "" {
		t.Errorf("a normal run logged:\n%s", logs)
	}
}

// listeners counts the listening TCP sockets of this process, as /proc reports them; -1 where it does not.
func listeners(t *testing.T) (n int) {
	t.Helper()
	const listening = "0A"
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			return -1
		}
		text, err := io.ReadAll(f)
		_ = f.Close()
		fail.NowIf(t, err)
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == listening {
				inodes[fmt.Sprintf("socket:[%s]", f[9])] = true
			}
		}
	}
	fds, err := os.ReadDir("/proc/self/fd")
	fail.NowIf(t, err)
	for _, fd := range fds {
		if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && inodes[target] {
			n++
		}
	}
	return n
}

// A service with ids of Redis sells. It names the setting when a voucher's lock has no servers, says who holds a simple
// lock, here of a holder that died, and no second service gets its address.
func TestLaboratoryOfAnEmbeddedService(t *testing.T) {
	t.Parallel()
	s := harness.StartInProcess(t, []string{"-ids", "redis-counter"}, nil)
	url := s.URLOfBanner(t)
	for lock, setting := range map[string]string{"zk-node": "SECKILL_ZOOKEEPER_ADDRS", "mysql-get-lock": "SECKILL_MYSQL_DSN"} {
		status, body := harness.Call(t, http.MethodPost, url+"/api/v1/vouchers", nil,
			`{"title":"t","stock":1,"begin_at":"2020-01-01T00:00:00Z","end_at":"2120-01-01T00:00:00Z","policy":{"lock":"`+lock+`"}}`)
		if status != http.StatusBadRequest || !strings.Contains(body, "set "+setting) {
			t.Errorf("%s: %d %s", lock, status, body)
		}
	}
	for mechanism, endless := range map[string]bool{
		"setnx": true, "setnx-expire": false, "naive": false, "thread-id": false, "uuid": false, "uuid-wrong-key": false, "lua": false,
	} {
		sale := harness.OpenSale(t, 5, fmt.Sprintf(`{"lock":%q,"faults":[{"point":"after-commit","effect":"abandon"}]}`, mechanism), harness.Process{URL: url})
		sale.Buy(0, 42, "")
		_, body := harness.Call(t, http.MethodGet, url+"/api/v1/locks/order:"+sale.Voucher+":42", nil, "")
		var seen struct {
			Locks []struct {
				Mechanism, Owner string
				TTLMS            *int64 `json:"ttl_ms"`
			}
		}
		fail.NowIf(t, json.Unmarshal([]byte(body), &seen))
		if len(seen.Locks) != 1 || seen.Locks[0].Mechanism != mechanism || seen.Locks[0].Owner == "" || (seen.Locks[0].TTLMS == nil) != endless {
			t.Errorf("%s: %s", mechanism, body)
		}
	}
	cfg, err := service.ParseConfig([]string{"-addr", strings.TrimPrefix(url, "http://")}, nil, io.Discard)
	fail.NowIf(t, err)
	if err := service.Run(t.Context(), cfg, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "SECKILL_ADDR") {
		t.Errorf("err = %v, want one that names the setting", err)
	}
}

// The URL in the banner of a service that listens on all interfaces can be opened. Here a user has one order in ten
// seconds, too, and one look-up in a hundred. The limits of a user concern no other user.
func TestServiceOnAllInterfaces(t *testing.T) {
	t.Parallel()
	s := harness.StartInProcess(t, []string{"-addr", ":0", "-lab-allow-remote", "-user-rate", "0.1", "-user-lookups", "0.01"}, nil)
	if !regexp.MustCompile(`^seckill: serving on http://localhost:\d+, .*on all interfaces, lab mode\n$`).MatchString(s.Banner) {
		t.Errorf("the banner is %q", s.Banner)
	}
	if status, body := s.Buy(t); status != http.StatusCreated {
		t.Errorf("%d %s", status, body)
	}
	if status, body := s.Buy(t); status != http.StatusTooManyRequests || !strings.Contains(body, `"rate_limited"`) {
		t.Errorf("%d %s", status, body)
	}
	for _, look := range []struct {
		user   string
		status int
	}{{"1", http.StatusNotFound}, {"1", http.StatusTooManyRequests}, {"2", http.StatusNotFound}} {
		if status, body := harness.Call(t, http.MethodGet, s.URLOfBanner(t)+"/api/v1/orders/77", http.Header{"X-User-Id": {look.user}}, ""); status != look.status {
			t.Errorf("user %s looks up an order: %d %s, want %d", look.user, status, body, look.status)
		}
	}
}
