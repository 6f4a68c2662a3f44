package upgrade

import (
	"cmp"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// together is what docs/deploy.md (Upgrades) asks for while versions run side by side: an earlier one reads no entry
// with several orders.
const together = "SECKILL_ORDERS_PER_ENTRY=1"

// TestSoakUpgrade sells while two instances of an earlier version are replaced one by one by this one, and those by the
// earlier one again, over one database and one Redis. No request fails at the balancer, every buyer is accepted, and
// every accepted order is confirmed. Then all instances of one version die with orders that are not persisted, and the
// other version persists them.
//
// The earlier version is SECKILL_TEST_UPGRADE_FROM, or else the first one with this schema. Both versions must have the
// same schema: an earlier one does not start on a newer one.
//
//	SECKILL_TEST_SERVERS=1 SECKILL_TEST_SOAK=1 SECKILL_TEST_UPGRADE_FROM=HEAD~20 go test -run TestSoakUpgrade -v ./test/upgrade
func TestSoakUpgrade(t *testing.T) {
	testkit.Soak(t)
	this := harness.SelfPath(t)
	before := buildVersion(t)
	for name, policy := range map[string]string{
		"admission": `{"flow":"admission"}`, "admission in buckets": `{"flow":"admission","buckets":4}`, "locked": `{}`,
	} {
		t.Run("one by one, "+name, func(t *testing.T) { replaceOneByOne(t, policy, before, this) })
	}
	for name, policy := range map[string]string{"admission": `{"flow":"admission"}`, "admission in buckets": `{"flow":"admission","buckets":4}`} {
		t.Run("forward with a backlog, "+name, func(t *testing.T) { replaceWithBacklog(t, policy, before, this) })
		t.Run("back with a backlog, "+name, func(t *testing.T) { replaceWithBacklog(t, policy, this, before) })
	}
}

// buildVersion builds the service as it was in the version before, and returns the program.
func buildVersion(t *testing.T) string {
	t.Helper()
	commit := os.Getenv("SECKILL_TEST_UPGRADE_FROM")
	if commit == "" {
		commit = firstWithThisSchema(t)
	}
	t.Logf("the earlier version is %s", commit)
	folder := t.TempDir()
	unpack := exec.CommandContext(t.Context(), "bash", "-c", `set -o pipefail; git archive --format=tar "$1" | tar -x -C "$2"`, "unpack", commit, folder)
	unpack.Dir = repository
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", commit, err, out)
	}
	program := filepath.Join(folder, "api-before")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/api")
	build.Dir = folder
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", commit, err, out)
	}
	return program
}

// repository is the root of the checkout, and schema what in it is the schema of MySQL.
const repository, schema = "../..", "migrations/mysql"

// firstWithThisSchema returns the commit that last changed the schema. It skips the test if there is no such commit
// before this version: in a folder without history or with its end alone, and while the schema is being changed.
func firstWithThisSchema(t *testing.T) string {
	t.Helper()
	git := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = repository
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Skipf("this folder has no history to build an earlier version from: %s: %v\n%s", cmd, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if changed := git("status", "--porcelain", "--", schema); changed != "" {
		t.Skipf("no earlier version has this schema: it is not committed\n%s", changed)
	}
	last, parents, _ := strings.Cut(git("log", "-1", "--format=%H %P", "--", schema), " ")
	switch {
	case last == git("rev-parse", "HEAD"):
		t.Skipf("no earlier version has this schema: HEAD changes it, or the history begins there")
	case parents == "" && git("rev-parse", "--is-shallow-repository") == "true":
		t.Skipf("the history of this shallow clone begins after the schema was changed")
	}
	return last
}

// upgraded has the orders that buyers were told of: by id, the user and the idempotency key.
type upgraded struct {
	mu     sync.Mutex
	orders map[string]buyer
	other  map[string]int // answers that are none of these
}

type buyer struct {
	user int
	key  string
}

func (a *upgraded) note(told harness.Outcome, by buyer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if told.Code == "accepted" || told.Code == "created" {
		a.orders[told.Order] = by
		return
	}
	a.other[told.Code]++
}

func (a *upgraded) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.orders)
}

func replaceOneByOne(t *testing.T, policy, before, this string) {
	s := harness.NewStores(t)
	addrs, urls, instances := make([]string, 2), make([]string, 2), make([]harness.Process, 2)
	begin := func(i int, program string) {
		instances[i] = harness.StartProgram(t, program, s.With("SECKILL_ADDR="+addrs[i], "SECKILL_SHUTDOWN_DELAY=2s", "SECKILL_LOG_LEVEL=warn", together))
	}
	for i := range instances {
		addrs[i] = testkit.FreeAddr(t)
		begin(i, before)
		urls[i] = instances[i].URL
	}
	sale := harness.OpenSale(t, 1_000_000, policy, instances...)
	front := harness.NewBalancer(t, urls...)
	public := httptest.NewServer(front)
	defer public.Close()
	sale.URLs = []string{public.URL}

	told := &upgraded{orders: map[string]buyer{}, other: map[string]int{}}
	var users atomic.Int64
	stopLoad := harness.Again(8, func() {
		by := buyer{user: int(users.Add(1))}
		by.key = fmt.Sprintf("upgrade-%d", by.user)
		told.note(sale.BuyUntilAnswered(0, by.user, by.key), by)
	})
	const more = 300 // orders after each step
	for _, program := range []string{before, this, before} {
		for i := range instances {
			fail.If(t, instances[i].Stop(), "the end of instance %d", i)
			begin(i, program)
			instances[i].WaitHTTP(t, urls[i]+"/readyz")
			testkit.Until(t, "the balancer uses the new instance", front.Backends[i].Ready.Load)
			now := told.count()
			testkit.Until(t, "orders over both versions", func() bool { return told.count() >= now+more })
		}
	}
	stopLoad()
	if n := front.Failed.Load(); n > 0 {
		t.Errorf("%d requests failed at the balancer", n)
	}
	checkUpgraded(sale, s.DB, told)
}

// replaceWithBacklog kills every instance of one version when orders are accepted that are not in the database, and
// lets the other version persist them.
func replaceWithBacklog(t *testing.T, policy, from, to string) {
	s := harness.NewStores(t)
	s = s.With(together)
	a, b := harness.StartProgram(t, from, s), harness.StartProgram(t, from, s)
	sale := harness.OpenSale(t, 1_000_000, policy, a, b)
	told := &upgraded{orders: map[string]buyer{}, other: map[string]int{}}
	buy := func(first, n int) {
		var buyers sync.WaitGroup
		for i := range harness.Connections {
			buyers.Go(func() {
				for user := first + i; user < first+n; user += harness.Connections {
					by := buyer{user, fmt.Sprintf("upgrade-%d", user)}
					told.note(sale.BuyUntilAnswered(user, user, by.key), by)
				}
			})
		}
		buyers.Wait()
	}
	buy(1, 200) // the instances know the voucher
	release := sale.HoldRow(s.DB)
	buy(1001, 1000)
	a.Kill()
	b.Kill()
	if pending := countOrders(t, s.DB, sale.Voucher); pending >= told.count() {
		t.Fatalf("%d orders are in the database already: there is no backlog", pending)
	}
	release() // nobody is there to persist them; a migration would wait for the row
	c, d := harness.StartProgram(t, to, s), harness.StartProgram(t, to, s)
	sale.URLs = []string{c.URL, d.URL}
	buy(3001, 200)
	checkUpgraded(sale, s.DB, told)
}

// checkUpgraded checks that every buyer was accepted, that every accepted order is confirmed, that nothing else is in
// the database, and that a repeated request is told of the same order.
func checkUpgraded(s *harness.Sale, db testkit.Database, told *upgraded) {
	s.T.Helper()
	a := s.AtRest(0)
	status := harness.Statuses(s.T, db, s.Voucher)
	lost := map[string]int{}
	for id := range told.orders {
		if status[id] != "confirmed" {
			lost[cmp.Or(status[id], "nowhere")]++
		}
	}
	s.T.Logf("%d orders accepted, other answers %v; lost %v; %+v", len(told.orders), told.other, lost, a)
	if len(lost) > 0 || len(told.other) > 0 || len(status) != len(told.orders) || !a.Balanced || a.Oversold != 0 || a.DuplicateOrders != 0 {
		s.T.Errorf("%d orders were accepted, %v of them are lost, the database has %d; other answers %v; %+v", len(told.orders), lost, len(status), told.other, a)
	}
	asked := 0
	for id, by := range told.orders {
		fail.Unequal(s.T, s.BuyUntilAnswered(asked, by.user, by.key).Order, id, "the order of user %d, who repeats", by.user)
		if asked++; asked == 50 {
			break
		}
	}
}

func countOrders(t *testing.T, where testkit.Database, voucher string) int {
	t.Helper()
	return len(harness.Statuses(t, where, voucher))
}
