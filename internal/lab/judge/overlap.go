package judge

import "seckill/internal/eventlog"

// Overlap is a grant while an earlier holder still believed to hold the key.
type Overlap struct {
	Earlier, Later *Hold
}

// Lasted is how long both believed to hold it.
func (o Overlap) Lasted(end int64) int64 {
	return min(o.Earlier.End, o.Later.End, max(end, o.Later.At)) - o.Later.At
}

// overlaps returns the grants that overlap an earlier hold, each with the overlapping hold
// that ends last. Both owners believe from the moment at which the later one has its answer,
// so this is certain.
func (h *History) overlaps() []Overlap {
	var found []Overlap
	for _, key := range h.keys() {
		var writers, readers longest
		for _, g := range h.HoldsOf[key] {
			before := writers.but(g.Owner)
			if !g.Shared {
				if r := readers.but(g.Owner); r != nil && (before == nil || r.End > before.End) {
					before = r
				}
			}
			if before != nil && before.End > g.At {
				found = append(found, Overlap{before, g})
			}
			if g.Shared {
				readers.add(g)
			} else {
				writers.add(g)
			}
		}
	}
	return found
}

// longest keeps the hold that ends last, and the last one of another owner.
type longest struct {
	first, second *Hold
}

func (l *longest) add(h *Hold) {
	switch {
	case l.first == nil:
		l.first = h
	case h.Owner == l.first.Owner:
		if h.End > l.first.End {
			l.first = h
		}
	case h.End > l.first.End:
		l.first, l.second = h, l.first
	case l.second == nil || h.End > l.second.End:
		l.second = h
	}
}

// but returns the hold that ends last among other owners.
func (l *longest) but(owner string) *Hold {
	if l.first != nil && l.first.Owner == owner {
		return l.second
	}
	return l.first
}

// StaleWrite is a write that was committed after the lock had been granted to the next holder.
type StaleWrite struct {
	Late *Transaction
	Next *Hold
}

// staleWrites finds them. It does not count a holder that had begun to release before the next
// grant: that is a commit after the release. Nor does it count a fenced write before the next
// holder's own write: until then no fence can know of the next holder, and the write takes
// nothing from anybody.
func (h *History) staleWrites() []StaleWrite {
	var found []StaleWrite
	wrote := map[*Hold]*Transaction{} // the first write under each hold
	for _, s := range h.Transactions {
		if s.TookStock() && s.Under != nil && wrote[s.Under] == nil {
			wrote[s.Under] = s
		}
	}
	for _, s := range h.Transactions {
		if !s.TookStock() || s.Under == nil {
			continue
		}
		mine := s.Under
		certain, _ := s.CommitSpan()
		until := certain
		if mine.How == EndReleased {
			until = min(until, mine.End)
		}
		all := h.HoldsOf[mine.Key]
		for i := GrantedAfter(all, mine.At); i < len(all) && all[i].At < until; i++ {
			next := all[i]
			if next == mine || !next.Conflicts(mine) {
				continue
			}
			if s.Write.Mode == eventlog.ModeFenced && !committedBefore(wrote[next], certain) {
				continue
			}
			found = append(found, StaleWrite{s, next})
			break
		}
	}
	return found
}

func committedBefore(s *Transaction, at int64) bool {
	if s == nil {
		return false
	}
	_, to := s.CommitSpan()
	return to < at
}

// GrantedAfter returns the index of the first hold that was granted after a time.
func GrantedAfter(holds []*Hold, at int64) int {
	low, high := 0, len(holds)
	for low < high {
		if mid := (low + high) / 2; holds[mid].At <= at {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}
