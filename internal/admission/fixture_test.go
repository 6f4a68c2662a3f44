package admission

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/lock/local"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// consumer takes entries out of the streams.
type consumer struct {
	tb     testing.TB
	client redis.UniversalClient
	store  *store
	keys   ledger.Keys
	others []ledger.Keys // those of the buckets from 1 on
}

var scripts = ledger.NewConsumers(func() int64 { return ledger.MaxNumber }) // of any generation

// giveBack rejects the only order of an entry.
func (c *consumer) giveBack(ctx context.Context, of ledger.Keys, entryID string, a contract.Accepted) error {
	_, err := scripts.DeadLetter(ctx, c.client, &ledger.Rejection{
		Keys: of, Channel: of.Meta + ":done", Entry: entryID, User: a.UserID, Order: a.OrderID, Key: a.Key,
	})
	return err
}

// acknowledge takes an entry with some orders out of its stream.
func (c *consumer) acknowledge(ctx context.Context, of ledger.Keys, entryID string, orders int) error {
	a := ledger.NewAcknowledgement(of, of.Meta+":done")
	a.Add(entryID, orders)
	return scripts.Acknowledge(ctx, c.client, a)
}

// buckets returns the keys of all buckets.
func (c *consumer) buckets() []ledger.Keys { return append([]ledger.Keys{c.keys}, c.others...) }

// take persists or, with reject, rejects the orders in the streams, and returns how many there were.
func (c *consumer) take(ctx context.Context, reject bool) (sum int, err error) {
	for bucket, keys := range c.buckets() {
		n, err := c.takeFrom(ctx, bucket, keys, reject)
		if sum += n; err != nil {
			return sum, err
		}
	}
	return sum, nil
}

func (c *consumer) takeFrom(ctx context.Context, bucket int, of ledger.Keys, reject bool) (int, error) {
	entries, err := c.client.XRangeN(ctx, of.Orders, "-", "+", 1000).Result()
	if err != nil {
		return 0, err
	}
	taken := 0
	for _, e := range entries {
		orders, rejected := ledger.ParseEntry(e.ID, e.Values), 0
		for i := range orders {
			a := &orders[i].Order
			if orders[i].Err != nil || a.Seq == 0 {
				c.tb.Errorf("entry %v: %v", e, orders[i].Err)
			}
			if a.VoucherID, a.Bucket = c.store.voucher.ID, bucket; reject || c.store.persist(*a) != nil {
				rejected++
			}
		}
		switch {
		case rejected == 0:
			err = c.acknowledge(ctx, of, e.ID, len(orders))
		case len(orders) > 1: // its orders come again, one by one
			err = scripts.Split(ctx, c.client, of, e.ID)
		default:
			a := orders[0].Order
			c.store.mu.Lock()
			c.store.rejected[a.OrderID] = order.Order{ID: a.OrderID, UserID: a.UserID, Status: order.Rejected}
			c.store.mu.Unlock()
			err = c.giveBack(ctx, of, e.ID, a)
		}
		if err != nil {
			return taken, err
		}
		if rejected == 0 || len(orders) == 1 {
			taken += len(orders)
		}
	}
	return taken, nil
}

// run takes entries until the returned function is called, which takes the rest.
func (c *consumer) run() (finish func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			_, _ = c.take(ctx, false)
			select {
			case <-time.After(2 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
		c.takeAll()
	}
}

func (c *consumer) takeAll() {
	for {
		n, err := c.take(context.Background(), false)
		if err != nil {
			c.tb.Errorf("consumer: %v", err)
		}
		if n == 0 {
			return
		}
	}
}

// fixture is a voucher, its database and Redis.
type fixture struct {
	*consumer
	t       testing.TB
	options *redis.Options
	prefix  string
	config  Config
}

func newFixture(t testing.TB, options *redis.Options, stock int64) *fixture {
	t.Helper()
	s := &fixture{t: t, options: options, prefix: testkit.KeyPrefix(t)}
	sh := newStore(stock)
	client := dial(t, options)
	s.consumer = &consumer{tb: t, client: client, store: sh, keys: ledger.KeysOf(s.prefix, sh.voucher.ID, 0)}
	s.config = Config{
		Client: client, Store: sh, Workers: workers{complete: true}, Locker: local.New(), Log: slog.New(slog.DiscardHandler), Prefix: s.prefix,
		Generation: func() (int64, error) { return 0, nil },
		// A busy machine is no outage. A test in which a server hangs sets its own limits.
		AttemptTimeout: 10 * time.Second, DecisionTimeout: 30 * time.Second, OpenWait: 5 * time.Second,
	}
	return s
}

// split splits the voucher into buckets. Call it before the first gate is created.
func (s *fixture) split(buckets int) {
	s.store.split(buckets)
	for bucket := 1; bucket < buckets; bucket++ {
		s.others = append(s.others, ledger.KeysOf(s.config.Prefix, s.store.voucher.ID, bucket))
	}
}

// at returns options for a server at an address.
func at(addr string) *redis.Options { return &redis.Options{Addr: addr} }

// dial returns a client that repeats no command.
func dial(t testing.TB, options *redis.Options) *redis.Client {
	o := *options
	o.ContextTimeoutEnabled, o.MaxRetries, o.DialerRetries = true, -1, 1
	o.PoolSize = 10_000 // after as many failures to dial, go-redis does not try for a second
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	client := redis.NewClient(&o)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// gate returns a gate, which stands for one process. change may be nil.
func (s *fixture) gate(change func(*Config)) *Gate {
	s.t.Helper()
	c := s.config
	if change != nil {
		change(&c)
	}
	if c.Workers == nil {
		c.Workers = workers{complete: true}
	}
	g, err := New(c)
	fail.NowIf(s.t, err)
	s.t.Cleanup(func() { _ = g.Close() })
	return g
}

// buy sends an order of a user under an id.
func (s *fixture) buy(g *Gate, user, id int64) error {
	return g.Admit(context.Background(), &s.store.voucher, order.Order{ID: id, UserID: user, VoucherID: s.store.voucher.ID})
}

// find looks for an order as [order.Service] does: at the gate, and then in the database.
func (s *fixture) find(ctx context.Context, g *Gate, user, id int64) error {
	_, err := g.Lookup(ctx, user, id)
	if errors.Is(err, order.ErrNotFound) && s.store.has(user, id) {
		return nil
	}
	return err
}

// balanced checks that nothing was lost, sold twice or oversold, once all entries are taken.
func (s *fixture) balanced(g *Gate, sold int64) {
	s.t.Helper()
	a, err := g.Audit(context.Background(), s.store.voucher.ID)
	fail.NowIf(s.t, err, "Audit")
	st, orders := s.store.epochState, int64(len(s.store.orders))
	if a.Pending != 0 || a.Stock != st.Stock || a.Stock+orders != s.store.voucher.InitialStock || orders != sold {
		s.t.Errorf("gate %+v, database %+v with %d orders of %d, want %d sold", a, st, orders, s.store.voucher.InitialStock, sold)
	}
}

// batchOf is a batch for admit.lua that does not expire.
func batchOf(keys ledger.Keys, known ledger.Known, orders ...order.Order) *ledger.Batch {
	b := ledger.NewBatch(len(orders))
	b.Keys, b.Known, b.MaxPending, b.Expiry = keys, known, 1000, time.Now().Add(time.Hour).UnixMilli()
	for _, o := range orders {
		b.Add(&o.UserID, &o.ID, o.Key)
	}
	return b
}

// workers stands for the workers: every order is final at once, with an error.
type workers struct {
	err      error
	watched  []contract.AdmissionVoucher
	complete bool
}

func (w workers) Await(context.Context, order.Order, time.Duration) error { return w.err }

func (w workers) Watch(context.Context, contract.AdmissionVoucher) error { return nil }

func (w workers) Wake(int64, int) {}

func (w workers) Watched() ([]contract.AdmissionVoucher, bool) {
	return slices.Clone(w.watched), w.complete
}

// inBubble plays a test in virtual time, over a Redis in this process.
func inBubble(t *testing.T, stock int64, play func(t *testing.T, s *fixture, server *simulate.Redis)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := simulate.NewRedis(t)
		play(t, newFixture(t, server.Options(), stock), server)
	})
}

// through returns a client whose connections fail as the link does.
func through(t testing.TB, link *simulate.Link, server *simulate.Redis) *redis.Client {
	o := server.Options()
	o.Dialer = link.Over(server.Dial)
	return dial(t, o)
}

// until waits, in a bubble, until something has come about.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for began := time.Now(); !done(); simulate.Sleep(5 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("not after a minute: %s", what)
		}
	}
}
