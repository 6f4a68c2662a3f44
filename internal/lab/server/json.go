package server

import (
	"fmt"
	"slices"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/explore"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

// stateJSON is the state of the session: an event.
type stateJSON struct {
	Run   *runningJSON `json:"run"` // null: nothing runs
	Runs  []ranJSON    `json:"runs"`
	Bench *benchJSON   `json:"bench"` // null: there was none
}

// runningJSON is the run that goes on. The experiment of a bench is called bench.
type runningJSON struct {
	N          int                      `json:"n"`
	Experiment string                   `json:"experiment"`
	Changed    []finding.Change         `json:"changed"`
	Command    string                   `json:"command"`
	Predicted  string                   `json:"predicted"`
	ElapsedMS  int64                    `json:"elapsed_ms"`
	Doing      map[i18n.Language]string `json:"doing"`   // null: nothing in particular
	Picture    int                      `json:"picture"` // another number: another picture
	Found      map[finding.Kind]int     `json:"found"`   // so far
}

// ranJSON is a row of the session's results.
type ranJSON struct {
	N          int              `json:"n"`
	Experiment string           `json:"experiment"`
	Changed    []finding.Change `json:"changed"`
	Observed   finding.Verdict  `json:"observed"` // "" without a verdict
	Skipped    bool             `json:"skipped"`
	Predicted  string           `json:"predicted"`
	Right      *bool            `json:"right"` // null without a prediction or a verdict
}

// state is the state now. The mutex is held, or nobody else has the session yet.
func (s *session) state() stateJSON {
	out := stateJSON{Runs: []ranJSON{}, Bench: s.benchState()}
	if one := s.now; one != nil && one.bench != nil {
		out.Run = &runningJSON{
			N: one.n, Experiment: benchName, Changed: []finding.Change{}, ElapsedMS: time.Since(one.began).Milliseconds(),
			Doing: inAll(one.doing), Picture: one.picture, Found: one.found,
		}
	} else if one != nil {
		out.Run = &runningJSON{
			N: one.n, Experiment: one.experiment.ID, Changed: orEmpty(one.experiment.Changed), Command: one.experiment.Command(),
			ElapsedMS: time.Since(one.began).Milliseconds(), Doing: inAll(one.doing), Picture: one.picture, Found: one.found,
		}
		if one.predicted != nil {
			out.Run.Predicted = one.predicted.String()
		}
	}
	for _, one := range s.results {
		r := &one.result
		out.Runs = append(out.Runs, ranJSON{
			N: one.n, Experiment: r.ID, Changed: orEmpty(r.Changed), Observed: r.Observed, Skipped: r.Skipped != "",
			Predicted: r.Prediction, Right: r.PredictionRight,
		})
	}
	return out
}

// outcomeJSON is what came out of a run.
type outcomeJSON struct {
	N int `json:"n"`
	// Result is without its witnesses and measures, which are Pictures and Measures.
	Result finding.Result `json:"result"`
	// Texts are the experiment's, by language, if they are true of this run: otherwise there are none.
	AsWritten bool                            `json:"as_written"`
	Texts     map[i18n.Language]toldAfterJSON `json:"texts"`
	Pictures  []pictureJSON                   `json:"pictures"`
	Measures  []measureJSON                   `json:"measures"`
}

// toldAfterJSON is what an experiment says when its outcome is known.
type toldAfterJSON struct {
	Title      string `json:"title"`
	Hypothesis string `json:"hypothesis"`
	Why        string `json:"why"`
	Cure       string `json:"cure"`
}

// languages returns what make returns of the texts of an experiment in each language of the page.
func languages[T any](e *lab.Experiment, make func(lab.Texts) T) map[i18n.Language]T {
	return map[i18n.Language]T{i18n.English: make(e.English()), i18n.Chinese: make(e.Chinese)}
}

type measureJSON struct {
	Name  map[i18n.Language]string `json:"name"`
	Value float64                  `json:"value"`
	Unit  map[i18n.Language]string `json:"unit"`
}

type pictureJSON struct {
	URL     string                   `json:"url"`  // without the suffix, .svg or .steps
	Kind    finding.Kind             `json:"kind"` // "": it shows how an anomaly was prevented
	Summary map[i18n.Language]string `json:"summary"`
	Key     string                   `json:"key"`
	BeginMS float64                  `json:"begin_ms"` // of what it shows
	EndMS   float64                  `json:"end_ms"`
}

func newOutcome(one *run) outcomeJSON {
	r, e := one.result, one.experiment
	out := outcomeJSON{N: one.n, AsWritten: r.AsExpected && len(r.Changed) == 0, Pictures: []pictureJSON{}, Measures: []measureJSON{}}
	if out.AsWritten {
		out.Texts = languages(e, func(x lab.Texts) toldAfterJSON { return toldAfterJSON{x.Title, x.Hypothesis, x.Why, x.Cure} })
	}
	for i, w := range witnesses(&r) {
		p := pictureJSON{URL: fmt.Sprintf("/api/runs/%d/%d", one.n, i), Kind: w.Kind, Summary: w.Summary.All(), Key: w.Key}
		p.BeginMS, p.EndMS = w.Period()
		out.Pictures = append(out.Pictures, p)
	}
	for _, m := range r.Measures {
		out.Measures = append(out.Measures, measureJSON{m.Name.All(), m.Value, m.Unit.All()})
	}
	r.Witness, r.More, r.Measures = nil, nil, nil
	out.Result = r
	return out
}

// catalogueJSON is what can be run, without its outcome.
type catalogueJSON struct {
	Kinds       []kindJSON       `json:"kinds"` // the gravest first
	Experiments []experimentJSON `json:"experiments"`
	Bench       benchOptionsJSON `json:"bench"`
	Levels      []levelJSON      `json:"levels"`
	FreePlay    explore.Budget   `json:"free_play"` // of a schedule that belongs to no level
}

type kindJSON struct {
	Kind  finding.Kind `json:"kind"`
	Title string       `json:"title"`
	Means string       `json:"means"`
}

type experimentJSON struct {
	ID         string                           `json:"id"`
	Texts      map[i18n.Language]toldBeforeJSON `json:"texts"` // by language
	Lock       string                           `json:"lock"`
	RefersTo   string                           `json:"refers_to"` // whose arrangement is part of this one; "": nobody's
	Sources    []sourceJSON                     `json:"sources"`
	Reports    []reportJSON                     `json:"reports"`
	About      []finding.Kind                   `json:"about"` // empty: all kinds decide
	Partner    string                           `json:"partner"`
	Parameters []parameterJSON                  `json:"parameters"`
	Stretches  bool                             `json:"stretches"` // its times, in slow motion
	Command    string                           `json:"command"`
	Missing    map[i18n.Language]string         `json:"missing"` // why it cannot be run here; null: it can
}

// toldBeforeJSON is what an experiment says before it is run.
type toldBeforeJSON struct {
	Group       string `json:"group"`
	Question    string `json:"question"`
	Arrangement string `json:"arrangement"`
}

type sourceJSON struct {
	Document string `json:"document"`
	Title    string `json:"title"`
	Section  string `json:"section"`
}

// reportJSON is a public report of a real program that had the fault.
type reportJSON struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

type parameterJSON struct {
	Name    string                   `json:"name"`
	Value   string                   `json:"value"`
	About   map[i18n.Language]string `json:"about"`
	Bounds  string                   `json:"bounds"`
	Choices []string                 `json:"choices"` // empty: a number
}

func catalogue(c Config) catalogueJSON {
	out := catalogueJSON{Bench: benchOptions(c.Options), Levels: shownLevels(), FreePlay: freePlay()}
	for _, k := range finding.Kinds() {
		out.Kinds = append(out.Kinds, kindJSON(k))
	}
	titles := map[string]string{}
	for _, d := range lab.Documents() {
		titles[d.Name] = d.Title
	}
	for i := range c.Experiments {
		e := &c.Experiments[i]
		one := experimentJSON{
			ID: e.ID, Lock: e.Lock(), Sources: []sourceJSON{}, Reports: []reportJSON{},
			Texts: languages(e, func(x lab.Texts) toldBeforeJSON { return toldBeforeJSON{x.Group, x.Question, x.Arrangement} }),
			About: orEmpty(e.About), Partner: e.Partner, Parameters: []parameterJSON{}, Stretches: e.Stretches, Command: e.Command(),
			Missing: inAll(c.Options.Lacks(e.Needs)),
		}
		if of := c.RefersTo(e); of != nil {
			one.RefersTo = of.ID
		}
		for _, s := range e.Sources {
			one.Sources = append(one.Sources, sourceJSON{s.Document, titles[s.Document], s.Section})
		}
		for _, r := range e.Reports {
			one.Reports = append(one.Reports, reportJSON{r.String(), r.URL()})
		}
		for _, p := range e.Changeable() {
			one.Parameters = append(one.Parameters, parameterJSON{p.Name, p.Value(e.Setup), p.About.All(), p.Bounds, orEmpty(p.Choices)})
		}
		out.Experiments = append(out.Experiments, one)
	}
	return out
}

// inAll is a text in all languages; null without one.
func inAll(text i18n.Text) map[i18n.Language]string {
	if text.IsZero() {
		return nil
	}
	return text.All()
}

// orEmpty avoids null in the JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return slices.Clip(list)
}
