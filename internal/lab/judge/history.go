package judge

import (
	"cmp"
	"maps"
	"slices"

	"seckill/internal/eventlog"
)

// History is the evidence, sorted and indexed.
type History struct {
	Evidence
	Begin        int64                  // the first event or request: where the pictures' time begins
	Holds        []*Hold                // by time of the grant
	HoldsOf      map[string][]*Hold     // by key
	Transactions []*Transaction         // by time of the end
	Store        map[string]*KeyHistory // by key that was observed
	owners       map[string]bool        // owners that occur in events
	Refusals     []*eventlog.Event      // refused acquisitions
	Pending      []*eventlog.Event      // acquisitions without an answer so far
	Unanswered   []Unanswered           // acquisitions whose process died before the answer
	Servers      []Server               // those that were observed separately
	// WrongReleases are here and not in [Findings] because witnesses of every kind show which
	// release deleted which lock.
	WrongReleases []WrongRelease
}

// NewHistory sorts the evidence, and reads the holds, transactions and stores from it.
func NewHistory(ev Evidence) *History {
	h := &History{Evidence: ev, HoldsOf: map[string][]*Hold{}, owners: map[string]bool{}}
	h.Events = slices.SortedStableFunc(slices.Values(ev.Events), func(a, b eventlog.Event) int { return cmp.Compare(a.At, b.At) })
	h.Deaths = slices.SortedFunc(slices.Values(ev.Deaths), func(a, b Death) int { return cmp.Compare(a.At, b.At) })
	h.Samples = slices.SortedStableFunc(slices.Values(ev.Samples), func(a, b Sample) int { return cmp.Compare(a.At, b.At) })
	h.LockStore = cmp.Or(ev.LockStore, "lock store")
	h.Database = cmp.Or(ev.Database, "database")
	if len(h.Events) > 0 {
		h.Begin = h.Events[0].At
		for i := range h.Events {
			h.Begin = min(h.Begin, cmp.Or(h.Events[i].Began, h.Begin))
		}
		h.End = max(h.End, h.Events[len(h.Events)-1].At)
	}
	if n := len(h.Samples); n > 0 {
		h.End = max(h.End, h.Samples[n-1].At)
	}
	h.Holds = holdsOf(h.Events, h.Deaths, h.Pauses)
	for _, one := range h.Holds {
		if !ev.Shared {
			one.Shared = false
		}
		h.HoldsOf[one.Key] = append(h.HoldsOf[one.Key], one)
	}
	h.Transactions = transactionsOf(h.Events, h.Holds)
	h.readAsks()
	h.readStores()
	h.WrongReleases = h.wrongReleases()
	return h
}

// Server is one of several servers that store a lock.
type Server struct {
	Name string
	Keys map[string]*KeyHistory // by key
}

// readStores reads the samples: of the store as a whole, and of each server in the order of
// its first sample.
func (h *History) readStores() {
	of := map[string][]Sample{}
	var names []string
	for _, s := range h.Samples {
		if _, known := of[s.Server]; !known && s.Server != "" {
			names = append(names, s.Server)
		}
		of[s.Server] = append(of[s.Server], s)
	}
	read := func(samples []Sample) map[string]*KeyHistory {
		all := keyHistories(samples, h.End)
		for key, s := range all {
			s.attribute(h.HoldsOf[key], h.owners)
		}
		return all
	}
	h.Store = read(of[""])
	for _, name := range names {
		h.Servers = append(h.Servers, Server{name, read(of[name])})
	}
}

// readAsks finds the refused acquisitions, and those without an answer.
func (h *History) readAsks() {
	waiting := map[identity][]*eventlog.Event{}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Key == "" {
			continue
		}
		if e.Owner != "" {
			h.owners[e.Owner] = true
		}
		id := identify(e)
		switch e.Kind {
		case eventlog.Acquiring:
			waiting[id] = append(waiting[id], e)
		case eventlog.Acquired, eventlog.Refused:
			if w := waiting[id]; len(w) > 0 {
				waiting[id] = w[1:]
			} else if w := waiting[nameless(e)]; len(w) > 0 {
				waiting[nameless(e)] = w[1:]
			}
			if e.Kind == eventlog.Refused {
				h.Refusals = append(h.Refusals, e)
			}
		}
	}
	for _, w := range waiting {
		for _, e := range w {
			death := slices.IndexFunc(h.Deaths, func(d Death) bool { return d.Process == e.Process && d.At >= e.At })
			if death < 0 {
				h.Pending = append(h.Pending, e)
			} else {
				h.Unanswered = append(h.Unanswered, Unanswered{e, h.Deaths[death].At})
			}
		}
	}
}

// Unanswered is an acquisition whose process died before it had an answer.
type Unanswered struct {
	Request *eventlog.Event
	Died    int64
}

// Taker returns the unanswered acquisition that stored a value, if the value names its owner.
func (h *History) Taker(key, value string) (Unanswered, bool) {
	i := slices.IndexFunc(h.Unanswered, func(u Unanswered) bool {
		return u.Request.Key == key && u.Request.Owner != "" && OwnerIn(value, map[string]bool{u.Request.Owner: true}) != ""
	})
	if i < 0 {
		return Unanswered{}, false
	}
	return h.Unanswered[i], true
}

// keys returns the keys of locks, sorted.
func (h *History) keys() []string { return slices.Sorted(maps.Keys(h.HoldsOf)) }
