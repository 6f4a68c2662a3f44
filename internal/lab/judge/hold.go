package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"seckill/internal/eventlog"
)

// Never is a time that does not come.
const Never = math.MaxInt64

// notifyDelay is how much later than its notification a holder may record it, because another
// goroutine does so. Until it is recorded the holder counts as knowing.
const notifyDelay = int64(10 * time.Millisecond)

// unlocked is the mechanism that does not lock.
const unlocked = "none"

// Ending is how a hold ended.
type Ending int

// The ways in which a hold ends.
const (
	NotEnded     Ending = iota // it did not end, as far as was observed
	EndReleased                // its release began
	EndNotified                // it was told of the loss
	EndAbandoned               // it released nothing
	EndDied                    // its process died
)

// Hold is the time in which an owner believes that it has a key: from the grant until it
// begins to release, is told of the loss, abandons the lock or dies. Re-entry belongs to the
// same hold.
type Hold struct {
	Key         string
	By          Actor
	Owner       string
	token       uint64
	Shared      bool
	Unlocked    bool     // the mechanism does not lock: the owner is inside and holds nothing
	LeaseLeftMS *float64 // of the lease at the grant, in ms; nil: no end, or not known

	Began, At, End int64
	How            Ending

	// Releasing and Released are the events of the release, even if the hold had already ended
	// in another way. nil: there was none.
	Releasing, Released *eventlog.Event
	Lost                *eventlog.Event

	// State while events are read: the number of leases, and of releases that have begun.
	depth, releasesOpen int
}

// Actor is a process and the name of its caller, for one attempt to order.
type Actor struct {
	Process, Who string
	Attempt      int64
}

// Name is the name of the caller with its process.
func (a Actor) Name() string {
	switch {
	case a.Who == "":
		return a.Process
	case a.Process == "":
		return a.Who
	}
	return a.Who + " (" + a.Process + ")"
}

// Short is the name without the process.
func (a Actor) Short() string {
	if a.Who == "" {
		return a.Process
	}
	return a.Who
}

// ActorOf returns the actor of an event.
func ActorOf(e *eventlog.Event) Actor { return Actor{e.Process, e.Who, e.Attempt} }

// Conflicts reports whether two holds exclude each other.
func (h *Hold) Conflicts(other *Hold) bool {
	return h.Owner != other.Owner && (!h.Shared || !other.Shared)
}

// stores reports whether a stored value belongs to this holder. Some mechanisms store the
// owner itself, others a value of their own followed by the owner.
func (h *Hold) stores(value string) bool {
	return value == h.Owner || strings.HasSuffix(value, "#"+h.Owner)
}

// LeaseEnd is when the lease ends by the holder's own clock; Never if it has no end. Only a
// release records it, so without a release it is not known.
func (h *Hold) LeaseEnd() (end int64, known bool) {
	switch {
	case h.Releasing == nil:
		return 0, false
	case h.Releasing.LeftMS == nil:
		return Never, true
	}
	return h.Releasing.At + Nanos(*h.Releasing.LeftMS), true
}

// ReleaseSpan is the time in which the store may have executed the release.
func (h *Hold) ReleaseSpan() (from, to int64, ok bool) {
	if h.Releasing == nil {
		return 0, 0, false
	}
	from, to = h.Releasing.At, Never
	if h.Released != nil {
		from, to = max(from, h.Released.Began), h.Released.At
	}
	return from, to, true
}

// Nanos converts milliseconds to nanoseconds, limited to 1,000 hours either way in case a
// file contains nonsense.
func Nanos(ms float64) int64 {
	const limit = float64(time.Hour) * 1e3
	return int64(min(max(ms*1e6, -limit), limit))
}

// holding reads holds from events.
type holding struct {
	now map[identity]*Hold // the newest hold of each owner
	all []*Hold
}

type identity struct {
	process, key, owner string
}

func identify(e *eventlog.Event) identity {
	if e.Owner == "" {
		return nameless(e)
	}
	return identity{e.Process, e.Key, e.Owner}
}

// nameless identifies an event whose owner is not known yet by its caller.
func nameless(e *eventlog.Event) identity {
	return identity{e.Process, e.Key, fmt.Sprint(e.Process, "/", e.Who, "/", e.Attempt)}
}

// holdsOf reads the holds from sorted events, in the order of the grants.
func holdsOf(events []eventlog.Event, deaths []Death, pauses []Pause) []*Hold {
	r := holding{now: map[identity]*Hold{}}
	for i := range events {
		r.read(&events[i])
	}
	for _, h := range r.all {
		h.adjustNotified(pauses)
	}
	fell := map[string][]int64{}
	for _, d := range deaths {
		fell[d.Process] = append(fell[d.Process], d.At)
	}
	for _, h := range r.all {
		for _, at := range fell[h.By.Process] {
			if at >= h.At && at < h.End {
				h.End, h.How = at, EndDied
			}
		}
	}
	slices.SortStableFunc(r.all, func(a, b *Hold) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.End, b.End))
	})
	return r.all
}

// adjustNotified moves a late notification to the time at which the process could know of it:
// a paused process learns nothing.
func (h *Hold) adjustNotified(pauses []Pause) {
	if h.How != EndNotified {
		return
	}
	for _, stop := range pauses {
		if to := cmp.Or(stop.To, Never); stop.Process == h.By.Process && stop.From <= h.End && h.End < to {
			h.End = max(h.End, min(to, h.Lost.At))
		}
	}
}

func (r *holding) read(e *eventlog.Event) {
	id := identify(e)
	h := r.now[id]
	switch e.Kind {
	case eventlog.Acquired:
		if h != nil && h.How == NotEnded {
			h.depth++
			return
		}
		asked := e.Began
		if asked == 0 || asked > e.At {
			asked = e.At
		}
		h = &Hold{
			Key: e.Key, By: ActorOf(e), Owner: id.owner, token: e.Token, Shared: e.Shared, Unlocked: e.Mechanism == unlocked,
			LeaseLeftMS: e.LeftMS,
			Began:       asked, At: e.At, End: Never, depth: 1,
		}
		r.now[id] = h
		r.all = append(r.all, h)
	case eventlog.Lost:
		if h != nil && h.How == NotEnded {
			h.Lost = e
			h.finish(max(h.At, e.At-notifyDelay), EndNotified)
		}
	case eventlog.Abandoned:
		if h != nil {
			h.dropLease(e.At, EndAbandoned)
		}
	case eventlog.Releasing:
		if h == nil {
			return
		}
		h.releasesOpen++
		if h.dropLease(max(h.At, cmp.Or(e.Began, e.At)), EndReleased) { // the release checks the store first
			h.Releasing = e
		}
	case eventlog.Released:
		if h == nil {
			return
		}
		if h.releasesOpen == 0 { // its beginning was not recorded
			h.dropLease(max(h.At, min(e.At, cmp.Or(e.Began, e.At))), EndReleased)
			return
		}
		h.releasesOpen--
		if h.Releasing != nil && h.releasesOpen == 0 {
			h.Released = e
		}
	}
}

// dropLease removes one lease of the owner, and reports whether it was the last one.
func (h *Hold) dropLease(at int64, how Ending) bool {
	if h.depth == 0 {
		return false
	}
	if h.depth--; h.depth > 0 {
		return false
	}
	if h.How == NotEnded {
		h.finish(at, how)
	}
	return true
}

func (h *Hold) finish(at int64, how Ending) { h.End, h.How = at, how }

// LeaseLeft is the rest of the lease at the time of the grant, if it has an end and that is
// known. The round trip has used a part of the lease that was asked for.
func (h *Hold) LeaseLeft() (int64, bool) {
	if h.LeaseLeftMS != nil {
		return Nanos(*h.LeaseLeftMS), true
	}
	end, known := h.LeaseEnd()
	return end - h.At, known && end != Never && end > h.At
}
