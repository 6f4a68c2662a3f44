package judge

import (
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/order"
	"seckill/internal/trace"
)

// Evidence is what is known about one experiment: about the keys and vouchers that
// it is about, and no others. All times are nanoseconds since 1970 by one machine's
// clock. Every part may be missing; what needs it is then not found.
type Evidence struct {
	// Events are those of all processes, in any order.
	Events []trace.Event
	// Samples are what an observer saw in the lock's store, in any order: changes
	// only, the first one of a key being how the observer found it.
	Samples []Sample
	// Audit is what the database holds at the end; nil where nothing is sold.
	Audit *order.Audit
	// Acks are the orders that buyers were told are placed.
	Acks []Ack
	// Rows are the orders that the database has; nil (not: empty) where nobody
	// looked, and then no order is missed.
	Rows []order.Order

	// Deaths, Pauses and Faults are what was done to the processes and the servers.
	Deaths []Death
	Pauses []Pause
	Faults []Fault

	// End is when the observation ended; 0: with the last event or sample.
	End int64
	// Grace is how long after its holder is gone a key may still be in the store
	// without being called stuck, if it has a TTL. 0: as long as the TTL says. A key
	// without a TTL is stuck without any grace.
	Grace time.Duration
	// Shared says that readers may hold a key together.
	Shared bool

	// LockStore and Database name the stores in a witness, such as "ZooKeeper" and
	// "SQLite"; empty: "lock store" and "database".
	LockStore, Database string
}

// Sample is what the lock's store held under a key from At on, as far as the
// observer saw it.
type Sample struct {
	At  int64 // when the answer was there
	Key string
	// Server names one of several that the lock is kept on, for a lane of its own:
	// what a single one holds says nothing about the lock. "": the store as a whole.
	Server string
	// Stored is what was held: an Owner of "" says that the key was free.
	Stored trace.Stored
	// Err is why the store could not be asked. Nothing is known then until the next
	// sample of the key.
	Err string
}

// Ack is an order that a buyer was told is placed.
type Ack struct {
	Order, User int64
}

// Death is a process that was killed.
type Death struct {
	Process string
	At      int64
}

// Pause is a time in which a process stood still (SIGSTOP, SIGCONT). To is 0 where
// it still did at the end.
type Pause struct {
	Process  string
	From, To int64
}

// Fault is something done to a server, or to the way there. To is 0 where it lasted
// until the end; what is over within a millisecond is drawn as a moment.
type Fault struct {
	From, To int64
	What     string // short: "node 2 restarts empty"
}

// Judgement is what evidence comes to.
type Judgement struct {
	// Anomalies counts each kind. A kind that was looked for and not found is there
	// with 0; one that the evidence says nothing about is not there.
	Anomalies map[finding.Kind]int
	// Witnesses prove each kind that was found, the gravest first.
	Witnesses []finding.Witness
	// Measures are further numbers: what porcupine says of the lock's history.
	Measures []finding.Measure
}
