package reconcile

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// store is a database with the voucher 7, which sold 4 of 10.
type store struct {
	audits, rejected int
	stock            int64
}

func (s *store) EpochState(context.Context, int64) (contract.EpochState, error) {
	return contract.EpochState{Epoch: 2, Seq: []int64{4}, Stock: s.stock}, nil
}

func (s *store) AdmissionVouchers(context.Context, time.Time) ([]contract.AdmissionVoucher, error) {
	return []contract.AdmissionVoucher{{VoucherID: 7, Buckets: 1, Epoch: 2}}, nil
}

func (s *store) AllAdmissionVouchers(ctx context.Context) ([]contract.AdmissionVoucher, error) {
	return s.AdmissionVouchers(ctx, time.Time{})
}

func (s *store) Audit(context.Context, int64) (order.Audit, error) {
	s.audits++
	return order.Audit{InitialStock: 10, Stock: s.stock, Orders: 10 - s.stock, DistinctUsers: 10 - s.stock}, nil
}

func (s *store) Order(context.Context, int64) (order.Order, error) {
	return order.Order{}, order.ErrNotFound
}

func (s *store) Rejected(context.Context, int64) (int64, error) { return int64(s.rejected), nil }

// Watch counts the orders of a voucher when it is at rest, and again only after a decision. It logs an imbalance when
// it appears and when it is over.
func TestWatchCountsOrdersOnlyWhenSomethingHappened(t *testing.T) {
	client := simulate.NewRedis(t).Client(t)
	db := &store{stock: 6}
	var logs strings.Builder
	w, err := NewWatch(New(Config{Client: client, Vouchers: db, Orders: db, Pause: time.Millisecond}),
		prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&logs, nil)))
	fail.NowIf(t, err)
	keys := ledger.KeysOf("", 7, 0)
	check := func(what string, seq, stock int64, audits int, logged string) {
		t.Helper()
		fields := []any{ledger.FieldEpoch, 2, ledger.FieldSeq, seq, ledger.FieldStock, stock, ledger.FieldReturned, 0}
		fail.NowIf(t, client.HSet(t.Context(), keys.Meta, fields...).Err())
		db.audits = 0
		logs.Reset()
		w.Check(t.Context())
		if got := logs.String(); db.audits != audits || !strings.Contains(got, logged) || logged == "" && got != "" {
			t.Errorf("%s: %d audits, want %d; logged %q, want %q", what, db.audits, audits, got, logged)
		}
	}
	check("the first time", 4, 6, 1, "")
	check("nothing happened", 4, 6, 0, "")
	check("a decision", 5, 6, 1, "")
	check("stock that nobody can buy", 5, 5, 0, "a voucher does not balance")
	check("no news", 5, 5, 2, "")
	check("it is there again", 5, 6, 1, "a voucher balances again")
	fail.Unequal(t, w.counted[7], 5, "the seq at which orders were counted")
}
