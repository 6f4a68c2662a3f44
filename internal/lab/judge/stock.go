package judge

import (
	"cmp"
	"slices"

	"seckill/internal/eventlog"
	"seckill/internal/order"
)

// Transaction is one transaction, as far as it was recorded.
type Transaction struct {
	By       Actor
	Voucher  int64
	Began    int64
	Read     *eventlog.Event // the newest before the write, of this or an earlier transaction under the same lock
	Write    *eventlog.Event
	Insert   *eventlog.Event
	Checked  *eventlog.Event // whether the user has an order
	Ended    *eventlog.Event // committed or rolled back; nil: unknown
	Under    *Hold           // the hold of its lock; nil: none
	lastDone int64           // its last event before the end
}

// Committed is the commit event; nil if it was not committed, as far as is known.
func (s *Transaction) Committed() *eventlog.Event {
	if s.Ended == nil || s.Ended.Kind != eventlog.Committed {
		return nil
	}
	return s.Ended
}

// TookStock reports whether it changed the stock permanently.
func (s *Transaction) TookStock() bool { return s.Write != nil && s.Committed() != nil }

// CommitSpan is the time in which the database may have committed it.
func (s *Transaction) CommitSpan() (from, to int64) {
	return max(s.lastDone, s.Ended.Began), s.Ended.At
}

// Unguarded reports whether the stock was written without checking that it was unchanged.
func (s *Transaction) Unguarded() bool {
	return s.Write != nil && s.Write.Mode == eventlog.ModeUnguarded
}

// transactionsOf reads the transactions from sorted events, in the order of their ends; those
// without an end come last.
func transactionsOf(events []eventlog.Event, holds []*Hold) []*Transaction {
	type number struct {
		process string
		tx      int64
	}
	type stock struct {
		by      Actor
		voucher int64
	}
	var all []*Transaction
	open := map[number]*Transaction{}
	looked := map[stock]*eventlog.Event{}
	for i := range events {
		e := &events[i]
		id := number{e.Process, e.Tx}
		s := open[id]
		switch e.Kind {
		case eventlog.Begun, eventlog.Checked, eventlog.Read, eventlog.Write, eventlog.Insert, eventlog.Committed, eventlog.RolledBack:
			if s == nil || e.Kind == eventlog.Begun {
				s = &Transaction{By: ActorOf(e), Began: e.At}
				open[id] = s
				all = append(all, s)
			}
		default:
			continue
		}
		s.Voucher = cmp.Or(e.Voucher, s.Voucher)
		switch e.Kind {
		case eventlog.Checked:
			s.Checked = e
		case eventlog.Read:
			if e.Error != "" {
				break
			}
			looked[stock{s.By, s.Voucher}] = e
			s.Read = e
		case eventlog.Write:
			s.Read = looked[stock{s.By, s.Voucher}]
			s.Write = e
		case eventlog.Insert:
			s.Insert = e
		case eventlog.Committed, eventlog.RolledBack:
			s.Ended = e
			delete(open, id)
			continue
		}
		s.lastDone = e.At
	}
	linkHolds(all, holds)
	slices.SortStableFunc(all, func(a, b *Transaction) int { return cmp.Compare(a.EndedAt(), b.EndedAt()) })
	return all
}

// EndedAt is when it was committed or rolled back; Never if that is not known.
func (s *Transaction) EndedAt() int64 {
	if s.Ended == nil {
		return Never
	}
	return s.Ended.At
}

// linkHolds finds the lock under which each transaction was: the one that its actor believed
// to hold when it read or wrote. Several transactions have different holds, if possible.
func linkHolds(sales []*Transaction, holds []*Hold) {
	of := map[Actor][]*Hold{}
	for _, h := range holds {
		of[h.By] = append(of[h.By], h)
	}
	taken := map[*Hold]bool{}
	for _, s := range sales {
		at := s.Began
		for _, e := range []*eventlog.Event{s.Insert, s.Write, s.Read} {
			if e != nil && e.At >= s.Began {
				at = e.At
			}
		}
		s.Under = holdDuring(of[s.By], at, taken)
		if s.Under != nil {
			taken[s.Under] = true
		}
		if s.Read != nil && s.Read.At < s.Began && (s.Under == nil || s.Read.At < s.Under.At) {
			s.Read = nil // of an earlier attempt
		}
	}
}

func holdDuring(holds []*Hold, at int64, taken map[*Hold]bool) *Hold {
	after, _ := slices.BinarySearchFunc(holds, at, func(h *Hold, at int64) int {
		if h.At <= at {
			return -1
		}
		return 1
	})
	var best *Hold
	rank := func(h *Hold) int {
		switch {
		case h.End >= at && !taken[h]:
			return 3
		case h.End >= at:
			return 2
		}
		return 1
	}
	const far = 16 // more than any actor holds at a time
	for i := after - 1; i >= max(0, after-far); i-- {
		if h := holds[i]; best == nil || rank(h) > rank(best) {
			best = h
		}
	}
	return best
}

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
	has := map[Ack]bool{}
	for _, row := range h.Rows {
		has[Ack{row.ID, row.UserID}] = true
	}
	var found []Ack
	for _, ack := range h.Acks {
		if !has[ack] { // also where another user's order has the id
			found = append(found, ack)
		}
	}
	return found
}

// undersold counts the units that no order has, at most one for each refused user who has no order.
func (h *History) undersold() int {
	has, empty := map[int64]bool{}, 0
	for _, row := range h.Rows {
		has[row.UserID] = true
	}
	for _, user := range h.Refused {
		if !has[user] {
			has[user] = true // a user counts once
			empty++
		}
	}
	return min(empty, int(max(0, h.Audit.InitialStock-h.Audit.Orders)))
}

// Books are what the database has of the orders of a voucher that asks for payment, and what the payment provider has
// of their money, at the end.
type Books struct {
	Orders   []BookedOrder
	Payments []BookedPayment
}

// BookedOrder is an order in the database. Overdue says that its time to pay is over.
type BookedOrder struct {
	ID      int64
	Status  order.Status
	Overdue bool
}

// BookedPayment is money of a buyer at the provider: Paid says that the provider received it, and Refunded that all
// of it went back.
type BookedPayment struct {
	Order          int64
	Paid, Refunded bool
}

// kept reports whether the provider has the money.
func (p BookedPayment) kept() bool { return p.Paid && !p.Refunded }

// paidForNothing counts the money that the provider keeps and that no order is paid with.
func (b *Books) paidForNothing() (n int) {
	paid := map[int64]bool{}
	for _, o := range b.Orders {
		paid[o.ID] = o.Status == order.Paid
	}
	for _, p := range b.Payments {
		if !p.kept() {
			continue
		}
		if !paid[p.Order] {
			n++
		}
		paid[p.Order] = false // one payment pays for an order
	}
	return n
}

// givenAway counts the paid orders of which the provider has no money.
func (b *Books) givenAway() (n int) {
	kept := map[int64]bool{}
	for _, p := range b.Payments {
		kept[p.Order] = kept[p.Order] || p.kept()
	}
	for _, o := range b.Orders {
		if o.Status == order.Paid && !kept[o.ID] {
			n++
		}
	}
	return n
}

// neverReturned counts the unpaid orders whose time to pay is over.
func (b *Books) neverReturned() (n int) {
	for _, o := range b.Orders {
		if o.Status == order.Unpaid && o.Overdue {
			n++
		}
	}
	return n
}

// returnedTwice counts the units on sale that an order has, or that never were.
func returnedTwice(a order.Audit) int {
	return int(max(0, a.Stock-max(0, a.InitialStock-a.Orders)))
}
