package fulfil

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/database"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// sale is what an env has.
type sale struct {
	vouchers int   // default 1
	buckets  int   // of each voucher, default 1
	stock    int64 // of each voucher, default 1000
}

// env has vouchers that are sold by admission, in Redis and in a database.
type env struct {
	t        testing.TB
	server   *simulate.Redis // nil if it is a real one
	sleep    func(time.Duration)
	client   redis.UniversalClient
	db       *database.DB
	prefix   string
	vouchers []int64
	buckets  int
	// perEntry is how many orders accept puts into an entry. Default 7.
	perEntry int
	stock    int64

	mu       sync.Mutex
	accepted map[int64]contract.Accepted
	ids      atomic.Int64
	seqs     map[int]int64 // by bucket, if there are several
}

// bubble runs fn in virtual time, and bubbles does so for each case.
func bubble(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, fn)
}

func bubbles[C any](t *testing.T, cases map[string]C, fn func(t *testing.T, c C)) {
	t.Helper()
	t.Parallel()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { fn(t, c) }) })
	}
}

// inBubble tells a story in virtual time, with a Redis in this process and SQLite.
func inBubble(t *testing.T, of sale, story func(t *testing.T, s *env)) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		t.Cleanup(func() { simulate.Sleep(time.Minute) }) // last: a client may still sleep before it notices that it is closed
		server := simulate.NewRedis(t)
		s := openEnv(t, server.Client(t), testkit.SQLite(t), of)
		s.server = server
		story(t, s)
	})
}

func openDB(t testing.TB, where testkit.Database) *database.DB {
	t.Helper()
	c := database.Config{MySQL: where.DSN, LockWait: time.Second}
	if where.Engine == "sqlite" {
		c = database.Config{SQLite: where.DSN}
		empty, err := emptySQLite()
		if err = errors.Join(err, os.WriteFile(where.DSN, empty, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	db, err := openMigrated(t.Context(), c)
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// emptySQLite is a migrated database file without rows. Each test gets a copy.
var emptySQLite = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "fulfil")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "empty.db")
	db, err := openMigrated(context.Background(), database.Config{SQLite: file})
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil { // which writes everything into the one file
		return nil, err
	}
	return os.ReadFile(file)
})

func openMigrated(ctx context.Context, c database.Config) (*database.DB, error) {
	db, err := database.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	_, err = db.Migrate(ctx)
	return db, err
}

func openEnv(t testing.TB, client redis.UniversalClient, where testkit.Database, of sale) *env {
	t.Helper()
	s := &env{
		t: t, sleep: simulate.Sleep, client: client, db: openDB(t, where), prefix: testkit.KeyPrefix(t),
		buckets: cmp.Or(of.buckets, 1), stock: cmp.Or(of.stock, 1000), accepted: map[int64]contract.Accepted{}, seqs: map[int]int64{},
	}
	for n := range cmp.Or(of.vouchers, 1) {
		s.open(int64(n+1), time.Now().Add(time.Hour))
	}
	return s
}

// open creates a voucher whose sale has begun, in epoch 2.
func (s *env) open(id int64, end time.Time) {
	s.t.Helper()
	s.vouchers = append(s.vouchers, id)
	v := &voucher.Voucher{
		ID: id, Title: "a voucher", Stock: s.stock, InitialStock: s.stock,
		BeginAt: end.Add(-24 * time.Hour), EndAt: end, Policy: voucher.DefaultPolicy(), CreatedAt: time.Now(),
	}
	v.Policy.Flow = voucher.FlowAdmission
	if s.buckets > 1 {
		v.Policy.Buckets = s.buckets
	}
	s.must(s.db.Vouchers().CreateVoucher(s.t.Context(), v))
	opened, err := s.db.AdmissionStore().Open(s.t.Context(), id, 1)
	s.must(err)
	for b := range s.buckets {
		s.must(s.client.HSet(s.t.Context(), s.keysOf(id, b).Meta, ledger.FieldEpoch, opened.Epoch, ledger.FieldSeq, 0,
			ledger.FieldStock, s.stock/int64(s.buckets), ledger.FieldReturned, 0, ledger.FieldBegin, 0, ledger.FieldEnd, end.UnixMilli()).Err())
	}
}

func (s *env) keys(voucherID int64) ledger.Keys { return s.keysOf(voucherID, 0) }

func (s *env) keysOf(voucherID int64, bucket int) ledger.Keys {
	return ledger.KeysOf(s.prefix, voucherID, bucket)
}

func (s *env) must(err error) {
	s.t.Helper()
	fail.NowIf(s.t, err)
}

// until waits, in the env's time, until condition reports true.
func (s *env) until(what string, condition func() bool) {
	s.t.Helper()
	for began := time.Now(); !condition(); s.sleep(10 * time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			s.t.Fatalf("not within two minutes: %s", what)
		}
	}
}

// accept accepts orders of n new users of a voucher in one call of the gate's script.
func (s *env) accept(voucherID int64, n int) []contract.Accepted {
	s.t.Helper()
	all := make([]contract.Accepted, n)
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

// acceptEach accepts n orders, each in an entry of its own and in the bucket of its user, also those that the gate
// would refuse.
func (s *env) acceptEach(voucherID int64, n int) (all []contract.Accepted) {
	s.t.Helper()
	for range n {
		a := accept(voucherID, s.ids.Add(1))
		if s.buckets > 1 {
			a.Bucket = ledger.BucketOf(a.UserID, s.buckets)
			s.seqs[a.Bucket]++
			a.Seq = s.seqs[a.Bucket]
		}
		s.must(s.admit(a))
		all = append(all, a)
	}
	return all
}

func accept(voucherID, n int64) contract.Accepted {
	a := contract.Accepted{OrderID: 1000 + n, VoucherID: voucherID, UserID: n, At: time.Now(), Epoch: 2, Seq: n}
	if n%2 == 0 { // some clients send an idempotency key
		a.Key = order.KeyHash(-n)
	}
	return a
}

func (s *env) admit(a contract.Accepted) error {
	keys, ctx := s.keysOf(a.VoucherID, a.Bucket), context.Background()
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

func fields(a contract.Accepted) []any {
	return []any{
		ledger.EntryOrder, ledger.Reserved(a.OrderID, a.Key), ledger.EntryUser, a.UserID,
		ledger.EntryEpoch, a.Epoch, ledger.EntrySeq, a.Seq,
	}
}

// pendingAt lets a consumer read what is new in a stream, and again and again until it was delivered so many times.
func (s *env) pendingAt(st *stream, consumer string, count, deliveries int64) {
	s.t.Helper()
	s.must(newRedisStreams(s.client).ensureGroup(s.t.Context(), st))
	for from := ">"; deliveries > 0; from, deliveries = "0", deliveries-1 {
		s.must(s.client.XReadGroup(s.t.Context(), &redis.XReadGroupArgs{
			Group: ledger.Group, Consumer: consumer, Count: count, Streams: []string{st.keys.Orders, from}, Block: -1,
		}).Err())
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

// left returns the number of entries in the streams.
func (s *env) left() (n int64) {
	for _, id := range s.vouchers {
		for b := range s.buckets {
			entries, err := s.client.XLen(context.Background(), s.keysOf(id, b).Orders).Result()
			if err != nil {
				return -1
			}
			n += entries
		}
	}
	return n
}

func (s *env) waitUntilEmpty() {
	s.t.Helper()
	s.until("the streams are empty", func() bool { return s.left() == 0 })
}

// checkFinalState waits until the streams are empty and checks what must then be true: each accepted order is confirmed
// or rejected, and stock and reservations match the confirmed orders, in each bucket in Redis and in the database. It
// returns the number of rejected orders.
func (s *env) checkFinalState() (rejected int) {
	s.t.Helper()
	s.waitUntilEmpty()
	ctx := context.Background()
	confirmed, counts, seqs := map[*stream]map[string]string{}, map[int64]int64{}, map[*stream]int64{}
	streams := map[streamID]*stream{}
	for _, id := range s.vouchers {
		for b := range s.buckets {
			st := newStream(s.prefix, id, b)
			streams[st.id()], confirmed[st] = st, map[string]string{}
		}
	}
	for id, a := range s.accepted {
		o, err := s.db.Orders().Order(ctx, id)
		switch {
		case err != nil || o.UserID != a.UserID || o.VoucherID != a.VoucherID || o.Status == order.Confirmed && o.Key != a.Key:
			s.t.Errorf("accepted order %d is %+v, %v", id, o, err)
		case o.Status == order.Rejected:
			rejected++
		case o.Status == order.Confirmed:
			st := streams[newStream(s.prefix, a.VoucherID, a.Bucket).id()]
			confirmed[st][text(a.UserID)] = ledger.Reserved(id, a.Key)
			counts[a.VoucherID]++
			seqs[st] = max(seqs[st], a.Seq)
		default:
			s.t.Errorf("order %d is %s", id, o.Status)
		}
	}
	for _, id := range s.vouchers {
		n := counts[id]
		audit, err := s.db.Orders().Audit(ctx, id)
		if err != nil || audit != (order.Audit{InitialStock: s.stock, Stock: s.stock - n, Orders: n, DistinctUsers: n}) {
			s.t.Errorf("voucher %d: the database holds %+v, %v; %d are confirmed", id, audit, err, n)
		}
	}
	for st, users := range confirmed {
		s.checkStream(st, users)
		if s.buckets == 1 {
			continue
		}
		if state, err := s.db.AdmissionStore().EpochState(ctx, st.voucher); err != nil || state.Seq[st.bucket] != seqs[st] {
			s.t.Errorf("the database has %+v, %v; want seq %d in bucket %d", state, err, seqs[st], st.bucket)
		}
	}
	return rejected
}

// wantFinalState is checkFinalState, with so many rejected orders.
func (s *env) wantFinalState(rejected int) {
	s.t.Helper()
	fail.Unequal(s.t, s.checkFinalState(), rejected, "orders are rejected")
}

// checkStream compares what Redis has of a bucket with the confirmed orders.
func (s *env) checkStream(st *stream, confirmed map[string]string) {
	s.t.Helper()
	ctx := context.Background()
	meta, err := s.client.HGetAll(ctx, st.keys.Meta).Result()
	if want := s.stock/int64(s.buckets) - int64(len(confirmed)); err != nil || meta[ledger.FieldStock] != text(want) {
		s.t.Errorf("%s: %v, %v; %d are confirmed", st.keys.Meta, meta, err, len(confirmed))
	}
	fail.Unequal(s.t, cmp.Or(meta[ledger.FieldExtra], "0"), "0", "%s: orders of its entries beyond one each, of which there are none", st.keys.Meta)
	users, err := s.client.HGetAll(ctx, st.keys.Users).Result()
	if err != nil || fmt.Sprint(users) != fmt.Sprint(confirmed) {
		s.t.Errorf("%s: %v, %v; confirmed %v", st.keys.Users, users, err, confirmed)
	}
	if pending, err := s.client.XPending(ctx, st.keys.Orders, ledger.Group).Result(); err == nil && pending.Count != 0 {
		s.t.Errorf("%s: pending %+v", st.keys.Orders, pending)
	}
	s.until("all attempts are deleted", func() bool { return s.client.Exists(ctx, st.keys.Tries).Val() == 0 }) // a worker may be late
}

func text(n int64) string { return strconv.FormatInt(n, 10) }

// deadLetters returns the dead letters of a voucher's first bucket.
func (s *env) deadLetters(voucherID int64) []redis.XMessage {
	s.t.Helper()
	dead, err := s.client.XRange(s.t.Context(), s.keys(voucherID).Dead, "-", "+").Result()
	s.must(err)
	return dead
}

// wantDeadLetters compares the reasons of a voucher's dead letters.
func (s *env) wantDeadLetters(voucherID int64, reasons ...Reason) {
	s.t.Helper()
	var got []Reason
	for _, l := range s.deadLetters(voucherID) {
		got = append(got, Reason(l.Values[ledger.DeadReason].(string)))
	}
	fail.Unequal(s.t, fmt.Sprint(got), fmt.Sprint(reasons), "dead letters")
}

// makeEpochStale starts a new epoch of a voucher, so that orders accepted before are refused.
func (s *env) makeEpochStale(id int64) {
	s.t.Helper()
	closed, err := s.db.AdmissionStore().Close(s.t.Context(), id)
	s.must(err)
	_, err = s.db.AdmissionStore().Open(s.t.Context(), id, closed.Epoch)
	s.must(err)
}

// fakeStore wraps a store and replaces Persist or Reject.
type fakeStore struct {
	contract.AdmissionStore
	persist func(ctx context.Context, batch []contract.Accepted) ([]order.Status, error)
	reject  func(ctx context.Context, a contract.Accepted) (order.Status, error)
}

func (s *fakeStore) Persist(ctx context.Context, batch []contract.Accepted) ([]order.Status, error) {
	if s.persist == nil {
		return s.AdmissionStore.Persist(ctx, batch)
	}
	return s.persist(ctx, batch)
}

func (s *fakeStore) Reject(ctx context.Context, a contract.Accepted) (order.Status, error) {
	if s.reject == nil {
		return s.AdmissionStore.Reject(ctx, a)
	}
	return s.reject(ctx, a)
}
