package database

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// admitting puts a voucher on sale by admission, open under the epoch 2.
func admitting(t testing.TB, d *DB, id, stock int64) {
	t.Helper()
	admittingSplit(t, d, id, stock, 0)
}

// admittingSplit is admitting for a voucher with so many buckets.
func admittingSplit(t testing.TB, d *DB, id, stock int64, buckets int) {
	t.Helper()
	v := newVoucher(id, stock)
	v.Policy.Flow, v.Policy.Buckets = voucher.FlowAdmission, buckets
	if err := d.Vouchers().CreateVoucher(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	if now, err := d.Shelf().Open(t.Context(), id, firstEpoch); err != nil || !now.Open() || now.Stock != stock {
		t.Fatalf("opened as %+v, %v", now, err)
	}
}

func accepted(id, voucherID, userID int64) order.Accepted {
	return order.Accepted{OrderID: id, VoucherID: voucherID, UserID: userID, At: newOrder(0, 0, 0).CreatedAt, Epoch: 2, Seq: id}
}

// acceptedRange are the orders from to below to, of users of the same numbers.
func acceptedRange(from, to, voucherID int64) (batch []order.Accepted) {
	for id := from; id < to; id++ {
		batch = append(batch, accepted(id, voucherID, id))
	}
	return batch
}

func wantStanding(t *testing.T, d *DB, id int64, want order.Standing) {
	t.Helper()
	if got, err := d.Shelf().Standing(t.Context(), id); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("voucher %d stands at %+v, %v; want %+v", id, got, err, want)
	}
}

// allStates fails unless a batch was persisted with every order in a state.
func allStates(t *testing.T, got []order.Status, err error, n int, want order.Status) {
	t.Helper()
	wantErr(t, err)
	if len(got) != n || slices.ContainsFunc(got, func(s order.Status) bool { return s != want }) {
		t.Errorf("states %v, want %d times %s", got, n, want)
	}
}

func TestPersistOnceHoweverOftenDelivered(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		admitting(t, d, 1, 100)
		admitting(t, d, 2, 100)
		// Three of one voucher, one of them twice, and one of another.
		batch := []order.Accepted{accepted(3, 1, 43), accepted(1, 1, 41), accepted(9, 2, 41), accepted(3, 1, 43), accepted(2, 1, 42)}
		for range 3 {
			states, err := d.Shelf().Persist(t.Context(), batch)
			allStates(t, states, err, 5, order.Confirmed)
		}
		overlapping := append(slices.Clone(batch), accepted(4, 1, 44))
		states, err := d.Shelf().Persist(t.Context(), overlapping)
		allStates(t, states, err, 6, order.Confirmed)

		wantAudit(t, d, order.Audit{InitialStock: 100, Stock: 96, Orders: 4, DistinctUsers: 4})
		wantStanding(t, d, 1, order.Standing{Epoch: 2, Seq: []int64{4}, Stock: 96})
		wantStanding(t, d, 2, order.Standing{Epoch: 2, Seq: []int64{9}, Stock: 99})
		stored, err := d.Orders().Order(t.Context(), 3)
		if wantErr(t, err); stored != newOrder(3, 1, 43) {
			t.Errorf("stored %+v", stored)
		}
		states, err = d.Shelf().Persist(t.Context(), nil)
		allStates(t, states, err, 0, "")
		if _, err := d.Shelf().Persist(t.Context(), make([]order.Accepted, MaxBatch+1)); err == nil {
			t.Error("took more than it can")
		}
		noneAtWork(t, d)
	})
}

func TestPersistTheLargestBatch(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		admitting(t, d, 1, MaxBatch)
		states, err := d.Shelf().Persist(t.Context(), acceptedRange(1, MaxBatch+1, 1))
		allStates(t, states, err, MaxBatch, order.Confirmed)
		wantAudit(t, d, order.Audit{InitialStock: MaxBatch, Orders: MaxBatch, DistinctUsers: MaxBatch})
	})
}

// One entry that cannot be persisted takes the whole batch with it, and says why.
func TestPersistAllOrNothing(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		admitting(t, d, 1, 4)
		onSale(t, d, 3, 10) // sold under a lock
		states, err := d.Shelf().Persist(t.Context(), []order.Accepted{accepted(1, 1, 41)})
		allStates(t, states, err, 1, order.Confirmed)
		stale := accepted(50, 1, 50)
		stale.Epoch = 0
		for name, tc := range map[string]struct {
			poison order.Accepted
			want   error
		}{
			"a user's second order":       {accepted(50, 1, 41), order.ErrAlreadyOrdered},
			"twice in the batch":          {accepted(50, 1, 12), order.ErrAlreadyOrdered},
			"another user's id":           {accepted(1, 1, 50), order.ErrIDTaken},
			"another voucher's id":        {accepted(1, 2, 41), order.ErrIDTaken},
			"an id twice in the batch":    {accepted(12, 1, 50), order.ErrIDTaken},
			"a voucher that is not there": {accepted(50, 2, 50), voucher.ErrNotFound},
			"a voucher with a lock":       {accepted(50, 3, 50), voucher.ErrNotFound},
			"an epoch that is over":       {stale, order.ErrStaleEpoch},
			"one more than there are":     {accepted(50, 1, 50), voucher.ErrSoldOut},
		} {
			t.Run(name, func(t *testing.T) {
				batch := append(acceptedRange(11, 14, 1), tc.poison)
				for range 2 {
					_, err := d.Shelf().Persist(t.Context(), batch)
					wantErr(t, err, tc.want)
				}
				wantAudit(t, d, order.Audit{InitialStock: 4, Stock: 3, Orders: 1, DistinctUsers: 1})
			})
		}
		states, err = d.Shelf().Persist(t.Context(), acceptedRange(11, 14, 1))
		allStates(t, states, err, 3, order.Confirmed)
		wantAudit(t, d, order.Audit{InitialStock: 4, Orders: 4, DistinctUsers: 4})
		noneAtWork(t, d)
	})
}

// Several consumers have the same entries, in other batches and another order, of the
// same three vouchers, one of them with one bucket and two with several.
func TestPersistByManyAtOnce(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		const orders, consumers = 240, 8
		var all []order.Accepted
		for v := int64(1); v <= 3; v++ {
			admittingSplit(t, d, v, orders, int(v))
			all = append(all, acceptedRange(v*1000, v*1000+orders, v)...)
		}
		for i, a := range all {
			all[i].Bucket = int(a.OrderID % a.VoucherID)
		}
		for _, err := range rush(consumers, func(int) error {
			mine := slices.Clone(all)
			rand.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
			for batch := range slices.Chunk(mine, 60) {
				states, err := d.Shelf().Persist(t.Context(), batch)
				for errors.Is(err, order.ErrUnavailable) { // too many collisions: the same again
					states, err = d.Shelf().Persist(t.Context(), batch)
				}
				if err != nil {
					return err
				}
				if slices.ContainsFunc(states, func(s order.Status) bool { return s != order.Confirmed }) {
					return errors.New("not all are confirmed")
				}
			}
			return nil
		}) {
			wantErr(t, err)
		}
		for v := int64(1); v <= 3; v++ {
			got, err := d.Orders().Audit(t.Context(), v)
			wantErr(t, err)
			if want := (order.Audit{InitialStock: orders, Orders: orders, DistinctUsers: orders}); !reflect.DeepEqual(got, want) {
				t.Errorf("voucher %d: %+v, want %+v", v, got, want)
			}
			seq := make([]int64, v)
			for _, a := range all {
				if a.VoucherID == v {
					seq[a.Bucket] = max(seq[a.Bucket], a.Seq)
				}
			}
			wantStanding(t, d, v, order.Standing{Epoch: 2, Seq: seq})
		}
		noneAtWork(t, d)
	})
}

// More orders than there are, in batches of five at the same moment.
func TestPersistNeverTakesMoreThanThereIs(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		admitting(t, d, 1, 12)
		said := countErrs(t, rush(6, func(i int) error {
			_, err := d.Shelf().Persist(t.Context(), acceptedRange(int64(i)*5+1, int64(i)*5+6, 1))
			return err
		}), nil, voucher.ErrSoldOut)
		if said[nil] != 2 || said[voucher.ErrSoldOut] != 4 {
			t.Errorf("%v", said)
		}
		wantAudit(t, d, order.Audit{InitialStock: 12, Stock: 2, Orders: 10, DistinctUsers: 10})
	})
}

// Somebody holds the voucher's row for longer than a statement waits.
func TestPersistRepeatsALockWait(t *testing.T) {
	servers(t, func(t *testing.T, where testkit.Database) {
		c := configOf(where)
		c.LockWait = time.Second
		d := openMigrated(t, c)
		admitting(t, d, 1, 10)
		holding := make(chan struct{})
		for _, err := range rush(2, func(i int) error {
			if i == 0 {
				return within(t, d, func(ctx context.Context, tx order.Tx) error {
					err := sent(ctx, tx, tx.Decrement(ctx, 1))
					close(holding)
					time.Sleep(1500 * time.Millisecond) // what is waited for is the server's timeout
					return errors.Join(err, tx.SetStock(ctx, 1, 10))
				})
			}
			<-holding
			_, err := d.Shelf().Persist(t.Context(), acceptedRange(1, 4, 1))
			return err
		}) {
			wantErr(t, err)
		}
		wantAudit(t, d, order.Audit{InitialStock: 10, Stock: 7, Orders: 3, DistinctUsers: 3})
		noneAtWork(t, d)
	})
}

// The connection is lost at any byte, and the batch repeated until it is said to be
// there: it is there once.
func TestPersistWhoseReplyWasLost(t *testing.T) {
	servers(t, func(t *testing.T, where testkit.Database) {
		w := newWire()
		c := configOf(where)
		c.MySQL, c.MaxWriters, c.MaxReaders = through(t, c.MySQL, w.wrap), 1, 1
		d := openMigrated(t, c)
		admittingSplit(t, d, 1, 10_000, 2)
		cuts, first := 0, int64(1)
		for _, budget := range []*atomic.Int64{&w.up, &w.down} {
			for bytes := int64(0); bytes < 1200; bytes += 17 {
				batch := acceptedRange(first, first+3, 1)
				batch[1].Bucket = 1
				first += 3
				budget.Store(bytes)
				_, err := d.Shelf().Persist(t.Context(), batch)
				budget.Store(unlimited)
				if err != nil {
					wantErr(t, err, order.ErrUnavailable)
					cuts++
				}
				states, err := d.Shelf().Persist(t.Context(), batch)
				for errors.Is(err, order.ErrUnavailable) { // a connection that was broken before
					states, err = d.Shelf().Persist(t.Context(), batch)
				}
				allStates(t, states, err, 3, order.Confirmed)
			}
		}
		if cuts < 20 {
			t.Errorf("only %d cuts", cuts)
		}
		wantStanding(t, d, 1, order.Standing{Epoch: 2, Seq: []int64{first - 1, first - 2}, Stock: 10_001 - first})
		wantAudit(t, d, order.Audit{InitialStock: 10_000, Stock: 10_001 - first, Orders: first - 1, DistinctUsers: first - 1})
		noneAtWork(t, d)
	})
}

func TestRejectIsDecidedOnce(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		admitting(t, d, 1, 10)
		state, err := d.Shelf().Reject(t.Context(), accepted(1, 1, 41))
		allStates(t, []order.Status{state}, err, 1, order.Rejected)
		state, err = d.Shelf().Reject(t.Context(), accepted(1, 1, 41)) // again
		allStates(t, []order.Status{state}, err, 1, order.Rejected)
		states, err := d.Shelf().Persist(t.Context(), []order.Accepted{accepted(1, 1, 41), accepted(2, 1, 41)})
		if wantErr(t, err); !slices.Equal(states, []order.Status{order.Rejected, order.Confirmed}) {
			t.Errorf("states %v: a rejected order stays so, and its user may have another", states)
		}
		state, err = d.Shelf().Reject(t.Context(), accepted(2, 1, 41)) // persisted meanwhile
		allStates(t, []order.Status{state}, err, 1, order.Confirmed)
		_, err = d.Shelf().Reject(t.Context(), accepted(2, 1, 99))
		wantErr(t, err, order.ErrIDTaken)
		state, err = d.Shelf().Reject(t.Context(), accepted(3, 404, 41)) // of a voucher that is not there
		allStates(t, []order.Status{state}, err, 1, order.Rejected)
		wantAudit(t, d, order.Audit{InitialStock: 10, Stock: 9, Orders: 1, DistinctUsers: 1})
		for id, want := range map[int64]int64{1: 1, 404: 1, 2: 0} {
			if n, err := d.Orders().Rejected(t.Context(), id); err != nil || n != want {
				t.Errorf("voucher %d has %d rejected orders, %v; want %d", id, n, err, want)
			}
		}
	})
}

// Of persisting and rejecting the same order at the same moment one wins, and both are
// told which.
func TestRejectMeetsPersist(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		const rounds = 30
		admitting(t, d, 1, rounds)
		confirmed := int64(0)
		for id := int64(1); id <= rounds; id++ {
			var said [4]order.Status
			for _, err := range rush(4, func(i int) (err error) {
				if i%2 == 0 {
					said[i], err = d.Shelf().Reject(t.Context(), accepted(id, 1, id))
					return err
				}
				states, err := d.Shelf().Persist(t.Context(), []order.Accepted{accepted(id, 1, id)})
				if err == nil {
					said[i] = states[0]
				}
				return err
			}) {
				wantErr(t, err)
			}
			if one := said[0]; said != [4]order.Status{one, one, one, one} {
				t.Fatalf("told %v", said)
			}
			if said[0] == order.Confirmed {
				confirmed++
			}
		}
		t.Logf("%d of %d confirmed", confirmed, rounds)
		wantAudit(t, d, order.Audit{InitialStock: rounds, Stock: rounds - confirmed, Orders: confirmed, DistinctUsers: confirmed})
	})
}

func TestLiveOrdersAreListedByUser(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		admitting(t, d, 1, 10)
		admitting(t, d, 2, 10)
		_, err := d.Shelf().Persist(t.Context(), []order.Accepted{accepted(5, 1, 41), accepted(4, 1, 43), accepted(3, 1, 42), accepted(2, 2, 42)})
		wantErr(t, err)
		_, err = d.Shelf().Reject(t.Context(), accepted(9, 1, 44))
		wantErr(t, err)
		live := func(id, user int64) order.Order {
			return order.Order{ID: id, VoucherID: 1, UserID: user, Status: order.Confirmed}
		}
		for _, page := range []struct {
			after int64
			limit int
			want  []order.Order
		}{
			{0, 2, []order.Order{live(5, 41), live(3, 42)}},
			{42, 2, []order.Order{live(4, 43)}},
			{43, 2, []order.Order{}},
		} {
			got, err := d.Shelf().LiveOrders(t.Context(), 1, page.after, page.limit)
			if wantErr(t, err); !reflect.DeepEqual(got, page.want) {
				t.Errorf("after user %d: %+v, want %+v", page.after, got, page.want)
			}
		}
	})
}
