package judge

import (
	"cmp"
	"slices"

	"seckill/internal/trace"
)

// lockedOut is a buyer that was turned away by the lock of a holder that had given
// it back.
type lockedOut struct {
	refused *trace.Event
	holder  *hold
}

// lockedOuts finds them: the release was over before the buyer asked, or long before
// it was refused; the refusal names that lock, or the observer saw it; and nobody
// else has been let in meanwhile.
func (h *history) lockedOuts() []lockedOut {
	of := map[identity]*hold{}
	for _, one := range h.holds {
		of[identity{key: one.key, owner: one.owner}] = one
	}
	var found []lockedOut
	for _, e := range h.fails {
		var holder *hold
		if e.Stored != nil {
			holder = of[identity{key: e.Key, owner: named(e.Stored.Owner, h.knows)}]
		} else if sh := h.store[e.Key]; sh != nil {
			if k := sh.at(e.At); k != nil && k.certain && !k.blind {
				holder = k.by
			}
		}
		if holder == nil || holder.released == nil || holder.owner == e.Owner {
			continue
		}
		if over := holder.released.At; over >= e.Asked && over+seenLate >= e.At {
			continue
		}
		all := h.of[e.Key]
		if i := after(all, holder.at); i == len(all) || all[i].at > e.At+seenLate {
			found = append(found, lockedOut{e, holder})
		}
	}
	return found
}

// stuck is a key that stays taken though nobody alive holds it.
type stuck struct {
	key    string
	kept   *kept
	holder *hold // whose it was; nil: nobody was ever told that it is theirs
}

// stuckKeys finds them. What the store holds at the end is stuck if its holder is
// gone, or if there is nobody who could hold it; and if it has no end by itself, or
// is there still when the grace is over.
func (h *history) stuckKeys() []stuck {
	var found []stuck
	for key, sh := range h.store {
		k := &sh.kept[len(sh.kept)-1]
		if k.blind || k.value == "" {
			continue
		}
		holder := k.by
		if (!k.certain || holder == nil) && h.asked(key, k.value) || h.held(key, k) {
			continue
		}
		since := k.from
		if holder != nil {
			since = max(since, holder.end)
			if r := holder.released; r != nil {
				since = max(since, r.At)
			}
		}
		waited := h.End - since
		if waited < seenLate || k.ttl != never && (h.Grace == 0 || waited < int64(h.Grace)) {
			continue
		}
		found = append(found, stuck{key, k, holder})
	}
	slices.SortFunc(found, func(a, b stuck) int { return cmp.Compare(a.key, b.key) })
	return found
}

// asked says whether somebody alive waits for an answer about the key whose lock
// this may be: a grant that is on its way.
func (h *history) asked(key, value string) bool {
	return slices.ContainsFunc(h.asks, func(e *trace.Event) bool {
		return e.Key == key && (e.Owner == "" || named(value, map[string]bool{e.Owner: true}) != "")
	})
}

// held says whether somebody believes at the end to hold what the store has.
func (h *history) held(key string, k *kept) bool {
	return slices.ContainsFunc(h.of[key], func(one *hold) bool {
		return one.end >= h.End && one.how == believes && (!k.certain || one.stores(k.value))
	})
}
