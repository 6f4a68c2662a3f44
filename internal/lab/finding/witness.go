package finding

// Witness is the smallest set of events that shows something: an anomaly, or, in
// an experiment that holds, how it was prevented. It is drawn as lanes on one time
// axis.
type Witness struct {
	// Kind is the anomaly that it proves; "" where it shows that there is none.
	Kind Kind `json:"kind,omitempty"`
	// Summary says in a sentence or two what one sees, with names and times.
	Summary string `json:"summary"`
	Key     string `json:"key,omitempty"` // of the lock
	// Lanes stand from top to bottom: the actors in the order in which they appear,
	// then the stores.
	Lanes []Lane `json:"lanes"`
}

// Role is who a lane belongs to.
type Role string

// The roles.
const (
	Actor     Role = "actor"      // a buyer or a process: what it believed and did
	LockStore Role = "lock-store" // what the lock's store held
	Database  Role = "database"   // what was written
	Fault     Role = "fault"      // what was done to whom
)

// Lane is one line of the picture. Times are milliseconds since the beginning of
// the picture, on one clock.
type Lane struct {
	Name  string `json:"name"` // "buyer 17 (api-1)", "Redis", "MariaDB"
	Role  Role   `json:"role"`
	Spans []Span `json:"spans,omitempty"`
	Marks []Mark `json:"marks,omitempty"`
}

// SpanKind is what a span of time is.
type SpanKind string

// The kinds of span.
const (
	Waits    SpanKind = "waits"    // asked for the lock and has no answer
	Believes SpanKind = "believes" // has been granted the lock, and was not told otherwise
	Stored   SpanKind = "stored"   // the store has the key under this owner
	Paused   SpanKind = "paused"   // stands still
	Down     SpanKind = "down"     // is dead, or cut off
	Reads    SpanKind = "reads"    // holds as a reader
)

// Span is something that lasted.
type Span struct {
	Kind  SpanKind `json:"kind"`
	From  float64  `json:"from_ms"`
	To    float64  `json:"to_ms"`
	Open  bool     `json:"open,omitempty"` // it lasts beyond the picture's end
	Label string   `json:"label,omitempty"`
	// Who names the actor concerned, as its lane is named; a colour of its own. It
	// is what the owner is in a span of the store.
	Who string `json:"who,omitempty"`
	// Wrong says that it should not be: it is what the witness is about.
	Wrong bool `json:"wrong,omitempty"`
}

// MarkKind is what a moment is.
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
	Told        MarkKind = "told" // a holder learns that it is none any more
	Wakes       MarkKind = "wakes"
	Notes       MarkKind = "note"
)

// Mark is a moment.
type Mark struct {
	Kind  MarkKind `json:"kind"`
	At    float64  `json:"at_ms"`
	Label string   `json:"label,omitempty"` // short: "reads 1", "writes 0", "DEL"
	Who   string   `json:"who,omitempty"`
	Wrong bool     `json:"wrong,omitempty"`
}
