package judge

import (
	"cmp"
	"slices"
)

// wrongRelease is a holder whose lock was deleted by another owner's release,
// before its lease was over and before it gave the lock back.
type wrongRelease struct {
	victim, culprit *hold
	gone            int64 // by then the lock was gone
}

// wrongReleases finds the victims. Two things have to be there: the store without
// the victim's lock, and the release that took it. A lock that went otherwise, as in
// a failover, has no such release: whoever came in its stead came after it was gone.
func (h *history) wrongReleases() []wrongRelease {
	var found []wrongRelease
	for _, key := range h.keys() {
		holds := h.of[key]
		r := releasesOf(holds)
		for _, v := range holds {
			gone, robbed := h.robbed(v)
			if !robbed {
				continue
			}
			for i := after(holds, v.at); i < len(holds) && holds[i].at < gone; i++ {
				if next := holds[i]; next.conflicts(v) {
					gone = next.at // it could not have come in otherwise
					break
				}
			}
			if culprit := r.culprit(v, gone); culprit != nil {
				found = append(found, wrongRelease{v, culprit, gone})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b wrongRelease) int { return cmp.Compare(a.victim.at, b.victim.at) })
	return found
}

// robbed says whether the store was seen without the lock of a holder that had
// neither given it back nor let its lease run out, and when at the latest it went.
// Of readers the store may name any, so that nothing follows for them.
func (h *history) robbed(v *hold) (gone int64, ok bool) {
	if v.shared {
		return 0, false
	}
	if at, seen := h.seenWithout(v); seen {
		return at, true
	}
	if v.releasing == nil || v.releasing.Stored == nil || v.how != gaveBack {
		return 0, false
	}
	if left := v.releasing.LeftMS; left != nil && *left <= 0 {
		return 0, false
	}
	switch value := v.releasing.Stored.Owner; {
	case v.stores(value):
		return 0, false
	case value == "" || named(value, h.knows) != "":
		return v.releasing.At, true
	default:
		// A value that names nobody may be the victim's own, unless somebody else has
		// been let in meanwhile.
		all := h.of[v.key]
		i := after(all, v.at)
		for i < len(all) && all[i].at < v.releasing.At && !all[i].conflicts(v) {
			i++
		}
		return v.releasing.At, i < len(all) && all[i].at < v.releasing.At
	}
}

// seenWithout is when the observer saw that the store had the lock no longer, having
// seen before that it had.
func (h *history) seenWithout(v *hold) (at int64, ok bool) {
	sh := h.store[v.key]
	if sh == nil {
		return 0, false
	}
	had := false
	until := min(v.end, h.End+1)
	if end, known := v.lease(); known {
		until = min(until, end)
	}
	for i := sh.from(v.asked); i < len(sh.kept) && sh.kept[i].from < until; i++ {
		k := &sh.kept[i]
		switch {
		case k.blind:
		case k.certain && v.stores(k.value):
			had = true
			if k.ttl != never && v.releasing == nil {
				until = min(until, k.ttl-ttlSlack) // nothing else tells of its lease
			}
		case had && (k.value == "" || k.certain):
			return k.from, true
		}
	}
	return 0, false
}

// releases of one key, in the order in which they began.
type releases struct {
	all    []*hold
	latest []int64 // when the last one of those up to here was over
}

func releasesOf(holds []*hold) releases {
	var r releases
	for _, h := range holds {
		if _, _, ok := h.releaseSpan(); ok {
			r.all = append(r.all, h)
		}
	}
	slices.SortStableFunc(r.all, func(a, b *hold) int { return cmp.Compare(a.releasing.At, b.releasing.At) })
	last := int64(0)
	for _, h := range r.all {
		_, to, _ := h.releaseSpan()
		last = max(last, to)
		r.latest = append(r.latest, last)
	}
	return r
}

// culprit is whose release took the victim's lock before gone; nil: nobody's.
func (r releases) culprit(v *hold, gone int64) *hold {
	end, _ := slices.BinarySearchFunc(r.all, gone, func(h *hold, at int64) int { return cmp.Compare(h.releasing.At, at) })
	for i := end - 1; i >= 0 && r.latest[i] > v.at; i-- {
		c := r.all[i]
		from, to, _ := c.releaseSpan()
		if c.owner == v.owner || to <= v.at || from >= gone || !mayHaveDeleted(c) {
			continue
		}
		if c.releasing.At >= v.at || !c.ownAt(v.at) {
			return c
		}
	}
	return nil
}

// mayHaveDeleted says whether a release took something away, as far as it knows.
func mayHaveDeleted(c *hold) bool { return c.released == nil || c.released.Error == "" }

// ownAt says whether a holder whose release was under way at that time may have been
// giving back its own lock: then that is what let the next one in. It was not if its
// lease was over by then, or if the store had somebody else's before it began.
func (h *hold) ownAt(at int64) bool {
	if end, known := h.lease(); known && end <= at {
		return false
	}
	return h.releasing.Stored == nil || h.releasing.Stored.Owner != ""
}
