package order_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// stepLog records what the service did, in order.
type stepLog struct{ all []string }

func (l *stepLog) add(format string, args ...any) {
	l.all = append(l.all, fmt.Sprintf(format, args...))
}

// fakeStore is an order.Store that holds one voucher's row, with READ COMMITTED reads and writes that become visible at
// the commit.
type fakeStore struct {
	*stepLog
	stock      int64
	version    int64
	fence      uint64
	orders     map[int64]order.Order
	audit      order.Audit
	commit     error  // the error of a commit that was carried out
	lookup     error  // the error of Order
	flush      error  // the error of DurableOrder, for an order that Order finds
	before     func() // called before a transaction begins
	collisions int    // how many times Transact still rolls back and repeats its closure
	committed  bool   // it has committed before it repeats
	revision   int64  // of the voucher
	phantom    bool   // a row that nobody can read is in the way of every insert
}

func (m *fakeStore) Transact(ctx context.Context, fn func(context.Context, order.Tx) error) error {
	if m.before != nil {
		m.before()
	}
	m.add("begin")
	tx := &fakeTx{m: m}
	for m.collisions > 0 {
		m.collisions--
		attempt := &fakeTx{m: m}
		if err := fn(ctx, attempt); err != nil {
			return err
		}
		if m.committed {
			attempt.commit()
		}
		m.add("rollback")
	}
	if err := cmp.Or(fn(ctx, tx), ctx.Err()); err != nil {
		m.add("rollback")
		return err
	}
	tx.commit()
	m.add("commit")
	return m.commit
}

func (t *fakeTx) commit() {
	for _, write := range t.writes {
		write()
	}
}

func (m *fakeStore) Order(_ context.Context, id int64) (order.Order, error) {
	if m.lookup != nil {
		return order.Order{}, m.lookup
	}
	if o, ok := m.orders[id]; ok {
		return o, nil
	}
	return order.Order{}, order.ErrNotFound
}

func (m *fakeStore) DurableOrder(ctx context.Context, id int64) (order.Order, error) {
	o, err := m.Order(ctx, id)
	if err == nil && m.flush != nil {
		return order.Order{}, m.flush
	}
	return o, err
}

func (m *fakeStore) Ordered(ctx context.Context, voucherID, userID int64) (bool, error) {
	if m.lookup != nil {
		return false, m.lookup
	}
	return (&fakeTx{m: m}).Ordered(ctx, voucherID, userID)
}

func (m *fakeStore) OrderUnderKey(_ context.Context, voucherID, userID int64, key order.KeyHash) (order.Order, error) {
	if m.lookup != nil {
		return order.Order{}, m.lookup
	}
	for _, o := range m.orders {
		if o.VoucherID == voucherID && o.UserID == userID && o.Key == key {
			return o, nil
		}
	}
	return order.Order{}, order.ErrNotFound
}

func (m *fakeStore) OrdersOf(_ context.Context, userID, before int64, limit int) ([]order.Order, error) {
	return m.list(func(o order.Order) bool { return o.UserID == userID && o.ID < before }, limit), nil
}

func (m *fakeStore) OrdersOfVoucher(_ context.Context, voucherID, before int64, limit int) ([]order.Order, error) {
	return m.list(func(o order.Order) bool { return o.VoucherID == voucherID && o.ID < before }, limit), nil
}

func (m *fakeStore) list(wanted func(order.Order) bool, limit int) (found []order.Order) {
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(m.orders))) {
		if o := m.orders[id]; wanted(o) && len(found) < limit {
			found = append(found, o)
		}
	}
	return found
}

func (m *fakeStore) PlaceGrouped(ctx context.Context, o order.Order, revision int64) (attempts int, err error) {
	m.add("group at revision %d", revision)
	err = m.Transact(ctx, func(ctx context.Context, tx order.Tx) error {
		attempts++
		tx.AtRevision(revision)
		if err := tx.Decrement(ctx, o.VoucherID); err != nil {
			return err
		}
		return tx.Insert(ctx, o, true)
	})
	return attempts, err
}

func (m *fakeStore) Audit(context.Context, int64) (order.Audit, error) { return m.audit, nil }

type fakeTx struct {
	m        *fakeStore
	writes   []func()
	revision int64
}

func (t *fakeTx) AtRevision(revision int64) { t.revision = revision }

func (t *fakeTx) write(name string, fn func()) {
	t.m.add("%s", name)
	t.writes = append(t.writes, fn)
}

func (t *fakeTx) Flush(context.Context) error { t.m.add("flush"); return nil }

func (t *fakeTx) Ordered(_ context.Context, voucherID, userID int64) (bool, error) {
	t.m.add("ordered?")
	for _, o := range t.m.orders {
		if o.UserID == userID && o.VoucherID == voucherID {
			return true, nil
		}
	}
	return false, nil
}

func (t *fakeTx) StockOf(context.Context, int64) (stock, version int64, err error) {
	t.m.add("stock?")
	return t.m.stock, t.m.version, nil
}

func (t *fakeTx) Decrement(context.Context, int64) error {
	if t.m.revision != t.revision {
		return voucher.ErrChanged
	}
	if t.m.stock <= 0 {
		return voucher.ErrSoldOut
	}
	t.write("decrement", func() { t.m.stock-- })
	return nil
}

func (t *fakeTx) SetStock(_ context.Context, _, stock int64) error {
	t.write(fmt.Sprintf("set stock %d", stock), func() { t.m.stock = stock })
	return nil
}

func (t *fakeTx) DecrementVersion(_ context.Context, _, version int64) error {
	if t.m.version != version {
		return order.ErrConflict
	}
	t.write("decrement version", func() { t.m.stock--; t.m.version++ })
	return nil
}

func (t *fakeTx) DecrementFenced(_ context.Context, _ int64, token uint64) error {
	if token < t.m.fence {
		return order.ErrStale
	}
	t.write(fmt.Sprintf("decrement fenced %d", token), func() { t.m.stock--; t.m.fence = token })
	return nil
}

func (t *fakeTx) DecrementRow(ctx context.Context, id, _ int64) error { return t.Decrement(ctx, id) }

func (t *fakeTx) TakeUnit(ctx context.Context, id, _ int64) error { return t.Decrement(ctx, id) }

func (t *fakeTx) Insert(_ context.Context, o order.Order, unique bool) error {
	for _, other := range t.m.orders {
		if other.ID == o.ID || unique && other.UserID == o.UserID {
			return order.ErrAlreadyOrdered
		}
	}
	if t.m.phantom {
		return order.ErrAlreadyOrdered
	}
	t.write("insert", func() { t.m.orders[o.ID] = o })
	return nil
}

// fakeLocker is a lock.Locker with one lock. It records how it is called.
type fakeLocker struct {
	*stepLog
	taken   atomic.Bool
	token   uint64
	release error
	wait    func() // called before the lock is acquired
	last    *lock.Held
	opts    lock.Options
	key     string
}

func (l *fakeLocker) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if !l.taken.CompareAndSwap(false, true) {
		return nil, &lock.NotAcquiredError{Key: key, Holder: "other", TTL: time.Second}
	}
	if l.wait != nil {
		l.wait()
	}
	l.add("acquire")
	l.opts, l.key = opts, key
	l.last = lock.NewHeld(ctx, lock.Grant{
		Key: key, Owner: "me", Token: l.token,
		Release: func(ctx context.Context) error {
			if ctx.Err() != nil {
				l.add("release on an ended context")
			}
			l.add("release")
			l.taken.Store(false)
			return l.release
		},
		Stop: func() { l.add("stop") },
	})
	return l.last, nil
}

// lockers returns the same locker under every name.
type lockers struct{ locker lock.Locker }

func (s lockers) Locker(string) (lock.Locker, error) { return s.locker, nil }

// fakeVouchers is an order.Vouchers with one voucher.
type fakeVouchers struct {
	v       voucher.Voucher
	before  func() // called before the voucher is loaded
	err     error
	newer   func(old *voucher.Voucher) (*voucher.Voucher, error)
	soldOut atomic.Int64
}

func (c *fakeVouchers) Voucher(_ context.Context, id int64) (*voucher.Voucher, error) {
	if c.before != nil {
		c.before()
	}
	if id != c.v.ID {
		return nil, voucher.ErrNotFound
	}
	return &c.v, c.err
}

func (c *fakeVouchers) Newer(_ context.Context, old *voucher.Voucher) (*voucher.Voucher, error) {
	if c.newer == nil {
		return nil, voucher.ErrBusy
	}
	return c.newer(old)
}

func (c *fakeVouchers) SoldOut(int64) { c.soldOut.Add(1) }

// counter generates the ids 1, 2, 3 …
type counter struct{ n atomic.Int64 }

func (c *counter) NextID(context.Context) (int64, error) { return c.n.Add(1), nil }

// fixture is a service over fakes.
type fixture struct {
	*order.Service
	steps    *stepLog
	store    *fakeStore
	lock     *fakeLocker
	vouchers *fakeVouchers
	now      time.Time
}

var begin = time.Date(2026, 11, 11, 20, 0, 0, 0, time.UTC)

func newFixture(t *testing.T, change func(*voucher.Policy)) *fixture {
	t.Helper()
	steps := &stepLog{}
	s := &fixture{
		steps: steps,
		store: &fakeStore{stepLog: steps, stock: 10, orders: map[int64]order.Order{}},
		lock:  &fakeLocker{stepLog: steps},
		vouchers: &fakeVouchers{v: voucher.Voucher{
			ID: 7, Stock: 10, InitialStock: 10, BeginAt: begin, EndAt: begin.Add(time.Hour),
			Policy: voucher.DefaultPolicy(),
		}},
		now: begin,
	}
	if change != nil {
		change(&s.vouchers.v.Policy)
	}
	s.configure(t, order.Config{IDs: &counter{}, Lab: true})
	return s
}

// configure makes the service with the fakes that c leaves out.
func (s *fixture) configure(t *testing.T, c order.Config) {
	t.Helper()
	c.Store, c.Vouchers, c.Lockers = s.store, s.vouchers, lockers{s.lock}
	c.Now, c.Log = func() time.Time { return s.now }, slog.New(slog.DiscardHandler)
	svc, err := order.NewService(c)
	fail.NowIf(t, err)
	s.Service = svc
}

func (s *fixture) order(t *testing.T) (order.Order, error) {
	t.Helper()
	return s.Place(t.Context(), order.Request{VoucherID: 7, UserID: 42})
}
