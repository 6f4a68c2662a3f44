package admission_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"seckill/internal/admission"
	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// Vouchers that always fail keep neither the others from being forgotten nor the forgetter from counting those that do
// not balance.
func TestForgetterPassesVouchersThatFail(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		broken []int64
		kept   [][]int // what is counted in each of the rounds
	}{
		{"none", nil, [][]int{{1}, {1}, {1}}},
		{"one", []int64{3}, [][]int{{1}, {1}, {1}}},
		{"two apart", []int64{2, 5}, [][]int{{1}, {1}, {1}}},
		{"so many in a row that the round ends", []int64{2, 3, 4, 5}, [][]int{nil, {1}, nil}},
		{"all others", []int64{2, 3, 4, 5, 6, 7}, [][]int{nil, nil, {1}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, testkit.SQLite(t))
			const vouchers, unbalanced = 7, 1
			for id := range int64(vouchers) {
				s.createEnded(id + 1)
			}
			for _, id := range tc.broken {
				fail.NowIf(t, s.client.Set(t.Context(), ledger.KeysOf(s.prefix, id, 0).Meta, "no hash", 0).Err())
			}
			var kept []int
			f, err := s.gate.Forgetter(admission.ForgetConfig{
				After: time.Second, Log: slog.New(slog.DiscardHandler),
				Balances: func(_ context.Context, v contract.AdmissionVoucher) (bool, error) {
					return v.VoucherID != unbalanced, nil
				},
				Kept: func(n int) { kept = append(kept, n) },
			})
			fail.NowIf(t, err)
			for round, want := range tc.kept {
				kept = nil
				if f.Round(t.Context()); !slices.Equal(kept, want) {
					t.Errorf("round %d counted %v, want %v", round, kept, want)
				}
			}
			for id := range int64(vouchers) {
				st, err := s.db.AdmissionStore().EpochState(t.Context(), id+1)
				fail.NowIf(t, err)
				if want := id+1 != unbalanced && !slices.Contains(tc.broken, id+1); st.Forgotten != want {
					t.Errorf("voucher %d: forgotten %v, want %v", id+1, st.Forgotten, want)
				}
			}

			// The voucher that does not balance is gone, and is not counted any more.
			_, err = s.db.Pools()["writers"].ExecContext(t.Context(), "DELETE FROM vouchers WHERE id = ?", unbalanced)
			fail.NowIf(t, err)
			testkit.Until(t, "nothing is counted", func() bool {
				f.Round(t.Context())
				return len(kept) > 0 && kept[len(kept)-1] == 0
			})
		})
	}
}

// createEnded stores a voucher of the admission flow whose sale is over.
func (s *shop) createEnded(id int64) {
	s.t.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	v := &voucher.Voucher{
		ID: id, Title: fmt.Sprint("voucher ", id), Stock: 1, InitialStock: 1, BeginAt: now.Add(-time.Hour), EndAt: now.Add(-time.Minute),
		Policy: voucher.DefaultPolicy(), CreatedAt: now,
	}
	v.Policy.Flow, v.Policy.Buckets = voucher.FlowAdmission, 1
	fail.NowIf(s.t, s.db.Vouchers().CreateVoucher(s.t.Context(), v))
}
