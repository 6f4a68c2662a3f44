package finding

// Result is what a run of an experiment came to. Its JSON is a contract: people
// script against it.
type Result struct {
	ID         string       `json:"id"`
	Title      string       `json:"title"`
	Group      string       `json:"group"`
	Lock       string       `json:"lock"`
	SetupOf    string       `json:"setup_of,omitempty"` // the experiment whose setup it was played with; "": its own
	Expect     Verdict      `json:"expect"`
	Observed   Verdict      `json:"observed,omitempty"` // "" when it was skipped or failed
	AsExpected bool         `json:"as_expected"`
	About      []Kind       `json:"about"` // the kinds that decide; the first one is what has to be seen where it is to break
	Anomalies  map[Kind]int `json:"anomalies"`
	Requests   int          `json:"requests"`
	Orders     int          `json:"orders"`
	DurationMS int64        `json:"duration_ms"`
	Engine     Engine       `json:"engine"`

	// Witness proves the anomaly, or shows how it was prevented; nil where there is
	// nothing to show. More are those of other kinds.
	Witness *Witness  `json:"witness"`
	More    []Witness `json:"more_witnesses,omitempty"`

	// Answers counts what the buyers were told, by code.
	Answers map[string]int `json:"answers,omitempty"`
	// Measures are further numbers, in the order in which they are to be read.
	Measures []Measure `json:"measures,omitempty"`
	Latency  *Latency  `json:"latency,omitempty"`

	Seed    int64  `json:"seed"`
	Command string `json:"command"` // repeats it
	// Skipped says why it was not run, Failed why it came to no verdict. The
	// latter is never as expected.
	Skipped string `json:"skipped,omitempty"`
	Failed  string `json:"failed,omitempty"`
}

// Engine is what it ran on, such as "redis-server 7.0.15", "MariaDB 10.11.14" or
// "embedded (miniredis)"; "" where it was not needed.
type Engine struct {
	Redis     string `json:"redis,omitempty"`
	Database  string `json:"database,omitempty"`
	ZooKeeper string `json:"zookeeper,omitempty"`
}

// Measure is a number with its name and unit.
type Measure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
}

// Latency is how long buyers waited for their answers.
type Latency struct {
	Count     int     `json:"count"`
	PerSecond float64 `json:"per_second"` // requests answered
	P50MS     float64 `json:"p50_ms"`
	P90MS     float64 `json:"p90_ms"`
	P99MS     float64 `json:"p99_ms"`
	MaxMS     float64 `json:"max_ms"`
	// Buckets is the distribution, for drawing: how many took up to UpToMS and more
	// than the bucket before.
	Buckets []Bucket `json:"buckets,omitempty"`
}

// Bucket is one bar of the distribution.
type Bucket struct {
	UpToMS float64 `json:"up_to_ms"`
	Count  int     `json:"count"`
}
