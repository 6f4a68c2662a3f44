package judge

import (
	"cmp"
	"slices"

	"seckill/internal/trace"
)

// lostUpdate is a write of the stock that undoes another one: it was computed from
// a value that the other had replaced.
type lostUpdate struct {
	undone, by *sale
}

// lostUpdates finds the writes that undo others. Only unguarded ones can: the other
// ways ask in the same statement whether the stock is what they take it for.
func (h *history) lostUpdates() []lostUpdate {
	of := map[int64][]*sale{} // by commit
	for _, s := range h.sales {
		if s.sold() {
			of[s.voucher] = append(of[s.voucher], s)
		}
	}
	var found []lostUpdate
	for _, sold := range of {
		for i, s := range sold {
			if !s.unguarded() || s.read == nil {
				continue
			}
			for j := i - 1; j >= 0; j-- {
				_, to := sold[j].commitSpan()
				if to < min(s.began, s.read.At) {
					break // nor were those before
				}
				if unseen(s, sold[j], sold[:i]) {
					found = append(found, lostUpdate{sold[j], s})
					break
				}
			}
		}
	}
	slices.SortStableFunc(found, func(a, b lostUpdate) int { return cmp.Compare(a.by.ended.At, b.by.ended.At) })
	return found
}

// unseen says whether what s read is certainly not what other left behind, which is
// one of those that were committed before s was.
func unseen(s, other *sale, before []*sale) bool {
	if from, _ := other.commitSpan(); from > s.read.At {
		return true
	}
	// The times leave it open, as where s sees its transaction's snapshot. But s has
	// read what the other one has read, which the other one has replaced; unless
	// somebody wrote that value anew.
	if !other.unguarded() || other.read == nil || other.read.Stock != s.read.Stock || other.write.Stock == s.read.Stock {
		return false
	}
	for _, x := range slices.Backward(before) {
		from, to := x.commitSpan()
		if to < other.began {
			break
		}
		anew := x.write.Mode != trace.ModeUnguarded || x.write.Stock == s.read.Stock
		if x != other && anew && from < s.read.At {
			return false
		}
	}
	return true
}

// lostOrders are the orders that a buyer was told are placed and that the database
// does not have.
func (h *history) lostOrders() []Ack {
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
