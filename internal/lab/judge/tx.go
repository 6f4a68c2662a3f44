package judge

import (
	"cmp"
	"slices"

	"seckill/internal/eventlog"
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
