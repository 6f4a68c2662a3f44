package durability

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// redisSetting is a configuration of Redis and what happens to it: a row of docs/durability.md.
type redisSetting struct {
	name string
	args []string
	// machine: the machine dies, and what was not on the disk yet is gone. together: so do the API processes. slow: the
	// disk is, just then.
	machine, together, slow bool
	// replica: another server takes over, which lags. wait: buyers are told of their orders when it has them, and not
	// before.
	replica, wait bool
	// loses: accepted orders are lost. forgets: also those that were accepted long before.
	loses, forgets bool
}

// found reports whether the service detects that data was lost. With WAIT, that is data of which no buyer was told.
func (s redisSetting) found() bool { return s.loses && !s.together || s.wait }

// mayBeFound reports whether that depends on what was lost: no process is left that has seen it, but Redis may have
// lost its mark, too, which the database has.
func (s redisSetting) mayBeFound() bool { return s.loses && s.together }

func redisSettings() []redisSetting {
	return []redisSetting{
		{name: "no AOF, Redis dies", loses: true, forgets: true},
		{name: "appendfsync no, Redis dies", args: harness.Fsync("no")},
		{name: "appendfsync no, machine dies", args: harness.Fsync("no"), machine: true, loses: true, forgets: true},
		{name: "everysec, Redis dies", args: harness.Fsync("everysec")},
		{name: "everysec, Redis dies, slow disk", args: harness.Fsync("everysec"), slow: true, loses: true},
		{name: "everysec, machine dies", args: harness.Fsync("everysec"), machine: true, loses: true},
		{name: "everysec, machine dies, API on it", args: harness.Fsync("everysec"), machine: true, together: true, loses: true},
		{name: "always, Redis dies", args: harness.Fsync("always")},
		{name: "always, machine dies", args: harness.Fsync("always"), machine: true},
		{name: "always, machine dies, API on it", args: harness.Fsync("always"), machine: true, together: true},
		{name: "replica that lags, promoted", replica: true, loses: true},
		{name: "replica that lags, promoted, WAIT", replica: true, wait: true},
	}
}

// TestDurability kills Redis in the middle of a sale, under each setting. What the setting can lose is lost, and
// nothing else: the service detects the loss, closes the voucher, rebuilds it from the database and sells exactly the
// rest.
//
// The test makes sure that some orders are in flight at that moment: it locks the voucher's row in the database, so
// that accepted orders stay in Redis, as they do when the database is slow or away.
func TestDurability(t *testing.T) {
	t.Parallel()
	mariadb := testkit.NewMariaDB(t)
	for _, setting := range redisSettings() {
		t.Run(setting.name, func(t *testing.T) {
			t.Parallel()
			d := openCrashTest(t, mariadb, setting)
			persisted := d.sell(100)
			d.sale.AtRest(0)
			release := d.sale.HoldRow(d.where.DB)
			held, waiting := d.fillBatches(101)
			maps.Copy(waiting, d.sell(200))
			d.kept()
			before := d.epoch()
			last, took := d.sellAndCrash(func() {
				release()
				d.waitUntilOpen(before)
			})
			d.sellOut()
			got := d.count(persisted, held, waiting, last)
			t.Logf("%s: %s; epoch %d, then %d; on sale again after %v; %d bytes of the file gone",
				setting.name, got, before, d.epoch(), took.Round(10*time.Millisecond), d.gone)
			got.check(t, setting, d.unread)
			if !setting.mayBeFound() {
				fail.Unequal(t, d.epoch() > before, setting.found(), "found that something was lost")
			}
		})
	}
}

const dyingStock = 1000

// crashTest is a sale on a Redis that will crash.
type crashTest struct {
	t       *testing.T
	setting redisSetting
	where   harness.Stores
	disk    *disk               // nil with a replica
	pair    *harness.Replicated // nil without one
	primary *testkit.RedisServer
	apis    []harness.Process
	sale    *harness.Sale
	gone    int64
	newest  string // the entry of the last order that has waited for long
	unread  bool   // it was not read before the crash
}

func openCrashTest(t *testing.T, mariadb *testkit.SQLServer, setting redisSetting) *crashTest {
	t.Helper()
	d := &crashTest{t: t, setting: setting, where: harness.Stores{DB: mariadb.Database(t)}}
	if setting.replica {
		d.pair = harness.NewReplicated(t)
		d.primary = d.pair.Primary
		d.where.Redis = []string{d.pair.Addr()}
		if setting.wait {
			d.where = d.where.With("SECKILL_REDIS_WAIT_REPLICAS=1")
			client := d.primary.Client(t)
			if err := client.Set(t.Context(), "probe", 1, time.Second).Err(); err != nil { // something to acknowledge
				t.Fatal(err)
			}
			acknowledges(t, client, 1)
		}
	} else {
		d.disk = newDisk(t, setting.args...)
		d.primary = d.disk.redis
		d.where.Redis = []string{d.primary.Addr()}
	}
	d.startAPIs()
	d.sale = harness.OpenSale(t, dyingStock, harness.AdmissionPolicy, d.apis...)
	return d
}

// acknowledges waits until a primary has acknowledgements of that many replicas. A replica sends none for up to a
// second after it is in sync.
func acknowledges(t *testing.T, primary *redis.Client, replicas int) {
	t.Helper()
	for n := range replicas {
		heard := func() bool {
			replica := primary.InfoMap(t.Context(), "replication").Item("Replication", "slave"+strconv.Itoa(n))
			return strings.Contains(replica, "state=online") && !strings.Contains(replica, "offset=0,")
		}
		testkit.Until(t, "replica "+strconv.Itoa(n)+" acknowledges", heard)
	}
}

func (d *crashTest) startAPIs() {
	d.t.Helper()
	d.apis = []harness.Process{harness.Start(d.t, d.where), harness.Start(d.t, d.where)}
}

// sell sells to the users up to a number who have no order yet. The second process may still be opening the voucher, so
// they repeat their requests, under keys of this call.
func (d *crashTest) sell(users int) map[string]int {
	d.t.Helper()
	codes, orders := d.sale.OrderAllBy(func(i, user int) harness.Outcome {
		return d.sale.BuyUntilAnswered(i, user, fmt.Sprintf("%d-%d", users, user))
	}, users, 1, nil)
	fail.NowUnequal(d.t, codes["accepted"]+codes["already_ordered"], users, "%v", codes)
	return orders
}

// fillBatches sells to further users until every worker has read a batch that it cannot persist. Orders after that are
// only in Redis, as the one order that is left over.
func (d *crashTest) fillBatches(user int) (held, left map[string]int) {
	d.t.Helper()
	client := d.primary.Client(d.t)
	held = map[string]int{}
	delivered := func() bool {
		p, err := client.XPending(d.t.Context(), d.sale.Keys().Orders, ledger.Group).Result()
		fail.NowIf(d.t, err)
		return int(p.Count) == len(held)
	}
	for ; ; user++ {
		got := d.sale.BuyUntilAnswered(user, user, fmt.Sprintf("held-%d", user))
		fail.NowUnequal(d.t, got.Code, "accepted")
		held[got.Order] = user
		// A worker waits for the row until it has persisted its batch, and reads nothing meanwhile. So what is not
		// delivered while all of them wait stays in the stream.
		allWait := false
		testkit.Until(d.t, "the order is read, or all workers wait for the voucher's row", func() bool {
			allWait = d.sale.WaitingForRows(d.where.DB) >= len(d.apis)
			return allWait || delivered()
		})
		if allWait && !delivered() {
			delete(held, got.Order)
			return held, map[string]int{got.Order: user}
		}
	}
}

// kept waits until the accepted orders are as safe as the setting makes them.
func (d *crashTest) kept() {
	d.t.Helper()
	safe := func() bool { return true }
	switch {
	case d.setting.replica:
		safe = d.inStep
	case slices.Contains(d.setting.args, "everysec"):
		safe = func() bool {
			if d.unwritten() > 0 { // the file cannot tell of it
				return false
			}
			written, safe := d.disk.sizes()
			return written == safe
		}
	}
	testkit.Until(d.t, "the accepted orders are safe", safe)
	stream, err := d.primary.Client(d.t).XInfoStream(d.t.Context(), d.sale.Keys().Orders).Result()
	fail.NowIf(d.t, err)
	d.newest = stream.LastGeneratedID
}

// inStep reports whether the replica has all orders in flight.
func (d *crashTest) inStep() bool {
	d.t.Helper()
	ask := func(s *testkit.RedisServer) string {
		return s.Client(d.t).HGet(d.t.Context(), d.sale.Keys().Meta, ledger.FieldSeq).Val()
	}
	return ask(d.pair.Primary) == ask(d.pair.Replica)
}

// sellAndCrash sells to further buyers and kills Redis once there is something to lose. It returns the orders accepted
// meanwhile, and the time from the crash to the end of after.
func (d *crashTest) sellAndCrash(after func()) (orders map[string]int, took time.Duration) {
	d.t.Helper()
	if d.setting.slow {
		d.disk.slow(true)
	}
	var answered atomic.Int64
	var over atomic.Bool
	var load sync.WaitGroup
	load.Go(func() {
		_, orders = d.sale.OrderAll(dyingStock, 1, func(n int) {
			answered.Store(int64(n))
			if !over.Load() {
				time.Sleep(80 * time.Millisecond) // some 400 a second
			}
		})
	})
	// The first 200 have an order each.
	until := func(users int64) {
		d.t.Helper()
		testkit.Until(d.t, "there is something to lose", func() bool { return answered.Load() >= users && d.now() })
	}
	if d.setting.replica {
		until(250)
		d.pair.Cut()
	}
	until(300)
	if d.setting.forgets {
		d.unread = d.isUnread()
	}
	death := time.Now()
	d.crash()
	after()
	took = time.Since(death)
	over.Store(true)
	load.Wait()
	if d.setting.together {
		d.sale.URLs = []string{d.apis[0].URL, d.apis[1].URL}
	}
	return orders, took
}

// isUnread reports whether the entry of the last order that has waited for long is unread. A worker whose transaction
// has waited for the locked row for seconds tries others once, and those it keeps.
func (d *crashTest) isUnread() bool {
	d.t.Helper()
	client, stream := d.primary.Client(d.t), d.sale.Keys().Orders
	groups, err := client.XInfoGroups(d.t.Context(), stream).Result()
	fail.NowIf(d.t, err)
	left, err := client.XRangeN(d.t.Context(), stream, "("+groups[0].LastDeliveredID, d.newest, 1).Result()
	fail.NowIf(d.t, err)
	return len(left) > 0
}

// unsafe is how much must be at risk before Redis is killed: the data of about 50 orders.
const unsafe = 10_000

// freshly is how long after a fsync of everysec the next one is some time away: it comes at the next full second.
const freshly = 300 * time.Millisecond

// now reports whether it is time to kill Redis. If so, the machine that dies is paused already, so that what is at risk
// stays at risk.
func (d *crashTest) now() bool {
	d.t.Helper()
	switch {
	case !slices.Contains(d.setting.args, "everysec"):
		return true
	case d.setting.machine:
		d.primary.Pause()
		if written, safe := d.disk.sizes(); written-safe > unsafe {
			return true
		}
		d.primary.Resume()
		return false
	}
	if d.setting.slow {
		return d.unwritten() > unsafe
	}
	return d.persistence("aof_pending_bio_fsync") == 0 && d.disk.sinceSync() < freshly
}

// unwritten returns how many bytes Redis has yet to write to its append-only file. With everysec it answers for up to
// two seconds without having written, while an fsync is under way.
func (d *crashTest) unwritten() int {
	d.t.Helper()
	return d.persistence("aof_buffer_length")
}

func (d *crashTest) persistence(field string) int {
	d.t.Helper()
	n, err := strconv.Atoi(d.primary.Client(d.t).InfoMap(d.t.Context(), "persistence").Item("Persistence", field))
	fail.If(d.t, err)
	return n
}

func (d *crashTest) crash() {
	d.t.Helper()
	if d.setting.replica {
		d.primary.Kill()
		d.pair.TakeOver()
		d.primary = d.pair.Primary
		if d.setting.wait { // otherwise no buyer gets an answer any more
			testkit.NewRedisReplica(d.t, d.primary)
		}
		return
	}
	if d.setting.together {
		for _, p := range d.apis {
			p.Kill()
		}
	}
	d.gone = d.disk.crash(d.setting.machine)
	if d.setting.slow {
		d.disk.slow(false)
	}
	d.primary.Restart()
	if d.setting.together {
		d.startAPIs()
	}
}

func (d *crashTest) epoch() int {
	d.t.Helper()
	n, err := d.primary.Client(d.t).HGet(d.t.Context(), d.sale.Keys().Meta, ledger.FieldEpoch).Int()
	fail.If(d.t, err)
	return n
}

// waitUntilOpen waits until the voucher is on sale again, under a later epoch if a loss will be detected.
func (d *crashTest) waitUntilOpen(before int) {
	d.t.Helper()
	harness.WaitReady(d.t, d.apis...)
	testkit.Until(d.t, fmt.Sprintf("on sale again after epoch %d", before), func() bool {
		meta := d.primary.Client(d.t).HGetAll(d.t.Context(), d.sale.Keys().Meta).Val()
		epoch, err := strconv.Atoi(meta[ledger.FieldEpoch]) // it has none where it was emptied
		return err == nil && epoch%2 == 0 && meta[ledger.FieldStock] != "" && (epoch > before || !d.setting.found())
	})
}

// sellOut sells the rest, first to the buyers who lost their orders.
func (d *crashTest) sellOut() {
	d.t.Helper()
	d.sale.Drained(d.primary.Client(d.t))
	testkit.Until(d.t, "all is sold", func() bool {
		d.sale.OrderAll(2*dyingStock, 1, nil)
		return d.sale.AtRest(0).Stock == 0
	})
	want := harness.Audit{InitialStock: dyingStock, Orders: dyingStock, Balanced: true}
	fail.Unequal(d.t, d.sale.Audit(1), want, "the sale is wrong")
}
