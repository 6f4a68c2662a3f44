package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"seckill/internal/trace"
)

// never is a time that does not come.
const never = math.MaxInt64

// toldLate is how long after it was told a holder may note that it was: another
// goroutine does that. Until then it counts as knowing.
const toldLate = int64(10 * time.Millisecond)

// unlocked is the mechanism that is none.
const unlocked = "none"

// ending is how a hold ended.
type ending int

const (
	believes  ending = iota // it did not, as far as anybody saw
	gaveBack                // its release began
	wasTold                 // it was told that it holds no longer
	walkedOff               // it released nothing
	died                    // its process did
)

// hold is the time in which an owner believes that it has a key: from the grant
// until it begins to release, is told, walks away or dies. An owner that acquires
// again what it has is in the same hold.
type hold struct {
	key    string
	by     actor
	owner  string
	token  uint64
	shared bool
	open   bool     // nothing keeps anybody out: its owner is inside, and believes nothing of it
	left   *float64 // of the lease when it was granted, in ms; nil: no end, or not known

	asked, at, end int64
	how            ending

	// releasing and released are of the release that gave the key back, also of one
	// that came when the hold had ended otherwise. nil: there is none.
	releasing, released *trace.Event
	lost                *trace.Event

	// While events are read: leases, and releases under way.
	depth, giving int
}

// actor is who acts: for one order, where one is placed.
type actor struct {
	process, who string
	attempt      int64
}

func (a actor) name() string {
	switch {
	case a.who == "":
		return a.process
	case a.process == "":
		return a.who
	}
	return a.who + " (" + a.process + ")"
}

// short is the name without the process.
func (a actor) short() string {
	if a.who == "" {
		return a.process
	}
	return a.who
}

func by(e *trace.Event) actor { return actor{e.Process, e.Who, e.Attempt} }

// conflicts says whether two holds may not be at the same time.
func (h *hold) conflicts(other *hold) bool {
	return h.owner != other.owner && (!h.shared || !other.shared)
}

// stores says whether a value in the store is this holder's. Some mechanisms store
// the owner as it is, some a value of their own with the owner behind it.
func (h *hold) stores(value string) bool {
	return value == h.owner || strings.HasSuffix(value, "#"+h.owner)
}

// lease is when the lease is over by the holder's own reckoning; never where it has
// no end. Only its release tells, so without one it is not known.
func (h *hold) lease() (end int64, known bool) {
	switch {
	case h.releasing == nil:
		return 0, false
	case h.releasing.LeftMS == nil:
		return never, true
	}
	return h.releasing.At + nanos(*h.releasing.LeftMS), true
}

// releaseSpan is from when to when the store may have carried out the release.
func (h *hold) releaseSpan() (from, to int64, ok bool) {
	if h.releasing == nil {
		return 0, 0, false
	}
	from, to = h.releasing.At, never
	if h.released != nil {
		from, to = max(from, h.released.Asked), h.released.At
	}
	return from, to, true
}

// nanos makes nanoseconds of milliseconds, whatever somebody wrote into a file.
func nanos(ms float64) int64 {
	const limit = float64(time.Hour) * 1e3
	return int64(min(max(ms*1e6, -limit), limit))
}

// holding reads holds out of events.
type holding struct {
	now map[identity]*hold // of each owner, the newest
	all []*hold
}

type identity struct {
	process, key, owner string
}

func identify(e *trace.Event) identity {
	if e.Owner == "" {
		return nameless(e)
	}
	return identity{e.Process, e.Key, e.Owner}
}

// nameless is for an event before it is known by which owner: better than taking all
// of them for one.
func nameless(e *trace.Event) identity {
	return identity{e.Process, e.Key, fmt.Sprint(e.Process, "/", e.Who, "/", e.Attempt)}
}

// holdsOf reads the holds out of events that are sorted, in the order of the grants.
func holdsOf(events []trace.Event, deaths []Death, pauses []Pause) []*hold {
	r := holding{now: map[identity]*hold{}}
	for i := range events {
		r.read(&events[i])
	}
	for _, h := range r.all {
		h.wake(pauses)
	}
	fell := map[string][]int64{}
	for _, d := range deaths {
		fell[d.Process] = append(fell[d.Process], d.At)
	}
	for _, h := range r.all {
		for _, at := range fell[h.by.process] {
			if at >= h.at && at < h.end {
				h.end, h.how = at, died
			}
		}
	}
	slices.SortStableFunc(r.all, func(a, b *hold) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.end, b.end))
	})
	return r.all
}

// wake makes a holder that was told late know of it no earlier than its process could:
// one that stands still is told nothing.
func (h *hold) wake(pauses []Pause) {
	if h.how != wasTold {
		return
	}
	for _, stop := range pauses {
		if to := cmp.Or(stop.To, never); stop.Process == h.by.process && stop.From <= h.end && h.end < to {
			h.end = max(h.end, min(to, h.lost.At))
		}
	}
}

func (r *holding) read(e *trace.Event) {
	id := identify(e)
	h := r.now[id]
	switch e.Kind {
	case trace.Acquired:
		if h != nil && h.how == believes {
			h.depth++
			return
		}
		asked := e.Asked
		if asked == 0 || asked > e.At {
			asked = e.At
		}
		h = &hold{
			key: e.Key, by: by(e), owner: id.owner, token: e.Token, shared: e.Shared, open: e.Mechanism == unlocked,
			left:  e.LeftMS,
			asked: asked, at: e.At, end: never, depth: 1,
		}
		r.now[id] = h
		r.all = append(r.all, h)
	case trace.Lost:
		if h != nil && h.how == believes {
			h.lost = e
			h.over(max(h.at, e.At-toldLate), wasTold)
		}
	case trace.Abandoned:
		if h != nil {
			h.leave(e.At, walkedOff)
		}
	case trace.Releasing:
		if h == nil {
			return
		}
		h.giving++
		if h.leave(max(h.at, cmp.Or(e.Asked, e.At)), gaveBack) { // it looked at the store first
			h.releasing = e
		}
	case trace.Released:
		if h == nil {
			return
		}
		if h.giving == 0 { // its beginning was not recorded
			h.leave(max(h.at, min(e.At, cmp.Or(e.Asked, e.At))), gaveBack)
			return
		}
		h.giving--
		if h.releasing != nil && h.giving == 0 {
			h.released = e
		}
	}
}

// leave counts one lease of the owner less, and reports whether it was the last.
func (h *hold) leave(at int64, how ending) bool {
	if h.depth == 0 {
		return false
	}
	if h.depth--; h.depth > 0 {
		return false
	}
	if h.how == believes {
		h.over(at, how)
	}
	return true
}

func (h *hold) over(at int64, how ending) { h.end, h.how = at, how }
