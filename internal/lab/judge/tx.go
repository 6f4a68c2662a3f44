package judge

import (
	"cmp"
	"slices"

	"seckill/internal/trace"
)

// sale is one transaction, as far as it was recorded.
type sale struct {
	by       actor
	voucher  int64
	began    int64
	read     *trace.Event // the newest before the write, of this or an earlier transaction under the same lock
	write    *trace.Event
	insert   *trace.Event
	checked  *trace.Event // whether the user has an order
	ended    *trace.Event // committed or undone; nil: nobody knows
	under    *hold        // the lock that it was under; nil: none
	lastDone int64        // its last event before the end
}

// committed is the event with which it was; nil: it was not, as far as one knows.
func (s *sale) committed() *trace.Event {
	if s.ended == nil || s.ended.Kind != trace.Committed {
		return nil
	}
	return s.ended
}

// sold says whether it changed the stock for good.
func (s *sale) sold() bool { return s.write != nil && s.committed() != nil }

// commitSpan is from when to when the database may have committed it.
func (s *sale) commitSpan() (from, to int64) {
	return max(s.lastDone, s.ended.Asked), s.ended.At
}

// unguarded says whether the stock was written without asking whether it is still
// what it was.
func (s *sale) unguarded() bool { return s.write != nil && s.write.Mode == trace.ModeUnguarded }

// salesOf reads the transactions out of events that are sorted, in the order in
// which they ended, and those that did not at the end.
func salesOf(events []trace.Event, holds []*hold) []*sale {
	type number struct {
		process string
		tx      int64
	}
	type stock struct {
		by      actor
		voucher int64
	}
	var all []*sale
	open := map[number]*sale{}
	looked := map[stock]*trace.Event{}
	for i := range events {
		e := &events[i]
		id := number{e.Process, e.Tx}
		s := open[id]
		switch e.Kind {
		case trace.Begun, trace.Checked, trace.Read, trace.Write, trace.Insert, trace.Committed, trace.Undone:
			if s == nil || e.Kind == trace.Begun {
				s = &sale{by: by(e), began: e.At}
				open[id] = s
				all = append(all, s)
			}
		default:
			continue
		}
		s.voucher = cmp.Or(e.Voucher, s.voucher)
		switch e.Kind {
		case trace.Checked:
			s.checked = e
		case trace.Read:
			if e.Error != "" {
				break
			}
			looked[stock{s.by, s.voucher}] = e
			s.read = e
		case trace.Write:
			s.read = looked[stock{s.by, s.voucher}]
			s.write = e
		case trace.Insert:
			s.insert = e
		case trace.Committed, trace.Undone:
			s.ended = e
			delete(open, id)
			continue
		}
		s.lastDone = e.At
	}
	link(all, holds)
	slices.SortStableFunc(all, func(a, b *sale) int { return cmp.Compare(a.over(), b.over()) })
	return all
}

func (s *sale) over() int64 {
	if s.ended == nil {
		return never
	}
	return s.ended.At
}

// link finds the lock that each transaction was under: the one that its actor
// believed to hold when it looked or wrote. Of several each transaction has one of
// its own.
func link(sales []*sale, holds []*hold) {
	of := map[actor][]*hold{}
	for _, h := range holds {
		of[h.by] = append(of[h.by], h)
	}
	taken := map[*hold]bool{}
	for _, s := range sales {
		at := s.began
		for _, e := range []*trace.Event{s.insert, s.write, s.read} {
			if e != nil && e.At >= s.began {
				at = e.At
			}
		}
		s.under = under(of[s.by], at, taken)
		if s.under != nil {
			taken[s.under] = true
		}
		if s.read != nil && s.read.At < s.began && (s.under == nil || s.read.At < s.under.at) {
			s.read = nil // of another time
		}
	}
}

func under(holds []*hold, at int64, taken map[*hold]bool) *hold {
	after, _ := slices.BinarySearchFunc(holds, at, func(h *hold, at int64) int {
		if h.at <= at {
			return -1
		}
		return 1
	})
	var best *hold
	rank := func(h *hold) int {
		switch {
		case h.end >= at && !taken[h]:
			return 3
		case h.end >= at:
			return 2
		}
		return 1
	}
	const far = 16 // nobody holds more at a time
	for i := after - 1; i >= max(0, after-far); i-- {
		if h := holds[i]; best == nil || rank(h) > rank(best) {
			best = h
		}
	}
	return best
}
