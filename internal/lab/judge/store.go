package judge

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

const (
	// ObservationDelay is how much later than a change the observer may see it: it samples
	// every millisecond or two, on a machine that is busy.
	ObservationDelay = int64(20 * time.Millisecond)
	// TTLSlack is how much later than it was read a time to live may have been recorded.
	TTLSlack = int64(5 * time.Millisecond)
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
				before.To, before.Expires, before.Last = end, k.Expires, true // renewed
				continue
			}
		}
		keys.Entries = append(keys.Entries, k)
	}
	return all
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
