package judge

import (
	"cmp"
	"slices"

	"seckill/internal/eventlog"
)

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

// WrongRelease is a holder whose lock was deleted by another owner's release, before its lease
// ended and before it released the lock itself.
type WrongRelease struct {
	Holder, Releaser *Hold
	GoneBy           int64 // by then the lock was gone
}

// wrongReleases finds them. Two facts are required: the store without the holder's lock, and a
// release that deleted it. A lock that disappeared in another way, as in a failover, has no
// such release: its successor came after it was gone.
func (h *History) wrongReleases() []WrongRelease {
	var found []WrongRelease
	for _, key := range h.keys() {
		holds := h.HoldsOf[key]
		r := releasesOf(holds)
		for _, v := range holds {
			gone, robbed := h.lockGone(v)
			if !robbed {
				continue
			}
			for i := GrantedAfter(holds, v.At); i < len(holds) && holds[i].At < gone; i++ {
				if next := holds[i]; next.Conflicts(v) {
					gone = next.At // the next holder could not have got in otherwise
					break
				}
			}
			if culprit := r.releaserOf(v, gone); culprit != nil {
				found = append(found, WrongRelease{v, culprit, gone})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b WrongRelease) int { return cmp.Compare(a.Holder.At, b.Holder.At) })
	return found
}

// lockGone reports whether the store was seen without the lock of a holder that had neither
// released it nor let its lease end, and by when the lock was gone. For readers nothing
// follows, because the store may name any of them.
func (h *History) lockGone(v *Hold) (gone int64, ok bool) {
	if v.Shared {
		return 0, false
	}
	if at, seen := h.seenWithout(v); seen {
		return at, true
	}
	if at, seen := h.deletedUnseen(v); seen {
		return at, true
	}
	if v.Releasing == nil || v.Releasing.Stored == nil || v.How != EndReleased {
		return 0, false
	}
	if left := v.Releasing.LeftMS; left != nil && *left <= 0 {
		return 0, false
	}
	switch value := v.Releasing.Stored.Owner; {
	case v.stores(value):
		return 0, false
	case value == "" || OwnerIn(value, h.owners) != "":
		return v.Releasing.At, true
	default:
		// A value that names nobody may belong to this holder, unless another one was let in
		// meanwhile.
		all := h.HoldsOf[v.Key]
		i := GrantedAfter(all, v.At)
		for i < len(all) && all[i].At < v.Releasing.At && !all[i].Conflicts(v) {
			i++
		}
		return v.Releasing.At, i < len(all) && all[i].At < v.Releasing.At
	}
}

// seenWithout is when the observer saw that the store no longer had the lock, after it had
// seen it.
func (h *History) seenWithout(v *Hold) (at int64, ok bool) {
	keys := h.Store[v.Key]
	if keys == nil {
		return 0, false
	}
	had := false
	until := min(v.End, h.End+1)
	if end, known := v.LeaseEnd(); known {
		until = min(until, end)
	}
	for i := keys.After(v.Began); i < len(keys.Entries) && keys.Entries[i].From < until; i++ {
		k := &keys.Entries[i]
		switch {
		case k.Unknown:
		case k.Certain && v.stores(k.Value):
			had = true
			if k.Expires != Never && v.Releasing == nil {
				until = min(until, k.Expires-TTLSlack) // nothing else tells when its lease ends
			}
		case had && (k.Value == "" || k.Certain):
			return k.From, true
		}
	}
	return 0, false
}

// deletedUnseen is when a lock was gone that the observer never saw: it was there for less than the time between two
// samples. Another holder's release found it there and reports that it has deleted something, and the observer sees no
// trace of the lock afterwards.
func (h *History) deletedUnseen(v *Hold) (at int64, ok bool) {
	keys := h.Store[v.Key]
	if keys == nil || v.Releasing != nil && v.Releasing.Stored != nil && v.stores(v.Releasing.Stored.Owner) {
		return 0, false
	}
	for _, c := range h.HoldsOf[v.Key] {
		if c.Owner == v.Owner || c.Released == nil || !MayHaveDeleted(c) || c.Releasing.Stored == nil || !v.stores(c.Releasing.Stored.Owner) {
			continue
		}
		until := min(v.End, h.End+1)
		if end, known := v.LeaseEnd(); known {
			until = min(until, end)
		}
		if ttl := c.Releasing.Stored.TTLMS; ttl != nil {
			until = min(until, c.Releasing.At+Nanos(*ttl)-TTLSlack)
		}
		looked := c.Released.At + ObservationDelay
		now := keys.At(looked)
		if looked >= until || now == nil || now.Unknown {
			continue
		}
		there := func(k Entry) bool { return k.To > looked && v.stores(k.Value) }
		if !slices.ContainsFunc(keys.Entries, there) {
			return c.Released.At, true
		}
	}
	return 0, false
}

// releases are those of one key, in the order in which they began.
type releases struct {
	all    []*Hold
	latest []int64 // when the last of the releases up to this one ended
}

func releasesOf(holds []*Hold) releases {
	var r releases
	for _, h := range holds {
		if _, _, ok := h.ReleaseSpan(); ok {
			r.all = append(r.all, h)
		}
	}
	slices.SortStableFunc(r.all, func(a, b *Hold) int { return cmp.Compare(a.Releasing.At, b.Releasing.At) })
	last := int64(0)
	for _, h := range r.all {
		_, to, _ := h.ReleaseSpan()
		last = max(last, to)
		r.latest = append(r.latest, last)
	}
	return r
}

// releaserOf returns the hold whose release deleted the lock before gone; nil if there is
// none.
func (r releases) releaserOf(v *Hold, gone int64) *Hold {
	end, _ := slices.BinarySearchFunc(r.all, gone, func(h *Hold, at int64) int { return cmp.Compare(h.Releasing.At, at) })
	for i := end - 1; i >= 0 && r.latest[i] > v.At; i-- {
		c := r.all[i]
		from, to, _ := c.ReleaseSpan()
		if c.Owner == v.Owner || to <= v.At || from >= gone || !MayHaveDeleted(c) {
			continue
		}
		if c.Releasing.At >= v.At || !c.ownAt(v.At) {
			return c
		}
	}
	return nil
}

// MayHaveDeleted reports whether a release deleted something, as far as its caller knows.
func MayHaveDeleted(c *Hold) bool { return c.Released == nil || c.Released.Error == "" }

// ownAt reports whether a release that was running at that time may have released its own
// lock: then that is what let the next holder in. It did not if its lease was over by then, or
// if the store held another owner's lock before it began.
func (h *Hold) ownAt(at int64) bool {
	if end, known := h.LeaseEnd(); known && end <= at {
		return false
	}
	return h.Releasing.Stored == nil || h.Releasing.Stored.Owner != ""
}

// ReleasedAround reports whether the release was running when the observer saw a change,
// or just before.
func (h *Hold) ReleasedAround(seen int64) bool {
	from, to, ok := h.ReleaseSpan()
	return ok && from <= seen && to >= seen-ObservationDelay
}
