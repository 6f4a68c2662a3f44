package judge

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"seckill/internal/eventlog"
)

const (
	// ObservationDelay is how much later than a change the observer may see it: it samples
	// every millisecond or two, on a machine that is busy.
	ObservationDelay = int64(20 * time.Millisecond)
	// TTLSlack is how much later than it was read a time to live may have been recorded.
	TTLSlack = int64(5 * time.Millisecond)
	// renewalStep is the least by which a renewal moves the expiry of a key. Less is an error of measurement.
	renewalStep = int64(50 * time.Millisecond)
)

// KeyHistory is what the store held under one key over time.
type KeyHistory struct {
	Entries []Entry
}

// Entry is what the store held from one change to the next.
type Entry struct {
	From, To int64
	Value    string // "" if it was free
	Expires  int64  // Never if it does not expire
	Unknown  bool   // the store could not be sampled
	Last     bool   // no change was seen until the end
	// Renewed are the moments at which its expiry was seen to move.
	Renewed []int64

	// By is the holder: Certain if the value names a known owner, otherwise the hold whose
	// grant was nearest in time. nil: unknown.
	By      *Hold
	Certain bool
}

func keyHistories(samples []Sample, end int64) map[string]*KeyHistory {
	all := map[string]*KeyHistory{}
	for _, s := range samples {
		keys := all[s.Key]
		if keys == nil {
			keys = &KeyHistory{}
			all[s.Key] = keys
		}
		k := Entry{From: s.At, To: end, Value: s.Stored.Owner, Expires: Never, Unknown: s.Err != "", Last: true}
		if s.Stored.TTLMS != nil {
			k.Expires = s.At + Nanos(*s.Stored.TTLMS)
		}
		if n := len(keys.Entries); n > 0 {
			before := &keys.Entries[n-1]
			before.To, before.Last = s.At, false
			if before.Value == k.Value && before.Value != "" && !before.Unknown && !k.Unknown {
				before.renew(s.At, k.Expires)
				before.To, before.Last = end, true
				continue
			}
		}
		keys.Entries = append(keys.Entries, k)
	}
	return all
}

// renew notes the expiry that a later sample saw.
func (k *Entry) renew(at, expires int64) {
	if expires != Never && k.Expires < expires-renewalStep {
		k.Renewed = append(k.Renewed, at)
	}
	k.Expires = expires
}

// attribute finds the holder of each value. holds are those of the key, by time of the grant.
func (s *KeyHistory) attribute(holds []*Hold, owners map[string]bool) {
	of := map[string][]*Hold{}
	for _, h := range holds {
		of[h.Owner] = append(of[h.Owner], h)
	}
	for i := range s.Entries {
		k := &s.Entries[i]
		if k.Value == "" || k.Unknown {
			continue
		}
		owner := OwnerIn(k.Value, owners)
		if k.Certain = owner != ""; k.Certain {
			k.By = nearest(of[owner], k.From, Never)
			continue
		}
		first, _ := slices.BinarySearchFunc(holds, k.From-ObservationDelay, func(h *Hold, at int64) int { return cmp.Compare(h.At, at) })
		last := first
		for last < len(holds) && holds[last].At <= k.From+ObservationDelay {
			last++
		}
		k.By = nearest(holds[first:last], k.From, k.From)
	}
}

// nearest returns the hold whose grant was nearest to a time, among those that were requested
// by asked.
func nearest(holds []*Hold, at, asked int64) (best *Hold) {
	near := int64(Never)
	for _, h := range holds {
		far := h.At - at
		if far < 0 {
			far = -far
		}
		if h.Began <= asked && far < near {
			best, near = h, far
		}
	}
	return best
}

// OwnerIn returns the owner that a stored value names; "" if it names no known owner.
func OwnerIn(value string, owners map[string]bool) string {
	if owners[value] {
		return value
	}
	if _, owner, behind := strings.Cut(value, "#"); behind && owners[owner] {
		return owner
	}
	return ""
}

// At returns the last entry that was seen by a time; nil: none yet.
func (s *KeyHistory) At(t int64) *Entry {
	i := s.After(t)
	if i == 0 {
		return nil
	}
	return &s.Entries[i-1]
}

// After returns the index of the first entry that was seen after t.
func (s *KeyHistory) After(t int64) int {
	i, _ := slices.BinarySearchFunc(s.Entries, t, func(k Entry, t int64) int {
		if k.From <= t {
			return -1
		}
		return 1
	})
	return i
}

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
