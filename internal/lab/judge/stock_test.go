package judge_test

import (
	"maps"
	"testing"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
	"seckill/internal/order"
)

func TestBooks(t *testing.T) {
	const paid, back = true, true
	for name, c := range map[string]struct {
		orders   map[int64]order.Status // by id; those above 100 are overdue
		payments []judge.BookedPayment
		audit    order.Audit
		want     map[finding.Kind]int
	}{
		"every state as it should be": {
			map[int64]order.Status{1: order.Paid, 2: order.Cancelled, 3: order.Expired, 4: order.Refunded, 5: order.Unpaid, 101: order.Paid},
			[]judge.BookedPayment{{1, paid, false}, {2, paid, back}, {4, paid, back}, {5, false, false}, {101, paid, false}},
			order.Audit{InitialStock: 9, Stock: 6, Orders: 3, DistinctUsers: 3}, nil,
		},
		"money for cancelled and unpaid orders, and twice for one": {
			map[int64]order.Status{1: order.Cancelled, 2: order.Unpaid, 3: order.Paid},
			[]judge.BookedPayment{{1, paid, false}, {2, paid, false}, {3, paid, false}, {3, paid, false}, {4, paid, false}},
			order.Audit{InitialStock: 2, Orders: 2, DistinctUsers: 2}, map[finding.Kind]int{finding.PaidForNothing: 4},
		},
		"paid without money, and with money that went back": {
			map[int64]order.Status{1: order.Paid, 2: order.Paid, 3: order.Paid, 4: order.Paid},
			[]judge.BookedPayment{{1, paid, back}, {2, false, false}, {4, paid, back}, {4, paid, false}},
			order.Audit{InitialStock: 4, Orders: 4, DistinctUsers: 4}, map[finding.Kind]int{finding.GivenAway: 3},
		},
		"more on sale than there is": {
			map[int64]order.Status{1: order.Expired, 2: order.Unpaid}, nil,
			order.Audit{InitialStock: 3, Stock: 4, Orders: 1, DistinctUsers: 1}, map[finding.Kind]int{finding.ReturnedTwice: 2},
		},
		"oversold, and nothing on sale": {
			nil, nil, order.Audit{InitialStock: 3, Orders: 5, DistinctUsers: 5}, map[finding.Kind]int{finding.Oversold: 2},
		},
		"overdue and unpaid": {
			map[int64]order.Status{101: order.Unpaid, 102: order.Unpaid, 103: order.Expired, 4: order.Unpaid}, nil,
			order.Audit{InitialStock: 4, Stock: 1, Orders: 3, DistinctUsers: 3}, map[finding.Kind]int{finding.NeverReturned: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			books := &judge.Books{Payments: c.payments}
			for id, status := range c.orders {
				books.Orders = append(books.Orders, judge.BookedOrder{ID: id, Status: status, Overdue: id > 100})
			}
			want := map[finding.Kind]int{
				finding.Oversold: 0, finding.DuplicateOrders: 0,
				finding.PaidForNothing: 0, finding.GivenAway: 0, finding.ReturnedTwice: 0, finding.NeverReturned: 0,
			}
			maps.Copy(want, c.want)
			if got := judge.Judge(judge.Evidence{Audit: &c.audit, Books: books}).Anomalies; !maps.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}

// A unit is undersold if nobody has it and a user who asked for one has none.
func TestUndersold(t *testing.T) {
	const unknown = -1
	for name, c := range map[string]struct {
		refused []int64 // users
		have    []int64
		units   int64
		want    int
	}{
		"nobody was refused":                     {[]int64{}, []int64{1}, 3, 0},
		"nobody asked who was refused":           {nil, []int64{1}, 3, unknown},
		"all is sold":                            {[]int64{4, 5}, []int64{1, 2, 3}, 3, 0},
		"more is sold than there is":             {[]int64{5}, []int64{1, 2, 3, 4}, 3, 0},
		"fewer refused than left":                {[]int64{2, 3}, []int64{1}, 9, 2},
		"fewer left than refused":                {[]int64{2, 3, 4, 5}, []int64{1}, 3, 2},
		"refused twice":                          {[]int64{2, 2, 2}, []int64{1}, 9, 1},
		"refused, and has an order all the same": {[]int64{1, 2}, []int64{1}, 9, 1},
	} {
		t.Run(name, func(t *testing.T) {
			ev := judge.Evidence{Refused: c.refused, Rows: []order.Order{}, Audit: &order.Audit{
				InitialStock: c.units, Orders: int64(len(c.have)), DistinctUsers: int64(len(c.have)),
			}}
			for i, user := range c.have {
				ev.Rows = append(ev.Rows, order.Order{ID: int64(i + 1), UserID: user})
			}
			got, looked := judge.Judge(ev).Anomalies[finding.Undersold]
			if !looked {
				got = unknown
			}
			if got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}
