package judge

import (
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
