package judge

import (
	"cmp"
	"slices"

	"seckill/internal/eventlog"
)

// LockedOut is a buyer that was refused because of a lock that its holder had released.
type LockedOut struct {
	Refused *eventlog.Event
	Holder  *Hold
}

// lockedOut finds them: the release ended before the buyer asked, or long before it was
// refused; the refusal names that lock, or the observer saw it; and no other holder got the
// lock meanwhile.
func (h *History) lockedOut() []LockedOut {
	of := map[identity]*Hold{}
	for _, one := range h.Holds {
		of[identity{key: one.Key, owner: one.Owner}] = one
	}
	var found []LockedOut
	for _, e := range h.Refusals {
		var holder *Hold
		if e.Stored != nil {
			holder = of[identity{key: e.Key, owner: OwnerIn(e.Stored.Owner, h.owners)}]
		} else if keys := h.Store[e.Key]; keys != nil {
			if k := keys.At(e.At); k != nil && k.Certain && !k.Unknown {
				holder = k.By
			}
		}
		if holder == nil || holder.Released == nil || holder.Owner == e.Owner {
			continue
		}
		if over := holder.Released.At; over >= e.Began && over+ObservationDelay >= e.At {
			continue
		}
		all := h.HoldsOf[e.Key]
		if i := GrantedAfter(all, holder.At); i == len(all) || all[i].At > e.At+ObservationDelay {
			found = append(found, LockedOut{e, holder})
		}
	}
	return found
}

// StuckKey is a key that stays taken though nobody alive holds it.
type StuckKey struct {
	Key    string
	Entry  *Entry
	Holder *Hold // nil: nobody was told that it has the lock
}

// stuckKeys finds them. A key that the store holds at the end is stuck if its holder is gone
// or nobody can hold it, and if it does not expire or has outlasted the grace period. A holder
// whose release has no answer yet is not gone.
func (h *History) stuckKeys() []StuckKey {
	var found []StuckKey
	for key, keys := range h.Store {
		k := &keys.Entries[len(keys.Entries)-1]
		if k.Unknown || k.Value == "" {
			continue
		}
		holder := k.By
		if (!k.Certain || holder == nil) && h.awaited(key, k.Value) || h.stillHeld(key, k) {
			continue
		}
		since := k.From
		if holder != nil {
			since = max(since, holder.End)
			if r := holder.Released; r != nil {
				since = max(since, r.At)
			}
		}
		waited := h.End - since
		if waited < ObservationDelay || k.Expires != Never && (h.Grace == 0 || waited < int64(h.Grace)) {
			continue
		}
		found = append(found, StuckKey{key, k, holder})
	}
	slices.SortFunc(found, func(a, b StuckKey) int { return cmp.Compare(a.Key, b.Key) })
	return found
}

// awaited reports whether a living process waits for an answer that may be the grant of this
// key.
func (h *History) awaited(key, value string) bool {
	return slices.ContainsFunc(h.Pending, func(e *eventlog.Event) bool {
		return e.Key == key && (e.Owner == "" || OwnerIn(value, map[string]bool{e.Owner: true}) != "")
	})
}

// stillHeld reports whether somebody has at the end what the store holds: a holder believes so,
// or a living process waits for the answer to its release.
func (h *History) stillHeld(key string, k *Entry) bool {
	return slices.ContainsFunc(h.HoldsOf[key], func(one *Hold) bool {
		return (one.End >= h.End && one.How == NotEnded || h.releases(one)) && (!k.Certain || one.stores(k.Value))
	})
}

// releases reports whether a holder's release is under way at the end.
func (h *History) releases(one *Hold) bool {
	return one.Releasing != nil && one.Released == nil && !slices.ContainsFunc(h.Deaths, func(d Death) bool {
		return d.Process == one.By.Process && d.At >= one.Releasing.At
	})
}

// Since is when the holder was gone.
func (s StuckKey) Since() int64 {
	if s.Holder == nil {
		return s.Entry.From
	}
	return s.Holder.End
}
