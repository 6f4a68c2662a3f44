package fulfil

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/admkey"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// split is a shop with one voucher, whose stock is in several buckets.
type split struct {
	*shop
	buckets int
	part    int64 // of the stock, in each bucket
	seqs    []int64
	all     []order.Accepted
}

func openSplit(t *testing.T, client redis.UniversalClient, buckets int, part int64) *split {
	t.Helper()
	s := &split{shop: openShop(t, client, testkit.MariaDB(t), 0, int64(buckets)*part), buckets: buckets, part: part, seqs: make([]int64, buckets)}
	v := &voucher.Voucher{
		ID: 1, Title: "a voucher", Stock: s.stock, InitialStock: s.stock,
		BeginAt: time.Now(), EndAt: time.Now().Add(time.Hour), Policy: voucher.DefaultPolicy(), CreatedAt: time.Now(),
	}
	v.Policy.Flow, v.Policy.Buckets = voucher.FlowAdmission, buckets
	s.must(s.db.Vouchers().CreateVoucher(t.Context(), v))
	opened, err := s.db.Shelf().Open(t.Context(), 1, 1)
	s.must(err)
	for b := range buckets {
		s.must(client.HSet(t.Context(), s.keys(b).Meta, admkey.Epoch, opened.Epoch, admkey.Seq, 0, admkey.Stock, part, admkey.Back, 0).Err())
	}
	return s
}

func (s *split) keys(bucket int) admkey.Keys { return admkey.Of(s.prefix, 1, bucket) }

// accept does what the gate does for n new users.
func (s *split) accept(n int) {
	s.t.Helper()
	for range n {
		a := accept(1, s.ids.Add(1))
		a.Bucket = admkey.Bucket(a.UserID, s.buckets)
		s.seqs[a.Bucket]++
		a.Seq = s.seqs[a.Bucket]
		s.must(s.admit(a))
		s.all = append(s.all, a)
	}
}

// onTheirWay is how many entries are in the streams, and how many of them in hand.
func (s *split) onTheirWay() (entries, held int64) {
	s.t.Helper()
	for b := range s.buckets {
		entries += s.client.XLen(context.Background(), s.keys(b).Orders).Val()
		pending, err := s.client.XPending(context.Background(), s.keys(b).Orders, admkey.Group).Result()
		if err == nil { // else there is no group yet
			held += pending.Count
		}
	}
	return entries, held
}

// atRest waits until nothing is on its way. Then each order is confirmed, but those that
// are given, which are rejected; and each bucket has what is its own: stock, users and
// the place in the sequence.
func (s *split) atRest(rejected ...order.Accepted) {
	s.t.Helper()
	eventually(s.t, "the streams are empty", func() bool { entries, held := s.onTheirWay(); return entries+held == 0 })
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
			users[a.Bucket][text(a.UserID)] = text(a.OrderID)
			seqs[a.Bucket] = max(seqs[a.Bucket], a.Seq)
			confirmed++
		}
	}
	for b := range s.buckets {
		got, err := s.client.HGetAll(s.t.Context(), s.keys(b).Users).Result()
		if err != nil || fmt.Sprint(got) != fmt.Sprint(users[b]) {
			s.t.Errorf("bucket %d: users %v, %v; confirmed %v", b, got, err, users[b])
		}
		if left, err := s.client.HGet(s.t.Context(), s.keys(b).Meta, admkey.Stock).Int64(); err != nil || left != s.part-int64(len(users[b])) {
			s.t.Errorf("bucket %d: %d left, %v; %d confirmed of %d", b, left, err, len(users[b]), s.part)
		}
		eventually(s.t, "no attempts are counted any more", func() bool {
			return s.client.Exists(s.t.Context(), newStream(s.prefix, 1, b).tries).Val() == 0
		})
	}
	standing, err := s.db.Shelf().Standing(s.t.Context(), 1)
	if err != nil || standing.Stock != s.stock-confirmed || fmt.Sprint(standing.Seq) != fmt.Sprint(seqs) {
		s.t.Errorf("the database has %+v, %v; want stock %d, seq %v", standing, err, s.stock-confirmed, seqs)
	}
}

// splits runs fn with a voucher in five buckets, in one Redis and over a cluster.
func splits(t *testing.T, fn func(t *testing.T, s *split)) {
	t.Run("single", func(t *testing.T) { fn(t, openSplit(t, clientOf(t, testkit.Redis(t).Addr()), 5, 100)) })
	t.Run("cluster", func(t *testing.T) {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testkit.RedisCluster(t), MaxRedirects: 3})
		t.Cleanup(func() { _ = client.Close() })
		fn(t, openSplit(t, client, 5, 100))
	})
}

func TestSplitVoucher(t *testing.T) {
	splits(t, func(t *testing.T, s *split) {
		s.accept(60)
		f, _ := s.run(nil)
		s.run(nil)
		s.accept(60)
		for _, a := range s.all[100:] {
			if err := f.Await(t.Context(), order.Order{ID: a.OrderID, VoucherID: 1}, 10*time.Second); err != nil {
				t.Error(err)
			}
			if o, err := s.db.Orders().Order(t.Context(), a.OrderID); err != nil || o.Status != order.Confirmed {
				t.Errorf("awaited, and %s, %v", o.Status, err)
			}
		}
		s.atRest()
	})
}

// What cannot be carried out is buried where it was, and what it took is given back
// there: the other buckets have no part in it.
func TestSplitVoucherRejects(t *testing.T) {
	splits(t, func(t *testing.T, s *split) {
		s.accept(50)
		refused := s.all[7]
		bad := &shelf{Shelf: s.db.Shelf()}
		bad.persist = func(ctx context.Context, batch []order.Accepted) ([]order.Status, error) {
			for _, a := range batch {
				if a.OrderID == refused.OrderID {
					return nil, fmt.Errorf("%w: as the test wants it", order.ErrStaleEpoch)
				}
			}
			return bad.Shelf.Persist(ctx, batch)
		}
		// An entry of another bucket is spoilt, and the user of a third one is all that is
		// left of its entry.
		spoilt := s.spoil(refused.Bucket, func(a order.Accepted) []any { return []any{admkey.EntryOrder, a.OrderID} })
		nameless := s.spoil((refused.Bucket+1)%s.buckets, func(a order.Accepted) []any { return []any{admkey.EntryUser, a.UserID} })
		s.run(func(c *Config) { c.Shelf, c.Workers = bad, 1 })
		s.atRest(refused, spoilt, nameless)
		reasons := map[int][]string{}
		for b := range s.buckets {
			for _, l := range s.client.XRange(t.Context(), s.keys(b).Dead, "-", "+").Val() {
				reasons[b] = append(reasons[b], fmt.Sprint(l.Values[admkey.DeadReason]))
			}
			if back := s.client.HGet(t.Context(), s.keys(b).Meta, admkey.Back).Val(); back != fmt.Sprint(len(reasons[b])) {
				t.Errorf("bucket %d: %s given back, letters %v", b, back, reasons[b])
			}
		}
		if len(reasons[refused.Bucket]) != 1 || reasons[refused.Bucket][0] != string(StaleEpoch) ||
			len(reasons[spoilt.Bucket]) != 1 || len(reasons[nameless.Bucket]) != 1 || len(reasons) != 3 {
			t.Errorf("%v", reasons)
		}
	})
}

// spoil accepts an order of another bucket than the one that is given, the last of its
// stream, and puts an entry in place of its own.
func (s *split) spoil(other int, entry func(a order.Accepted) []any) order.Accepted {
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

// A consumer dies with entries of all buckets in its hands.
func TestSplitVoucherIsClaimed(t *testing.T) {
	splits(t, func(t *testing.T, s *split) {
		s.accept(50)
		in := newStreams(s.client)
		for _, st := range streamsOf(s.prefix, order.Sale{VoucherID: 1, Buckets: s.buckets}) {
			s.must(in.prepare(t.Context(), st))
			_, err := in.fresh(t.Context(), "dead-1", []*stream{st}, 100, time.Second)
			s.must(err)
		}
		if _, held := s.onTheirWay(); held != 50 {
			t.Fatalf("%d in its hands", held)
		}
		s.run(func(c *Config) { c.ClaimIdle = 100 * time.Millisecond })
		s.atRest()
	})
}

// The buckets of a voucher together give a worker one batch, and not one each: what it has
// in its hands is nobody else's.
func TestBatchOfManyStreams(t *testing.T) {
	const size = 40
	s := openSplit(t, clientOf(t, testkit.Redis(t).Addr()), 8, 200)
	s.accept(1000)
	most, batches := int64(0), 0
	counting := &shelf{Shelf: s.db.Shelf()}
	counting.persist = func(ctx context.Context, batch []order.Accepted) ([]order.Status, error) {
		// The first read has of each stream as much as if it were the only one.
		if entries, held := s.onTheirWay(); entries <= 1000-8*size && entries > 100 {
			most = max(most, held)
			batches++
		}
		return counting.Shelf.Persist(ctx, batch)
	}
	s.run(func(c *Config) { c.Shelf, c.Workers, c.BatchSize = counting, 1, size })
	s.atRest()
	if most > size || most < size/2 || batches < 10 {
		t.Errorf("up to %d in hand, in %d batches of %d", most, batches, size)
	}
}

// A Redis that was restarted does not know the scripts, and a stream that is broken keeps
// nobody else's entries.
func TestAcknowledgeInSeveralStreams(t *testing.T) {
	s := openSplit(t, clientOf(t, testkit.NewRedis(t).Addr()), 3, 100)
	s.accept(30)
	in := newStreams(s.client)
	var parts [][]entry
	for b, st := range streamsOf(s.prefix, order.Sale{VoucherID: 1, Buckets: 3}) {
		s.must(in.prepare(t.Context(), st))
		part, err := in.fresh(t.Context(), "me-1", []*stream{st}, 100, time.Second)
		s.must(err)
		parts = append(parts, part)
		if b == 1 {
			s.must(s.client.Set(t.Context(), st.keys.Orders, "no stream", 0).Err())
		}
	}
	errs := in.done(t.Context(), parts)
	if errs[0] != nil || errs[1] == nil || !strings.Contains(errs[1].Error(), "acknowledge") || errs[2] != nil {
		t.Errorf("%v", errs)
	}
	for _, b := range []int{0, 2} {
		if n := s.client.XLen(t.Context(), s.keys(b).Orders).Val(); n != 0 {
			t.Errorf("%d left in bucket %d", n, b)
		}
	}
}

// Two processes whose names begin alike are not taken for one.
func TestWhoseConsumer(t *testing.T) {
	s := newShop(t, 0, 1)
	f, err := New(s.config(func(c *Config) { c.Name = "api-1" }))
	s.must(err)
	w := newWorker(f, 0)
	for name, mine := range map[string]bool{"api-1-1": true, "api-1-20": true, "api-10-1": false, "api-1": false, "api-2-1": false, "other": false} {
		if w.ofThisProcess(name) != mine {
			t.Errorf("%s: %v", name, !mine)
		}
	}
}
