package fulfil

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// splitEnv has one voucher whose stock is split into several buckets.
type splitEnv struct {
	*env
	buckets int
	part    int64 // of the stock, in each bucket
	seqs    []int64
	all     []order.Accepted
}

func openSplitEnv(t *testing.T, client redis.UniversalClient, buckets int, part int64) *splitEnv {
	t.Helper()
	s := &splitEnv{env: openEnv(t, client, testkit.MariaDB(t), 0, int64(buckets)*part), buckets: buckets, part: part, seqs: make([]int64, buckets)}
	v := &voucher.Voucher{
		ID: 1, Title: "a voucher", Stock: s.stock, InitialStock: s.stock,
		BeginAt: time.Now(), EndAt: time.Now().Add(time.Hour), Policy: voucher.DefaultPolicy(), CreatedAt: time.Now(),
	}
	v.Policy.Flow, v.Policy.Buckets = voucher.FlowAdmission, buckets
	s.must(s.db.Vouchers().CreateVoucher(t.Context(), v))
	opened, err := s.db.AdmissionStore().Open(t.Context(), 1, 1)
	s.must(err)
	for b := range buckets {
		s.must(client.HSet(t.Context(), s.keys(b).Meta, ledger.FieldEpoch, opened.Epoch, ledger.FieldSeq, 0, ledger.FieldStock, part, ledger.FieldReturned, 0).Err())
	}
	return s
}

func (s *splitEnv) keys(bucket int) ledger.Keys { return ledger.KeysOf(s.prefix, 1, bucket) }

// accept accepts orders of n new users, as the gate does.
func (s *splitEnv) accept(n int) {
	s.t.Helper()
	for range n {
		a := accept(1, s.ids.Add(1))
		a.Bucket = ledger.BucketOf(a.UserID, s.buckets)
		s.seqs[a.Bucket]++
		a.Seq = s.seqs[a.Bucket]
		s.must(s.admit(a))
		s.all = append(s.all, a)
	}
}

// inFlight returns the number of entries in the streams and of the pending ones.
func (s *splitEnv) inFlight() (entries, held int64) {
	s.t.Helper()
	for b := range s.buckets {
		entries += s.client.XLen(context.Background(), s.keys(b).Orders).Val()
		pending, err := s.client.XPending(context.Background(), s.keys(b).Orders, ledger.Group).Result()
		if err == nil { // otherwise there is no group yet
			held += pending.Count
		}
	}
	return entries, held
}

// checkFinalState waits until the streams are empty. Then each order must be confirmed, except
// the rejected ones, and each bucket must have its own stock, users and sequence number.
func (s *splitEnv) checkFinalState(rejected ...order.Accepted) {
	s.t.Helper()
	testkit.Until(s.t, "the streams are empty", func() bool { entries, held := s.inFlight(); return entries+held == 0 })
	want := map[int64]order.Status{}
	for _, a := range s.all {
		want[a.OrderID] = order.Confirmed
	}
	for _, a := range rejected {
		want[a.OrderID] = order.Rejected
	}
	users, seqs, confirmed := make([]map[string]string, s.buckets), make([]int64, s.buckets), int64(0)
	for b := range users {
		users[b] = map[string]string{}
	}
	for _, a := range s.all {
		o, err := s.db.Orders().Order(s.t.Context(), a.OrderID)
		if err != nil || o.Status != want[a.OrderID] {
			s.t.Errorf("order %+v is %s, %v", a, o.Status, err)
		}
		if want[a.OrderID] == order.Confirmed {
			users[a.Bucket][text(a.UserID)] = ledger.Reserved(a.OrderID, a.Key)
			seqs[a.Bucket] = max(seqs[a.Bucket], a.Seq)
			confirmed++
		}
	}
	for b := range s.buckets {
		got, err := s.client.HGetAll(s.t.Context(), s.keys(b).Users).Result()
		if err != nil || fmt.Sprint(got) != fmt.Sprint(users[b]) {
			s.t.Errorf("bucket %d: users %v, %v; confirmed %v", b, got, err, users[b])
		}
		if left, err := s.client.HGet(s.t.Context(), s.keys(b).Meta, ledger.FieldStock).Int64(); err != nil || left != s.part-int64(len(users[b])) {
			s.t.Errorf("bucket %d: %d left, %v; %d confirmed of %d", b, left, err, len(users[b]), s.part)
		}
		testkit.Until(s.t, "all attempts are deleted", func() bool {
			return s.client.Exists(s.t.Context(), newStream(s.prefix, 1, b).keys.Tries).Val() == 0
		})
	}
	standing, err := s.db.AdmissionStore().EpochState(s.t.Context(), 1)
	if err != nil || standing.Stock != s.stock-confirmed || fmt.Sprint(standing.Seq) != fmt.Sprint(seqs) {
		s.t.Errorf("the database has %+v, %v; want stock %d, seq %v", standing, err, s.stock-confirmed, seqs)
	}
}

// withSplitVoucher runs fn with a voucher in five buckets, in a single Redis and in a cluster.
func withSplitVoucher(t *testing.T, fn func(t *testing.T, s *splitEnv)) {
	t.Run("single", func(t *testing.T) { fn(t, openSplitEnv(t, clientOf(t, testkit.Redis(t).Addr()), 5, 100)) })
	t.Run("cluster", func(t *testing.T) {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testkit.RedisCluster(t), MaxRedirects: 3})
		t.Cleanup(func() { _ = client.Close() })
		fn(t, openSplitEnv(t, client, 5, 100))
	})
}

func TestSplitVoucher(t *testing.T) {
	t.Parallel()
	withSplitVoucher(t, func(t *testing.T, s *splitEnv) {
		s.accept(60)
		f, _ := s.run(nil)
		s.run(nil)
		s.accept(60)
		for _, a := range s.all[100:] {
			if err := f.Await(t.Context(), order.Order{ID: a.OrderID, VoucherID: 1}, 10*time.Second); err != nil {
				t.Error(err)
			}
			if o, err := s.db.Orders().Order(t.Context(), a.OrderID); err != nil || o.Status != order.Confirmed {
				t.Errorf("after Await the order is %s, %v", o.Status, err)
			}
		}
		s.checkFinalState()
	})
}

// A rejected order becomes a dead letter in its own bucket, and its reservation is returned
// there. The other buckets are not affected.
func TestSplitVoucherRejects(t *testing.T) {
	t.Parallel()
	withSplitVoucher(t, func(t *testing.T, s *splitEnv) {
		s.accept(50)
		refused := s.all[7]
		bad := &fakeStore{AdmissionStore: s.db.AdmissionStore()}
		bad.persist = func(ctx context.Context, batch []order.Accepted) ([]order.Status, error) {
			for _, a := range batch {
				if a.OrderID == refused.OrderID {
					return nil, fmt.Errorf("%w: injected by the test", order.ErrStaleEpoch)
				}
			}
			return bad.AdmissionStore.Persist(ctx, batch)
		}
		// An entry of another bucket is malformed, and one of a third bucket has only its user.
		malformed := s.replaceEntry(refused.Bucket, func(a order.Accepted) []any { return []any{ledger.EntryOrder, a.OrderID} })
		nameless := s.replaceEntry((refused.Bucket+1)%s.buckets, func(a order.Accepted) []any { return []any{ledger.EntryUser, a.UserID} })
		s.run(func(c *Config) { c.Store, c.Workers = bad, 1 })
		s.checkFinalState(refused, malformed, nameless)
		reasons := map[int][]string{}
		for b := range s.buckets {
			for _, l := range s.client.XRange(t.Context(), s.keys(b).Dead, "-", "+").Val() {
				reasons[b] = append(reasons[b], fmt.Sprint(l.Values[ledger.DeadReason]))
			}
			if back := s.client.HGet(t.Context(), s.keys(b).Meta, ledger.FieldReturned).Val(); back != fmt.Sprint(len(reasons[b])) {
				t.Errorf("bucket %d: %s returned, dead letters %v", b, back, reasons[b])
			}
		}
		if len(reasons[refused.Bucket]) != 1 || reasons[refused.Bucket][0] != string(StaleEpoch) ||
			len(reasons[malformed.Bucket]) != 1 || len(reasons[nameless.Bucket]) != 1 || len(reasons) != 3 {
			t.Errorf("%v", reasons)
		}
	})
}

// replaceEntry accepts an order in the bucket after other, the last of its stream, and replaces
// its entry.
func (s *splitEnv) replaceEntry(other int, entry func(a order.Accepted) []any) order.Accepted {
	s.t.Helper()
	for s.accept(1); s.all[len(s.all)-1].Bucket != (other+1)%s.buckets; {
		s.accept(1)
	}
	a := s.all[len(s.all)-1]
	orders := s.keys(a.Bucket).Orders
	last, err := s.client.XRevRangeN(s.t.Context(), orders, "+", "-", 1).Result()
	s.must(err)
	s.must(s.client.XDel(s.t.Context(), orders, last[0].ID).Err())
	s.must(s.client.XAdd(s.t.Context(), &redis.XAddArgs{Stream: orders, Values: entry(a)}).Err())
	return a
}

// A consumer dies with pending entries of all buckets.
func TestSplitVoucherIsClaimed(t *testing.T) {
	t.Parallel()
	withSplitVoucher(t, func(t *testing.T, s *splitEnv) {
		s.accept(50)
		in := newRedisStreams(s.client)
		for _, st := range streamsOf(s.prefix, order.AdmissionVoucher{VoucherID: 1, Buckets: s.buckets}) {
			s.must(in.ensureGroup(t.Context(), st))
			_, err := in.readNew(t.Context(), "dead-1", []*stream{st}, 100, time.Second)
			s.must(err)
		}
		if _, held := s.inFlight(); held != 50 {
			t.Fatalf("%d pending", held)
		}
		s.run(func(c *Config) { c.ClaimIdle = 100 * time.Millisecond })
		s.checkFinalState()
	})
}

// A worker takes one batch from all buckets of a voucher together, not one from each: pending
// entries are withheld from other workers.
func TestBatchOfManyStreams(t *testing.T) {
	t.Parallel()
	const size = 40
	s := openSplitEnv(t, clientOf(t, testkit.Redis(t).Addr()), 8, 200)
	s.accept(1000)
	most, batches := int64(0), 0
	counting := &fakeStore{AdmissionStore: s.db.AdmissionStore()}
	counting.persist = func(ctx context.Context, batch []order.Accepted) ([]order.Status, error) {
		// The first read takes as much of each stream as if it were the only one.
		if entries, held := s.inFlight(); entries <= 1000-8*size && entries > 100 {
			most = max(most, held)
			batches++
		}
		return counting.AdmissionStore.Persist(ctx, batch)
	}
	s.run(func(c *Config) { c.Store, c.Workers, c.BatchSize = counting, 1, size })
	s.checkFinalState()
	if most > size || most < size/2 || batches < 10 {
		t.Errorf("up to %d pending, in %d batches of %d", most, batches, size)
	}
}

// A restarted Redis does not know the scripts, and a broken stream does not affect the
// acknowledgement of the others.
func TestAcknowledgeInSeveralStreams(t *testing.T) {
	t.Parallel()
	s := openSplitEnv(t, clientOf(t, testkit.NewRedis(t).Addr()), 3, 100)
	s.accept(30)
	in := newRedisStreams(s.client)
	var parts [][]entry
	for b, st := range streamsOf(s.prefix, order.AdmissionVoucher{VoucherID: 1, Buckets: 3}) {
		s.must(in.ensureGroup(t.Context(), st))
		part, err := in.readNew(t.Context(), "me-1", []*stream{st}, 100, time.Second)
		s.must(err)
		parts = append(parts, part)
		if b == 1 {
			s.must(s.client.Set(t.Context(), st.keys.Orders, "no stream", 0).Err())
		}
	}
	errs := in.acknowledge(t.Context(), parts)
	if errs[0] != nil || errs[1] == nil || !strings.Contains(errs[1].Error(), "acknowledge") || errs[2] != nil {
		t.Errorf("%v", errs)
	}
	for _, b := range []int{0, 2} {
		if n := s.client.XLen(t.Context(), s.keys(b).Orders).Val(); n != 0 {
			t.Errorf("%d left in bucket %d", n, b)
		}
	}
}

// Names of processes that begin alike are told apart.
func TestProcessOfAConsumer(t *testing.T) {
	t.Parallel()
	for consumer, want := range map[string]bool{
		"api-1-1": true, "api-1-20": true, "api-10-1": false, "api-1": false, "api-2-1": false, "other": false,
	} {
		if (processOf(consumer) == "api-1") != want {
			t.Errorf("the process of %s is %s", consumer, processOf(consumer))
		}
	}
}
