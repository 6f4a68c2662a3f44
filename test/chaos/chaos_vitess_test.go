package chaos

import (
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// TestSoakVitess runs rounds of the sales of TestChaosLifecycle on Vitess with two shards, without faults. No transaction of
// the service writes to two shards, and only reads that know no voucher ask both; see checkPlans.
func TestSoakVitess(t *testing.T) {
	testkit.Soak(t)
	vitess := newVitess(t)
	db := onVitess(vitess)
	db.hands = func(c *lifecycleChaos) [][]strike { return [][]strike{{c.wait, c.wait, c.wait}} }
	c := openLifecycleChaos(t, harness.Number(t, "SECKILL_TEST_ROUNDS", 6), db)
	migrating := vitess.CrossShard()
	c.run()
	fail.Unequal(t, vitess.CrossShard()-migrating, 0, "transactions that wrote to two shards")
	checkPlans(t, vitess.Plans())
}

// TestSoakChaosVitess is TestChaosLifecycle on Vitess: the servers of both shards and the gate are killed and paused.
func TestSoakChaosVitess(t *testing.T) {
	testkit.Soak(t)
	openLifecycleChaos(t, harness.Number(t, "SECKILL_TEST_ROUNDS", 20), onVitess(newVitess(t))).run()
}

// TestSoakVitessShardDown kills the server of one shard: a voucher in the other one sells on, and that of the dead shard after
// its server is back. Nobody is refused for it.
func TestSoakVitessShardDown(t *testing.T) {
	testkit.Soak(t)
	vitess := newVitess(t)
	api := harness.Start(t, harness.Stores{DB: vitess.Database(), Redis: []string{testkit.NewRedis(t).Addr()}})
	const stock = 50
	sales := make([]*harness.Sale, len(vitess.Shards)) // a sale in each shard
	for slices.Contains(sales, nil) {
		sale := harness.OpenSale(t, stock, `{"lock":"none"}`, api)
		sales[vitess.ShardOf("vouchers", "id", sale.Voucher)] = sale
	}
	users := 0
	buy := func(sale *harness.Sale) string {
		users++
		return sale.Buy(0, users, "").Code
	}
	for down, dead := range sales {
		living := sales[1-down]
		for _, sale := range sales {
			fail.Unequal(t, buy(sale), "created", "before")
		}
		vitess.Shards[down].Kill()
		testkit.Until(t, "a buyer of the dead shard has no answer", func() bool { return buy(dead) == "unavailable" })
		for range stock / 4 {
			fail.Unequal(t, buy(living), "created", "while shard %d is down", down)
		}
		vitess.RestartShard(down)
		testkit.Until(t, "the shard sells again", func() bool { return buy(dead) == "created" })
	}
	harness.WaitReady(t, api)
	for _, sale := range sales {
		for buy(sale) == "created" { // what is left
		}
		fail.Unequal(t, sale.AtRest(0), harness.Audit{InitialStock: stock, Orders: stock, Balanced: true}, "audit")
	}
}

func newVitess(t *testing.T) *testkit.VitessCluster {
	t.Helper()
	return testkit.Vitess(t, vschema(t))
}

func vschema(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("../../deploy/vitess/vschema.json")
	fail.NowIf(t, err)
	return text
}

func onVitess(vitess *testkit.VitessCluster) lifecycleDatabase {
	return lifecycleDatabase{
		name: "Vitess", where: vitess.Database(), locked: lifecycleLocked(), hands: (*lifecycleChaos).vitessHands,
		target: func(rng *rand.Rand) (target, func()) {
			if hit := rng.IntN(1 + len(vitess.Shards)); hit < len(vitess.Shards) {
				return vitess.Shards[hit], func() { vitess.RestartShard(hit) }
			}
			return vitess, vitess.Restart
		},
	}
}

// vitessHands are the strikes of four rounds, most of them on the database.
func (c *lifecycleChaos) vitessHands() [][]strike {
	kill := func() { c.kill("Vitess") }
	stop := func() {
		hit, _ := c.target("Vitess")
		c.stop("Vitess", hit)
	}
	return [][]strike{{kill, kill, stop, stop, kill, func() { c.kill("API") }, stop, kill, func() { c.kill("Redis") }, kill, stop, kill}}
}

// allShards are the reads that ask every shard: they know an order by its id alone, or a payment by its own, or list what is due
// or belongs to a user.
var allShards = regexp.MustCompile(strings.Join([]string{
	`where (o\.)?id (=|in) `, `where payment_id = `, // the first read of each call, and what a provider tells
	`where look_at <= `, `where refund_due = `, `where p\.outcome = `, `where user_id = `,
	`from vouchers as v left join admission_seqs`, `from schema_migrations`,
}, "|"))

// checkPlans lists the statements of the service that ask every shard. A write, and a read that need not, fails the test.
func checkPlans(t *testing.T, plans map[string]testkit.VitessPlan) {
	t.Helper()
	hint, space := regexp.MustCompile(`/\*.*?\*/ ?`), regexp.MustCompile(`\s+`)
	one, all := 0, 0
	for _, query := range slices.Sorted(maps.Keys(plans)) {
		plan := plans[query]
		query = strings.TrimSpace(space.ReplaceAllString(hint.ReplaceAllString(query, ""), " "))
		read := strings.HasPrefix(query, "select ")
		switch {
		case strings.HasPrefix(query, "SELECT "): // it is this test's, which prepares them
		case plan.Type == "Scatter", plan.Type == "MultiShard" && plan.ShardQueries > plan.ExecCount:
			all++
			t.Logf("%6d × %.1f shards: %.300s", plan.ExecCount, float64(plan.ShardQueries)/float64(max(1, plan.ExecCount)), query)
			if !read || !allShards.MatchString(query) {
				t.Errorf("it asks every shard: %s", query)
			}
		default:
			one++
		}
	}
	t.Logf("of the %d statements of the service %d ask every shard", one+all, all)
	if one < 30 || all == 0 {
		t.Error("these are not the statements of a sale")
	}
}
