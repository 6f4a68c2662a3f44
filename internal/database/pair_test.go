package database

import (
	"errors"
	"testing"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/pairing"
	"seckill/internal/testkit/fail"
)

// Each step compares what it replaces.
func TestPairs(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		s := d.Pairs()
		want := func(what string, want pairing.Record) {
			t.Helper()
			if r, err := s.Pair(t.Context()); err != nil || r != want {
				t.Errorf("%s: %+v, %v, want %+v", what, r, err, want)
			}
		}
		want("a new database", pairing.Record{})
		first := pairing.Record{Mark: "a", Partner: "r"}
		for _, again := range []bool{false, true} {
			if taken, err := s.TakePair(t.Context(), pairing.Record{}, first); err != nil || taken == again {
				t.Errorf("taken %v, %v", taken, err)
			}
		}
		want("paired", first)
		fail.NowIf(t, s.ProposeMark(t.Context(), first, "b"))
		fail.NowIf(t, s.ProposeMark(t.Context(), first, "c")) // another process, later
		want("proposed", pairing.Record{Mark: "a", Next: "b", Partner: "r"})
		fail.NowIf(t, s.SettleMark(t.Context(), "c", "r"))
		fail.NowIf(t, s.SettleMark(t.Context(), "b", "s"))
		want("settled", pairing.Record{Mark: "b", Partner: "s"})
		fail.NowIf(t, s.LeavePair(t.Context(), pairing.Record{Mark: "b"}))
		want("left", pairing.Record{Mark: "b", Partner: "s", Clean: true})
		now, err := s.Pair(t.Context())
		fail.NowIf(t, err)
		if taken, err := s.TakePair(t.Context(), now, pairing.Record{Generation: 1, Mark: "d", Partner: "r"}); !taken || err != nil {
			t.Errorf("taken %v, %v", taken, err)
		}
		want("a new generation", pairing.Record{Generation: 1, Mark: "d", Partner: "r"})
	})
}

// A process of an earlier generation has another Redis. Of a voucher that was closed or opened under a later one it
// writes nothing, and it rejects nothing either.
func TestStoreOfAnEarlierGeneration(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		openVoucher(t, d, 1, 10)
		of := func(generation int64, err error) *AdmissionStore {
			return d.AdmissionStore().WithPair(func() (int64, error) { return generation, err })
		}
		earlier, later, unpaired := of(0, nil), of(1, nil), of(0, pairing.ErrUnpaired)
		fail.NowIf(t, fail.Of(earlier.Persist(t.Context(), []contract.Accepted{accepted(1, 1, 1)})))
		closed, err := later.Close(t.Context(), 1)
		fail.NowIf(t, err)
		fail.NowIf(t, fail.Of(later.Persist(t.Context(), []contract.Accepted{accepted(2, 1, 2)})))
		opened, err := later.Open(t.Context(), 1, closed.Epoch)
		if fail.NowIf(t, err); opened.Generation != 1 {
			t.Errorf("opened as %+v", opened)
		}
		sameEpoch := accepted(5, 1, 5) // of another Redis, which has come to the same epoch
		sameEpoch.Epoch = 4
		for what, err := range map[string]error{
			"Persist":               fail.Of(earlier.Persist(t.Context(), []contract.Accepted{accepted(3, 1, 3)})),
			"Persist, same epoch":   fail.Of(earlier.Persist(t.Context(), []contract.Accepted{sameEpoch})),
			"Close":                 fail.Of(earlier.Close(t.Context(), 1)),
			"CloseAbove":            fail.Of(earlier.CloseAbove(t.Context(), 1, 50)),
			"Persist, while broken": fail.Of(unpaired.Persist(t.Context(), []contract.Accepted{accepted(4, 1, 4)})),
			"Reject, while broken":  fail.Of(unpaired.Reject(t.Context(), accepted(4, 1, 4))),
			"Close, while broken":   fail.Of(unpaired.Close(t.Context(), 1)),
		} {
			if !errors.Is(err, pairing.ErrUnpaired) || errors.Is(err, order.ErrStaleEpoch) {
				t.Errorf("%s: %v", what, err)
			}
		}
		wantEpochState(t, d, 1, contract.EpochState{Epoch: 4, Seq: []int64{2}, Stock: 8, Generation: 1})
	})
}
