package finding

import "seckill/internal/lab/i18n"

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
