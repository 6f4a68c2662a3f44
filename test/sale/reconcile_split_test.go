package sale

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/reconcile"
	"seckill/internal/service"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
	"seckill/test/harness"
)

// splitVoucher is a voucher in three buckets of a Redis Cluster, open under the epoch 2,
// with 10 of 30 in each.
type splitVoucher struct {
	t      *testing.T
	where  harness.Stores
	stores *stores
	keys   [3]ledger.Keys
}

func openSplit(t *testing.T) *splitVoucher {
	t.Helper()
	s := &splitVoucher{t: t, where: harness.Stores{DB: testkit.MariaDB(t), Redis: testkit.RedisCluster(t)}}
	s.stores = storesOf(t, s.where)
	policy := voucher.DefaultPolicy()
	policy.Flow, policy.Buckets = voucher.FlowAdmission, len(s.keys)
	s.must(s.stores.db.Vouchers().CreateVoucher(t.Context(), &voucher.Voucher{
		ID: 7, Title: "t", InitialStock: 30, Stock: 30, BeginAt: time.Now(), EndAt: time.Now().Add(time.Hour), Policy: policy, CreatedAt: time.Now(),
	}))
	st, err := s.stores.db.AdmissionStore().Open(t.Context(), 7, 1)
	s.must(err)
	for b := range s.keys {
		s.keys[b] = ledger.KeysOf(service.KeyPrefix, 7, b)
		s.set(b, ledger.FieldEpoch, st.Epoch, ledger.FieldSeq, 0, ledger.FieldStock, 10)
	}
	return s
}

func (s *splitVoucher) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *splitVoucher) set(bucket int, values ...any) {
	s.t.Helper()
	s.must(s.stores.redis.HSet(s.t.Context(), s.keys[bucket].Meta, values...).Err())
}

// expect runs the command and returns what it says of the voucher.
func (s *splitVoucher) expect(what string, wantExit int, right func(v reconcile.Equation) bool) {
	s.t.Helper()
	exit, output, r := harness.RunReconcile(s.t, s.where, "-json", "-voucher", "7")
	if exit != wantExit || len(r.Vouchers) != 1 || r.Balanced != (wantExit == 0) || !right(r.Vouchers[0]) {
		s.t.Errorf("%s: %d %s", what, exit, output)
	}
}

// Of a voucher that is split the sums have to be right, whatever its buckets drew from
// each other; and none of them may be behind.
func TestReconcileBuckets(t *testing.T) {
	t.Parallel()
	s := openSplit(t)
	s.expect("as it was opened", 0, func(v reconcile.Equation) bool {
		return v.State == reconcile.AtRest && *v.RedisStock == 30 && len(v.Buckets) == 3
	})

	// Bucket 1 sold what it had and drew 5 of bucket 0's, and 3 are on their way from 2.
	var sold []order.Accepted
	for n := range int64(12) {
		sold = append(sold, order.Accepted{OrderID: 100 + n, VoucherID: 7, UserID: 1 + n, Bucket: 1, Epoch: 2, Seq: 2 + n, At: time.Now()})
	}
	_, err := s.stores.db.AdmissionStore().Persist(t.Context(), sold)
	s.must(err)
	s.set(0, ledger.FieldStock, 5, ledger.FieldSeq, 1, ledger.FieldTo+"1", 5)
	s.set(1, ledger.FieldStock, 3, ledger.FieldSeq, 13, ledger.FieldFrom+"0", 5)
	s.set(2, ledger.FieldStock, 7, ledger.FieldSeq, 1, ledger.FieldTo+"1", 3)
	s.expect("drawn", 0, func(v reconcile.Equation) bool {
		return v.State == reconcile.AtRest && *v.RedisStock == 18 && v.InTransit == 3 && v.Redis.Seq == 15 && v.Database.Seq == 13 &&
			*v.Buckets[1].Stock == 3 && v.Buckets[1].Seq == 13 && v.Buckets[1].DatabaseSeq == 13 && v.Buckets[0].DatabaseSeq == 0
	})
	s.must(s.stores.redis.XAdd(t.Context(), &redis.XAddArgs{Stream: s.keys[1].Orders, Values: []any{ledger.EntryOrder, 100, ledger.EntryUser, 1}}).Err())
	s.expect("confirmed and not acknowledged in bucket 1", 0, func(v reconcile.Equation) bool {
		return v.Pending == 1 && v.Unacknowledged == 1 && v.Buckets[1].Pending == 1
	})
	s.must(s.stores.redis.Del(t.Context(), s.keys[1].Orders).Err())

	s.set(2, ledger.FieldStock, 8)
	s.expect("one too many in bucket 2", 1, func(v reconcile.Equation) bool { return v.Drift == -1 && v.DatabaseDrift == 0 })
	s.set(2, ledger.FieldStock, 7)
	s.set(1, ledger.FieldSeq, 12)
	s.expect("bucket 1 is behind", 1, func(v reconcile.Equation) bool { return v.Drift == 0 && v.Redis.Seq == 14 })
	s.set(1, ledger.FieldSeq, 13)
	s.must(s.stores.redis.Del(t.Context(), s.keys[2].Meta).Err())
	s.expect("bucket 2 was emptied", 0, func(v reconcile.Equation) bool {
		return v.State == reconcile.Closed && v.RedisStock == nil && v.Buckets[2].Stock == nil && *v.Buckets[0].Stock == 5
	})
}

// Stock that moves all the time is not missing, whenever one looks.
func TestReconcileWhileBucketsDraw(t *testing.T) {
	t.Parallel()
	s := openSplit(t)
	drawing, stop := context.WithCancel(t.Context())
	moved := make(chan int)
	go func() {
		var given, n int64 // by bucket 0 to bucket 1, and as much back
		for ; drawing.Err() == nil; n++ {
			from, to, other := s.keys[n%2], s.keys[(n+1)%2], (n+1)%2
			given += (n + 1) % 2
			for _, err := range []error{
				s.move(from, -1, fmt.Sprint(ledger.FieldTo, other), given),
				s.move(to, 1, fmt.Sprint(ledger.FieldFrom, n%2), given),
			} {
				if err != nil {
					t.Error(err)
				}
			}
		}
		moved <- int(n)
	}()
	rec := service.NewReconciler(s.stores.redis, s.stores.db)
	seen := map[reconcile.State]int{}
	for range 300 {
		l, err := rec.Read(t.Context(), order.AdmissionVoucher{VoucherID: 7, Buckets: 3})
		if err != nil || !l.Balanced() {
			t.Errorf("while stock is moved: %+v, %v", l, err)
		}
		seen[l.State()]++
	}
	stop()
	if n := <-moved; n < 100 || seen[reconcile.Moving] == 0 || seen[reconcile.Closed] > 0 {
		t.Errorf("moved %d times, seen %v", n, seen)
	}
}

// move is one step of a draw.
func (s *splitVoucher) move(bucket ledger.Keys, by int64, field string, total int64) error {
	_, err := s.stores.redis.TxPipelined(s.t.Context(), func(p redis.Pipeliner) error {
		p.HIncrBy(s.t.Context(), bucket.Meta, ledger.FieldStock, by)
		p.HIncrBy(s.t.Context(), bucket.Meta, ledger.FieldSeq, 1)
		p.HSet(s.t.Context(), bucket.Meta, field, total)
		return nil
	})
	return err
}

// The dead letters are listed, the latest of all buckets.
func TestReconcileDeadLetters(t *testing.T) {
	t.Parallel()
	s := openSplit(t)
	exit, output, r := harness.RunReconcile(t, s.where, "-dead", "-json")
	if exit != 0 || r.Vouchers[0].Dead == nil || len(r.Vouchers[0].Dead.Letters) != 0 || !strings.Contains(output, `"letters": []`) {
		t.Errorf("none: %d %s", exit, output)
	}
	if _, output, _ := harness.RunReconcile(t, s.where, "-dead"); !strings.Contains(output, "no order is rejected in the database, and Redis has no dead letters") {
		t.Errorf("none, as a table: %s", output)
	}
	if exit, output, _ := harness.RunReconcile(t, s.where, "-json"); exit != 0 || strings.Contains(output, `"dead":`) {
		t.Errorf("not asked for: %d %s", exit, output)
	}
	begun := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	for n := range 110 {
		s.bury(n%3, begun.Add(time.Duration(n)*time.Second), ledger.EntryOrder, 1000+n, ledger.EntryUser, n, ledger.DeadReason, "sold_out", ledger.DeadDetail, "voucher: sold out")
	}
	exit, output, r = harness.RunReconcile(t, s.where, "-dead", "-json")
	if exit != 0 || r.Vouchers[0].Dead == nil {
		t.Fatalf("%d %s", exit, output)
	}
	v := r.Vouchers[0]
	want := reconcile.DeadLetter{OrderID: "1109", UserID: "109", Reason: "sold_out", Detail: "voucher: sold out", At: begun.Add(109 * time.Second).UTC(), Bucket: 1}
	list := v.Dead.Letters
	if len(list) != reconcile.ListedDeadLetters || v.Dead.Omitted != 10 || v.DeadLetters != 110 || list[99] != want || list[0].OrderID != "1010" {
		t.Errorf("%d listed, %d omitted, from %+v to %+v", len(list), v.Dead.Omitted, list[0], list[len(list)-1])
	}

	// An entry that is no order says anything, and must not look like another line.
	s.bury(0, begun.Add(time.Hour/2), ledger.EntryOrder, "1\n7\t8", ledger.DeadReason, "malformed", ledger.DeadDetail, "\xff\nfield u")
	exit, output, _ = harness.RunReconcile(t, s.where, "-dead")
	if exit != 0 || !strings.Contains(output, `"1\n7\t8"  ""    malformed`) || !strings.Contains(output, "and 11 earlier ones") {
		t.Errorf("as a table: %d %s", exit, output)
	}
	t.Log("\n" + output[max(0, len(output)-600):])

	// The record is the database: it knows of what Redis has forgotten.
	for n := range int64(3) {
		_, err := s.stores.db.AdmissionStore().Reject(t.Context(), order.Accepted{OrderID: 1000 + n, VoucherID: 7, UserID: n, Epoch: 2, Seq: 1, At: begun})
		s.must(err)
	}
	for b := range s.keys {
		s.must(s.stores.redis.Del(t.Context(), s.keys[b].Dead).Err())
	}
	_, output, r = harness.RunReconcile(t, s.where, "-dead", "-json")
	if v := r.Vouchers[0]; v.Dead.Rejected != 3 || v.DeadLetters != 0 {
		t.Errorf("forgotten by Redis: %s", output)
	}
	if _, output, _ = harness.RunReconcile(t, s.where, "-dead"); !regexp.MustCompile(`(?m)^7 +3 +0$`).MatchString(output) {
		t.Errorf("forgotten by Redis, as a table: %s", output)
	}
}

func (s *splitVoucher) bury(bucket int, at time.Time, values ...any) {
	s.t.Helper()
	s.must(s.stores.redis.XAdd(s.t.Context(), &redis.XAddArgs{Stream: s.keys[bucket].Dead, ID: fmt.Sprintf("%d-0", at.UnixMilli()), Values: values}).Err())
}

// A voucher that is split is sold over two processes, to more buyers than there is stock
// and most of them of one bucket. Whenever one looks it balances; in the end all is sold.
func TestSplitSaleBalances(t *testing.T) {
	t.Parallel()
	const users, stock = 1500, 600
	buckets := 4
	s := harness.Stores{DB: testkit.MariaDB(t), Redis: testkit.RedisCluster(t)}
	a, b := harness.Start(t, s), harness.Start(t, s)
	sale := harness.OpenSale(t, stock, fmt.Sprintf(`{"flow":"admission","buckets":%d}`, buckets), a, b)
	id, err := strconv.ParseInt(sale.Voucher, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	var skewed []int
	for user := 1; len(skewed) < users; user++ {
		if bucket := ledger.BucketOf(int64(user), buckets); bucket == 0 || user%8 == 0 {
			skewed = append(skewed, user)
		}
	}
	orders := map[string]int{}
	var mu sync.Mutex
	var buyers sync.WaitGroup
	for c := range harness.Connections {
		buyers.Go(func() {
			for n := c; n < users; n += harness.Connections {
				got := sale.Buy(n, skewed[n], "")
				mu.Lock()
				if got.Order != "" {
					orders[got.Order] = skewed[n]
				}
				mu.Unlock()
				time.Sleep(20 * time.Millisecond) // as buyers come
			}
		})
	}
	selling, end := context.WithCancel(t.Context())
	go func() {
		defer end()
		buyers.Wait()
	}()
	stores := storesOf(t, s)
	rec := service.NewReconciler(stores.redis, stores.db)
	rec.Pause = 10 * time.Millisecond
	seen := map[reconcile.State]int{}
	for selling.Err() == nil {
		f := rec.Check(t.Context(), []order.AdmissionVoucher{{VoucherID: id, Buckets: buckets}})[0]
		if f.Err != nil || !f.Balanced() {
			t.Errorf("during the sale: %+v", f)
		}
		seen[f.State()]++
	}
	t.Logf("%v; %d buckets", seen, buckets)
	sale.CheckAllConfirmed(stock, orders)
	exit, output, r := harness.RunReconcile(t, s, "-json")
	if exit != 0 || len(r.Vouchers) != 1 || *r.Vouchers[0].RedisStock != 0 || r.Vouchers[0].Confirmed != stock {
		t.Errorf("%d %s", exit, output)
	}
}
