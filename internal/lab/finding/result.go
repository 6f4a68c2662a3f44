package finding

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"seckill/internal/lab/i18n"
)

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
