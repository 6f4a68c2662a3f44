package judge

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab/i18n"
	"seckill/internal/order"
)

// Evidence is what is known about one experiment: about its own keys and vouchers, and no
// others. All times are nanoseconds since 1970 by the clock of one machine. Every part may be
// missing; anomalies that need it are then not found.
type Evidence struct {
	// Events are the events of all processes, in any order.
	Events []eventlog.Event
	// Samples are the observer's samples of the lock store, in any order: changes only. The
	// first sample of a key is its state at the start.
	Samples []Sample
	// Audit is what the database holds at the end; nil if nothing is sold.
	Audit *order.Audit
	// Acks are the orders that were confirmed to buyers.
	Acks []Ack
	// Rows are the orders in the database. If they are nil (not just empty), they were not
	// read, and no order counts as lost.
	Rows []order.Order
	// Refused are the users who were refused a unit and were not to come again. nil: it is not known who they are, and no
	// unit counts as undersold.
	Refused []int64

	// Books are the orders of a voucher that asks for payment, and their money; nil if it asks for none.
	Books *Books

	// Deaths, Pauses and Faults are the faults of processes and servers.
	Deaths []Death
	Pauses []Pause
	Faults []Fault

	// End is when the observation ended; 0: with the last event or sample.
	End int64
	// Grace is how long a key with a TTL may stay in the store after its holder is gone before
	// it counts as stuck. 0: until its TTL ends. A key without a TTL is stuck at once.
	Grace time.Duration
	// Shared says that readers may hold a key together.
	Shared bool
	// Apart says that the servers of Samples are locks of their own: a holder keeps the one it took, whoever is granted
	// another.
	Apart bool

	// LockStore and Database name the stores in a witness, such as "ZooKeeper" and
	// "SQLite"; empty: "lock store" and "database".
	LockStore, Database string
}

// Until is what was known at a moment: what had not happened is left out, and what had not ended goes on. What the
// database holds stays.
func (ev Evidence) Until(end int64) Evidence {
	past := ev
	past.End = end
	past.Events, past.Samples, past.Deaths, past.Pauses, past.Faults = nil, nil, nil, nil, nil
	for _, e := range ev.Events {
		if e.At <= end {
			past.Events = append(past.Events, e)
		}
	}
	for _, s := range ev.Samples {
		if s.At <= end {
			past.Samples = append(past.Samples, s)
		}
	}
	for _, d := range ev.Deaths {
		if d.At <= end {
			past.Deaths = append(past.Deaths, d)
		}
	}
	for _, p := range ev.Pauses {
		if p.From <= end {
			p.To = endedBy(p.To, end)
			past.Pauses = append(past.Pauses, p)
		}
	}
	for _, f := range ev.Faults {
		if f.From <= end {
			f.To = endedBy(f.To, end)
			past.Faults = append(past.Faults, f)
		}
	}
	return past
}

// endedBy is when something ended; 0 if it had not ended at a moment.
func endedBy(to, end int64) int64 {
	if to > end {
		return 0
	}
	return to
}

// Sample is what the lock store held under a key from At on, as the observer saw it.
type Sample struct {
	At  int64 // when the reply arrived
	Key string
	// Server names one of several servers that store the lock; it gets its own lane, because
	// what a single server holds says nothing about the lock. "": the store as a whole.
	Server string
	// Stored is what was held: an empty Owner means that the key was free.
	Stored eventlog.Stored
	// Err is why the store could not be sampled. Its state is unknown until the next sample of
	// the key.
	Err string
}

// Ack is an order that was confirmed to a buyer.
type Ack struct {
	Order, User int64
}

// Death is a process that was killed.
type Death struct {
	Process string
	At      int64
}

// Pause is a time in which a process was paused (SIGSTOP, SIGCONT). To is 0 if it still was at
// the end.
type Pause struct {
	Process  string
	From, To int64
}

// Fault is a fault of a server or a connection. To is 0 if it lasted until the end. A fault
// shorter than a millisecond is drawn as a moment.
type Fault struct {
	From, To int64
	Process  string    // whose connections have it; "": it is not one process'
	What     i18n.Text // short: "node 2 restarts empty"
}

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
	// WrongReleases are here and not in [Incidents] because witnesses of every kind show which
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
