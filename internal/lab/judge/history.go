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
	begin int64
	holds []*hold            // by grant
	of    map[string][]*hold // of each key
	sales []*sale            // by end
	store map[string]*shelf  // of each key that was observed
	knows map[string]bool    // owners that occur in events
	fails []*trace.Event     // refused acquisitions
	asks  []*trace.Event     // acquisitions without an answer
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
	h.holds = holdsOf(h.Events, h.Deaths)
	for _, one := range h.holds {
		if !ev.Shared {
			one.shared = false
		}
		h.of[one.key] = append(h.of[one.key], one)
	}
	h.sales = salesOf(h.Events, h.holds)
	h.readAsks()
	h.store = shelves(h.Samples, h.End)
	for key, s := range h.store {
		s.attribute(h.of[key], h.knows)
	}
	h.wrongs = h.wrongReleases()
	return h
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
			if !slices.ContainsFunc(h.Deaths, func(d Death) bool { return d.Process == e.Process && d.At >= e.At }) {
				h.asks = append(h.asks, e)
			}
		}
	}
}

// keys are the keys of locks, sorted.
func (h *history) keys() []string { return slices.Sorted(maps.Keys(h.of)) }
