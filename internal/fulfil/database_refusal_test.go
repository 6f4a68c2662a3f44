package fulfil

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/order"
	"seckill/internal/testkit"
)

// The database refuses every order for reasons of its own while orders are accepted. No order
// is rejected, and all are confirmed when the database takes orders again.
func TestDatabaseRefuses(t *testing.T) {
	for _, engine := range refusing {
		t.Run(engine.name, func(t *testing.T) {
			t.Parallel()
			quick := func(server *testkit.SQLServer, where testkit.Database) []testkit.Refusal {
				return slices.DeleteFunc(testkit.Refusals(server, where), func(r testkit.Refusal) bool { return !slices.Contains(engine.quick, r.Name) })
			}
			testRefusals(t, engine.start(t, testkit.SmallTablespace()...), quick, 1500*time.Millisecond, 4*time.Millisecond, 4*time.Millisecond)
		})
	}
}

// All refusals on both servers, each for 30 s. A full disk has a server of its own: the small tablespace that can be filled
// has room for the orders of one refusal, not of all.
func TestSoakDatabaseRefuses(t *testing.T) {
	testkit.Soak(t)
	full := func(server *testkit.SQLServer, where testkit.Database) []testkit.Refusal {
		all := testkit.Refusals(server, where)
		return all[len(all)-1:]
	}
	for _, engine := range refusing {
		t.Run(engine.name, func(t *testing.T) {
			const last, every = 30 * time.Second, 2 * time.Millisecond
			testRefusals(t, engine.start(t), testkit.Refusals, last, every, every)
			testRefusals(t, engine.start(t, testkit.SmallTablespace()...), full, last, every, every)
		})
	}
}

// The database refuses all orders of one voucher, because of its schema or because it does not have the voucher, and takes
// those of another one. None is rejected.
func TestDatabaseRefusesAVoucher(t *testing.T) {
	for _, engine := range refusing {
		t.Run(engine.name, func(t *testing.T) {
			t.Parallel()
			ofVoucher2 := func(server *testkit.SQLServer, where testkit.Database) []testkit.Refusal {
				return append(testkit.VoucherRefusals(server, where, 2), testkit.MissingVoucher(server, where, 2))
			}
			testRefusals(t, engine.start(t), ofVoucher2, 2*time.Second, 4*time.Millisecond, 200*time.Millisecond)
		})
	}
}

// refusing are the servers. quick lists the refusals of the quick test; the others behave the
// same on both servers.
var refusing = []struct {
	name  string
	start func(testkit.TB, ...string) *testkit.SQLServer
	quick []string
}{
	{"mariadb", testkit.NewMariaDB, []string{"password changed", "table renamed", "too many connections", "read-only"}},
	{"mysql", testkit.NewMySQL, []string{"read-only transactions", "offline", "disk full"}},
}

// A voucher that the database refuses, or does not have, holds up no other one, however many of its orders wait. All of
// them are confirmed once the database takes them.
func TestRefusedVoucherHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		perEntry int
		refusal  func(*testkit.SQLServer, testkit.Database, int64) testkit.Refusal
	}{
		"one order in an entry":            {1, firstVoucherRefusal},
		"several orders in an entry":       {64, firstVoucherRefusal},
		"no voucher, one order in each":    {1, testkit.MissingVoucher},
		"no voucher, several orders in it": {64, testkit.MissingVoucher},
		"locked, one order in each":        {1, testkit.LockedVoucher},
		"locked, several orders in it":     {64, testkit.LockedVoucher},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testkit.NewMariaDB(t)
			where := server.Account(t, server.Database(t))
			s := openEnv(t, clientOf(t, testkit.Redis(t).Addr()), where, 2, 1_000_000)
			s.perEntry = tc.perEntry
			watched := &errorCounter{AdmissionStore: s.db.AdmissionStore()}
			watched.clear()
			s.run(func(c *Config) { c.Store, c.BatchSize = watched, 100 })
			s.accept(2, 1)
			s.waitUntilEmpty() // the stream is read from now on, whether or not the database has the voucher
			refusal := tc.refusal(server, where, 2)
			end, err := refusal.Begin(t.Context())
			s.must(err)
			began := time.Now()
			const waiting, sold = 3000, 500
			s.accept(2, waiting)
			for n := range int64(4) {
				s.accept(1, sold)
				testkit.Until(t, "the orders of the other voucher are persisted", func() bool { return watched.written() >= 1+(n+1)*sold })
			}
			took := time.Since(began)
			time.Sleep(2*time.Second - took) // the time that the refusal lasts at least
			t.Logf("%d orders were refused %d times in %v; %d others were persisted after %v",
				waiting, watched.seen()[refusal.Number], time.Since(began).Round(time.Millisecond), 4*sold, took.Round(time.Millisecond))
			s.must(end(t.Context()))
			if n := s.checkFinalState(); n != 0 {
				t.Errorf("%d rejected", n)
			}
		})
	}
}

func firstVoucherRefusal(server *testkit.SQLServer, where testkit.Database, voucherID int64) testkit.Refusal {
	return testkit.VoucherRefusals(server, where, voucherID)[0]
}

// testRefusals sells two vouchers, with an order every so often for each, during refusals that last for a time.
func testRefusals(
	t *testing.T, server *testkit.SQLServer, refusals func(*testkit.SQLServer, testkit.Database) []testkit.Refusal, last time.Duration, every ...time.Duration,
) {
	where := server.Account(t, server.Database(t))
	s := openEnv(t, clientOf(t, testkit.Redis(t).Addr()), where, 2, 1_000_000)
	watched := &errorCounter{AdmissionStore: s.db.AdmissionStore()}
	change := func(c *Config) {
		c.Store, c.BatchSize, c.ClaimIdle, c.Log = watched, 100, time.Second, slog.New(slog.DiscardHandler)
		c.MaxBackoff, c.MaxFailures = 100*time.Millisecond, 5
	}
	s.run(change)
	s.run(change)

	// decided waits until some more orders were persisted: connections are open and in use.
	decided := func() {
		before := watched.written()
		testkit.Until(t, "orders that are persisted", func() bool { return watched.written() > before+10 })
	}
	flow := func(during func()) (accepted int) {
		before := len(s.accepted)
		quit := make(chan struct{})
		var buyers sync.WaitGroup
		for i, id := range s.vouchers {
			buyers.Go(func() {
				for tick := time.NewTicker(every[i]); ; {
					select {
					case <-quit:
						tick.Stop()
						return
					case <-tick.C:
						s.accept(id, 1)
					}
				}
			})
		}
		during()
		close(quit)
		buyers.Wait()
		return len(s.accepted) - before
	}
	var before int64
	for _, refusal := range refusals(server, where) {
		t.Run(refusal.Name, func(t *testing.T) {
			watched.clear()
			n := flow(func() {
				decided()
				end, err := refusal.Begin(t.Context())
				s.must(err)
				time.Sleep(last)
				s.must(end(t.Context()))
				decided() // orders keep arriving
			})
			began := time.Now()
			s.waitUntilEmpty()
			confirmed, rejected := s.sums()
			t.Logf("error %d for %v: of %d accepted orders %d are rejected; the server's errors were %v; all orders were decided after %v",
				refusal.Number, last, n, rejected-before, watched.seen(), time.Since(began).Round(time.Millisecond))
			if confirmed != int64(len(s.accepted)) || rejected != 0 {
				t.Errorf("%d are confirmed and %d rejected of %d", confirmed, rejected, len(s.accepted))
			}
			before = rejected
			if watched.seen()[refusal.Number] == 0 {
				t.Errorf("the server never answered with error %d", refusal.Number)
			}
		})
	}
}

// sums returns the numbers of confirmed and rejected orders in the database, and checks that
// stock and orders add up.
func (s *env) sums() (confirmed, rejected int64) {
	s.t.Helper()
	for _, id := range s.vouchers {
		audit, err := s.db.Orders().Audit(s.t.Context(), id)
		s.must(err)
		if !audit.Balanced() || audit.Stock != s.stock-audit.Orders {
			s.t.Errorf("voucher %d: %+v", id, audit)
		}
		n, err := s.db.Orders().Rejected(s.t.Context(), id)
		s.must(err)
		confirmed, rejected = confirmed+audit.Orders, rejected+n
	}
	return confirmed, rejected
}

// errorCounter is a store that counts the server's errors by number, and the orders that it wrote. That the server does
// not have a voucher has the number 0.
type errorCounter struct {
	order.AdmissionStore
	orders atomic.Int64
	mu     sync.Mutex
	count  map[uint16]int
}

func (n *errorCounter) clear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count = map[uint16]int{}
}

func (n *errorCounter) seen() map[uint16]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.count)
}

func (n *errorCounter) written() int64 { return n.orders.Load() }

func (n *errorCounter) Persist(ctx context.Context, batch []order.Accepted) ([]order.Status, error) {
	statuses, err := n.AdmissionStore.Persist(ctx, batch)
	n.orders.Add(int64(len(statuses)))
	e, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok && errors.Is(err, order.ErrVoucherMissing) {
		e, ok = &mysql.MySQLError{}, true
	}
	if ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.count[e.Number]++
	}
	return statuses, err
}
