package finding

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Prediction is what somebody expects of a run before it.
type Prediction struct {
	Verdict Verdict
	Kind    Kind // the predicted anomaly; "": any
}

// ErrNoPrediction means that a text is no prediction.
var ErrNoPrediction = errors.New("no prediction")

// ParsePrediction reads "holds", "breaks" or "breaks:" and the name of a kind. Otherwise it
// returns [ErrNoPrediction], with what there is to choose from.
func ParsePrediction(text string) (Prediction, error) {
	verdict, kind, named := strings.Cut(strings.ToLower(strings.TrimSpace(text)), ":")
	p := Prediction{Verdict: Verdict(strings.TrimSpace(verdict)), Kind: Kind(strings.TrimSpace(kind))}
	switch {
	case p.Verdict != Breaks && p.Verdict != Holds:
		return p, fmt.Errorf("%w: %q; it is holds, breaks, or breaks:KIND with one of %s", ErrNoPrediction, text, kindNames())
	case p.Verdict == Holds && named:
		return p, fmt.Errorf("%w: %q; what holds has no anomaly to name: holds", ErrNoPrediction, text)
	case named && !slices.ContainsFunc(Kinds(), func(info Info) bool { return info.Kind == p.Kind }):
		return p, fmt.Errorf("%w: %q; there is no anomaly %q, but %s", ErrNoPrediction, text, p.Kind, kindNames())
	}
	return p, nil
}

func kindNames() string {
	var names []string
	for _, info := range Kinds() {
		names = append(names, string(info.Kind))
	}
	return strings.Join(names, ", ")
}

// String is the text that [ParsePrediction] reads.
func (p Prediction) String() string {
	if p.Kind == "" {
		return string(p.Verdict)
	}
	return string(p.Verdict) + ":" + string(p.Kind)
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
