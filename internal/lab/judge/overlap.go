package judge

import "seckill/internal/trace"

// overlap is a grant while an earlier holder still believed to hold the key.
type overlap struct {
	earlier, later *hold
}

// lasted is how long both believed it.
func (o overlap) lasted(end int64) int64 {
	return min(o.earlier.end, o.later.end, max(end, o.later.at)) - o.later.at
}

// overlaps are the grants that overlap an earlier hold, each with the one that
// believes the longest of those. Both believe from the moment on in which the later
// one has its answer, so that there is nothing uncertain about it.
func (h *history) overlaps() []overlap {
	var found []overlap
	for _, key := range h.keys() {
		var writers, readers longest
		for _, g := range h.of[key] {
			before := writers.but(g.owner)
			if !g.shared {
				if r := readers.but(g.owner); r != nil && (before == nil || r.end > before.end) {
					before = r
				}
			}
			if before != nil && before.end > g.at {
				found = append(found, overlap{before, g})
			}
			if g.shared {
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
	first, second *hold
}

func (l *longest) add(h *hold) {
	switch {
	case l.first == nil:
		l.first = h
	case h.owner == l.first.owner:
		if h.end > l.first.end {
			l.first = h
		}
	case h.end > l.first.end:
		l.first, l.second = h, l.first
	case l.second == nil || h.end > l.second.end:
		l.second = h
	}
}

// but is the one that ends last and is not of an owner.
func (l *longest) but(owner string) *hold {
	if l.first != nil && l.first.owner == owner {
		return l.second
	}
	return l.first
}

// stale is a write that was committed after the lock had been granted to the next
// holder.
type stale struct {
	late *sale
	next *hold
}

// staleWrites finds them. A holder that had begun to release before the next one
// was granted the lock is not one: that is a commit after the release. Nor is a
// fenced write before the next holder's own: until then no fence can know of it,
// and it takes nothing from anybody.
func (h *history) staleWrites() []stale {
	var found []stale
	wrote := map[*hold]*sale{} // the first of each hold
	for _, s := range h.sales {
		if s.sold() && s.under != nil && wrote[s.under] == nil {
			wrote[s.under] = s
		}
	}
	for _, s := range h.sales {
		if !s.sold() || s.under == nil {
			continue
		}
		mine := s.under
		certain, _ := s.commitSpan()
		until := certain
		if mine.how == gaveBack {
			until = min(until, mine.end)
		}
		all := h.of[mine.key]
		for i := after(all, mine.at); i < len(all) && all[i].at < until; i++ {
			next := all[i]
			if next == mine || !next.conflicts(mine) {
				continue
			}
			if s.write.Mode == trace.ModeFenced && !committedBefore(wrote[next], certain) {
				continue
			}
			found = append(found, stale{s, next})
			break
		}
	}
	return found
}

func committedBefore(s *sale, at int64) bool {
	if s == nil {
		return false
	}
	_, to := s.commitSpan()
	return to < at
}

// after is the index of the first hold that was granted after a time.
func after(holds []*hold, at int64) int {
	low, high := 0, len(holds)
	for low < high {
		if mid := (low + high) / 2; holds[mid].at <= at {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}
