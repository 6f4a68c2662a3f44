package experiments

import (
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/lab"
	"seckill/internal/lab/actor"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/stage"
	"seckill/internal/testkit"
)

// The connections break in the middle of the work, which then goes on for brokenWork,
// or until the holder is told. The rows are renewed several times meanwhile.
const (
	brokenAfter = 200 * time.Millisecond
	brokenWork  = 1200 * time.Millisecond
	rowLease    = 1200 * time.Millisecond
)

// connections are the experiments about locks that a connection holds.
func connections() lab.Set {
	const group = "A lock that hangs on a connection"
	return lab.Set{
		{
			ID: "get-lock-connection-lost", Group: group, Title: "The connection breaks, and the database frees the lock at once",
			Sources: []lab.Source{
				{Document: "001", Section: "1. A lock in the database?"},
				{Document: "001", Section: "What a distributed lock has to fulfil"},
			},
			Hypothesis: "When the connection that holds GET_LOCK breaks, the server lets the next one in at once, while the holder works on and learns of it only when it looks.",
			Arrangement: "A process holds the lock and works; a second process waits in the server's queue. All connections between the first one and the database are cut, and new ones " +
				"are possible at once. The work goes on until its holder is told, or for 1.2 s.",
			Why: "The lock belongs to the connection and lives exactly as long as that does on the server's side. A network device that forgets it, an administrator's KILL or a restart " +
				"ends it, and the server gives the lock to the next in its queue in the same moment. Nothing tells the first holder: a connection that " +
				"nobody uses is not seen to break. This mechanism asks once a second whether the lock is still its own, so that for up to that long two holders work side by side. " +
				"A lock that is data in the database, with a lease of its own, does not hang on how one reaches it.",
			Seen:    "after a broken connection two holders work for up to a second",
			Cure:    "A row with a lease, which outlives the connection (row-survives-connection-loss); or a guarded write, which a late holder cannot make.",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.Overlaps},
			Partner: "row-survives-connection-loss",
			Needs:   []stage.Server{stage.Database},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("mysql-get-lock", 0, 5*time.Second), Watchdog: rowLease},
			Scene:   connectionsBreak,
		},
		{
			ID: "row-survives-connection-loss", Group: group, Title: "A row with a lease outlives the connection",
			Sources: []lab.Source{
				{Document: "001", Section: "1. A lock in the database?"},
				{Document: "001", Section: "What a distributed lock has to fulfil"},
			},
			Hypothesis:  "A lock that is a row with a lease stays with its holder when all its connections break, because any other connection renews it.",
			Arrangement: "The same cut, second process and work, under a row whose lease of 1.2 s is renewed.",
			Why: "The row was committed when it was inserted; which connection did it plays no part any more. The next renewal finds its connection gone, the driver opens another one, and the " +
				"UPDATE that names the holder's own id goes through well before the lease ends. The second process asks again and again and finds the row taken. " +
				"The price stands on the other side: the server no longer notices a holder that died. Its row stays until the lease ends, and a holder that is cut off for longer than " +
				"that has to be told, and is, before the next one can get in.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.Overlaps},
			Partner: "get-lock-connection-lost",
			Needs:   []stage.Server{stage.Database},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("mysql-row-expiry", 0, 5*time.Second), Watchdog: rowLease},
			Scene:   connectionsBreak,
		},
	}
}

// connectionsBreak cuts a working holder off from the database for a moment, while
// somebody waits.
func connectionsBreak(p *lab.Play, with lab.Setup) {
	c := gather(p, with)
	dsn := p.MariaDB().DSN
	way, behind := proxied(p, dsn)
	holder := c.hire("shop-1", func(config *actor.Config) { config.MySQLDSN = behind })
	other := c.hire("shop-2", func(config *actor.Config) { config.MySQLDSN = dsn })
	c.observe()

	const first, next = "buyer 1", "buyer 2"
	g, err := holder.Acquire(p.Context(), c.ask(first))
	c.must(err)
	var later actor.Grant
	waits := p.Go(func() {
		var err error
		later, err = other.Acquire(p.Context(), c.ask(next))
		c.must(err)
	})
	c.await("the next one to ask", askedBy(next))
	p.Pause(brokenAfter)
	cut := time.Now().UnixNano()
	way.Cut()
	p.Fault("shop-1's connections to MariaDB are cut")()
	way.Reset()
	told := c.work(holder, g.Lease, brokenWork)
	c.letGo(holder, g.Lease)
	waits()
	p.Pause(brokenWork / 10)
	c.letGo(other, later.Lease)

	evidence := c.evidence()
	p.Judge(evidence)
	p.Measure("the next one got in after the cut", millis(time.Duration(later.At-cut)), "ms")
	if told.ToldAt > 0 {
		p.Measure("the holder was told after the cut", millis(time.Duration(told.ToldAt-cut)), "ms")
	}
}

// proxied is a way to the database that can be cut, and how to go by it.
func proxied(p *lab.Play, dsn string) (way *testkit.Proxy, behind string) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		p.Fatalf("the database's address: %w", err)
	}
	way = testkit.NewProxy(p, config.Addr)
	config.Addr = way.Addr()
	return way, config.FormatDSN()
}
