package fulfil

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit/fail"
)

// inFlight returns the number of entries in the streams and of the pending ones.
func (s *env) inFlight() (entries, held int64) {
	s.t.Helper()
	for _, id := range s.vouchers {
		for b := range s.buckets {
			pending, err := s.client.XPending(context.Background(), s.keysOf(id, b).Orders, ledger.Group).Result()
			if err == nil { // otherwise there is no group yet
				held += pending.Count
			}
		}
	}
	return s.left(), held
}

func splitVoucher(t *testing.T, s *env) {
	s.acceptEach(1, 100)
	f, _ := s.run(nil)
	s.run(nil)
	for _, a := range s.acceptEach(1, 20) {
		s.await(f, a)
		if o, err := s.db.Orders().Order(t.Context(), a.OrderID); err != nil || o.Status != order.Confirmed {
			t.Errorf("after Await the order is %s, %v", o.Status, err)
		}
	}
	s.wantFinalState(0)
}

// A rejected order becomes a dead letter in its own bucket, and its reservation is returned there. The other buckets
// are not affected.
func splitVoucherRejects(t *testing.T, s *env) {
	refused := s.acceptEach(1, 50)[7]
	bad := &fakeStore{AdmissionStore: s.db.AdmissionStore()}
	bad.persist = func(ctx context.Context, batch []contract.Accepted) ([]order.Status, error) {
		for _, a := range batch {
			if a.OrderID == refused.OrderID {
				return nil, fmt.Errorf("%w: injected by the test", order.ErrStaleEpoch)
			}
		}
		return bad.AdmissionStore.Persist(ctx, batch)
	}
	// An entry of another bucket is malformed, and one of a third bucket has only its user.
	next := func(b int) int { return (b + 1) % s.buckets }
	malformed := s.replaceEntry(next(refused.Bucket), func(a contract.Accepted) []any { return []any{ledger.EntryOrder, a.OrderID} })
	nameless := s.replaceEntry(next(malformed.Bucket), func(a contract.Accepted) []any { return []any{ledger.EntryUser, a.UserID} })
	s.run(func(c *Config) { c.Store, c.Workers = bad, 1 })
	s.wantFinalState(3)
	reasons := map[int]string{}
	for b := range s.buckets {
		dead := s.client.XRange(t.Context(), s.keysOf(1, b).Dead, "-", "+").Val()
		for _, l := range dead {
			reasons[b] += fmt.Sprint(l.Values[ledger.DeadReason])
		}
		back := s.client.HGet(t.Context(), s.keysOf(1, b).Meta, ledger.FieldReturned).Val()
		fail.Unequal(t, back, fmt.Sprint(len(dead)), "returned in bucket %d with the dead letters %v", b, dead)
	}
	if want := map[int]string{refused.Bucket: string(StaleEpoch), malformed.Bucket: string(Malformed), nameless.Bucket: string(Malformed)}; fmt.Sprint(reasons) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", reasons, want)
	}
}

// replaceEntry accepts an order in a bucket of voucher 1, the last of its stream, and replaces its entry.
func (s *env) replaceEntry(bucket int, entry func(a contract.Accepted) []any) contract.Accepted {
	s.t.Helper()
	a := s.acceptEach(1, 1)[0]
	for a.Bucket != bucket {
		a = s.acceptEach(1, 1)[0]
	}
	orders := s.keysOf(1, bucket).Orders
	last, err := s.client.XRevRangeN(s.t.Context(), orders, "+", "-", 1).Result()
	s.must(err)
	s.must(s.client.XDel(s.t.Context(), orders, last[0].ID).Err())
	s.must(s.client.XAdd(s.t.Context(), &redis.XAddArgs{Stream: orders, Values: entry(a)}).Err())
	return a
}

// A worker takes one batch from all buckets of a voucher together, not one from each: pending entries are withheld from
// other workers.
func batchOfManyStreams(t *testing.T, s *env) {
	const orders, size = 1000, 40
	s.acceptEach(1, orders)
	most, batches := int64(0), 0
	counting := &fakeStore{AdmissionStore: s.db.AdmissionStore()}
	counting.persist = func(ctx context.Context, batch []contract.Accepted) ([]order.Status, error) {
		// The first read takes as much of each stream as if it were the only one.
		if entries, held := s.inFlight(); entries <= orders-8*size && entries > 100 {
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

// A restarted Redis does not know the scripts, and a broken stream does not affect the acknowledgement of the others.
func acknowledgeInSeveralStreams(t *testing.T, s *env) {
	s.acceptEach(1, 30)
	in := newRedisStreams(s.client)
	var parts [][]entry
	for b, st := range streamsOf(s.prefix, contract.AdmissionVoucher{VoucherID: 1, Buckets: s.buckets}) {
		s.must(in.ensureGroup(t.Context(), st))
		part, err := in.readNew(t.Context(), "me-1", []*stream{st}, 100, time.Second, nil)
		s.must(err)
		parts = append(parts, part)
		if b == 1 {
			s.must(s.client.Set(t.Context(), st.keys.Orders, "no stream", 0).Err())
		}
	}
	s.must(s.client.ScriptFlush(t.Context()).Err())
	errs := in.acknowledge(t.Context(), parts)
	if errs[0] != nil || errs[1] == nil || !strings.Contains(errs[1].Error(), "acknowledge") || errs[2] != nil {
		t.Errorf("%v", errs)
	}
	for _, b := range []int{0, 2} {
		fail.Unequal(t, s.client.XLen(t.Context(), s.keysOf(1, b).Orders).Val(), 0, "left in bucket %d", b)
	}
}
