package database

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// openVoucher is openSale for a voucher of [newVoucher].
func openVoucher(t testing.TB, d *DB, id, stock int64) {
	t.Helper()
	openSplitVoucher(t, d, id, stock, 0)
}

// openSplitVoucher is openVoucher for a voucher with several buckets.
func openSplitVoucher(t testing.TB, d *DB, id, stock int64, buckets int) {
	t.Helper()
	v := newVoucher(id, stock)
	v.Policy.Buckets = buckets
	openSale(t, d, v)
}

// openSale creates a voucher that is sold by admission and opens it under epoch 2.
func openSale(t testing.TB, d *DB, v *voucher.Voucher) {
	t.Helper()
	v.Policy.Flow = voucher.FlowAdmission
	fail.NowIf(t, d.Vouchers().CreateVoucher(t.Context(), v))
	if now, err := d.AdmissionStore().Open(t.Context(), v.ID, firstEpoch); err != nil || !now.Open() || now.Stock != v.Stock {
		t.Fatalf("opened as %+v, %v", now, err)
	}
}

func accepted(id, voucherID, userID int64) contract.Accepted {
	return contract.Accepted{OrderID: id, VoucherID: voucherID, UserID: userID, At: newOrder(0, 0, 0).CreatedAt, Epoch: 2, Seq: id}
}

// acceptedRange are the orders from to below to, of users of the same numbers.
func acceptedRange(from, to, voucherID int64) (batch []contract.Accepted) {
	for id := from; id < to; id++ {
		batch = append(batch, accepted(id, voucherID, id))
	}
	return batch
}

func wantEpochState(t *testing.T, d *DB, id int64, want contract.EpochState) {
	t.Helper()
	if got, err := d.AdmissionStore().EpochState(t.Context(), id); err != nil || !sameEpochState(got, want) {
		t.Errorf("voucher %d has the state %+v, %v; want %+v", id, got, err, want)
	}
}

// sameEpochState compares two states of a voucher of [newVoucher]. All of them have the same sale window, so want does
// not contain it.
func sameEpochState(got, want contract.EpochState) bool {
	v := newVoucher(1, 1)
	want.BeginAt, want.EndAt, want.Revision = v.BeginAt, v.EndAt, v.Revision
	if want.Arrived == nil {
		want.Arrived = map[int]int64{}
	}
	return reflect.DeepEqual(got, want)
}

// persists writes a batch. Every order of it then has the wanted state.
func persists(t *testing.T, d *DB, want order.Status, batch []contract.Accepted) {
	t.Helper()
	states, err := d.AdmissionStore().Persist(t.Context(), batch)
	fail.NowIf(t, err)
	if len(states) != len(batch) || slices.ContainsFunc(states, func(s order.Status) bool { return s != want }) {
		t.Errorf("states %v, want %d times %s", states, len(batch), want)
	}
}

func rejects(t *testing.T, d *DB, want order.Status, a contract.Accepted) {
	t.Helper()
	state, err := d.AdmissionStore().Reject(t.Context(), a)
	if fail.NowIf(t, err); state != want {
		t.Errorf("order %d is %s, want %s", a.OrderID, state, want)
	}
}

func TestPersistIsIdempotent(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		openVoucher(t, d, 1, 100)
		openVoucher(t, d, 2, 100)
		// Three of one voucher, one of them twice, and one of another.
		batch := []contract.Accepted{accepted(3, 1, 43), accepted(1, 1, 41), accepted(9, 2, 41), accepted(3, 1, 43), accepted(2, 1, 42)}
		for range 3 {
			persists(t, d, order.Confirmed, batch)
		}
		overlapping := append(slices.Clone(batch), accepted(4, 1, 44))
		persists(t, d, order.Confirmed, overlapping)

		wantAudit(t, d, order.Audit{InitialStock: 100, Stock: 96, Orders: 4, DistinctUsers: 4})
		wantEpochState(t, d, 1, contract.EpochState{Epoch: 2, Seq: []int64{4}, Stock: 96})
		wantEpochState(t, d, 2, contract.EpochState{Epoch: 2, Seq: []int64{9}, Stock: 99})
		stored, err := d.Orders().Order(t.Context(), 3)
		if fail.NowIf(t, err); stored != newOrder(3, 1, 43) {
			t.Errorf("stored %+v", stored)
		}
		persists(t, d, "", nil)
		if _, err := d.AdmissionStore().Persist(t.Context(), make([]contract.Accepted, MaxBatch+1)); err == nil {
			t.Error("accepted a batch larger than MaxBatch")
		}
		openVoucher(t, d, 3, MaxBatch)
		persists(t, d, order.Confirmed, acceptedRange(1001, MaxBatch+1001, 3)) // the largest one
		wantEpochState(t, d, 3, contract.EpochState{Epoch: 2, Seq: []int64{MaxBatch + 1000}})
		wantNoOpenTransaction(t, d)
	})
}

// One entry that cannot be persisted fails the whole batch, with the reason.
func TestPersistAllOrNothing(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		openVoucher(t, d, 1, 4)
		createVoucher(t, d, 3, 10) // sold under a lock
		persists(t, d, order.Confirmed, []contract.Accepted{accepted(1, 1, 41)})
		stale := accepted(50, 1, 50)
		stale.Epoch = 0
		for name, tc := range map[string]struct {
			poison contract.Accepted
			want   error
		}{
			"a user's second order":         {accepted(50, 1, 41), order.ErrAlreadyOrdered},
			"twice in the batch":            {accepted(50, 1, 12), order.ErrAlreadyOrdered},
			"another user's id":             {accepted(1, 1, 50), order.ErrIDTaken},
			"another voucher's id":          {accepted(1, 2, 41), order.ErrIDTaken},
			"an id twice in the batch":      {accepted(12, 1, 50), order.ErrIDTaken},
			"a voucher that does not exist": {accepted(50, 2, 50), order.ErrVoucherMissing},
			"a voucher under a lock":        {accepted(50, 3, 50), order.ErrVoucherMissing},
			"an epoch that is over":         {stale, order.ErrStaleEpoch},
			"one more than the stock":       {accepted(50, 1, 50), voucher.ErrSoldOut},
		} {
			t.Run(name, func(t *testing.T) {
				batch := append(acceptedRange(11, 14, 1), tc.poison)
				for range 2 {
					fail.Unless(t, fail.Of(d.AdmissionStore().Persist(t.Context(), batch)), tc.want)
				}
				wantAudit(t, d, order.Audit{InitialStock: 4, Stock: 3, Orders: 1, DistinctUsers: 1})
			})
		}
		persists(t, d, order.Confirmed, acceptedRange(11, 14, 1))
		wantAudit(t, d, order.Audit{InitialStock: 4, Orders: 4, DistinctUsers: 4})
		wantNoOpenTransaction(t, d)
	})
}

// Several consumers persist the same entries, in different batches and a different order. They belong to three
// vouchers, one with one bucket and two with several.
func TestConcurrentPersist(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		const orders, consumers = 240, 8
		var all []contract.Accepted
		for v := int64(1); v <= 3; v++ {
			openSplitVoucher(t, d, v, orders, int(v))
			all = append(all, acceptedRange(v*1000, v*1000+orders, v)...)
		}
		for i, a := range all {
			all[i].Bucket = int(a.OrderID % a.VoucherID)
		}
		allAtOnce(t, consumers, func(int) error {
			mine := slices.Clone(all)
			rand.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
			for batch := range slices.Chunk(mine, 60) {
				states, err := d.AdmissionStore().Persist(t.Context(), batch)
				for errors.Is(err, order.ErrUnavailable) { // too many collisions: repeat
					states, err = d.AdmissionStore().Persist(t.Context(), batch)
				}
				if err != nil {
					return err
				}
				if slices.ContainsFunc(states, func(s order.Status) bool { return s != order.Confirmed }) {
					return errors.New("not all are confirmed")
				}
			}
			return nil
		})
		for v := int64(1); v <= 3; v++ {
			got, err := d.Orders().Audit(t.Context(), v)
			fail.NowIf(t, err)
			if want := (order.Audit{InitialStock: orders, Orders: orders, DistinctUsers: orders}); !reflect.DeepEqual(got, want) {
				t.Errorf("voucher %d: %+v, want %+v", v, got, want)
			}
			seq := make([]int64, v)
			for _, a := range all {
				if a.VoucherID == v {
					seq[a.Bucket] = max(seq[a.Bucket], a.Seq)
				}
			}
			wantEpochState(t, d, v, contract.EpochState{Epoch: 2, Seq: seq})
		}
		wantNoOpenTransaction(t, d)
	})
}

// More orders than stock, in batches of five at the same moment.
func TestPersistNeverOversells(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		openVoucher(t, d, 1, 12)
		outcomes := countErrs(t, runAtOnce(6, func(i int) error {
			return fail.Of(d.AdmissionStore().Persist(t.Context(), acceptedRange(int64(i)*5+1, int64(i)*5+6, 1)))
		}), nil, voucher.ErrSoldOut)
		if outcomes[nil] != 2 || outcomes[voucher.ErrSoldOut] != 4 {
			t.Errorf("%v", outcomes)
		}
		wantAudit(t, d, order.Audit{InitialStock: 12, Stock: 2, Orders: 10, DistinctUsers: 10})
	})
}

func TestRejectIsDecidedOnce(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		openVoucher(t, d, 1, 10)
		rejects(t, d, order.Rejected, accepted(1, 1, 41))
		rejects(t, d, order.Rejected, accepted(1, 1, 41)) // again
		states, err := d.AdmissionStore().Persist(t.Context(), []contract.Accepted{accepted(1, 1, 41), accepted(2, 1, 41)})
		if fail.NowIf(t, err); !slices.Equal(states, []order.Status{order.Rejected, order.Confirmed}) {
			t.Errorf("states %v: a rejected order stays so, and its user may have another", states)
		}
		rejects(t, d, order.Confirmed, accepted(2, 1, 41)) // persisted meanwhile
		fail.Unless(t, fail.Of(d.AdmissionStore().Reject(t.Context(), accepted(2, 1, 99))), order.ErrIDTaken)
		openVoucher(t, d, 2, 10) // the order with the id is of voucher 1
		fail.Unless(t, fail.Of(d.AdmissionStore().Reject(t.Context(), accepted(2, 2, 41))), order.ErrIDTaken)
		fail.Unless(t, fail.Of(d.AdmissionStore().Persist(t.Context(), []contract.Accepted{accepted(2, 2, 41)})), order.ErrIDTaken)
		rejects(t, d, order.Rejected, accepted(3, 404, 41)) // of a voucher that does not exist
		wantAudit(t, d, order.Audit{InitialStock: 10, Stock: 9, Orders: 1, DistinctUsers: 1})
		for id, want := range map[int64]int64{1: 1, 404: 1, 2: 0} {
			if n, err := d.Orders().Rejected(t.Context(), id); err != nil || n != want {
				t.Errorf("voucher %d has %d rejected orders, %v; want %d", id, n, err, want)
			}
		}
	})
}

// An entry that is delivered again changes nothing, whatever has become of its order. An order that the gate has
// accepted again, since the reply was lost and the order has given its unit back meanwhile, has taken another unit of
// the gate's, which is to be given back: both may be in one batch.
func TestPersistOfAnOrderThatIsOver(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		v := newVoucher(1, 10)
		v.PayWithin = time.Hour
		openSale(t, d, v)
		first := accepted(1, 1, 41)
		again := first
		again.At, again.Seq = first.At.Add(time.Millisecond), 3
		persists(t, d, order.Unpaid, []contract.Accepted{first})
		persists(t, d, order.Unpaid, []contract.Accepted{again}) // the gate has lost data: it is rebuilt
		cancelOrders(t, d, 1)
		states, err := d.AdmissionStore().Persist(t.Context(), []contract.Accepted{first, again, first})
		if fail.NowIf(t, err); !slices.Equal(states, []order.Status{order.Cancelled, order.Rejected, order.Cancelled}) {
			t.Errorf("states %v", states)
		}
		rejects(t, d, order.Cancelled, first)
		rejects(t, d, order.Rejected, again)
		wantAudit(t, d, order.Audit{InitialStock: 10, Stock: 10, Returned: 1})
	})
}

// Persist and Reject of the same order at the same moment: one of them wins, and all calls return the same state.
func TestConcurrentRejectAndPersist(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		const rounds = 30
		openVoucher(t, d, 1, rounds)
		confirmed := int64(0)
		for id := int64(1); id <= rounds; id++ {
			var outcomes [4]order.Status
			allAtOnce(t, 4, func(i int) (err error) {
				if i%2 == 0 {
					outcomes[i], err = d.AdmissionStore().Reject(t.Context(), accepted(id, 1, id))
					return err
				}
				states, err := d.AdmissionStore().Persist(t.Context(), []contract.Accepted{accepted(id, 1, id)})
				if err == nil {
					outcomes[i] = states[0]
				}
				return err
			})
			one := outcomes[0]
			fail.NowUnequal(t, outcomes, [4]order.Status{one, one, one, one}, "the calls returned")
			if outcomes[0] == order.Confirmed {
				confirmed++
			}
		}
		t.Logf("%d of %d confirmed", confirmed, rounds)
		wantAudit(t, d, order.Audit{InitialStock: rounds, Stock: rounds - confirmed, Orders: confirmed, DistinctUsers: confirmed})
	})
}

// Live orders are listed by user, and found under their key and under no other.
func TestLiveOrders(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		openVoucher(t, d, 1, 10)
		openVoucher(t, d, 2, 10)
		keyed, rejected := accepted(3, 1, 42), accepted(9, 1, 44)
		keyed.Key, rejected.Key = -77, -77
		_, err := d.AdmissionStore().Persist(t.Context(), []contract.Accepted{accepted(5, 1, 41), accepted(4, 1, 43), keyed, accepted(2, 2, 42)})
		fail.NowIf(t, err)
		fail.NowIf(t, fail.Of(d.AdmissionStore().Reject(t.Context(), rejected)))
		live := func(id, user int64, key order.KeyHash) order.Order {
			return order.Order{ID: id, VoucherID: 1, UserID: user, Key: key}
		}
		for _, page := range []struct {
			after int64
			limit int
			want  []order.Order
		}{
			{0, 2, []order.Order{live(5, 41, 0), live(3, 42, -77)}},
			{42, 2, []order.Order{live(4, 43, 0)}},
			{43, 2, []order.Order{}},
		} {
			got, err := d.AdmissionStore().LiveOrders(t.Context(), 1, page.after, page.limit)
			if fail.NowIf(t, err); !reflect.DeepEqual(got, page.want) {
				t.Errorf("after user %d: %+v, want %+v", page.after, got, page.want)
			}
		}
		o, err := d.Orders().OrderUnderKey(t.Context(), 1, 42, -77)
		if fail.NowIf(t, err); o.ID != 3 || o.Key != -77 || o.Status != order.Confirmed || o.CreatedAt.IsZero() {
			t.Errorf("%+v", o)
		}
		for name, of := range map[string]struct {
			voucher, user int64
			key           order.KeyHash
		}{
			"another key": {1, 42, -78}, "another voucher": {2, 42, -77}, "another user": {1, 41, -77},
			"an order without a key": {1, 41, 0}, "a rejected order": {1, 44, -77},
		} {
			fail.Unless(t, fail.Of(d.Orders().OrderUnderKey(t.Context(), of.voucher, of.user, of.key)), order.ErrNotFound, "%s", name)
		}
	})
}
