package admission_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission"
	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/database"
	"seckill/internal/fulfil"
	"seckill/internal/lock/local"
	"seckill/internal/order"
	"seckill/internal/reconcile"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// shop is a process that sells vouchers that ask for payment, under both flows. Its orders are placed, paid, cancelled,
// expired and refunded by hand.
type shop struct {
	t         *testing.T
	client    *redis.Client
	db        *database.DB
	prefix    string
	lifecycle *database.Lifecycle
	gate      *admission.Gate
	returns   *admission.Returner
	late      *admission.LateMoney
	ids       *atomic.Int64
	// stopWorkers stops the workers of this process; s.work starts others.
	stopWorkers func()
}

// newShop starts a process on a database, with Redis of its own.
func newShop(t *testing.T, where testkit.Database) *shop {
	t.Helper()
	db, err := database.Open(t.Context(), configOf(where))
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = db.Close() })
	_, err = db.Migrate(t.Context())
	fail.NowIf(t, err)
	client := redis.NewClient(&redis.Options{Addr: testkit.Redis(t).Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	s := &shop{t: t, client: client, db: db, prefix: testkit.KeyPrefix(t), lifecycle: db.Lifecycle(), ids: &atomic.Int64{}}
	s.ids.Store(1000)
	s.start()
	return s
}

func configOf(where testkit.Database) database.Config {
	if where.Engine == "sqlite" {
		return database.Config{SQLite: where.DSN}
	}
	return database.Config{MySQL: where.DSN}
}

// start starts the gate, the workers, what returns stock and what decides about late money, as another process would.
func (s *shop) start() {
	t, store, fulfiller := s.t, s.db.AdmissionStore(), s.fulfiller()
	gate, err := admission.New(admission.Config{
		Client: s.client, Store: store, Workers: fulfiller, Locker: local.New(), Log: slog.New(slog.DiscardHandler), Prefix: s.prefix,
		AttemptTimeout: 10 * time.Second, DecisionTimeout: 30 * time.Second, OpenWait: 5 * time.Second, // a busy machine is no outage
	})
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = gate.Close() })
	s.gate, s.returns, s.late = gate, gate.Returner(store), gate.LateMoney(store)
	s.work(fulfiller)
}

func (s *shop) fulfiller() *fulfil.Fulfiller {
	s.t.Helper()
	f, err := fulfil.New(fulfil.Config{
		Client: s.client, Store: s.db.AdmissionStore(), Orders: s.db.Orders(), Log: slog.New(slog.DiscardHandler), Prefix: s.prefix,
		Block: 20 * time.Millisecond,
	})
	fail.NowIf(s.t, err)
	return f
}

// work starts workers.
func (s *shop) work(f *fulfil.Fulfiller) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	s.stopWorkers = func() { cancel(); running.Wait() }
	s.t.Cleanup(s.stopWorkers)
}

const (
	lockedVoucher, admittedVoucher = 1, 2
	cents                          = 990
)

// create puts a voucher on sale that asks for payment.
func (s *shop) create(id, stock int64, buckets int) *voucher.Voucher {
	s.t.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	v := &voucher.Voucher{
		ID: id, Title: "a voucher", PriceCents: cents, Stock: stock, InitialStock: stock, PayWithin: time.Hour,
		BeginAt: now.Add(-time.Hour), EndAt: now.Add(time.Hour), Policy: voucher.DefaultPolicy(), CreatedAt: now,
	}
	if buckets > 0 {
		v.Policy.Flow, v.Policy.Buckets = voucher.FlowAdmission, buckets
	}
	fail.NowIf(s.t, s.db.Vouchers().CreateVoucher(s.t.Context(), v))
	if buckets > 0 {
		fail.NowIf(s.t, s.gate.Open(s.t.Context(), v)) // on a busy machine the first order may not wait so long
	}
	return v
}

// place places an order and waits until it is in the database.
func (s *shop) place(ctx context.Context, v *voucher.Voucher, user int64) (int64, error) {
	o := order.Order{ID: s.ids.Add(1), VoucherID: v.ID, UserID: user, CreatedAt: time.Now()}
	if v.Policy.Flow == voucher.FlowLocked {
		o.Status, o.PayBy, o.AmountCents = order.Unpaid, time.Now().Add(v.PayWithin), v.PriceCents
		return o.ID, s.db.Orders().Transact(ctx, func(ctx context.Context, tx order.Tx) error {
			if err := tx.Decrement(ctx, v.ID); err != nil {
				return err
			}
			return tx.Insert(ctx, o, true)
		})
	}
	if err := s.gate.Admit(ctx, v, o); err != nil {
		return 0, err
	}
	for {
		_, err := s.db.Orders().Order(ctx, o.ID)
		if !errors.Is(err, order.ErrNotFound) {
			return o.ID, err
		}
		time.Sleep(time.Millisecond) // bounded by the test's own end
	}
}

// bought places an order that is accepted.
func (s *shop) bought(v *voucher.Voucher, user int64) int64 {
	s.t.Helper()
	id, err := s.place(s.t.Context(), v, user)
	fail.NowIf(s.t, err)
	return id
}

func (s *shop) cancel(id int64) {
	s.t.Helper()
	fail.NowIf(s.t, fail.Of(s.lifecycle.Cancel(s.t.Context(), id)))
}

// loseAll has Redis lose everything.
func (s *shop) loseAll() {
	if all := s.client.Keys(s.t.Context(), s.prefix+"*").Val(); len(all) > 0 {
		s.client.Del(s.t.Context(), all...)
	}
}

// returned tells Redis of all stock that was given back.
func (s *shop) returned() {
	s.t.Helper()
	testkit.Until(s.t, "all returns have arrived", func() bool {
		_, failed := s.returns.Round(s.t.Context()) // Redis may be too slow, on a busy machine
		due, _, err := s.db.AdmissionStore().Returns(s.t.Context(), contract.Return{}, 100)
		return failed == nil && err == nil && len(due) == 0
	})
}

// acknowledged waits until Redis has no entry of an order that is in the database: in between, both count it.
func (s *shop) acknowledged(v *voucher.Voucher) {
	s.t.Helper()
	testkit.Until(s.t, "all entries are acknowledged", func() bool {
		a, err := s.gate.Audit(s.t.Context(), v.ID)
		return err == nil && a.Pending == 0
	})
}

// balanced compares Redis with the database, and the database with itself.
func (s *shop) balanced(v *voucher.Voucher) order.Audit {
	s.t.Helper()
	if v.Policy.Flow == voucher.FlowAdmission {
		s.acknowledged(v)
	}
	a, err := s.db.Orders().Audit(s.t.Context(), v.ID)
	fail.NowIf(s.t, err)
	if !a.Balanced() {
		s.t.Errorf("voucher %d: %+v does not balance: drift %d", v.ID, a, a.Drift())
	}
	if v.Policy.Flow == voucher.FlowLocked {
		return a
	}
	gate, err := s.gate.Audit(s.t.Context(), v.ID)
	fail.NowIf(s.t, err)
	a.Gate = &gate
	if !a.Balanced() || a.Returning() != 0 || gate.Stock != a.Stock {
		s.t.Errorf("voucher %d: %+v with %+v does not balance: %d unaccounted, %d returning", v.ID, a, gate, a.Unaccounted(), a.Returning())
	}
	r := reconcile.New(reconcile.Config{Client: s.client, Prefix: s.prefix, Vouchers: s.db.AdmissionStore(), Orders: s.db.Orders(), Pause: 10 * time.Millisecond})
	report, err := r.Report(s.t.Context(), []contract.AdmissionVoucher{{VoucherID: v.ID, Buckets: v.Policy.BucketCount()}}, false)
	if err != nil || !report.Balanced {
		s.t.Errorf("reconcile: %+v, %v", report, err)
	}
	return a
}

func TestStockReturnsToItsBucket(t *testing.T) {
	t.Parallel()
	s := newShop(t, testkit.SQLite(t))
	v := s.create(admittedVoucher, 4, 2)
	orders := map[int64]int64{} // by user
	for user := range int64(4) {
		id := s.bought(v, user+1)
		orders[user+1] = id
	}
	fail.NowUnless(t, fail.Of(s.place(t.Context(), v, 5)), voucher.ErrSoldOut, "a fifth order of four")
	for user := range int64(2) {
		o, err := s.lifecycle.Cancel(t.Context(), orders[user+1])
		if err != nil || o.Status != order.Cancelled {
			t.Fatalf("%+v, %v", o, err)
		}
	}
	s.acknowledged(v)
	// Until Redis is told, the audit knows what is on its way.
	a, err := s.db.Orders().Audit(t.Context(), v.ID)
	fail.NowIf(t, err)
	gate, err := s.gate.Audit(t.Context(), v.ID)
	fail.NowIf(t, err)
	if a.Gate = &gate; a.Returning() != 2 || a.Unaccounted() != 0 || !a.Balanced() {
		t.Errorf("on its way: %+v, %d returning, %d unaccounted", a, a.Returning(), a.Unaccounted())
	}
	s.returned()
	if a := s.balanced(v); a.Gate.Stock != 2 || a.Orders != 2 {
		t.Errorf("%+v", a)
	}
	// The same users may order again, and Redis says that nothing else is left.
	for user := range int64(2) {
		testkit.Until(t, "the voucher is on sale again", func() bool {
			id, err := s.place(t.Context(), v, user+1)
			if err != nil && !errors.Is(err, voucher.ErrSoldOut) {
				t.Fatal(err)
			}
			orders[user+1] = id
			return err == nil
		})
	}
	fail.Unless(t, fail.Of(s.place(t.Context(), v, 5)), voucher.ErrSoldOut, "a fifth order of four")
	s.balanced(v)
}

// Redis refuses, for good, what it is told of more buckets than are read at once. The stock of another voucher, which
// comes after them, is on sale again all the same.
func TestReturnsPassBucketsThatFail(t *testing.T) {
	t.Parallel()
	s := newShop(t, testkit.SQLite(t))
	broken := int64(0)
	for id := range int64(4) {
		v := s.create(10+id, voucher.MaxBuckets, voucher.MaxBuckets)
		for bucket := range v.Policy.Buckets {
			broken++
			fail.NowIf(t, s.client.Set(t.Context(), ledger.KeysOf(s.prefix, v.ID, bucket).Meta, "no hash", 0).Err())
			_, err := s.db.Pools()["writers"].ExecContext(t.Context(), `INSERT INTO returned_orders (order_id, voucher_id, user_id, bucket, epoch)
				SELECT ?, id, ?, ?, admission_epoch FROM vouchers WHERE id = ?`, broken, broken, bucket, v.ID)
			fail.NowIf(t, err)
		}
	}
	if _, more, err := s.db.AdmissionStore().Returns(t.Context(), contract.Return{}, admission.ReturnsPerPage); err != nil || !more {
		t.Fatalf("%d buckets fit into a page, %v: this proves nothing", broken, err)
	}
	v := s.create(20, 1, 1)
	id := s.bought(v, 7)
	s.acknowledged(v)
	s.cancel(id)
	told, err := s.returns.Round(t.Context())
	if told != 1 || err == nil {
		t.Errorf("%d buckets were told, %v; want one, and why the others were not", told, err)
	}
	fail.Unequal(t, s.balanced(v).Gate.Stock, 1)
}

// A return that is repeated, or that arrives after the voucher was reopened, adds nothing to the stock a second time.
// If the user has ordered again meanwhile, the newer reservation stays.
func TestReturnIsCountedOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t, testkit.SQLite(t))
	v := s.create(admittedVoucher, 2, 1)
	id := s.bought(v, 7)
	s.cancel(id)
	due, _, err := s.db.AdmissionStore().Returns(t.Context(), contract.Return{}, 10)
	if err != nil || len(due) != 1 || due[0].Total != 1 || len(due[0].Orders) != 1 || due[0].Orders[0].UserID != 7 {
		t.Fatalf("due: %+v, %v", due, err)
	}
	late := due[0]
	server, keys := ledger.New(s.client, ledger.Options{}), ledger.KeysOf(s.prefix, v.ID, 0)
	for want := int64(1); want >= 0; want-- {
		if got, err := server.Return(t.Context(), keys, late); err != nil || got.Verdict != ledger.Decided || got.Amount != want {
			t.Errorf("%+v, %v; want %d", got, err, want)
		}
	}
	again := s.bought(v, 7)
	got, err := server.Return(t.Context(), keys, late)
	if held := s.client.HGet(t.Context(), keys.Users, "7").Val(); err != nil || got.Amount != 0 || held != fmt.Sprint(again) {
		t.Errorf("%+v, %v; user 7 holds %q, want %d", got, err, held, again)
	}
	s.returned()
	s.balanced(v)

	// The voucher is rebuilt: the database's stock has all that was given back.
	s.cancel(again)
	_, err = s.db.AdmissionStore().Close(t.Context(), v.ID)
	fail.NowIf(t, err)
	s.gate.Check(t.Context())
	fail.NowIf(t, s.gate.Open(t.Context(), v))
	if got, err := server.Return(t.Context(), keys, late); err != nil || got.Verdict != ledger.Closed {
		t.Errorf("a return of an epoch that is over: %+v, %v", got, err)
	}
	s.returned()
	fail.Unequal(t, s.balanced(v).Gate.Stock, 2)
}

// A unit that was given back is on sale again in every process, also in those that have told buyers that it is sold
// out. docs/http-api.md names the time.
func TestSoldOutIsLiftedInEveryProcess(t *testing.T) {
	s := newShop(t, testkit.MariaDB(t))
	v := s.create(admittedVoucher, 2, 2)
	other := *s
	other.start()
	fail.NowIf(t, other.gate.Open(t.Context(), v))
	var ids []int64
	for user := range int64(2) {
		id := s.bought(v, user+1)
		ids = append(ids, id)
	}
	for _, process := range []*shop{s, &other} {
		for range 3 { // the later ones are refused from memory
			fail.NowUnless(t, fail.Of(process.place(t.Context(), v, 3)), voucher.ErrSoldOut, "a third order of two")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.returns.Run(ctx) }) // in one of the processes
	defer func() { cancel(); running.Wait() }()
	for i, process := range []*shop{s, &other} {
		s.cancel(ids[i])
		watch := testkit.StartStopwatch()
		testkit.Until(t, "the voucher is on sale again", func() bool {
			_, err := process.place(t.Context(), v, int64(i)+3)
			if err != nil && !errors.Is(err, voucher.ErrSoldOut) {
				t.Fatal(err)
			}
			return err == nil
		})
		t.Logf("on sale again after %v", watch.Stop())
	}
	s.returned()
	s.balanced(v)
}
