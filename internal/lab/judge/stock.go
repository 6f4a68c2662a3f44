package judge

import (
	"cmp"
	"slices"

	"seckill/internal/eventlog"
)

// LostUpdate is a write of the stock that overwrites another one: it was computed from a value
// that the other write had replaced.
type LostUpdate struct {
	Overwritten, By *Transaction
}

// lostUpdates finds them. Only unguarded writes can be: the others check the stock in the same
// statement.
func (h *History) lostUpdates() []LostUpdate {
	of := map[int64][]*Transaction{} // by time of the commit
	for _, s := range h.Transactions {
		if s.TookStock() {
			of[s.Voucher] = append(of[s.Voucher], s)
		}
	}
	var found []LostUpdate
	for _, sold := range of {
		for i, s := range sold {
			if !s.Unguarded() || s.Read == nil {
				continue
			}
			for j := i - 1; j >= 0; j-- {
				_, to := sold[j].CommitSpan()
				if to < min(s.Began, s.Read.At) {
					break // earlier ones were seen, too
				}
				if unseen(s, sold[j], sold[:i]) {
					found = append(found, LostUpdate{sold[j], s})
					break
				}
			}
		}
	}
	slices.SortStableFunc(found, func(a, b LostUpdate) int { return cmp.Compare(a.By.Ended.At, b.By.Ended.At) })
	return found
}

// unseen reports whether s certainly did not read what other had left. before are the
// transactions that were committed before s.
func unseen(s, other *Transaction, before []*Transaction) bool {
	if from, _ := other.CommitSpan(); from > s.Read.At {
		return true
	}
	// The times do not decide it, for example if s reads its transaction's snapshot. But s has
	// read the same value as the other one, which the other one has replaced; unless a third
	// one wrote that value again.
	if !other.Unguarded() || other.Read == nil || other.Read.Stock != s.Read.Stock || other.Write.Stock == s.Read.Stock {
		return false
	}
	for _, x := range slices.Backward(before) {
		from, to := x.CommitSpan()
		if to < other.Began {
			break
		}
		anew := x.Write.Mode != eventlog.ModeUnguarded || x.Write.Stock == s.Read.Stock
		if x != other && anew && from < s.Read.At {
			return false
		}
	}
	return true
}

// lostOrders returns the confirmed orders that the database does not have.
func (h *History) lostOrders() []Ack {
	has := map[int64]bool{}
	for _, row := range h.Rows {
		has[row.ID] = true
	}
	var found []Ack
	for _, ack := range h.Acks {
		if !has[ack.Order] {
			found = append(found, ack)
		}
	}
	return found
}
