package reconcile

import (
	"strings"
	"testing"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
)

func TestReadings(t *testing.T) {
	open := contract.EpochState{Epoch: 2, Seq: []int64{40}, Stock: 60}
	in := func(seq, stock, pending int64) buckets {
		return buckets{{epoch: 2, seq: seq, stock: stock, pending: pending}}
	}
	halves := contract.EpochState{Epoch: 2, Seq: []int64{20, 20}, Stock: 60}
	part := func(seq, stock, lent int64) bucket {
		return bucket{epoch: 2, seq: seq, stock: stock, lent: lent}
	}
	drawn := buckets{part(21, 20, 10), part(21, 40, -10)}
	missing := bucket{epoch: -1, seq: -1, stock: -1}
	right := &order.Audit{InitialStock: 100, Stock: 60, Orders: 40, DistinctUsers: 40}
	for _, tc := range []struct {
		name           string
		before, after  buckets
		database       contract.EpochState
		audit          *order.Audit
		unacknowledged int64
		state          State
		drift          int64
		balanced       bool
	}{
		{name: "at rest", before: in(40, 60, 0), after: in(40, 60, 0), database: open, audit: right, state: AtRest, balanced: true},
		{name: "on their way", before: in(50, 50, 10), after: in(50, 50, 10), database: open, state: AtRest, balanced: true},
		{name: "accepted meanwhile", before: in(50, 50, 10), after: in(55, 45, 15), database: open, state: Moving, balanced: true},
		{name: "confirmed and acknowledged meanwhile", before: in(50, 50, 20), after: in(50, 50, 5), database: open, state: Moving, balanced: true},
		{name: "given back meanwhile", before: in(50, 50, 10), after: in(51, 51, 9), database: open, state: Moving, balanced: true},
		{name: "confirmed, not acknowledged", before: in(50, 50, 20), after: in(50, 50, 20), database: open, unacknowledged: 10, state: AtRest, balanced: true},
		{name: "confirmed, not acknowledged, and one too many", before: in(50, 50, 21), after: in(50, 50, 21), database: open, unacknowledged: 10, state: AtRest, drift: -1},
		{name: "stock that nobody can buy", before: in(40, 57, 0), after: in(40, 57, 0), database: open, state: AtRest, drift: 3},
		{name: "the same in the middle of a sale", before: in(50, 47, 10), after: in(55, 42, 15), database: open, state: Moving, drift: 3},
		{name: "stock that is not there", before: in(40, 63, 0), after: in(40, 63, 0), database: open, state: AtRest, drift: -3},
		{name: "Redis is behind", before: in(39, 60, 0), after: in(39, 60, 0), database: open, state: AtRest},
		{name: "Redis is empty", before: buckets{missing}, after: buckets{missing}, database: open, state: Closed, balanced: true},
		{name: "the database is an epoch behind", before: buckets{{epoch: 4, seq: 40, stock: 60}}, after: buckets{{epoch: 4, seq: 40, stock: 60}}, database: open, state: Closed},
		{name: "closed in the database", before: in(40, 99, 0), after: in(40, 99, 0), database: contract.EpochState{Epoch: 3, Seq: []int64{0}, Stock: 60}, state: Closed, balanced: true},
		{name: "opened meanwhile", before: buckets{{epoch: 1, stock: -1}}, after: in(40, 60, 0), database: open, state: Closed, balanced: true},
		{name: "forgotten", before: in(40, 60, 0), after: buckets{missing}, database: contract.EpochState{Epoch: 3, Seq: []int64{40}, Stock: 60, Forgotten: true},
			audit: right, state: Forgotten, balanced: true},
		{name: "forgotten, and an order without stock", before: buckets{missing}, after: buckets{missing},
			database: contract.EpochState{Epoch: 3, Seq: []int64{40}, Stock: 60, Forgotten: true},
			audit:    &order.Audit{InitialStock: 100, Stock: 60, Orders: 41, DistinctUsers: 41}, state: Forgotten},
		{name: "new", before: buckets{missing}, after: buckets{missing}, database: contract.EpochState{Epoch: 1, Seq: []int64{0}, Stock: 60}, state: NeverOpened, balanced: true},
		{name: "an order without stock", before: in(40, 60, 0), after: in(40, 60, 0), database: open,
			audit: &order.Audit{InitialStock: 100, Stock: 60, Orders: 41, DistinctUsers: 41}, state: AtRest},
		{name: "two orders of one user", before: in(40, 60, 0), after: in(40, 60, 0), database: open,
			audit: &order.Audit{InitialStock: 100, Stock: 60, Orders: 40, DistinctUsers: 39}, state: AtRest},
		{name: "split, drawn", before: drawn, after: drawn, database: halves, state: AtRest, balanced: true},
		{name: "split, in transit", before: buckets{part(21, 20, 10), part(20, 30, 0)}, after: buckets{part(21, 20, 10), part(20, 30, 0)},
			database: halves, state: AtRest, balanced: true},
		// The giver was read before it gave, the taker after it had taken.
		{name: "split, drawn between the readings", before: buckets{part(20, 30, 0), part(21, 40, -10)}, after: drawn,
			database: halves, state: Moving, balanced: true},
		{name: "split, stock that is not there", before: buckets{part(21, 23, 7), part(21, 40, -7)}, after: buckets{part(21, 23, 7), part(21, 40, -7)},
			database: halves, state: AtRest, drift: -3},
		{name: "split, one bucket is behind", before: drawn, after: drawn, database: contract.EpochState{Epoch: 2, Seq: []int64{20, 22}, Stock: 60}, state: AtRest},
		{name: "split, one bucket is empty", before: buckets{part(20, 30, 0), missing}, after: buckets{part(20, 30, 0), missing},
			database: halves, state: Closed, balanced: true},
		{name: "split, one bucket is not open yet", before: buckets{part(20, 30, 0), {epoch: 1, seq: 20, stock: 9}}, after: buckets{part(20, 30, 0), {epoch: 1, seq: 20, stock: 9}},
			database: halves, state: Closed, balanced: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := Reading{before: tc.before, after: tc.after, database: tc.database, audit: tc.audit, unacknowledged: tc.unacknowledged}
			if l.State() != tc.state || l.drift() != tc.drift || l.Balanced() != tc.balanced {
				t.Errorf("%s, drift %d, balanced %v; want %s, %d, %v", l.State(), l.drift(), l.Balanced(), tc.state, tc.drift, tc.balanced)
			}
		})
	}
}

// A table with a voucher that was read while it moved says what that means.
func TestReconcileTableOfWhatMoves(t *testing.T) {
	for s, noted := range map[State]bool{AtRest: false, Moving: true} {
		var out strings.Builder
		report := Report{Vouchers: []Equation{{VoucherID: "7", State: s, Balanced: true}}}
		if err := report.PrintTable(&out); err != nil || strings.Contains(out.String(), "\nmoving: read at several moments") != noted {
			t.Errorf("%s, %v:\n%s", s, err, out.String())
		}
	}
}
