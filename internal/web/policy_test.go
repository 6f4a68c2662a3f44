package web_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"seckill/internal/lock"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
	"seckill/internal/web"
)

// The console is told each lock, which of them are safe, and which this server has.
func TestFormKnowsTheLocks(t *testing.T) {
	site, err := web.New(web.Config{Locks: []string{"reentrant", "naive"}})
	fail.NowIf(t, err)
	answer := httptest.NewRecorder()
	site.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/static/x/locks.js", http.NoBody))
	listed, module := strings.CutPrefix(strings.TrimSuffix(answer.Body.String(), ";\n"), "export default ")
	var told []struct {
		Name string
		Safe bool
		Here bool
	}
	if err := json.Unmarshal([]byte(listed), &told); err != nil || !module || len(told) != len(lock.Catalogue()) {
		t.Fatalf("%q: %v", answer.Body, err)
	}
	for i, m := range lock.Catalogue() {
		if told[i].Name != m.Name || told[i].Safe != m.Safe || told[i].Here != (m.Name == "reentrant" || m.Name == "naive") {
			t.Errorf("the console is told %+v, want %+v", told[i], m)
		}
	}
}

// The form has words for each lock and each choice.
func TestFormKnowsThePolicies(t *testing.T) {
	text, err := os.ReadFile("static/policy.js")
	fail.NowIf(t, err)
	all, err := web.Messages()
	fail.NowIf(t, err)
	for _, m := range lock.Catalogue() {
		if all["en"]["policy.lock."+m.Name] == "" {
			t.Errorf("the lock %s is not explained", m.Name)
		}
	}
	for field, values := range map[string][]string{
		"flow":      {string(voucher.FlowLocked), string(voucher.FlowAdmission)},
		"scope":     {string(voucher.ScopeUser), string(voucher.ScopeVoucher)},
		"placement": {string(voucher.AroundTx), string(voucher.InsideTx)},
		"stock":     {string(voucher.StockConditional), string(voucher.StockUnguarded), string(voucher.StockVersion), string(voucher.StockFenced), string(voucher.StockRows), string(voucher.StockUnits), string(voucher.StockGrouped)},
		"fault":     {string(lock.CriticalSection), string(lock.BeforeCommit), string(lock.BeforeRelease)},
	} {
		for _, value := range values {
			if !regexp.MustCompile(field+`: \[.*'`+value+`'`).Match(text) || all["en"]["policy."+field+"."+value] == "" {
				t.Errorf("the form does not have or explain %s %s", field, value)
			}
		}
	}
}

// The form warns where the server refuses: with no lock, some ways to take from the stock are safe all the same.
func TestFormKnowsWhatNeedsNoLock(t *testing.T) {
	text, err := os.ReadFile("static/policy.js")
	fail.NowIf(t, err)
	list := func(of string) []string {
		found := regexp.MustCompile(of + `\[(.*)\]`).FindSubmatch(text)
		if found == nil {
			t.Fatalf("the form has no %s", of)
		}
		return strings.Split(strings.ReplaceAll(string(found[1]), "'", ""), ", ")
	}
	alone := list("needNoLock = ")
	for _, stock := range list("stock: ") {
		p := voucher.DefaultPolicy()
		p.Lock, p.Stock = "none", voucher.Stock(stock)
		fail.Unequal(t, slices.Contains(alone, stock), p.Safe() == nil, "without a lock, %s is safe", stock)
	}
}
