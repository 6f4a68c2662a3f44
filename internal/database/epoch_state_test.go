package database

import (
	"slices"
	"testing"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

func TestEpochs(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		store := d.AdmissionStore()
		openVoucher(t, d, 1, 10)
		wantEpochState(t, d, 1, contract.EpochState{Epoch: 2, Seq: []int64{0}, Stock: 10})
		persist := func(id, epoch int64) error {
			a := accepted(id, 1, id)
			a.Epoch = epoch
			_, err := store.Persist(t.Context(), []contract.Accepted{a})
			return err
		}
		fail.NowIf(t, persist(1, 2))

		for range 2 { // closing what is closed changes nothing
			now, err := store.Close(t.Context(), 1)
			if fail.NowIf(t, err); !sameEpochState(now, contract.EpochState{Epoch: 3, Seq: []int64{1}, Stock: 9}) || now.Open() {
				t.Errorf("closed as %+v", now)
			}
		}
		fail.NowIf(t, persist(2, 2)) // drained

		fail.Unless(t, fail.Of(store.Open(t.Context(), 1, 2)), order.ErrConflict)
		now, err := store.Open(t.Context(), 1, 3)
		if fail.NowIf(t, err); !sameEpochState(now, contract.EpochState{Epoch: 4, Seq: []int64{2}, Stock: 8}) || !now.Open() {
			t.Errorf("opened as %+v", now)
		}
		fail.Unless(t, fail.Of(store.Open(t.Context(), 1, 3)), order.ErrConflict) // by another process, later
		fail.Unless(t, fail.Of(store.Open(t.Context(), 1, 4)), order.ErrConflict)

		fail.Unless(t, persist(7, 6), order.ErrFutureEpoch)
		fail.Unless(t, persist(3, 2), order.ErrStaleEpoch) // a consumer still held it
		fail.NowIf(t, persist(2, 2))                       // stored already, so it succeeds
		fail.NowIf(t, persist(4, 4))
		wantEpochState(t, d, 1, contract.EpochState{Epoch: 4, Seq: []int64{4}, Stock: 7})
	})
}

// The database was restored from older data: it has epoch 2, and Redis has epoch 6. Orders of that epoch are persisted,
// and the voucher is closed above it, once.
func TestDatabaseIsBehind(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		store := d.AdmissionStore()
		openVoucher(t, d, 1, 10)
		ahead := accepted(1, 1, 1)
		ahead.Epoch, ahead.Ahead = 6, true
		late := accepted(2, 1, 2) // of the same batch, and of the database's epoch
		late.Epoch = 2
		fail.NowIf(t, fail.Of(store.Persist(t.Context(), []contract.Accepted{ahead, late})))
		for range 2 {
			now, err := store.CloseAbove(t.Context(), 1, 6)
			if fail.NowIf(t, err); now.Epoch != 7 || now.Stock != 8 {
				t.Errorf("closed as %+v", now)
			}
		}
		if now, err := store.CloseAbove(t.Context(), 1, 9); err != nil || now.Epoch != 11 { // Redis is closed under 9
			t.Errorf("closed as %+v, %v", now, err)
		}
		if now, err := store.CloseAbove(t.Context(), 1, 11); err != nil || now.Epoch != 11 { // it is not behind
			t.Errorf("closed as %+v, %v", now, err)
		}
	})
}

// An order of the old epoch is persisted before Open reads the stock, or not at all: the stock that Open returns and
// the stored orders always agree.
func TestConcurrentOpenAndPersist(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		const stock, batches = 1000, 6
		openVoucher(t, d, 1, stock)
		epoch := int64(2)
		id := int64(1)
		for range 8 {
			closed, err := d.AdmissionStore().Close(t.Context(), 1)
			fail.NowIf(t, err)
			var opened contract.EpochState
			outcomes := countErrs(t, runAtOnce(batches+1, func(i int) (err error) {
				if i == batches {
					opened, err = d.AdmissionStore().Open(t.Context(), 1, closed.Epoch)
					return err
				}
				batch := acceptedRange(id+int64(i)*5, id+int64(i)*5+5, 1)
				for j := range batch {
					batch[j].Epoch = epoch
				}
				_, err = d.AdmissionStore().Persist(t.Context(), batch)
				return err
			}), nil, order.ErrStaleEpoch)
			id += 5 * batches
			epoch = opened.Epoch
			fail.Unequal(t, closed.Stock-opened.Stock, 5*int64(outcomes[nil]-1), "less when it was opened, after %v", outcomes)
			wantEpochState(t, d, 1, opened)
		}
	})
}

// Vouchers that are sold by admission are listed with their buckets until their sale ends. One that is sold under a
// lock has no epoch.
func TestAdmissionVouchersAreListed(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		store, ends := d.AdmissionStore(), newVoucher(1, 1).EndAt
		for id, buckets := range map[int64]int{4: 64, 1: 0, 2: 1, 3: 2} {
			openSplitVoucher(t, d, id, 100, buckets)
		}
		createVoucher(t, d, 5, 100)
		all := []contract.AdmissionVoucher{{VoucherID: 1, Buckets: 1, Epoch: 2}, {VoucherID: 2, Buckets: 1, Epoch: 2}, {VoucherID: 3, Buckets: 2, Epoch: 2}, {VoucherID: 4, Buckets: 64, Epoch: 2}}
		for at, want := range map[time.Time][]contract.AdmissionVoucher{ends.Add(-time.Microsecond): all, ends: {}} {
			if got, err := store.AdmissionVouchers(t.Context(), at); err != nil || !slices.Equal(got, want) {
				t.Errorf("ending after %v: %+v, %v; want %+v", at, got, err, want)
			}
		}
		wantEpochState(t, d, 4, contract.EpochState{Epoch: 2, Seq: make([]int64, 64), Stock: 100})
		for _, id := range []int64{5, 404} {
			fail.Unless(t, fail.Of(store.EpochState(t.Context(), id)), voucher.ErrNotFound)
			fail.Unless(t, fail.Of(store.Close(t.Context(), id)), voucher.ErrNotFound)
			fail.Unless(t, fail.Of(store.Open(t.Context(), id, 1)), order.ErrConflict)
		}
	})
}

// AdmissionVouchers does not list a forgotten voucher. Closing it again resets the mark and gives it an epoch that no
// step of its removal applies to.
func TestVoucherIsForgottenAndOpenedAgain(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		openVoucher(t, d, 1, 10)
		ends := newVoucher(1, 1).EndAt
		store := d.AdmissionStore()
		listed := func(uncleared, onSale int) {
			t.Helper()
			got, err := store.UnclearedVouchers(t.Context(), ends, 0, 10)
			if fail.NowIf(t, err); len(got) != uncleared {
				t.Errorf("uncleared: %v, want %d", got, uncleared)
			}
			got, err = store.AdmissionVouchers(t.Context(), ends.Add(-time.Second))
			if fail.NowIf(t, err); len(got) != onSale {
				t.Errorf("on sale: %v, want %d", got, onSale)
			}
			got, err = store.AllAdmissionVouchers(t.Context())
			if fail.NowIf(t, err); len(got) != 1 {
				t.Errorf("all: %v", got)
			}
		}
		opened, err := store.EpochState(t.Context(), 1)
		fail.NowIf(t, err)
		fail.Unless(t, store.Forget(t.Context(), 1, opened.Epoch, ends), order.ErrConflict) // it is open
		closed, err := store.Close(t.Context(), 1)
		fail.NowIf(t, err)
		fail.Unless(t, store.Forget(t.Context(), 1, closed.Epoch, ends.Add(-time.Microsecond)), order.ErrConflict) // too early
		fail.Unless(t, store.Cleared(t.Context(), 1, closed.Epoch), order.ErrConflict)                             // not forgotten
		listed(1, 1)

		for range 2 { // as by two processes
			fail.NowIf(t, store.Forget(t.Context(), 1, closed.Epoch, ends))
		}
		forgotten, err := store.EpochState(t.Context(), 1)
		if fail.NowIf(t, err); !forgotten.Forgotten || forgotten.Epoch != closed.Epoch || !forgotten.EndAt.Equal(ends) {
			t.Errorf("%+v", forgotten)
		}
		listed(1, 0)
		for range 2 {
			fail.NowIf(t, store.Cleared(t.Context(), 1, closed.Epoch))
		}
		listed(0, 0)

		again, err := store.Close(t.Context(), 1)
		if fail.NowIf(t, err); again.Forgotten || again.Epoch != closed.Epoch+2 {
			t.Errorf("closed again: %+v", again)
		}
		listed(1, 1)
		fail.Unless(t, store.Forget(t.Context(), 1, closed.Epoch, ends), order.ErrConflict)
		fail.Unless(t, store.Cleared(t.Context(), 1, closed.Epoch), order.ErrConflict)
		fail.NowIf(t, fail.Of(store.Open(t.Context(), 1, again.Epoch)))
		fail.Unless(t, fail.Of(store.Persist(t.Context(), acceptedRange(1, 2, 1))), order.ErrStaleEpoch) // of epoch 2

		createVoucher(t, d, 2, 10) // a voucher under a lock has no data in Redis
		listed(1, 1)
	})
}
