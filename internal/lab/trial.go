package lab

import (
	"slices"
	"strings"
	"sync"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/load"
	"seckill/internal/lab/testbed"
	"seckill/internal/lab/witness"
)

// Trial is one run of an experiment: its testbed, and what the scenario observes. A step that
// cannot be done ends it, as Fatalf ends a test.
type Trial struct {
	*testbed.Run
	experiment *Experiment

	mu        sync.Mutex
	result    finding.Result
	checked   map[finding.Kind]bool // kinds that were looked for
	witnesses []finding.Witness
}

func newTrial(e *Experiment, r finding.Result) *Trial {
	r.Anomalies = noAnomalies()
	return &Trial{experiment: e, result: r, checked: map[finding.Kind]bool{}}
}

// Found counts anomalies of a kind. With 0 it says that the scenario has looked for them: only
// a kind that was looked for can be absent.
func (t *Trial) Found(kind finding.Kind, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checked[kind] = true
	t.result.Anomalies[kind] += n
}

// Witness adds a proof, or a picture of how an anomaly was prevented (without a kind).
func (t *Trial) Witness(w finding.Witness) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.witnesses = append(t.witnesses, w)
}

// Measure adds a number to the result.
func (t *Trial) Measure(name i18n.Text, value float64, unit i18n.Text) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Measures = append(t.result.Measures, finding.Measure{Name: name, Value: value, Unit: unit})
}

// Load adds the answers to buyers.
func (t *Trial) Load(o *load.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Requests += o.Requests
	t.result.Latency = &o.Latency
	if t.result.Answers == nil {
		t.result.Answers = map[string]int{}
	}
	for code, n := range o.Answers {
		t.result.Answers[code] += n
	}
}

// Judge judges the evidence and adds its anomalies and witnesses. If nothing decisive was
// found, and the scenario has drawn nothing, it adds a picture of the lock's history.
func (t *Trial) Judge(evidence judge.Evidence) judge.Judgement {
	j := judge.Judge(evidence)
	for kind, n := range j.Anomalies {
		t.Found(kind, n)
	}
	for _, w := range witness.Proofs(j, t.experiment.About...) {
		t.Witness(w)
	}
	if !t.hasDecisiveWitness() {
		if w, ok := witness.Picture(evidence, witness.Focus{}); ok {
			t.Witness(w)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if evidence.Audit != nil {
		t.result.Orders = int(evidence.Audit.Orders)
	}
	t.result.Measures = append(t.result.Measures, j.Measures...)
	return j
}

// hasDecisiveWitness reports whether there is already a witness of a deciding kind, or the
// scenario's own picture of how it was prevented.
func (t *Trial) hasDecisiveWitness() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.witnesses, func(w finding.Witness) bool { return w.Kind == "" || t.experiment.decides(w.Kind) })
}

// verdict derives the verdict from the counts. An anomaly proves that it breaks. It holds only
// if all deciding kinds were looked for.
func (t *Trial) verdict() finding.Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, e := t.result, t.experiment
	r.Observed = finding.Holds
	for kind, n := range r.Anomalies {
		if n > 0 && e.decides(kind) {
			r.Observed = finding.Breaks
		}
	}
	if missing := t.unchecked(); r.Observed == finding.Holds && missing != "" {
		r.Observed, r.Failed = "", "nobody looked for "+missing
		return r
	}
	r.AsExpected = r.Observed == e.Expect
	r.Turned = len(r.Changed) > 0 && r.Observed != e.Expect
	if e.Expect == finding.Breaks && r.Anomalies[e.About[0]] == 0 {
		r.AsExpected = false // it breaks, but not in the way that was to be shown
	}
	r.Witness, r.More = mainWitness(firstOfEachKind(t.witnesses, r.Observed), e.About)
	if r.Witness != nil {
		all := witness.Gather(append([]finding.Witness{*r.Witness}, r.More...))
		r.Witness, r.More = &all[0], all[1:]
	}
	return r
}

// unchecked names the deciding kinds that nobody looked for. The mutex is held.
func (t *Trial) unchecked() string {
	about := t.experiment.About
	if len(about) == 0 {
		about = slices.Collect(everyKind())
	}
	var names []string
	for _, kind := range about {
		if !t.checked[kind] {
			names = append(names, string(kind))
		}
	}
	return strings.Join(names, ", ")
}

// firstOfEachKind returns the first witness of each kind: the scenario's own come before the
// judge's. If the experiment breaks, pictures of prevention are left out.
func firstOfEachKind(proofs []finding.Witness, observed finding.Verdict) []finding.Witness {
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

// mainWitness returns the witness that the experiment is about: of its kinds in their order,
// otherwise a picture of prevention, otherwise any.
func mainWitness(proofs []finding.Witness, about []finding.Kind) (*finding.Witness, []finding.Witness) {
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
