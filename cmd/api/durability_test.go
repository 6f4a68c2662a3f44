package main

import (
	"database/sql"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/admkey"
	"seckill/internal/testkit"
)

// redisSetting is how Redis keeps what it has, and what happens to it: a row of
// docs/durability.md.
type redisSetting struct {
	name string
	args []string
	// machine: the machine dies, and what was not on the disk yet is gone. together: so
	// do the API processes. slow: the disk is, just then.
	machine, together, slow bool
	// replica: another server takes over, which lags. wait: buyers are told of their
	// orders when it has them, and not before.
	replica, wait bool
	// loses: accepted orders are lost. forgets: also those that were accepted long before.
	loses, forgets bool
}

var appendOnly = []string{"--appendonly", "yes", "--appendfsync"}

func fsync(when string) []string { return append(slices.Clone(appendOnly), when) }

// found: the service finds out that something is not there any more. With WAIT that is
// what nobody was told of.
func (s redisSetting) found() bool { return s.loses && !s.together || s.wait }

func redisSettings() []redisSetting {
	return []redisSetting{
		{name: "no AOF, Redis dies", loses: true, forgets: true},
		{name: "appendfsync no, Redis dies", args: fsync("no")},
		{name: "appendfsync no, machine dies", args: fsync("no"), machine: true, loses: true, forgets: true},
		{name: "everysec, Redis dies", args: fsync("everysec")},
		{name: "everysec, Redis dies, slow disk", args: fsync("everysec"), slow: true, loses: true},
		{name: "everysec, machine dies", args: fsync("everysec"), machine: true, loses: true},
		{name: "everysec, machine dies, API on it", args: fsync("everysec"), machine: true, together: true, loses: true},
		{name: "always, Redis dies", args: fsync("always")},
		{name: "always, machine dies", args: fsync("always"), machine: true},
		{name: "always, machine dies, API on it", args: fsync("always"), machine: true, together: true},
		{name: "replica that lags, promoted", replica: true, loses: true},
		{name: "replica that lags, promoted, WAIT", replica: true, wait: true},
	}
}

// Redis dies in the middle of a sale, under each setting. What it can lose is lost, and
// nothing else is: the service finds out, closes the voucher, rebuilds it from the
// database and sells on, exactly all of it.
//
// That some orders are on their way at that moment is arranged: the test holds the
// voucher's row in the database, so that accepted orders stay in Redis, as they do when
// the database is slow or away.
func TestDurability(t *testing.T) {
	if testing.Short() {
		t.Skip("kills servers for most of a minute")
	}
	mariadb := testkit.NewMariaDB(t)
	for _, setting := range redisSettings() {
		t.Run(setting.name, func(t *testing.T) {
			d := openDying(t, mariadb, setting)
			persisted := d.sell(100)
			d.shop.atRest(0)
			release := d.holdRow()
			held, waiting := d.fillHands(101)
			maps.Copy(waiting, d.sell(200))
			d.kept()
			before := d.epoch()
			last, took := d.sellAndDie(func() {
				release()
				d.goesOn(before)
			})
			d.sellOut()
			got := d.count(persisted, held, waiting, last)
			t.Logf("%s: %s; epoch %d, then %d; on sale again after %v; %d bytes of the file gone",
				setting.name, got, before, d.epoch(), took.Round(10*time.Millisecond), d.gone)
			got.judge(t, setting)
			if found := d.epoch() > before; found != setting.found() {
				t.Errorf("found that something was lost: %v", found)
			}
		})
	}
}

const dyingStock = 1000

// dying is a sale on a Redis that is to die.
type dying struct {
	t       *testing.T
	setting redisSetting
	where   servers
	disk    *disk // nil with a replica
	primary *testkit.RedisServer
	replica *testkit.RedisServer
	link    *testkit.Proxy // between the two
	door    *testkit.Proxy // the address of whichever is the primary
	apis    []process
	shop    *shop
	gone    int64
}

func openDying(t *testing.T, mariadb *testkit.SQLServer, setting redisSetting) *dying {
	t.Helper()
	d := &dying{t: t, setting: setting, where: servers{db: mariadb.Database(t)}}
	if setting.replica {
		d.primary = testkit.NewRedis(t)
		d.link, d.door = testkit.NewProxy(t, d.primary.Addr()), testkit.NewProxy(t, d.primary.Addr())
		d.replica = testkit.NewRedis(t)
		d.replica.ReplicaOf(d.link.Addr())
		d.where.redis = []string{d.door.Addr()}
		if setting.wait {
			d.where = d.where.with("SECKILL_REDIS_WAIT_REPLICAS=1")
			client := d.primary.Client(t)
			if err := client.Set(t.Context(), "probe", 1, time.Second).Err(); err != nil { // something to acknowledge
				t.Fatal(err)
			}
			acknowledges(t, client, 1)
		}
	} else {
		d.disk = newDisk(t, setting.args...)
		d.primary = d.disk.redis
		d.where.redis = []string{d.primary.Addr()}
	}
	d.startAPIs()
	d.shop = openShop(t, dyingStock, admissionPolicy, d.apis...)
	return d
}

// acknowledges waits until a primary hears from so many replicas: for up to a second
// after one is in step it does not.
func acknowledges(t *testing.T, primary *redis.Client, replicas int) {
	t.Helper()
	for n := range replicas {
		heard := func() bool {
			replica := primary.InfoMap(t.Context(), "replication").Item("Replication", "slave"+strconv.Itoa(n))
			return strings.Contains(replica, "state=online") && !strings.Contains(replica, "offset=0,")
		}
		for deadline := time.Now().Add(30 * time.Second); !heard(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the replicas never acknowledge:\n%s", primary.Info(t.Context(), "replication").Val())
			}
		}
	}
}

func (d *dying) startAPIs() {
	d.t.Helper()
	d.apis = []process{startProcess(d.t, d.where), startProcess(d.t, d.where)}
}

// sell sells to the users up to one, those who have none yet.
func (d *dying) sell(users int) map[string]int {
	d.t.Helper()
	codes, orders := d.shop.rush(users, 1, nil)
	if codes["accepted"]+codes["already_ordered"] != users {
		d.t.Fatalf("%v", codes)
	}
	return orders
}

// holdRow keeps orders from being persisted, until release.
func (d *dying) holdRow() (release func()) {
	d.t.Helper()
	db, err := sql.Open("mysql", d.where.db.DSN)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = db.Close() })
	tx, err := db.BeginTx(d.t.Context(), nil)
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := tx.ExecContext(d.t.Context(), "SELECT id FROM vouchers WHERE id = ? FOR UPDATE", d.shop.voucher); err != nil {
		d.t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(); err != nil {
			d.t.Error(err)
		}
	}
}

// untouched is how long an order is in the stream that all workers have had their chance
// of: longer than they take to find a new voucher.
const untouched = 1500 * time.Millisecond

// fillHands sells to further users, until every worker has a batch in its hands that it
// cannot finish. What is sold after that, as the one order that is left, is in Redis
// alone.
func (d *dying) fillHands(user int) (held, left map[string]int) {
	d.t.Helper()
	client := d.primary.Client(d.t)
	held = map[string]int{}
	delivered := func() bool {
		p, err := client.XPending(d.t.Context(), d.shop.keys().Orders, admkey.Group).Result()
		if err != nil {
			d.t.Fatal(err)
		}
		return int(p.Count) == len(held)
	}
	for ; ; user++ {
		got := d.shop.buy(user, user, "")
		if got.code != "accepted" {
			d.t.Fatalf("told %+v", got)
		}
		held[got.order] = user
		for asked := time.Now(); !delivered(); time.Sleep(5 * time.Millisecond) {
			if time.Since(asked) > untouched {
				delete(held, got.order)
				return held, map[string]int{got.order: user}
			}
		}
	}
}

// kept waits until what was accepted so far is as safe as the setting makes it.
func (d *dying) kept() {
	d.t.Helper()
	safe := func() bool { return true }
	switch {
	case d.setting.replica:
		safe = d.inStep
	case slices.Contains(d.setting.args, "everysec"):
		safe = func() bool {
			written, safe := d.disk.sizes()
			return written == safe
		}
	}
	for deadline := time.Now().Add(30 * time.Second); !safe(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			d.t.Fatal("what was accepted is never safe")
		}
	}
}

// inStep says whether the replica has all orders on their way.
func (d *dying) inStep() bool {
	d.t.Helper()
	ask := func(s *testkit.RedisServer) string {
		return s.Client(d.t).HGet(d.t.Context(), d.shop.keys().Meta, admkey.Seq).Val()
	}
	return ask(d.primary) == ask(d.replica)
}

// sellAndDie has further buyers come, and Redis die when there is something to lose. It
// returns the orders that were accepted meanwhile, and how long it took from the death
// to the end of after.
func (d *dying) sellAndDie(after func()) (orders map[string]int, took time.Duration) {
	d.t.Helper()
	if d.setting.slow {
		d.disk.slow(true)
	}
	var answered atomic.Int64
	var over atomic.Bool
	var load sync.WaitGroup
	load.Go(func() {
		_, orders = d.shop.rush(dyingStock, 1, func(n int) {
			answered.Store(int64(n))
			if !over.Load() {
				time.Sleep(80 * time.Millisecond) // some 400 a second
			}
		})
	})
	// The first 200 have an order each.
	until := func(users int64) {
		d.t.Helper()
		for deadline := time.Now().Add(30 * time.Second); answered.Load() < users || !d.now(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				d.t.Fatal("never anything to lose")
			}
		}
	}
	if d.setting.replica {
		until(250)
		d.link.Cut()
	}
	until(300)
	death := time.Now()
	d.die()
	after()
	took = time.Since(death)
	over.Store(true)
	load.Wait()
	if d.setting.together {
		d.shop.urls = []string{d.apis[0].url, d.apis[1].url}
	}
	return orders, took
}

// unsafe is how much has to be in danger for Redis to die: that of some 50 orders.
const unsafe = 10_000

// now says whether it is the moment to die.
func (d *dying) now() bool {
	d.t.Helper()
	switch {
	case !slices.Contains(d.setting.args, "everysec"):
		return true
	case d.setting.machine:
		written, safe := d.disk.sizes()
		return written-safe > unsafe
	}
	// While the disk is at work Redis answers without having written, for two seconds.
	info := d.primary.Client(d.t).InfoMap(d.t.Context(), "persistence")
	unwritten, err := strconv.Atoi(info.Item("Persistence", "aof_buffer_length"))
	if err != nil {
		d.t.Error(err)
	}
	if d.setting.slow {
		return unwritten > unsafe
	}
	return info.Item("Persistence", "aof_pending_bio_fsync") == "0"
}

func (d *dying) die() {
	d.t.Helper()
	if d.setting.replica {
		d.primary.Kill()
		d.replica.Promote()
		d.door.Lead(d.replica.Addr())
		d.primary = d.replica
		if d.setting.wait { // else nobody is told of anything any more
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

func (d *dying) epoch() int {
	d.t.Helper()
	n, err := d.primary.Client(d.t).HGet(d.t.Context(), d.shop.keys().Meta, admkey.Epoch).Int()
	if err != nil {
		d.t.Error(err)
	}
	return n
}

// goesOn waits until the voucher is on sale again, under a later epoch if something is
// to be found.
func (d *dying) goesOn(before int) {
	d.t.Helper()
	waitReady(d.t, d.apis...)
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		meta := d.primary.Client(d.t).HGetAll(d.t.Context(), d.shop.keys().Meta).Val()
		epoch, err := strconv.Atoi(meta[admkey.Epoch]) // it has none where it was emptied
		if err == nil && epoch%2 == 0 && meta[admkey.Stock] != "" && (epoch > before || !d.setting.found()) {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("never on sale again: %v, was %d", meta, before)
		}
	}
}

// sellOut sells what is left, to the buyers who lost their orders first.
func (d *dying) sellOut() {
	d.t.Helper()
	d.shop.drained(d.primary.Client(d.t))
	for deadline := time.Now().Add(90 * time.Second); d.shop.atRest(0).Stock > 0; {
		if time.Now().After(deadline) {
			d.t.Fatal("never sold out")
		}
		d.shop.rush(2*dyingStock, 1, nil)
	}
	want := audit{InitialStock: dyingStock, Orders: dyingStock, Balanced: true}
	if got := d.shop.audit(1); got != want {
		d.t.Errorf("not sold right: %+v", got)
	}
}
