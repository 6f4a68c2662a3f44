package lab

import (
	"slices"
	"strings"
	"sync"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/load"
	"seckill/internal/lab/stage"
)

// Play is one run of an experiment: the stage, and what the scene sees on it. A
// step that cannot be done ends it, as Fatalf ends a test.
type Play struct {
	*stage.Stage
	experiment *Experiment

	mu     sync.Mutex
	result finding.Result
	looked map[finding.Kind]bool // for what
	proofs []finding.Witness
}

func newPlay(e *Experiment, r finding.Result) *Play {
	r.Anomalies = none()
	return &Play{experiment: e, result: r, looked: map[finding.Kind]bool{}}
}

// Found counts anomalies of a kind. With 0 it says that somebody has looked for them:
// a kind that nobody looked for is not one that was not there.
func (p *Play) Found(kind finding.Kind, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looked[kind] = true
	p.result.Anomalies[kind] += n
}

// Witness adds a proof, or a picture of how an anomaly was prevented (no kind).
func (p *Play) Witness(w finding.Witness) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proofs = append(p.proofs, w)
}

// Measure notes a number that is worth reading.
func (p *Play) Measure(name string, value float64, unit string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.result.Measures = append(p.result.Measures, finding.Measure{Name: name, Value: value, Unit: unit})
}

// Load adds what buyers were told.
func (p *Play) Load(o *load.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.result.Requests += o.Requests
	p.result.Latency = &o.Latency
	if p.result.Answers == nil {
		p.result.Answers = map[string]int{}
	}
	for code, n := range o.Answers {
		p.result.Answers[code] += n
	}
}

// Judge has the evidence judged, and counts what was found. Where that is nothing
// that decides, and the scene has drawn nothing, it has the lock's history drawn as it
// went.
func (p *Play) Judge(evidence judge.Evidence) judge.Judgement {
	j := judge.Judge(evidence)
	for kind, n := range j.Anomalies {
		p.Found(kind, n)
	}
	for _, w := range j.Witnesses {
		p.Witness(w)
	}
	if !p.pictured() {
		if w, ok := judge.Picture(evidence, judge.Focus{}); ok {
			p.Witness(w)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if evidence.Audit != nil {
		p.result.Orders = int(evidence.Audit.Orders)
	}
	p.result.Measures = append(p.result.Measures, j.Measures...)
	return j
}

// pictured says whether there is a witness already of something that decides, or the
// scene's own picture of how it was prevented.
func (p *Play) pictured() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.proofs, func(w finding.Witness) bool { return w.Kind == "" || p.experiment.decides(w.Kind) })
}

// verdict fills in what follows from the counts. What breaks is proved by what was
// found; that it holds is a verdict only where all that decides was looked for.
func (p *Play) verdict() finding.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, e := p.result, p.experiment
	r.Observed = finding.Holds
	for kind, n := range r.Anomalies {
		if n > 0 && e.decides(kind) {
			r.Observed = finding.Breaks
		}
	}
	if missing := p.overlooked(); r.Observed == finding.Holds && missing != "" {
		r.Observed, r.Failed = "", "nobody looked for "+missing
		return r
	}
	r.AsExpected = r.Observed == e.Expect
	if e.Expect == finding.Breaks && r.Anomalies[e.About[0]] == 0 {
		r.AsExpected = false // broken, and not in the way that was to be shown
	}
	r.Witness, r.More = pick(shown(p.proofs, r.Observed), e.About)
	return r
}

// overlooked names the kinds that decide and that nobody looked for. The mutex is held.
func (p *Play) overlooked() string {
	about := p.experiment.About
	if len(about) == 0 {
		about = slices.Collect(kinds())
	}
	var names []string
	for _, kind := range about {
		if !p.looked[kind] {
			names = append(names, string(kind))
		}
	}
	return strings.Join(names, ", ")
}

// shown are the first proof of each kind: a scene's own comes before the judge's. Where
// it breaks there is no picture of how that was prevented.
func shown(proofs []finding.Witness, observed finding.Verdict) []finding.Witness {
	var some []finding.Witness
	for _, w := range proofs {
		same := func(other finding.Witness) bool { return other.Kind == w.Kind }
		if w.Kind == "" && observed == finding.Breaks || slices.ContainsFunc(some, same) {
			continue
		}
		some = append(some, w)
	}
	return some
}

// pick takes the witness that the experiment is about: of its kinds in their order,
// else a picture of prevention, else any.
func pick(proofs []finding.Witness, about []finding.Kind) (*finding.Witness, []finding.Witness) {
	if len(proofs) == 0 {
		return nil, nil
	}
	rank := func(w finding.Witness) int {
		if i := slices.Index(about, w.Kind); i >= 0 {
			return i
		}
		if w.Kind == "" {
			return len(about)
		}
		i := slices.IndexFunc(finding.Kinds(), func(info finding.Info) bool { return info.Kind == w.Kind })
		return len(about) + 1 + i
	}
	sorted := slices.SortedStableFunc(slices.Values(proofs), func(a, b finding.Witness) int { return rank(a) - rank(b) })
	return &sorted[0], sorted[1:]
}
