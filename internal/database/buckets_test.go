package database

import (
	"reflect"
	"testing"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

func TestEachBucketHasASequenceNumber(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		store := d.AdmissionStore()
		openSplitVoucher(t, d, 1, 100, 4)
		openSplitVoucher(t, d, 2, 100, 2)
		openSplitVoucher(t, d, 3, 100, 1)
		wantEpochState(t, d, 1, contract.EpochState{Epoch: 2, Seq: make([]int64, 4), Stock: 100})

		in := func(id, voucherID int64, bucket int, seq int64) contract.Accepted {
			a := accepted(id, voucherID, id)
			a.Bucket, a.Seq = bucket, seq
			return a
		}
		for _, batch := range [][]contract.Accepted{
			// Several of one bucket, in no order, and nothing of the last bucket.
			{in(1, 1, 2, 7), in(2, 1, 0, 3), in(3, 2, 1, 9), in(4, 1, 2, 5), in(5, 1, 1, 2), in(6, 3, 0, 4)},
			{in(7, 1, 2, 6), in(8, 1, 0, 1)},                  // late: the greater number stays
			{in(9, 1, 1, 4)},                                  // one bucket, and not the first
			{in(7, 1, 2, 6), in(7, 1, 2, 6), in(10, 1, 2, 8)}, // delivered again, with a new one
		} {
			fail.NowIf(t, fail.Of(store.Persist(t.Context(), batch)))
		}
		wantEpochState(t, d, 1, contract.EpochState{Epoch: 2, Seq: []int64{3, 4, 8, 0}, Stock: 92})
		wantEpochState(t, d, 2, contract.EpochState{Epoch: 2, Seq: []int64{0, 9}, Stock: 99})
		wantEpochState(t, d, 3, contract.EpochState{Epoch: 2, Seq: []int64{4}, Stock: 99})

		// An order that is not persisted raises no sequence number.
		fail.Unless(t, fail.Of(store.Persist(t.Context(), []contract.Accepted{in(11, 1, 3, 11), in(12, 4, 0, 1)})), order.ErrVoucherMissing)
		fail.NowIf(t, fail.Of(store.Reject(t.Context(), in(13, 1, 3, 12))))
		want := contract.EpochState{Epoch: 3, Seq: []int64{3, 4, 8, 0}, Stock: 92}
		now, err := store.Close(t.Context(), 1)
		if fail.NowIf(t, err); !sameEpochState(now, want) {
			t.Errorf("closed as %+v, want %+v", now, want)
		}
		want.Epoch++
		now, err = store.Open(t.Context(), 1, 3)
		if fail.NowIf(t, err); !sameEpochState(now, want) {
			t.Errorf("opened as %+v, want %+v", now, want)
		}
		wantNoOpenTransaction(t, d)
	})
}

// A voucher and its buckets are created together or not at all.
func TestSplitVoucherIsCreatedWhole(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		v := newVoucher(1, 10)
		v.Policy.Flow, v.Policy.Buckets = voucher.FlowAdmission, 3
		fail.NowIf(t, d.Vouchers().CreateVoucher(t.Context(), v))
		fail.Unless(t, d.Vouchers().CreateVoucher(t.Context(), v), errDuplicate)
		got, err := d.Vouchers().Voucher(t.Context(), 1)
		if fail.NowIf(t, err); !reflect.DeepEqual(got, v) {
			t.Errorf("stored %+v\n got   %+v", v, got)
		}

		fail.NowIf(t, fail.Of(d.singles.ExecContext(t.Context(), "INSERT INTO admission_seqs (voucher_id, bucket, seq) VALUES (2, 2, 0)")))
		v.ID = 2
		fail.Unless(t, d.Vouchers().CreateVoucher(t.Context(), v), errDuplicate)
		fail.Unless(t, fail.Of(d.Vouchers().Voucher(t.Context(), 2)), voucher.ErrNotFound)
		fail.Unless(t, fail.Of(d.AdmissionStore().EpochState(t.Context(), 2)), voucher.ErrNotFound)
		wantEpochState(t, d, 1, contract.EpochState{Epoch: 1, Seq: make([]int64, 3), Stock: 10})
		wantNoOpenTransaction(t, d)
	})
}
