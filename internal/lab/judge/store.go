package judge

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

const (
	// seenLate is how long after it happened the observer may see a thing: it asks
	// every millisecond or two, on a machine that has other things to do.
	seenLate = int64(20 * time.Millisecond)
	// ttlSlack is how much later than it was read the time to live of a key may have
	// been stamped.
	ttlSlack = int64(5 * time.Millisecond)
)

// shelf is what the store held under one key, one entry after the other.
type shelf struct {
	kept []kept
}

// kept is what the store held from one change to the next.
type kept struct {
	from, to int64
	value    string // "" when it was free
	ttl      int64  // when it ends by itself; never where it does not
	blind    bool   // the store could not be asked
	last     bool   // nothing is known of a change until the end

	// by is whose it was: certain where the value names an owner that is known, else
	// the holder whose grant was the nearest. nil: nobody knows.
	by      *hold
	certain bool
}

func shelves(samples []Sample, end int64) map[string]*shelf {
	all := map[string]*shelf{}
	for _, s := range samples {
		sh := all[s.Key]
		if sh == nil {
			sh = &shelf{}
			all[s.Key] = sh
		}
		k := kept{from: s.At, to: end, value: s.Stored.Owner, ttl: never, blind: s.Err != "", last: true}
		if s.Stored.TTLMS != nil {
			k.ttl = s.At + nanos(*s.Stored.TTLMS)
		}
		if n := len(sh.kept); n > 0 {
			before := &sh.kept[n-1]
			before.to, before.last = s.At, false
			if before.value == k.value && before.value != "" && !before.blind && !k.blind {
				before.to, before.ttl, before.last = end, k.ttl, true // renewed
				continue
			}
		}
		sh.kept = append(sh.kept, k)
	}
	return all
}

// attribute finds whose each value was. holds are those of the key, by grant.
func (s *shelf) attribute(holds []*hold, owners map[string]bool) {
	of := map[string][]*hold{}
	for _, h := range holds {
		of[h.owner] = append(of[h.owner], h)
	}
	for i := range s.kept {
		k := &s.kept[i]
		if k.value == "" || k.blind {
			continue
		}
		owner := named(k.value, owners)
		if k.certain = owner != ""; k.certain {
			k.by = nearest(of[owner], k.from, never)
			continue
		}
		first, _ := slices.BinarySearchFunc(holds, k.from-seenLate, func(h *hold, at int64) int { return cmp.Compare(h.at, at) })
		last := first
		for last < len(holds) && holds[last].at <= k.from+seenLate {
			last++
		}
		k.by = nearest(holds[first:last], k.from, k.from)
	}
}

// nearest is the hold whose grant is the nearest to a time, of those that were
// asked for by asked.
func nearest(holds []*hold, at, asked int64) (best *hold) {
	near := int64(never)
	for _, h := range holds {
		far := h.at - at
		if far < 0 {
			far = -far
		}
		if h.asked <= asked && far < near {
			best, near = h, far
		}
	}
	return best
}

// named is the owner that a value in the store names; "" where it names none that
// is known.
func named(value string, owners map[string]bool) string {
	if owners[value] {
		return value
	}
	if _, owner, behind := strings.Cut(value, "#"); behind && owners[owner] {
		return owner
	}
	return ""
}

// at is what was seen last at a time; nil: nothing yet.
func (s *shelf) at(t int64) *kept {
	i := s.from(t)
	if i == 0 {
		return nil
	}
	return &s.kept[i-1]
}

// from is the index of the first entry that was seen after t.
func (s *shelf) from(t int64) int {
	i, _ := slices.BinarySearchFunc(s.kept, t, func(k kept, t int64) int {
		if k.from <= t {
			return -1
		}
		return 1
	})
	return i
}
