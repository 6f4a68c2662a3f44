package judge

import (
	"cmp"
	"maps"
	"slices"

	"seckill/internal/trace"
)

// history is the evidence in an order in which it can be asked.
type history struct {
	Evidence
	begin   int64
	holds   []*hold            // by grant
	of      map[string][]*hold // of each key
	sales   []*sale            // by end
	store   map[string]*shelf  // of each key that was observed
	knows   map[string]bool    // owners that occur in events
	fails   []*trace.Event     // refused acquisitions
	asks    []*trace.Event     // acquisitions without an answer
	unheard []unheard          // and those that never get one
	servers []server           // those that were observed one by one
	// wrongs are here and not with the other anomalies because pictures of any kind
	// show whose release took what.
	wrongs []wrongRelease
}

func newHistory(ev Evidence) *history {
	h := &history{Evidence: ev, of: map[string][]*hold{}, knows: map[string]bool{}}
	h.Events = slices.SortedStableFunc(slices.Values(ev.Events), func(a, b trace.Event) int { return cmp.Compare(a.At, b.At) })
	h.Deaths = slices.SortedFunc(slices.Values(ev.Deaths), func(a, b Death) int { return cmp.Compare(a.At, b.At) })
	h.Samples = slices.SortedStableFunc(slices.Values(ev.Samples), func(a, b Sample) int { return cmp.Compare(a.At, b.At) })
	h.LockStore = cmp.Or(ev.LockStore, "lock store")
	h.Database = cmp.Or(ev.Database, "database")
	if len(h.Events) > 0 {
		h.begin = h.Events[0].At
		h.End = max(h.End, h.Events[len(h.Events)-1].At)
	}
	if n := len(h.Samples); n > 0 {
		h.End = max(h.End, h.Samples[n-1].At)
	}
	h.holds = holdsOf(h.Events, h.Deaths, h.Pauses)
	for _, one := range h.holds {
		if !ev.Shared {
			one.shared = false
		}
		h.of[one.key] = append(h.of[one.key], one)
	}
	h.sales = salesOf(h.Events, h.holds)
	h.readAsks()
	h.readStores()
	h.wrongs = h.wrongReleases()
	return h
}

// server is one of several that a lock is kept on.
type server struct {
	name string
	kept map[string]*shelf // of each key
}

// readStores reads what was observed: the store, and servers in the order in which
// they were first seen.
func (h *history) readStores() {
	of := map[string][]Sample{}
	var names []string
	for _, s := range h.Samples {
		if _, known := of[s.Server]; !known && s.Server != "" {
			names = append(names, s.Server)
		}
		of[s.Server] = append(of[s.Server], s)
	}
	read := func(samples []Sample) map[string]*shelf {
		all := shelves(samples, h.End)
		for key, s := range all {
			s.attribute(h.of[key], h.knows)
		}
		return all
	}
	h.store = read(of[""])
	for _, name := range names {
		h.servers = append(h.servers, server{name, read(of[name])})
	}
}

// readAsks notes who was refused, and who waits for an answer.
func (h *history) readAsks() {
	waiting := map[identity][]*trace.Event{}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Key == "" {
			continue
		}
		if e.Owner != "" {
			h.knows[e.Owner] = true
		}
		id := identify(e)
		switch e.Kind {
		case trace.Asked:
			waiting[id] = append(waiting[id], e)
		case trace.Acquired, trace.Refused:
			if w := waiting[id]; len(w) > 0 {
				waiting[id] = w[1:]
			} else if w := waiting[nameless(e)]; len(w) > 0 {
				waiting[nameless(e)] = w[1:]
			}
			if e.Kind == trace.Refused {
				h.fails = append(h.fails, e)
			}
		}
	}
	for _, w := range waiting {
		for _, e := range w {
			death := slices.IndexFunc(h.Deaths, func(d Death) bool { return d.Process == e.Process && d.At >= e.At })
			if death < 0 {
				h.asks = append(h.asks, e)
			} else {
				h.unheard = append(h.unheard, unheard{e, h.Deaths[death].At})
			}
		}
	}
}

// unheard is an acquisition whose process died before it had an answer.
type unheard struct {
	asked *trace.Event
	died  int64
}

// taker is whose unheard acquisition put a value into the store, as far as the value
// says that.
func (h *history) taker(key, value string) (unheard, bool) {
	i := slices.IndexFunc(h.unheard, func(u unheard) bool {
		return u.asked.Key == key && u.asked.Owner != "" && named(value, map[string]bool{u.asked.Owner: true}) != ""
	})
	if i < 0 {
		return unheard{}, false
	}
	return h.unheard[i], true
}

// keys are the keys of locks, sorted.
func (h *history) keys() []string { return slices.Sorted(maps.Keys(h.of)) }
