package experiments

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// clients are the client processes of a scenario about one key, and the observer of its
// lock store.
type clients struct {
	*lab.Trial
	setup    lab.Setup
	key      string
	all      []*lockclient.Client
	observer *testbed.Observer
}

// newClients returns a set without clients, on a key that nothing has used before.
func newClients(t *lab.Trial, setup lab.Setup) *clients {
	return &clients{Trial: t, setup: setup, key: "stock:" + strings.ToLower(rand.Text()[:8])}
}

// policyFor is a policy for clients that acquire a lock and sell nothing. A lease of 0 is
// the mechanism's own.
func policyFor(mechanism string, lease, wait time.Duration) voucher.Policy {
	p := voucher.DefaultPolicy()
	p.Lock, p.LockTTLMS, p.LockWaitMS = mechanism, lease.Milliseconds(), wait.Milliseconds()
	return p
}

// start starts a client on the shared servers that the mechanism needs, unless adjust
// changes that.
func (c *clients) start(name string, adjust ...func(*lockclient.Config)) *lockclient.Client {
	config := lockclient.Config{Name: name, Prefix: testbed.KeyPrefix, Watchdog: c.setup.Watchdog}
	if lock.StoreOf(c.setup.Policy.Lock) == lock.InRedis {
		config.RedisAddrs = []string{c.Redis().Addr()}
	}
	for _, change := range adjust {
		change(&config)
	}
	client := lockclient.Start(c, config)
	c.all = append(c.all, client)
	return client
}

const (
	// majorityNodes is how many nodes the locks multi and red use.
	majorityNodes = 3
	// nodeTimeout is long enough for nodes on a busy machine.
	nodeTimeout = 200 * time.Millisecond
	// maxAttempts is how often an acquisition is tried when a busy machine makes it fail.
	maxAttempts = 5
)

// useLockServers gives a client the servers that store its lock. With ZooKeeper the
// watchdog timeout is the session timeout.
func (c *clients) useLockServers(config *lockclient.Config) {
	switch lock.StoreOf(c.setup.Policy.Lock) {
	case lock.InNodes:
		config.NodeAddrs, config.NodeTimeout = c.Nodes(majorityNodes), nodeTimeout
	case lock.InMySQL:
		config.MySQLDSN = c.MariaDB().DSN
	case lock.InZooKeeper:
		config.ZooKeeperAddrs, config.ZKSession = []string{c.ZooKeeper().Addr()}, c.setup.Watchdog
	}
}

// longSession is for a client that is neither paused nor killed: its ZooKeeper session
// need not be short.
func longSession(config *lockclient.Config) { config.ZKSession = 0 }

// observe starts sampling the lock store.
func (c *clients) observe() {
	c.observer = c.Observe(c.Inspector(c.setup.Policy.Lock), c.key)
}

// request is an acquisition with the setup's mechanism, lease and wait limit.
func (c *clients) request(who string) lockclient.Acquire {
	return lockclient.Acquire{
		Lock: c.setup.Policy.Lock, Program: c.setup.Program, Key: c.key, Wait: c.setup.Policy.Wait(), TTL: c.setup.Policy.TTL(), Who: who,
	}
}

// warmUp makes a client open its connections, on a key that plays no part.
func (c *clients) warmUp(client *lockclient.Client) {
	first := c.request("")
	first.Key, first.TTL = c.warmKey(), time.Minute
	g := c.take(client, first)
	c.Must(client.Release(c.Context(), g.Lease))
}

func (c *clients) warmKey() string { return c.key + "/warm" }

// acquire acquires, and tries again if a server was too busy to answer in time: these
// scenarios are not about that.
func (c *clients) acquire(client *lockclient.Client, req lockclient.Acquire) (g lockclient.Grant, err error) {
	for range maxAttempts {
		if g, err = client.Acquire(c.Context(), req); !errors.Is(err, lock.ErrUnavailable) {
			break
		}
	}
	return g, err
}

// take acquires a lock that is to be had.
func (c *clients) take(client *lockclient.Client, req lockclient.Acquire) lockclient.Grant {
	g, err := c.acquire(client, req)
	c.Must(err)
	return g
}

// startTaking begins to wait for a lock. The returned function returns the grant.
func (c *clients) startTaking(client *lockclient.Client, req lockclient.Acquire) (granted func() lockclient.Grant) {
	var g lockclient.Grant
	wait := c.Go(func() { g = c.take(client, req) })
	return func() lockclient.Grant {
		wait()
		return g
	}
}

// release releases a lock. If the holder has lost it by then, the judge finds that.
func (c *clients) release(client *lockclient.Client, l lockclient.Lease) {
	err := client.Release(c.Context(), l)
	if !errors.Is(err, lock.ErrLost) && !errors.Is(err, lock.ErrExpired) && !errors.Is(err, lock.ErrNotHeld) {
		c.Must(err)
	}
}

// workUntilLoss works for d, or until the holder is told that its lock is lost. It returns when
// that was; 0: it was not told.
func (c *clients) workUntilLoss(client *lockclient.Client, l lockclient.Lease, d time.Duration) (told int64) {
	ctx, cancel := context.WithTimeout(c.Context(), d)
	defer cancel()
	told, err := client.AwaitLoss(ctx, l)
	if c.Context().Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		c.Must(err)
	}
	return told
}

// await waits until a client has recorded an event about the key.
func (c *clients) await(what string, cond func(eventlog.Event) bool) (found eventlog.Event) {
	c.Until(what, func() bool {
		for _, e := range c.events() {
			if cond(e) {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// acquiredBy matches the event that somebody was granted the lock.
func acquiredBy(who string) func(eventlog.Event) bool {
	return func(e eventlog.Event) bool { return e.Kind == eventlog.Acquired && e.Who == who }
}

// requestedBy matches the event that somebody asks for the lock.
func requestedBy(who string) func(eventlog.Event) bool {
	return func(e eventlog.Event) bool { return e.Kind == eventlog.Acquiring && e.Who == who }
}

// events returns the events about the key.
func (c *clients) events() []eventlog.Event {
	var found []eventlog.Event
	for _, client := range c.all {
		for _, e := range client.Events() {
			if e.Key == c.key {
				found = append(found, e)
			}
		}
	}
	return found
}

// evidence returns what is known now about the lock. A scenario that draws a witness does
// so before it calls Judge with the evidence: the judge's own picture then comes second.
func (c *clients) evidence() judge.Evidence {
	ev := judge.Evidence{LockStore: testbed.LockStore(c.setup.Policy.Lock)}
	if c.observer != nil {
		ev.Samples = c.observer.Samples()
	}
	ev.End = time.Now().UnixNano()
	ev.Events, ev.Faults = c.events(), c.Faults()
	return ev
}

// fullEvidence adds the clients' transactions, and their deaths and pauses.
func (c *clients) fullEvidence() judge.Evidence {
	ev := c.evidence()
	ev.Events = nil
	for _, client := range c.all {
		client.AddTo(&ev)
	}
	ev.Events = slices.DeleteFunc(ev.Events, func(e eventlog.Event) bool { return e.Key == c.warmKey() })
	return ev
}

// sorted returns events by time.
func sorted(events []eventlog.Event) []eventlog.Event {
	return slices.SortedStableFunc(slices.Values(events), func(a, b eventlog.Event) int { return cmp.Compare(a.At, b.At) })
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// sellers are clients that sell a voucher under its lock.
type sellers struct {
	*clients
	sale  *testbed.Sale
	where testkit.Database
}

// newSellers puts a voucher with that stock on sale.
func newSellers(t *lab.Trial, setup lab.Setup, stock int64) *sellers {
	where, db := t.StockDB()
	s := &sellers{clients: newClients(t, setup), sale: t.SaleIn(db, setup.Policy, stock), where: where}
	s.key = s.sale.Key(1)
	return s
}

// start starts a client that has the servers of its lock, and the database.
func (s *sellers) start(name string, adjust ...func(*lockclient.Config)) *lockclient.Client {
	database := func(config *lockclient.Config) {
		if config.MySQLDSN = s.where.DSN; s.where.Engine == "sqlite" {
			config.MySQLDSN, config.SQLite = "", s.where.DSN
		}
	}
	return s.clients.start(name, append([]func(*lockclient.Config){s.useLockServers, database}, adjust...)...)
}

// buy makes a buyer wait for the lock, read the stock, work, buy, and release the lock.
// Its program does not check whether it still has the lock.
func (s *sellers) buy(at *lockclient.Client, who string, user int64, work time.Duration) lockclient.Grant {
	g := s.take(at, s.request(who))
	_, err := at.Sell(s.Context(), lockclient.Sell{
		Voucher: s.sale.Voucher, User: user, Lease: g.Lease, IgnoreLoss: true,
		Mode: s.setup.Policy.Stock, Unique: true, Pause: work,
	})
	if !isRefusal(err) {
		s.Must(err)
	}
	_ = at.Release(s.Context(), g.Lease) // the event log records its result
	return g
}

// isRefusal reports whether the database refused a sale: that is an outcome, and no failure.
func isRefusal(err error) bool {
	return errors.Is(err, order.ErrStale) || errors.Is(err, order.ErrConflict) || errors.Is(err, voucher.ErrSoldOut)
}

// fullEvidence adds what the database holds.
func (s *sellers) fullEvidence() judge.Evidence {
	ev, sold := s.clients.fullEvidence(), s.sale.Evidence()
	ev.Audit, ev.Rows, ev.Database = sold.Audit, sold.Rows, sold.Database
	return ev
}
