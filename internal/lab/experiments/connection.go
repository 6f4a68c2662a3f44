package experiments

import (
	"cmp"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/testkit"
)

// The connections break in the middle of the work. The work goes on for brokenWork, or until
// the holder is told. The rows are renewed several times meanwhile.
const (
	brokenAfter = 200 * time.Millisecond
	brokenWork  = 1200 * time.Millisecond
	rowLease    = 1200 * time.Millisecond
)

// connections are the experiments about locks that a connection holds.
func connections() []comparison {
	setup := func(mechanism string) lab.Setup {
		return lab.Setup{Policy: policyFor(mechanism, 0, 5*time.Second), Watchdog: rowLease}
	}
	return []comparison{{
		text: "lost-connection", scenario: connectionsBreak, needs: []testbed.Server{testbed.Database}, quiet: true, cases: []setupCase{
			{id: "get-lock-connection-lost", setup: setup("mysql-get-lock"), breaks: kinds{finding.Overlaps}},
			{id: "row-survives-connection-loss", setup: setup("mysql-row-expiry"), holds: kinds{finding.Overlaps}},
		}, parameters: []lab.Parameter{
			lease(300*time.Millisecond, 5*time.Second).For(func(s lab.Setup) bool { return s.Policy.Lock == "mysql-row-expiry" }),
			work(i18n.F("how long the holder works on after the cut"), brokenWork, 100*time.Millisecond, 3*time.Second),
		},
	}}
}

// connectionsBreak cuts a working holder off from the database for a moment, while a second
// client waits.
func connectionsBreak(t *lab.Trial, setup lab.Setup) {
	c := newClients(t, setup)
	dsn := t.MariaDB().DSN
	way, behind := throughProxy(t, dsn)
	holder := c.start("process-1", func(config *lockclient.Config) { config.MySQLDSN = behind })
	other := c.start("process-2", func(config *lockclient.Config) { config.MySQLDSN = dsn })
	c.observe()

	const first, next = "buyer 1", "buyer 2"
	g := c.take(holder, c.request(first))
	waits := c.startTaking(other, c.request(next))
	c.await("the next one to ask", requestedBy(next))
	t.Sleep(brokenAfter)
	cut := time.Now().UnixNano()
	way.Cut()
	t.Fault(i18n.F("process-1's connections to MariaDB are cut"))()
	way.Reset()
	told := c.workUntilLoss(holder, g.Lease, cmp.Or(setup.Work, brokenWork))
	c.release(holder, g.Lease)
	later := waits()
	t.Sleep(brokenWork / 10)
	c.release(other, later.Lease)

	evidence := c.evidence()
	t.Judge(evidence)
	t.Measure(i18n.F("the next one got in after the cut"), millis(time.Duration(later.At-cut)), i18n.F("ms"))
	if told > 0 {
		t.Measure(i18n.F("the holder was told after the cut"), millis(time.Duration(told-cut)), i18n.F("ms"))
	}
}

// throughProxy returns a proxy to the database that can be cut, and the DSN that leads through
// it.
func throughProxy(t *lab.Trial, dsn string) (way *testkit.Proxy, behind string) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatalf("the database's address: %w", err)
	}
	way = testkit.NewProxy(t, config.Addr)
	config.Addr = way.Addr()
	return way, config.FormatDSN()
}
