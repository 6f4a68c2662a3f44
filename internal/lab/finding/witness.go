package finding

import (
	"math"

	"seckill/internal/lab/i18n"
)

// Witness is the smallest set of events that proves an anomaly or, in an experiment that
// holds, shows how it was prevented. It is drawn as lanes on one time axis.
type Witness struct {
	// Kind is the anomaly that it proves; "" if it shows prevention.
	Kind Kind `json:"kind,omitempty"`
	// Summary describes it in a sentence or two, with names and times.
	Summary i18n.Text `json:"summary"`
	Key     string    `json:"key,omitempty"` // of the lock
	// Also are other anomalies of the same actors and time, which this picture shows as well.
	Also []Aside `json:"also,omitempty"`
	// Actors are all actors in the pictures of an experiment, as their lanes are named; they
	// give each the same letter and colour in all of them.
	Actors []string `json:"actors,omitempty"`
	// Lanes go from top to bottom: the actors in the order in which they appear, then the
	// stores.
	Lanes []Lane `json:"lanes"`
	// From and Until are where the axis begins and ends at the latest and at the earliest, in ms: for a picture that
	// still grows, or two of them on one axis. From may be nil.
	From  *float64 `json:"from_ms,omitempty"`
	Until float64  `json:"until_ms,omitempty"`
}

// Period returns when the first and the last thing that the picture shows happen, in ms; 0 and 0 if it shows nothing.
func (w *Witness) Period() (from, to float64) {
	from, to = math.Inf(1), math.Inf(-1)
	for _, lane := range w.Lanes {
		for _, s := range lane.Spans {
			from, to = min(from, s.From), max(to, s.To)
		}
		for _, m := range lane.Marks {
			from, to = min(from, m.At), max(to, m.At)
		}
	}
	if from > to {
		return 0, 0
	}
	return from, to
}

// Aside is an anomaly in a sentence.
type Aside struct {
	Kind    Kind      `json:"kind"`
	Summary i18n.Text `json:"summary"`
}

// Role says to whom a lane belongs.
type Role string

// The roles.
const (
	Actor     Role = "actor"      // a buyer or a process: what it believed and did
	LockStore Role = "lock-store" // what the lock's store held
	Database  Role = "database"   // what was written
	Fault     Role = "fault"      // a fault of a process or server
)

// Lane is one row of the picture. Times are milliseconds since the first event of the run, on
// one clock: the same in all pictures of an experiment.
type Lane struct {
	Name  string `json:"name"` // "buyer 17 (api-1)", "Redis", "MariaDB"
	Role  Role   `json:"role"`
	Spans []Span `json:"spans,omitempty"`
	Marks []Mark `json:"marks,omitempty"`
}

// SpanKind says what a span of time is.
type SpanKind string

// The kinds of span.
const (
	Waits     SpanKind = "waits"       // asked for the lock and has no answer
	Held      SpanKind = "holds"       // was granted the lock, and has it
	Believes  SpanKind = "believes"    // has it no longer, and was not told
	Stored    SpanKind = "stored"      // the store has the key under this owner
	Paused    SpanKind = "paused"      // is paused
	Down      SpanKind = "down"        // is dead, or cut off
	Reads     SpanKind = "reads"       // holds as a reader
	Transacts SpanKind = "transaction" // from its begin to its commit
)

// Span is a period.
type Span struct {
	Kind  SpanKind  `json:"kind"`
	From  float64   `json:"from_ms"`
	To    float64   `json:"to_ms"`
	Open  bool      `json:"open,omitempty"` // it continues after the picture's end
	Label i18n.Text `json:"label,omitzero"`
	// Who names the actor, as its lane is named; it decides the colour. In a span of the store
	// it is the owner.
	Who string `json:"who,omitempty"`
	// Wrong marks what should not have happened: what the witness is about.
	Wrong bool `json:"wrong,omitempty"`
}

// MarkKind says what a mark is.
type MarkKind string

// The kinds of mark.
const (
	ReadsStock  MarkKind = "read"
	WritesStock MarkKind = "write"
	Refuses     MarkKind = "refused" // a write or an acquisition was refused
	Releases    MarkKind = "release"
	Expires     MarkKind = "expired"
	Deletes     MarkKind = "deleted"
	Killed      MarkKind = "killed"
	Told        MarkKind = "told" // a holder is told that it has lost the lock
	Wakes       MarkKind = "wakes"
	Notes       MarkKind = "note"
)

// Mark is a moment.
type Mark struct {
	Kind  MarkKind  `json:"kind"`
	At    float64   `json:"at_ms"`
	Label i18n.Text `json:"label,omitzero"` // short: "reads 1", "writes 0", "expired"
	Who   string    `json:"who,omitempty"`
	// Of names another actor whom it concerns: whose lock is deleted.
	Of    string `json:"of,omitempty"`
	Wrong bool   `json:"wrong,omitempty"`
	// Cause marks what made the wrong thing possible: a lease that ended, a node that restarted.
	Cause bool `json:"cause,omitempty"`
}
