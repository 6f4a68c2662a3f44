// Package finding defines the results of the laboratory: kinds of anomaly, verdicts,
// witnesses, and the result of an experiment, as it is printed and drawn.
package finding

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"seckill/internal/lab/i18n"
)

// Verdict is the result of an experiment.
type Verdict string

// The verdicts.
const (
	Breaks Verdict = "breaks" // at least one anomaly of the kind that the experiment is about
	Holds  Verdict = "holds"  // none of any kind that the experiment is about
)

// Opposite is the other verdict.
func (v Verdict) Opposite() Verdict {
	if v == Breaks {
		return Holds
	}
	return Breaks
}

// Text is the verdict as a word.
func (v Verdict) Text() i18n.Text {
	switch v {
	case Breaks:
		return i18n.F("verdict|breaks")
	case Holds:
		return i18n.F("verdict|holds")
	}
	return i18n.Plain(string(v))
}

// Kind is a kind of anomaly. [Kinds] says what each one means.
type Kind string

// The kinds.
const (
	Oversold        Kind = "oversold"
	DuplicateOrders Kind = "duplicate_orders"
	LostUpdates     Kind = "lost_updates"
	LostOrders      Kind = "lost_orders"
	LostStock       Kind = "lost_stock"
	PaidForNothing  Kind = "paid_for_nothing"
	GivenAway       Kind = "given_away"
	ReturnedTwice   Kind = "returned_twice"
	NeverReturned   Kind = "never_returned"
	Undersold       Kind = "undersold"
	SoldWhilePaused Kind = "sold_while_paused"
	StaleWrites     Kind = "stale_writes"
	Overlaps        Kind = "overlaps"
	WrongReleases   Kind = "wrong_releases"
	StuckKeys       Kind = "stuck_keys"
	LockedOut       Kind = "locked_out"
	TurnedAway      Kind = "turned_away"
	Deadlocks       Kind = "deadlocks"
	FalseAlarms     Kind = "false_alarms"
	Unavailable     Kind = "unavailable"
	Herds           Kind = "herds"
	ExcessCommands  Kind = "excess_commands"
	Inversions      Kind = "inversions"
	Starved         Kind = "starved"
	NeedlessWaits   Kind = "needless_waits"
	Unfair          Kind = "unfair"
	OutOfTurn       Kind = "out_of_turn"
	InVain          Kind = "in_vain"
)

// Info describes a kind of anomaly.
type Info struct {
	Kind  Kind
	Title string // the heading of its column in the report
	Means string // what is counted
}

// In is the description in a language.
func (i Info) In(l i18n.Language) Info {
	i.Title, i.Means = i18n.Key(i.Title).In(l), i18n.Key(i.Means).In(l)
	return i
}

// Counted names the kind and how often it was seen.
func (i Info) Counted(n int) i18n.Text { return i18n.F("counted|%s %d", i18n.Key(i.Title), n) }

// Kinds lists every kind of anomaly, the gravest first.
func Kinds() []Info {
	return []Info{
		{Oversold, "oversold", "orders in the database beyond the initial stock"},
		{DuplicateOrders, "duplicates", "orders in the database beyond one per user"},
		{LostUpdates, "lost updates", "committed writes of the stock, computed from a value that another commit had replaced"},
		{LostOrders, "lost orders", "orders that a buyer was told are placed and that the database does not have"},
		{LostStock, "lost stock", "units that were taken from the stock and for which the database has no order"},
		{PaidForNothing, "paid for nothing", "payments that the provider keeps, of orders that have no unit"},
		{GivenAway, "given away", "units of paid orders whose money was not received, or went back"},
		{ReturnedTwice, "returned twice", "units on sale beyond those that no order has"},
		{NeverReturned, "never returned", "units of unpaid orders whose time to pay is over"},
		{Undersold, "undersold", "units that nobody has at the end, though buyers asked for them and were refused"},
		{SoldWhilePaused, "sold while paused", "orders accepted after the administrator was told that the sale is paused"},
		{StaleWrites, "stale writes", "writes committed by a holder after the lock had been granted to the next one"},
		{Overlaps, "two holders", "grants of a key while an earlier holder still believed to hold it"},
		{WrongReleases, "wrong releases", "holders whose lock was deleted by somebody else's release before their lease was over"},
		{StuckKeys, "stuck keys", "keys that stay taken in the store though nobody alive holds them"},
		{LockedOut, "locked out", "buyers turned away by the lock of a holder that had released it"},
		{TurnedAway, "turned away", "buyers told to come again who would have got a unit, had they waited"},
		{Deadlocks, "deadlocks", "owners that waited for themselves"},
		{FalseAlarms, "false alarms", "holders that lost the lock though they were alive and renewed it"},
		{Unavailable, "unavailable", "acquisitions that failed because a server was down"},
		{Herds, "herds", "releases that woke more than one waiter"},
		{ExcessCommands, "excess commands", "commands that the store was sent beyond ten for each grant"},
		{Inversions, "inversions", "pairs of waiters served in the wrong order"},
		{Starved, "starved", "waiters that were not served while later ones were"},
		{NeedlessWaits, "needless waits", "readers that had to wait for another reader"},
		{Unfair, "unfair", "of the first places, those that one visitor took beyond what chance gives to as many users"},
		{OutOfTurn, "out of turn", "visitors let in whose turn it was not: beyond the rate, or with another's pass"},
		{InVain, "waits in vain", "visitors who are still told to wait, ten seconds after the last unit was sold"},
	}
}

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
	// Stock is what is left when the picture begins, in a database's lane; nil: it is not known.
	Stock *int64 `json:"stock,omitempty"`
}

// SpanKind says what a span of time is.
type SpanKind string

// The kinds of span.
const (
	Waits     SpanKind = "waits"       // asked for the lock, or with a label for something else, and has no answer
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
	Renews      MarkKind = "renews"
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
	// Stock is what is left after it, in a database's lane; nil: it is not known.
	Stock *int64 `json:"stock,omitempty"`
}

// Result is the result of one run of an experiment. Its JSON is a contract: scripts read it.
type Result struct {
	ID      string `json:"id"`
	Title   string `json:"title"`
	Group   string `json:"group"`
	Lock    string `json:"lock"`
	SetupOf string `json:"setup_of,omitempty"` // the experiment whose setup was used; "": its own
	// Changed are the values that differ from the experiment's own, for which Expect is. Turned
	// says whether the verdict is the other one because of them.
	Changed    []Change     `json:"changed,omitempty"`
	Turned     bool         `json:"turned,omitempty"`
	Expect     Verdict      `json:"expect"`
	Observed   Verdict      `json:"observed,omitempty"` // "" if it was skipped or failed
	AsExpected bool         `json:"as_expected"`
	About      []Kind       `json:"about"` // the deciding kinds; the first one must be seen if it is expected to break
	Anomalies  map[Kind]int `json:"anomalies"`
	Requests   int          `json:"requests"`
	Orders     int          `json:"orders"`
	DurationMS int64        `json:"duration_ms"`
	Engine     Engine       `json:"engine"`

	// Witness proves the anomaly, or shows how it was prevented; nil if there is nothing to
	// show. More are those of other kinds.
	Witness *Witness  `json:"witness"`
	More    []Witness `json:"more_witnesses,omitempty"`

	// Answers counts the answers to buyers, by code.
	Answers map[string]int `json:"answers,omitempty"`
	// Measures are further numbers, in reading order.
	Measures []Measure `json:"measures,omitempty"`
	Latency  *Latency  `json:"latency,omitempty"`

	Seed    int64  `json:"seed"`
	Command string `json:"command"` // the command that repeats it
	// Prediction is what was predicted before the run: "holds", "breaks" or "breaks:" and a
	// kind. PredictionRight says whether it came true; nil if there is no verdict.
	Prediction      string `json:"prediction,omitempty"`
	PredictionRight *bool  `json:"prediction_right,omitempty"`

	// Skipped says why it was not run, Failed why it came to no verdict. A failed run is never
	// as expected.
	Skipped string `json:"skipped,omitempty"`
	Failed  string `json:"failed,omitempty"`
	// SkippedFor is Skipped in all languages, of a run of this process.
	SkippedFor i18n.Text `json:"-"`
}

// SkippedText is Skipped in all languages, as far as they are known.
func (r *Result) SkippedText() i18n.Text {
	if r.SkippedFor.IsZero() {
		return i18n.Plain(r.Skipped)
	}
	return r.SkippedFor
}

// Change is a changed value of a parameter.
type Change struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
}

// Engine is what it ran on, such as "redis-server 7.0.15", "MariaDB 10.11.14" or "embedded
// (miniredis)"; "" if it was not used.
type Engine struct {
	Redis     string `json:"redis,omitempty"`
	Database  string `json:"database,omitempty"`
	ZooKeeper string `json:"zookeeper,omitempty"`
}

// Measure is a number with its name and unit.
type Measure struct {
	Name  i18n.Text `json:"name"`
	Value float64   `json:"value"`
	Unit  i18n.Text `json:"unit,omitzero"`
}

// Latency is the distribution of response times.
type Latency struct {
	Count     int     `json:"count"`
	PerSecond float64 `json:"per_second"` // requests answered
	P50MS     float64 `json:"p50_ms"`
	P90MS     float64 `json:"p90_ms"`
	P99MS     float64 `json:"p99_ms"`
	MaxMS     float64 `json:"max_ms"`
	// Buckets is the histogram: each one counts the values above the previous UpToMS, up to
	// its own.
	Buckets []Bucket `json:"buckets,omitempty"`
}

// Bucket is one bar of the distribution.
type Bucket struct {
	UpToMS float64 `json:"up_to_ms"`
	Count  int     `json:"count"`
}

// Prediction is what somebody expects of a run before it.
type Prediction struct {
	Verdict Verdict
	Kind    Kind // the predicted anomaly; "": any
}

// ErrNoPrediction means that a text is no prediction.
var ErrNoPrediction = errors.New("no prediction")

// ParsePrediction reads "holds", "breaks" or "breaks:" and an anomaly: its title in English or Chinese, as it is printed,
// or the name of its kind. Otherwise it returns [ErrNoPrediction], with what there is to choose from.
func ParsePrediction(text string) (Prediction, error) {
	verdict, kind, named := strings.Cut(strings.ReplaceAll(text, "：", ":"), ":")
	p := Prediction{}
	for _, v := range []Verdict{Breaks, Holds} {
		if sameWords(verdict, string(v), v.Text().In(i18n.Chinese)) {
			p.Verdict = v
		}
	}
	for _, info := range Kinds() {
		if sameWords(kind, string(info.Kind), info.Title, info.In(i18n.Chinese).Title) {
			p.Kind = info.Kind
		}
	}
	switch {
	case p.Verdict == "":
		return p, fmt.Errorf("%w: %q; %s", ErrNoPrediction, text, Choices())
	case p.Verdict == Holds && named:
		return p, fmt.Errorf("%w: %q; what holds has no anomaly to name: holds", ErrNoPrediction, text)
	case named && p.Kind == "":
		return p, fmt.Errorf("%w: %q; there is no anomaly %q; %s", ErrNoPrediction, text, strings.TrimSpace(kind), Choices())
	}
	return p, nil
}

// sameWords reports whether a text is one of some names, however its words are written and separated.
func sameWords(text string, names ...string) bool {
	plain := func(s string) string {
		return strings.ToLower(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '_' || r == '-' || r == '\n' || r == '\t' || r == '\r' }), " "))
	}
	return slices.ContainsFunc(names, func(name string) bool { return plain(text) == plain(name) })
}

// Choices says what a prediction may be.
func Choices() i18n.Text {
	var titles []i18n.Text
	for _, info := range Kinds() {
		titles = append(titles, i18n.Key(info.Title))
	}
	return i18n.F("it is holds, breaks, or breaks:KIND with one of %s", i18n.List(titles...))
}

// String is the text that [ParsePrediction] reads.
func (p Prediction) String() string {
	if p.Kind == "" {
		return string(p.Verdict)
	}
	return string(p.Verdict) + ":" + string(p.Kind)
}

// Text is the prediction in words.
func (p Prediction) Text() i18n.Text {
	for _, info := range Kinds() {
		if info.Kind == p.Kind {
			return i18n.F("%s: %s", p.Verdict.Text(), i18n.Key(info.Title))
		}
	}
	return p.Verdict.Text()
}

// Judge notes in a result what was predicted, and whether it came true. A run without a
// verdict says nothing about a prediction.
func (p Prediction) Judge(r *Result) {
	r.Prediction = p.String()
	if r.Skipped != "" || r.Failed != "" {
		return
	}
	right := p.Verdict == r.Observed && (p.Kind == "" || r.Anomalies[p.Kind] > 0)
	r.PredictionRight = &right
}

// Seen tells what was seen in a run, and what was expected of it and did not happen. It is true
// of every run: also with another setup, or with another number.
func (r *Result) Seen() i18n.Text {
	var deciding, besides, absent []i18n.Text
	for _, info := range Kinds() {
		n, decides := r.Anomalies[info.Kind], slices.Contains(r.About, info.Kind)
		switch {
		case n > 0 && decides:
			deciding = append(deciding, info.Counted(n))
		case n > 0:
			besides = append(besides, info.Counted(n))
		case decides:
			absent = append(absent, i18n.Key(info.Title))
		}
	}
	seen, missed := i18n.F("Seen: %s.", i18n.List(deciding...)), i18n.F("Not seen: %s.", i18n.List(absent...))
	if r.Expect == Holds {
		seen = i18n.F("Not expected, and seen: %s.", i18n.List(deciding...))
	}
	if r.Expect == Breaks && len(r.About) > 0 && r.Anomalies[r.About[0]] == 0 {
		missed = i18n.F("Expected, and not seen: %s.", i18n.List(absent...))
	}
	var said []i18n.Text
	for _, one := range []struct {
		text i18n.Text
		of   []i18n.Text
	}{
		{seen, deciding}, {missed, absent},
		{i18n.F("Also seen, but not counted in the verdict: %s.", i18n.List(besides...)), besides},
	} {
		if len(one.of) > 0 {
			said = append(said, one.text)
		}
	}
	return i18n.Sentences(said...)
}
