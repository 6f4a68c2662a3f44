package experiments

import (
	"errors"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/actor"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/stage"
	"seckill/internal/lock"
)

// shop is a company that sells a voucher, under its lock.
type shop struct {
	*company
	sale *stage.Sale
}

// openShop puts so many vouchers on sale.
func openShop(p *lab.Play, with lab.Setup, stock int64) *shop {
	s := &shop{company: gather(p, with), sale: p.Sale(with.Policy, stock, nil)}
	s.key = s.sale.Key(1)
	return s
}

// hire starts an actor that has the servers of its lock, and the database.
func (s *shop) hire(name string, adjust ...func(*actor.Config)) *actor.Actor {
	counter := func(config *actor.Config) { config.MySQLDSN = s.MariaDB().DSN }
	return s.company.hire(name, append([]func(*actor.Config){s.serve, counter}, adjust...)...)
}

// steady is an actor to whom nothing is done: its ZooKeeper session need not be short.
func steady(config *actor.Config) { config.ZKSession = 0 }

// serve gives an actor the servers that its lock is kept in. Where that is ZooKeeper,
// the watchdog's timeout is the session's.
func (c *company) serve(config *actor.Config) {
	switch stage.LockStore(c.with.Policy.Lock) {
	case stage.LockStore("red"):
		config.NodeAddrs, config.NodeTimeout = c.Nodes(redNodes), nodeTimeout
	case stage.LockStore("mysql-row"):
		config.MySQLDSN = c.MariaDB().DSN
	case stage.LockStore("zk-node"):
		config.ZooKeeperAddrs, config.ZKSession = []string{c.ZooKeeper().Addr()}, c.with.Watchdog
	}
}

const (
	// redNodes is how many nodes a majority is one of.
	redNodes = 3
	// nodeTimeout is long enough for nodes on a machine that is busy otherwise.
	nodeTimeout = 200 * time.Millisecond
	// entries is how often an acquisition is tried that such a machine spoils.
	entries = 5
)

// enter acquires, and once more where a server was too busy to answer in time: that is
// not what these scenes are about.
func (c *company) enter(at *actor.Actor, asks actor.Acquire) (g actor.Grant, err error) {
	for range entries {
		if g, err = at.Acquire(c.Context(), asks); !errors.Is(err, lock.ErrUnavailable) {
			break
		}
	}
	return g, err
}

// buy has a buyer wait for the lock, look at the stock, work, buy, and give the lock
// back. Its program does not ask whether it still has it.
func (s *shop) buy(at *actor.Actor, who string, user int64, work time.Duration) actor.Grant {
	g, err := s.enter(at, s.ask(who))
	s.must(err)
	_, err = at.Sell(s.Context(), actor.Sell{
		Voucher: s.sale.Voucher, User: user, Lease: g.Lease, Deaf: true,
		Mode: s.with.Policy.Stock, Unique: true, Pause: work,
	})
	s.must(err)
	_ = at.Release(s.Context(), g.Lease) // what it says stands in the trace
	return g
}

// whole is the evidence with the transactions, and with what was done to processes.
func (c *company) whole() judge.Evidence {
	ev := c.evidence()
	ev.Events = nil
	for _, a := range c.actors {
		a.AddTo(&ev)
	}
	return ev
}

// whole is the evidence with what the database holds.
func (s *shop) whole() judge.Evidence {
	ev, sold := s.company.whole(), s.sale.Evidence()
	ev.Audit, ev.Rows, ev.Database = sold.Audit, sold.Rows, sold.Database
	return ev
}
