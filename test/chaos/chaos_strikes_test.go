package chaos

import (
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// chaosDatabase is the database of the orders.
type chaosDatabase struct {
	nodes []*testkit.SQLServer
	of    [2]testkit.Database // for each process
}

// refusals are the refusals that can be injected: each node's own, and those of one voucher's orders.
func (d chaosDatabase) refusals(voucherID int64) (all []testkit.Refusal) {
	for i, db := range d.of {
		server := d.nodes[i%len(d.nodes)]
		all = append(append(all, testkit.Refusals(server, db)...), testkit.VoucherRefusals(server, db, voucherID)...)
	}
	return all
}

func openChaosMariaDB(t *testing.T) chaosDatabase {
	t.Helper()
	server := testkit.NewMariaDB(t, "--innodb-flush-log-at-trx-commit=1")
	db := server.Account(t, server.Database(t))
	return chaosDatabase{nodes: []*testkit.SQLServer{server}, of: [2]testkit.Database{db, db}}
}

func openChaosGalera(t *testing.T) chaosDatabase {
	t.Helper()
	cluster := testkit.Galera(t, 3)
	d := chaosDatabase{nodes: cluster.Nodes}
	for i, db := range cluster.Database(t)[:len(d.of)] {
		d.of[i] = cluster.Nodes[i].Account(t, db)
	}
	return d
}

// configure changes a setting of the primary for a while.
func (c *chaos) configure(setting, to, back string) {
	c.t.Helper()
	c.struck["Redis "+setting+" "+to]++
	client := c.redis.Primary.Client(c.t)
	fail.NowIf(c.t, client.ConfigSet(c.t.Context(), setting, to).Err())
	c.wait()
	fail.NowIf(c.t, client.ConfigSet(c.t.Context(), setting, back).Err())
}

// refuse makes the database refuse for a while.
func (c *chaos) refuse() {
	c.t.Helper()
	voucherID, err := strconv.ParseInt(c.sales[len(c.sales)-1].Voucher, 10, 64)
	fail.NowIf(c.t, err)
	all := c.db.refusals(voucherID)
	r := all[c.rng.IntN(len(all))]
	c.struck["MariaDB: "+r.Name]++
	end, err := r.Begin(c.t.Context())
	fail.NowIf(c.t, err)
	c.wait()
	fail.NowIf(c.t, end(c.t.Context()))
}

// forbid takes a command from the user of the processes for a while, so that scripts stop in their middle.
func (c *chaos) forbid() {
	c.t.Helper()
	commands := []string{"hget", "hset", "hdel", "hincrby", "xadd", "xack", "xdel", "xlen", "xpending"}
	command := commands[c.rng.IntN(len(commands))]
	c.struck["Redis forbids "+command]++
	client := c.redis.Primary.Client(c.t)
	set := func(rule string) {
		fail.NowIf(c.t, client.Do(c.t.Context(), "ACL", "SETUSER", "default", rule+command).Err())
	}
	set("-")
	time.Sleep(time.Second)
	set("+")
}

// unread leaves the logs of both processes unread for a while.
func (c *chaos) unread() {
	c.struck["nobody reads the logs"]++
	for _, api := range c.apis {
		defer api.StopReading()()
	}
	c.wait()
}

// anotherRedis starts a process with the database of the others and a Redis of its own. It is refused until it is
// killed.
func (c *chaos) anotherRedis() {
	c.t.Helper()
	c.struck["another Redis"]++
	wrong := harness.Launch(c.t, harness.SelfPath(c.t), harness.Stores{DB: c.db.of[0], Redis: []string{c.other.Addr()}})
	defer wrong.Kill()
	c.wait()
	if !strings.Contains(wrong.Output(), "serving on") {
		return // it has not come so far, for instance because a server hangs
	}
	p := harness.Served(c.t, wrong)
	there := *c.sales[len(c.sales)-1].Sale
	there.Client, there.URLs = c.client, []string{p.URL}
	if got := there.Buy(0, int(c.users.Add(1)), ""); got.Order != "" || got.Code == "already_ordered" {
		c.t.Errorf("with another Redis an order was answered %+v", got)
	}
}

// epochBehind sets the epoch of the voucher that is sold back in the database, as a restore to a time before the
// voucher was rebuilt does.
func (c *chaos) epochBehind() {
	c.t.Helper()
	c.struck["the database is an epoch behind"]++
	db, err := sql.Open("mysql", c.db.of[0].DSN)
	fail.NowIf(c.t, err)
	defer db.Close()
	const back = "UPDATE vouchers SET admission_epoch = admission_epoch - 2 WHERE id = ? AND admission_epoch > 2"
	_, err = db.ExecContext(c.t.Context(), back, c.sales[len(c.sales)-1].Voucher)
	fail.NowIf(c.t, err)
}

// node returns a random node of the database.
func (c *chaos) node() *testkit.SQLServer { return c.db.nodes[c.rng.IntN(len(c.db.nodes))] }

// The targets of faults.
const (
	victimRedis = iota
	victimMariaDB
	victimA
	victimB
	victims
)

// names are for the summary.
var names = [victims]string{"Redis", "MariaDB", "API", "API"}

// hands are the strikes of eight rounds. The first two rounds have each kind once, but for the last ones.
func (c *chaos) hands() [][]strike {
	kill := func(v int) strike { return func() { c.kill(v) } }
	two := func() {
		c.struck["two at once"]++
		c.kill(c.rng.Perm(victims)[:2]...)
	}
	promote := func() {
		c.struck["promotion of the replica"]++
		c.redis.Promote(c.upTo(100 * time.Millisecond)) // no order of that time is told, but it may be in the database
	}
	return [][]strike{
		{kill(victimRedis), kill(victimMariaDB), kill(victimA), c.stopOne, c.refuse, promote},
		{
			kill(victimA), kill(victimB), kill(victimB), two, two, kill(c.rng.IntN(victims)), c.stopOne, c.refuse, c.refuse, promote,
			func() { c.configure("maxmemory", "1", "0") },
			func() { c.configure("maxmemory-policy", "allkeys-lru", "noeviction") },
			c.anotherRedis, c.epochBehind, c.epochBehind, c.forbid, c.forbid, c.unread,
		},
	}
}

// kill kills targets and starts them again. A process needs its servers to start, so that they come first.
func (c *chaos) kill(hit ...int) {
	slices.Sort(hit)
	node := c.node()
	for _, v := range hit {
		c.struck["SIGKILL "+names[v]]++
		switch v {
		case victimRedis:
			c.redis.Primary.Kill()
		case victimMariaDB:
			node.Kill()
		default:
			c.apis[v-victimA].Kill()
		}
	}
	for _, v := range hit {
		switch v {
		case victimRedis:
			c.redis.Primary.Restart()
		case victimMariaDB:
			node.Restart()
		default:
			c.start(v - victimA)
		}
	}
}

// stopOne pauses a target for a while.
func (c *chaos) stopOne() {
	switch v := c.rng.IntN(victims); v {
	case victimRedis:
		c.stop(names[v], c.redis.Primary)
	case victimMariaDB:
		c.stop(names[v], c.node())
	default:
		c.stop(names[v], c.apis[v-victimA])
	}
}
