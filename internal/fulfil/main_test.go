package fulfil

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/database"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

func TestMain(m *testing.M) {
	if os.Getenv(childRedis) != "" {
		os.Exit(child())
	}
	testkit.Main(m)
}

// env has vouchers that are sold by admission, in Redis and in a database.
type env struct {
	t        *testing.T
	client   redis.UniversalClient
	db       *database.DB
	prefix   string
	vouchers []int64
	// perEntry is how many orders accept puts into an entry. Default 7.
	perEntry int
	stock    int64

	mu       sync.Mutex
	accepted map[int64]order.Accepted
	ids      atomic.Int64
}

// withServers runs fn with real servers, and with miniredis and SQLite.
func withServers(t *testing.T, fn func(t *testing.T, s *env)) {
	t.Run("real", func(t *testing.T) { fn(t, newEnv(t, 1, 1000)) })
	t.Run("embedded", func(t *testing.T) {
		server := miniredis.RunT(t)
		where := testkit.SQLite(t)
		fn(t, openEnv(t, clientOf(t, server.Addr()), where, 1, 1000))
	})
}

// newEnv returns an env on the servers that the tests share.
func newEnv(t *testing.T, vouchers int, stock int64) *env {
	return openEnv(t, clientOf(t, testkit.Redis(t).Addr()), testkit.MariaDB(t), vouchers, stock)
}

// clientOf returns a client with the service's options.
func clientOf(t testing.TB, addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func openDB(t testing.TB, where testkit.Database) *database.DB {
	t.Helper()
	c := database.Config{MySQL: where.DSN}
	if where.Engine == "sqlite" {
		c = database.Config{SQLite: where.DSN}
	}
	db, err := database.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

func openEnv(t *testing.T, client redis.UniversalClient, where testkit.Database, vouchers int, stock int64) *env {
	t.Helper()
	s := &env{t: t, client: client, db: openDB(t, where), prefix: testkit.KeyPrefix(t), stock: stock, accepted: map[int64]order.Accepted{}}
	for n := range vouchers {
		s.vouchers = append(s.vouchers, int64(n+1))
		s.open(int64(n + 1))
	}
	return s
}

// open creates a voucher on sale, in epoch 2.
func (s *env) open(id int64) {
	s.t.Helper()
	s.openUntil(id, time.Now().Add(time.Hour))
}

func (s *env) openUntil(id int64, end time.Time) {
	s.t.Helper()
	now := time.Now()
	v := &voucher.Voucher{
		ID: id, Title: "a voucher", Stock: s.stock, InitialStock: s.stock,
		BeginAt: end.Add(-24 * time.Hour), EndAt: end, Policy: voucher.DefaultPolicy(), CreatedAt: now,
	}
	v.Policy.Flow = voucher.FlowAdmission
	s.must(s.db.Vouchers().CreateVoucher(s.t.Context(), v))
	now2, err := s.db.AdmissionStore().Open(s.t.Context(), id, 1)
	s.must(err)
	s.must(s.client.HSet(s.t.Context(), s.keys(id).Meta, ledger.FieldEpoch, now2.Epoch, ledger.FieldSeq, 0, ledger.FieldStock, now2.Stock, ledger.FieldReturned, 0,
		ledger.FieldBegin, 0, ledger.FieldEnd, end.UnixMilli()).Err())
}

func (s *env) keys(voucherID int64) ledger.Keys { return ledger.KeysOf(s.prefix, voucherID, 0) }

func (s *env) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// accept accepts orders of n new users of a voucher in one call of the gate's script.
func (s *env) accept(voucherID int64, n int) []order.Accepted {
	s.t.Helper()
	all := make([]order.Accepted, n)
	call := ledger.NewBatch(n)
	call.Keys, call.MaxPending, call.PerEntry = s.keys(voucherID), 1<<40, cmp.Or(s.perEntry, 7)
	call.Known.Epoch, call.Expiry = 2, time.Now().Add(time.Hour).UnixMilli()
	for i := range all {
		all[i] = accept(voucherID, s.ids.Add(1))
		call.Add(&all[i].UserID, &all[i].OrderID, all[i].Key)
	}
	d, err := ledger.New(s.client, ledger.Options{}).Admit(s.t.Context(), call)
	if want := strings.Repeat(string(ledger.Accepted), n); err != nil || d.Outcomes != want {
		s.t.Fatalf("%+v, %v", d, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range all {
		s.accepted[a.OrderID] = a
	}
	return all
}

// acceptAnyway accepts orders that the gate would refuse, each in an entry of its own.
func (s *env) acceptAnyway(voucherID int64, n int) {
	s.t.Helper()
	for range n {
		s.must(s.admit(accept(voucherID, s.ids.Add(1))))
	}
}

func accept(voucherID, n int64) order.Accepted {
	a := order.Accepted{OrderID: 1000 + n, VoucherID: voucherID, UserID: n, At: time.Now(), Epoch: 2, Seq: n}
	if n%2 == 0 { // some clients send an idempotency key
		a.Key = order.KeyHash(-n)
	}
	return a
}

func (s *env) admit(a order.Accepted) error {
	keys, ctx := ledger.KeysOf(s.prefix, a.VoucherID, a.Bucket), context.Background()
	both := s.client.TxPipeline()
	both.HSet(ctx, keys.Users, a.UserID, ledger.Reserved(a.OrderID, a.Key))
	both.HIncrBy(ctx, keys.Meta, ledger.FieldStock, -1)
	both.HIncrBy(ctx, keys.Meta, ledger.FieldSeq, 1)
	both.XAdd(ctx, &redis.XAddArgs{Stream: keys.Orders, Values: fields(a)})
	if _, err := both.Exec(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted[a.OrderID] = a
	return nil
}

func fields(a order.Accepted) []any {
	return []any{
		ledger.EntryOrder, ledger.Reserved(a.OrderID, a.Key), ledger.EntryUser, a.UserID,
		ledger.EntryEpoch, a.Epoch, ledger.EntrySeq, a.Seq,
	}
}

// config returns a configuration with short intervals.
func (s *env) config(change func(*Config)) Config {
	c := Config{
		Client: s.client, Store: s.db.AdmissionStore(), Orders: s.db.Orders(), Log: slog.New(slog.NewTextHandler(s.t.Output(), nil)),
		Prefix: s.prefix, Workers: 2, Block: 20 * time.Millisecond, DiscoverEvery: 50 * time.Millisecond,
		MinBackoff: 5 * time.Millisecond, MaxBackoff: 100 * time.Millisecond,
	}
	if change != nil {
		change(&c)
	}
	return c
}

// run starts a Fulfiller. It stops when stop is called, or at the end of the test.
func (s *env) run(change func(*Config)) (f *Fulfiller, stop func()) {
	s.t.Helper()
	f, err := New(s.config(change))
	s.must(err)
	return f, background(s.t, f)
}

func background(t testing.TB, f *Fulfiller) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return stop
}

// waitUntilEmpty waits until the streams are empty.
func (s *env) waitUntilEmpty() {
	s.t.Helper()
	testkit.Until(s.t, "the streams are empty", func() bool {
		for _, id := range s.vouchers {
			if n, err := s.client.XLen(context.Background(), s.keys(id).Orders).Result(); err != nil || n > 0 {
				return false
			}
		}
		return true
	})
}

// checkFinalState waits until the streams are empty and checks what must then be true: each
// accepted order is confirmed or rejected, and stock and reservations match the confirmed
// orders, in Redis and in the database. It returns the number of rejected orders.
func (s *env) checkFinalState() (rejected int) {
	s.t.Helper()
	s.waitUntilEmpty()
	ctx := context.Background()
	confirmed := map[int64]map[string]string{}
	for id, a := range s.accepted {
		o, err := s.db.Orders().Order(ctx, id)
		switch {
		case err != nil || o.UserID != a.UserID || o.VoucherID != a.VoucherID || o.Status == order.Confirmed && o.Key != a.Key:
			s.t.Errorf("accepted order %d is %+v, %v", id, o, err)
		case o.Status == order.Rejected:
			rejected++
		case o.Status == order.Confirmed:
			if confirmed[a.VoucherID] == nil {
				confirmed[a.VoucherID] = map[string]string{}
			}
			confirmed[a.VoucherID][text(a.UserID)] = ledger.Reserved(id, a.Key)
		default:
			s.t.Errorf("order %d is %s", id, o.Status)
		}
	}
	for _, id := range s.vouchers {
		n := int64(len(confirmed[id]))
		audit, err := s.db.Orders().Audit(ctx, id)
		if err != nil || audit != (order.Audit{InitialStock: s.stock, Stock: s.stock - n, Orders: n, DistinctUsers: n}) {
			s.t.Errorf("voucher %d: the database holds %+v, %v; %d are confirmed", id, audit, err, n)
		}
		left, err := s.client.HGet(ctx, s.keys(id).Meta, ledger.FieldStock).Int64()
		if err != nil || left != s.stock-n {
			s.t.Errorf("voucher %d: Redis has %d left, %v; %d are confirmed", id, left, err, n)
		}
		users, err := s.client.HGetAll(ctx, s.keys(id).Users).Result()
		if err != nil || fmt.Sprint(users) != fmt.Sprint(confirmed[id]) && len(users)+len(confirmed[id]) > 0 {
			s.t.Errorf("voucher %d: users %v, %v; confirmed %v", id, users, err, confirmed[id])
		}
		pending, err := s.client.XPending(ctx, s.keys(id).Orders, ledger.Group).Result()
		if err != nil || pending.Count != 0 {
			s.t.Errorf("voucher %d: pending %+v, %v", id, pending, err)
		}
		if extra := s.client.HGet(ctx, s.keys(id).Meta, ledger.FieldExtra).Val(); extra != "" && extra != "0" {
			s.t.Errorf("voucher %d: its entries have %s orders beyond one each, and there are none", id, extra)
		}
		testkit.Until(s.t, "all attempts are deleted", func() bool { // a worker may be late
			return s.client.Exists(ctx, newStream(s.prefix, id, 0).keys.Tries).Val() == 0
		})
	}
	return rejected
}

func text(n int64) string { return strconv.FormatInt(n, 10) }

// deadLetters returns the dead letters of a voucher.
func (s *env) deadLetters(voucherID int64) []redis.XMessage {
	s.t.Helper()
	dead, err := s.client.XRange(s.t.Context(), s.keys(voucherID).Dead, "-", "+").Result()
	s.must(err)
	return dead
}

// fakeStore wraps a store and replaces Persist or Reject.
type fakeStore struct {
	order.AdmissionStore
	persist func(ctx context.Context, batch []order.Accepted) ([]order.Status, error)
	reject  func(ctx context.Context, a order.Accepted) (order.Status, error)
}

func (s *fakeStore) Persist(ctx context.Context, batch []order.Accepted) ([]order.Status, error) {
	if s.persist == nil {
		return s.AdmissionStore.Persist(ctx, batch)
	}
	return s.persist(ctx, batch)
}

func (s *fakeStore) Reject(ctx context.Context, a order.Accepted) (order.Status, error) {
	if s.reject == nil {
		return s.AdmissionStore.Reject(ctx, a)
	}
	return s.reject(ctx, a)
}
