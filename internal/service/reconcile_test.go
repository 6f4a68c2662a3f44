package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/reconcile"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// splitVoucher is a voucher in three buckets of an embedded service's stores, open under the epoch 2, with 10 of 30 in
// each.
type splitVoucher struct {
	t *testing.T
	*stores
	rec  *reconcile.Reconciler
	keys [3]ledger.Keys
}

func openSplit(t *testing.T) *splitVoucher {
	t.Helper()
	all, err := openStores(t.Context(), Config{Embedded: true}, slog.New(slog.DiscardHandler))
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = all.close() })
	s := &splitVoucher{t: t, stores: all, rec: NewReconciler(all.redis, all.db, KeyPrefix)}
	s.rec.Pause = time.Millisecond
	policy := voucher.DefaultPolicy()
	policy.Flow, policy.Buckets = voucher.FlowAdmission, len(s.keys)
	s.must(s.db.Vouchers().CreateVoucher(t.Context(), &voucher.Voucher{
		ID: 7, Title: "t", InitialStock: 30, Stock: 30, BeginAt: time.Now(), EndAt: time.Now().Add(time.Hour), Policy: policy, CreatedAt: time.Now(),
	}))
	st, err := s.db.AdmissionStore().Open(t.Context(), 7, 1)
	s.must(err)
	for b := range s.keys {
		s.keys[b] = ledger.KeysOf(KeyPrefix, 7, b)
		s.set(b, ledger.FieldEpoch, st.Epoch, ledger.FieldSeq, 0, ledger.FieldStock, 10)
	}
	return s
}

func (s *splitVoucher) must(err error) {
	s.t.Helper()
	fail.NowIf(s.t, err)
}

func (s *splitVoucher) set(bucket int, values ...any) {
	s.t.Helper()
	s.must(s.redis.HSet(s.t.Context(), s.keys[bucket].Meta, values...).Err())
}

// asks runs the command.
func (s *splitVoucher) asks(c reconcileCommand) (output string, r reconcile.Report, err error) {
	s.t.Helper()
	var out strings.Builder
	err = c.report(s.t.Context(), s.rec, &out)
	if c.json {
		s.must(json.Unmarshal([]byte(out.String()), &r))
	}
	return out.String(), r, err
}

// expect runs the command, and checks what it says of the voucher.
func (s *splitVoucher) expect(what string, balanced bool, right func(v reconcile.Equation) bool) {
	s.t.Helper()
	output, r, err := s.asks(reconcileCommand{json: true, voucher: 7})
	if balanced != (err == nil) || !balanced && !errors.Is(err, errUnbalanced) || len(r.Vouchers) != 1 || r.Balanced != balanced || !right(r.Vouchers[0]) {
		s.t.Errorf("%s: %v %s", what, err, output)
	}
}

// Of a voucher that is split the sums have to be right, whatever its buckets drew from each other; and none of them may
// be behind.
func TestReconcileBuckets(t *testing.T) {
	t.Parallel()
	s := openSplit(t)
	s.expect("as it was opened", true, func(v reconcile.Equation) bool {
		return v.State == reconcile.AtRest && *v.RedisStock == 30 && len(v.Buckets) == 3
	})

	// Bucket 1 sold what it had and drew 5 of bucket 0's, and 3 are on their way from 2.
	var sold []contract.Accepted
	for n := range int64(12) {
		sold = append(sold, contract.Accepted{OrderID: 100 + n, VoucherID: 7, UserID: 1 + n, Bucket: 1, Epoch: 2, Seq: 2 + n, At: time.Now()})
	}
	_, err := s.db.AdmissionStore().Persist(t.Context(), sold)
	s.must(err)
	s.set(0, ledger.FieldStock, 5, ledger.FieldSeq, 1, ledger.FieldTo+"1", 5)
	s.set(1, ledger.FieldStock, 3, ledger.FieldSeq, 13, ledger.FieldFrom+"0", 5)
	s.set(2, ledger.FieldStock, 7, ledger.FieldSeq, 1, ledger.FieldTo+"1", 3)
	s.expect("drawn", true, func(v reconcile.Equation) bool {
		return v.State == reconcile.AtRest && *v.RedisStock == 18 && v.InTransit == 3 && v.Redis.Seq == 15 && v.Database.Seq == 13 &&
			*v.Buckets[1].Stock == 3 && v.Buckets[1].Seq == 13 && v.Buckets[1].DatabaseSeq == 13 && v.Buckets[0].DatabaseSeq == 0
	})
	if output, _, err := s.asks(reconcileCommand{}); err != nil || !strings.Contains(output, "1 of 1 vouchers balance") {
		t.Errorf("as a table: %v %s", err, output)
	}
	if _, _, err := s.asks(reconcileCommand{voucher: 1}); !errors.Is(err, errUsage) {
		t.Errorf("of an unknown voucher: %v", err)
	}

	// A process that dies between writing an order and acknowledging it leaves this.
	s.must(s.redis.XAdd(t.Context(), &redis.XAddArgs{Stream: s.keys[1].Orders, Values: []any{ledger.EntryOrder, 100, ledger.EntryUser, 1}}).Err())
	s.expect("confirmed and not acknowledged in bucket 1", true, func(v reconcile.Equation) bool {
		return v.Pending == 1 && v.Unacknowledged == 1 && v.Drift == 0 && v.Buckets[1].Pending == 1
	})
	s.must(s.redis.Del(t.Context(), s.keys[1].Orders).Err())

	s.set(2, ledger.FieldStock, 8)
	s.expect("one too many in bucket 2", false, func(v reconcile.Equation) bool { return v.Drift == -1 && v.DatabaseDrift == 0 })
	s.set(2, ledger.FieldStock, 7)
	s.set(1, ledger.FieldSeq, 12)
	s.expect("bucket 1 is behind", false, func(v reconcile.Equation) bool { return v.Drift == 0 && v.Redis.Seq == 14 })
	s.set(1, ledger.FieldSeq, 13)
	s.must(s.redis.Del(t.Context(), s.keys[2].Meta).Err())
	s.expect("bucket 2 was emptied", true, func(v reconcile.Equation) bool {
		return v.State == reconcile.Closed && v.RedisStock == nil && v.Buckets[2].Stock == nil && *v.Buckets[0].Stock == 5
	})
}

// Stock that moves all the time is not missing, whenever one looks.
func TestReconcileWhileBucketsDraw(t *testing.T) {
	t.Parallel()
	s := openSplit(t)
	drawing, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var given int64 // by bucket 0 to bucket 1, and as much back
		for n := int64(0); drawing.Err() == nil; n++ {
			from, to, other := s.keys[n%2], s.keys[(n+1)%2], (n+1)%2
			given += (n + 1) % 2
			fail.If(t, errors.Join(s.move(from, -1, fmt.Sprint(ledger.FieldTo, other), given), s.move(to, 1, fmt.Sprint(ledger.FieldFrom, n%2), given)))
		}
	}()
	seen := map[reconcile.State]int{}
	for n := 0; n < 100 || seen[reconcile.Moving] == 0; n++ {
		l, err := s.rec.Read(t.Context(), contract.AdmissionVoucher{VoucherID: 7, Buckets: 3})
		if err != nil || !l.Balanced() || l.State() == reconcile.Closed {
			t.Fatalf("while stock is moved: %+v, %v", l, err)
		}
		seen[l.State()]++
	}
	stop()
	<-ended
}

// move is one step of a draw.
func (s *splitVoucher) move(bucket ledger.Keys, by int64, field string, total int64) error {
	_, err := s.redis.TxPipelined(s.t.Context(), func(p redis.Pipeliner) error {
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
	output, r, err := s.asks(reconcileCommand{dead: true, json: true})
	if err != nil || r.Vouchers[0].Dead == nil || len(r.Vouchers[0].Dead.Letters) != 0 || !strings.Contains(output, `"letters": []`) {
		t.Errorf("none: %v %s", err, output)
	}
	if output, _, _ := s.asks(reconcileCommand{dead: true}); !strings.Contains(output, "no order is rejected in the database, and Redis has no dead letters") {
		t.Errorf("none, as a table: %s", output)
	}
	if output, _, err := s.asks(reconcileCommand{json: true}); err != nil || strings.Contains(output, `"dead":`) {
		t.Errorf("not asked for: %v %s", err, output)
	}
	begun := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	for n := range 110 {
		s.bury(n%3, begun.Add(time.Duration(n)*time.Second), ledger.EntryOrder, 1000+n, ledger.EntryUser, n, ledger.DeadReason, "sold_out", ledger.DeadDetail, "voucher: sold out")
	}
	if output, r, err = s.asks(reconcileCommand{dead: true, json: true}); err != nil || r.Vouchers[0].Dead == nil {
		t.Fatalf("%v %s", err, output)
	}
	v := r.Vouchers[0]
	want := reconcile.DeadLetter{OrderID: "1109", UserID: "109", Reason: "sold_out", Detail: "voucher: sold out", At: begun.Add(109 * time.Second).UTC(), Bucket: 1}
	list := v.Dead.Letters
	if len(list) != reconcile.ListedDeadLetters || v.Dead.Omitted != 10 || v.DeadLetters != 110 || list[99] != want || list[0].OrderID != "1010" {
		t.Errorf("%d listed, %d omitted, from %+v to %+v", len(list), v.Dead.Omitted, list[0], list[len(list)-1])
	}

	// An entry that is no order says anything, and must not look like another line.
	s.bury(0, begun.Add(time.Hour/2), ledger.EntryOrder, "1\n7\t8", ledger.DeadReason, "malformed", ledger.DeadDetail, "\xff\nfield u")
	output, _, err = s.asks(reconcileCommand{dead: true})
	if err != nil || !strings.Contains(output, `"1\n7\t8"  ""    malformed`) || !strings.Contains(output, "and 11 earlier ones") {
		t.Errorf("as a table: %v %s", err, output)
	}

	// The record is the database: it knows of what Redis has forgotten.
	for n := range int64(3) {
		_, err := s.db.AdmissionStore().Reject(t.Context(), contract.Accepted{OrderID: 1000 + n, VoucherID: 7, UserID: n, Epoch: 2, Seq: 1, At: begun})
		s.must(err)
	}
	for b := range s.keys {
		s.must(s.redis.Del(t.Context(), s.keys[b].Dead).Err())
	}
	if output, r, _ = s.asks(reconcileCommand{dead: true, json: true}); r.Vouchers[0].Dead.Rejected != 3 || r.Vouchers[0].DeadLetters != 0 {
		t.Errorf("forgotten by Redis: %s", output)
	}
	if output, _, _ = s.asks(reconcileCommand{dead: true}); !regexp.MustCompile(`(?m)^7 +3 +0$`).MatchString(output) {
		t.Errorf("forgotten by Redis, as a table: %s", output)
	}
}

func (s *splitVoucher) bury(bucket int, at time.Time, values ...any) {
	s.t.Helper()
	s.must(s.redis.XAdd(s.t.Context(), &redis.XAddArgs{Stream: s.keys[bucket].Dead, ID: fmt.Sprintf("%d-0", at.UnixMilli()), Values: values}).Err())
}

// The watch counts what does not balance, and logs it once, and when it balances again.
func TestReconcileWatch(t *testing.T) {
	t.Parallel()
	s := openSplit(t)
	var logs strings.Builder
	registry := prometheus.NewRegistry()
	w, err := reconcile.NewWatch(s.rec, registry, slog.New(slog.NewTextHandler(&logs, nil)))
	s.must(err)
	expect := func(what string, balanced, unbalanced, drift float64, logged string) {
		t.Helper()
		for range 2 { // the second time there is no news
			w.Check(t.Context())
			if b, u, d := gathered(t, registry, "seckill_reconcile_vouchers", "state=balanced"), gathered(t, registry, "seckill_reconcile_vouchers", "state=unbalanced"),
				gathered(t, registry, "seckill_reconcile_drift_orders", ""); b != balanced || u != unbalanced || d != drift {
				t.Errorf("%s: %v balanced, %v not, drift %v", what, b, u, d)
			}
			if got := logs.String(); strings.Count(got, "\n") > 1 || !strings.Contains(got, logged) || logged == "" && got != "" {
				t.Errorf("%s: logged %q", what, got)
			}
			logs.Reset()
			logged = ""
		}
	}
	expect("right", 1, 0, 0, "")
	s.set(0, ledger.FieldStock, 12)
	expect("two too many in Redis", 0, 1, 2, "a voucher does not balance")
	s.set(0, ledger.FieldStock, 15)
	expect("five too many", 0, 1, 5, "a voucher does not balance")
	s.set(0, ledger.FieldStock, 10)
	expect("right again", 1, 0, 0, "a voucher balances again")
	fail.NowIf(t, fail.Of(s.db.AdmissionStore().Close(t.Context(), 7)))
	expect("closed", 1, 0, 0, "")
	if at := time.Unix(int64(gathered(t, registry, "seckill_reconcile_last_timestamp_seconds", "")), 0); at.Before(time.Now().Add(-time.Minute)) {
		t.Errorf("checked at %v", at)
	}
}

// gathered is the value of a gauge; label has "name=value" of its one label, or nothing.
func gathered(t *testing.T, g prometheus.Gatherer, name, label string) float64 {
	t.Helper()
	families, err := g.Gather()
	fail.NowIf(t, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if labels := m.GetLabel(); label == "" && len(labels) == 0 || len(labels) == 1 && labels[0].GetName()+"="+labels[0].GetValue() == label {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no %s{%s}", name, label)
	return 0
}
