package course

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/explore"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/testbed"
)

// Checker carries out tasks in a laboratory.
type Checker struct {
	Env *testbed.Environment
	Lab *lab.Lab
	Set lab.Set
	// Show shows a result to whoever does the task, before anything is said about it. It may be nil.
	Show func(finding.Result)
	// Choose asks which of some events it was, and returns its place in the list. If it is nil, the answer has to be there.
	Choose func(ctx context.Context, events []i18n.Text) (int, error)
}

// Outcome is what came of an answer.
type Outcome struct {
	// Done says that the task is done. A wrong prediction is done, too.
	Done bool
	// Right says that the answer is the right one.
	Right bool
	// Answer is what to keep: it can be checked again without asking anybody.
	Answer string
	// Says is told to whoever has answered, a paragraph each.
	Says []i18n.Text
}

// ErrAnswer means that an answer cannot be understood.
var ErrAnswer = errors.New("course: the answer is not understood")

// AnswerError says in all languages why an answer cannot be understood: an [ErrAnswer].
type AnswerError struct{ Why i18n.Text }

// Error implements error.
func (e *AnswerError) Error() string { return e.Why.String() }

// Unwrap is [ErrAnswer].
func (e *AnswerError) Unwrap() error { return ErrAnswer }

// tries is how often an experiment is run that does not come out as it is known to.
const tries = 3

// Check carries out a task with an answer. The answer of a repair is the program's text, and that of a script the file's.
func (c *Checker) Check(ctx context.Context, t Task, answer string) (Outcome, error) {
	switch t.Kind {
	case Predict:
		return c.predict(ctx, t, answer)
	case Hold:
		return c.hold(ctx, t, answer)
	case Smallest:
		return c.smallest(ctx, t, answer)
	case Cause:
		return c.cause(ctx, t, answer)
	case ByHand:
		return c.byHand(ctx, t, answer)
	case Repair:
		return c.repair(ctx, t, answer)
	case Schedule:
		return c.schedule(ctx, t, answer)
	}
	return Outcome{}, fmt.Errorf("course: there is no task of the kind %q", t.Kind)
}

// played runs an experiment until it comes out as it is known to.
func (c *Checker) played(ctx context.Context, id string) (finding.Result, error) {
	e, err := c.Set.Find(id)
	if err != nil {
		return finding.Result{}, err
	}
	var r finding.Result
	for range tries {
		r = c.Lab.Run(ctx, e)
		if r.AsExpected || r.Skipped != "" || ctx.Err() != nil {
			break
		}
	}
	return r, failed(ctx, r)
}

// failed is why a run has no verdict.
func failed(ctx context.Context, r finding.Result) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case r.Skipped != "":
		return fmt.Errorf("course: %s cannot be run here: %s", r.ID, r.Skipped)
	case r.Observed == "":
		return fmt.Errorf("course: %s came to no verdict: %s", r.ID, r.Failed)
	}
	return nil
}

func (c *Checker) show(r finding.Result) {
	if c.Show != nil {
		c.Show(r)
	}
}

// predict runs what was predicted. A wrong answer tells what the learner may have thought.
func (c *Checker) predict(ctx context.Context, t Task, answer string) (Outcome, error) {
	e, err := c.Set.Find(t.Experiment)
	if err != nil {
		return Outcome{}, err
	}
	all, err := predictions(e, answer)
	if err != nil {
		return Outcome{}, err
	}
	r, err := c.played(ctx, t.Experiment)
	if err != nil {
		return Outcome{}, err
	}
	if !r.AsExpected {
		return Outcome{}, fmt.Errorf("course: %s came out otherwise than it is known to, %d times; try again when the machine is less busy", t.Experiment, tries)
	}
	c.show(r)
	o := Outcome{Done: true, Right: true}
	var kept []string
	for i, p := range all {
		p.Judge(&r)
		if i > 0 {
			kept = append(kept, string(p.Kind))
		} else {
			kept = append(kept, r.Prediction)
		}
		if r.PredictionRight != nil && *r.PredictionRight {
			continue
		}
		o.Right = false
		o.Says = append(o.Says, i18n.F("You expected “%s”.", p.Text()))
		if thought := t.thought(p); !thought.IsZero() {
			o.Says = append(o.Says, thought)
		}
	}
	o.Answer, o.Says = strings.Join(kept, ","), append(o.Says, e.Says(lab.Why))
	return o, nil
}

// predictions reads a prediction or, separated by commas, several of the anomalies that decide the experiment: each of
// them is to be seen.
func predictions(e *lab.Experiment, answer string) (all []finding.Prediction, err error) {
	for i, name := range strings.FieldsFunc(answer+" ", func(r rune) bool { return strings.ContainsRune(",，、", r) }) {
		if i > 0 {
			name = string(finding.Breaks) + ":" + name
		}
		p, err := finding.ParsePrediction(name)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
		}
		all = append(all, p)
	}
	for _, p := range all {
		if len(all) > 1 && (p.Kind == "" || !e.Decides(p.Kind)) {
			return nil, &AnswerError{i18n.F("several anomalies are to be those of %s: %s", e.ID, anomaliesOf(e))}
		}
	}
	return all, nil
}

// anomaliesOf lists the anomalies that decide an experiment.
func anomaliesOf(e *lab.Experiment) i18n.Text {
	var titles []i18n.Text
	for _, info := range finding.Kinds() {
		if e.Decides(info.Kind) {
			titles = append(titles, titleOf(info.Kind))
		}
	}
	return i18n.List(titles...)
}

// thought is what somebody had in mind who predicted this.
func (t Task) thought(p finding.Prediction) i18n.Text {
	if thought := t.Thoughts[string(p.Kind)]; p.Kind != "" && !thought.IsZero() {
		return thought
	}
	return t.Thoughts[string(p.Verdict)]
}

// hold runs an experiment with other numbers.
func (c *Checker) hold(ctx context.Context, t Task, answer string) (Outcome, error) {
	values := map[string]string{}
	for pair := range strings.FieldsSeq(answer) {
		name, value, ok := strings.Cut(strings.TrimLeft(pair, "-"), "=")
		switch {
		case !ok:
			return Outcome{}, fmt.Errorf("%w: %q is not NAME=VALUE", ErrAnswer, pair)
		case !slices.Contains(t.Allowed, name):
			return Outcome{Says: []i18n.Text{i18n.F("%s is not to be changed here, only this: %s.", name, i18n.List(plain(t.Allowed)...))}}, nil
		}
		values[name] = value
	}
	e, err := c.Set.Find(t.Experiment)
	if err != nil {
		return Outcome{}, err
	}
	changed, err := e.With(values)
	if err != nil {
		return Outcome{}, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	if !t.allows(changed.Changed) {
		return Outcome{}, &AnswerError{i18n.F("that changes nothing: answer NAME=VALUE with another value than %s has", e.ID)}
	}
	r := c.Lab.Run(ctx, changed)
	if err := failed(ctx, r); err != nil {
		return Outcome{}, err
	}
	c.show(r)
	if r.Observed != finding.Holds {
		return Outcome{Says: []i18n.Text{i18n.F("With %s it still breaks.", answer)}}, nil
	}
	return Outcome{Done: true, Right: true, Answer: answer, Says: []i18n.Text{i18n.F("With %s it holds.", answer)}}, nil
}

const (
	// smallestRuns is in how many runs the smallest value has to hold, and smallestStep how much smaller one has to be that breaks.
	smallestRuns = 10
	smallestStep = 300 * time.Millisecond
)

// smallest runs an experiment with a value, and with a smaller one.
func (c *Checker) smallest(ctx context.Context, t Task, answer string) (Outcome, error) {
	value, err := time.ParseDuration(strings.TrimSpace(answer))
	if err != nil {
		return Outcome{}, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	held, err := c.held(ctx, t, value, smallestRuns)
	if err != nil {
		return Outcome{}, err
	}
	if held < smallestRuns {
		return Outcome{Says: []i18n.Text{i18n.F("With %v it holds in %d of %d runs.", value, held, smallestRuns)}}, nil
	}
	smaller := value - smallestStep
	if held, err = c.held(ctx, t, smaller, tries); err != nil {
		return Outcome{}, err
	}
	if held == tries {
		return Outcome{Says: []i18n.Text{i18n.F("With %v it holds in all %d runs. It does so with %v too: there is a smaller one.", value, smallestRuns, smaller)}}, nil
	}
	return Outcome{Done: true, Right: true, Answer: value.String(), Says: []i18n.Text{
		i18n.F("With %v it holds in all %d runs, and with %v it breaks.", value, smallestRuns, smaller),
	}}, nil
}

// held counts the runs with a value that hold.
func (c *Checker) held(ctx context.Context, t Task, value time.Duration, runs int) (held int, err error) {
	e, err := c.Set.Find(t.Experiment)
	if err != nil {
		return 0, err
	}
	changed, err := e.With(map[string]string{t.Parameter: value.String()})
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	all := make([]*lab.Experiment, runs)
	for i := range all {
		all[i] = changed
	}
	results, err := c.Lab.RunAll(ctx, all, c.Lab.Run, func(finding.Result) {})
	if err != nil {
		return 0, err
	}
	for _, r := range results {
		if err := failed(ctx, r); err != nil {
			return 0, err
		}
		if r.Observed == finding.Holds {
			held++
		}
	}
	return held, nil
}

// cause runs an experiment, and asks which of its events it was. An answer that is given before is the kind of the event:
// the numbers of the events are those of one run, which nobody has seen yet.
func (c *Checker) cause(ctx context.Context, t Task, answer string) (Outcome, error) {
	unseen := &AnswerError{i18n.F("Run it without an answer: it asks for the number after the picture.")}
	if _, err := strconv.Atoi(answer); err == nil || answer == "" && c.Choose == nil {
		return Outcome{}, unseen
	}
	r, err := c.played(ctx, t.Experiment)
	switch {
	case err != nil:
		return Outcome{}, err
	case r.Witness == nil:
		return Outcome{}, fmt.Errorf("course: %s has no picture", t.Experiment)
	}
	marks := marksOf(r.Witness)
	right := causeOf(marks, finding.MarkKind(t.Answer))
	chosen := finding.MarkKind(answer)
	if answer == "" {
		c.show(withoutCause(r))
		var events []i18n.Text
		for _, m := range marks {
			events = append(events, m.told())
		}
		n, err := c.Choose(ctx, events)
		if err != nil {
			return Outcome{}, err
		}
		if n < 0 || n >= len(marks) {
			return Outcome{}, &AnswerError{i18n.F("there are the events 1 to %d", len(marks))}
		}
		if chosen = marks[n].Kind; marks[n].Kind == right.Kind && marks[n].At != right.At {
			chosen = "later " + chosen // the first one of that kind it was not
		}
	} else if !slices.ContainsFunc(marks, func(m mark) bool { return m.Kind == chosen }) {
		return Outcome{}, unseen
	}
	if chosen != right.Kind {
		return Outcome{Says: []i18n.Text{i18n.F("Not that one. Which event came first, without which nothing would have gone wrong?")}}, nil
	}
	return Outcome{Done: true, Right: true, Answer: string(chosen), Says: []i18n.Text{i18n.F("Yes: %s.", right.told())}}, nil
}

// withoutCause is a result whose picture does not give away which event is the cause.
func withoutCause(r finding.Result) finding.Result {
	w := *r.Witness
	w.Lanes = slices.Clone(w.Lanes)
	for i := range w.Lanes {
		w.Lanes[i].Marks = slices.Clone(w.Lanes[i].Marks)
		for j := range w.Lanes[i].Marks {
			w.Lanes[i].Marks[j].Cause = false
		}
	}
	r.Witness = &w
	return r
}

// mark is an event of a picture and where it was.
type mark struct {
	finding.Mark
	lane string
}

// told is the event in words.
func (m mark) told() i18n.Text {
	label := m.Label
	if label.IsZero() {
		label = i18n.Key(string(m.Kind))
	}
	return i18n.F("event|%s, at %s ms: %s", i18n.Name(m.lane), strconv.FormatFloat(m.At, 'f', 0, 64), label)
}

// marksOf lists the events of a picture in the order of time, each once.
func marksOf(w *finding.Witness) (all []mark) {
	for _, lane := range w.Lanes {
		for _, m := range lane.Marks {
			same := func(other mark) bool { return other.Kind == m.Kind && other.At == m.At }
			if !slices.ContainsFunc(all, same) {
				all = append(all, mark{m, lane.Name})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b mark) int { return cmp.Compare(a.At, b.At) })
	return all
}

// causeOf is the event that the laboratory marks as the cause or, where it marks none, the first one of a kind.
func causeOf(marks []mark, kind finding.MarkKind) mark {
	for _, is := range []func(mark) bool{
		func(m mark) bool { return m.Cause && m.Kind == kind }, func(m mark) bool { return m.Kind == kind },
	} {
		if i := slices.IndexFunc(marks, is); i >= 0 {
			return marks[i]
		}
	}
	return mark{}
}

// schedule plays a schedule.
func (c *Checker) schedule(ctx context.Context, t Task, answer string) (Outcome, error) {
	s, err := explore.ParseSchedule(strings.TrimSpace(answer))
	switch {
	case err != nil:
		return Outcome{}, fmt.Errorf("%w: %w", ErrAnswer, err)
	case s.Lock != t.Lock:
		return Outcome{Says: []i18n.Text{i18n.F("It is a schedule of %s, not of %s.", s.Lock, t.Lock)}}, nil
	}
	played, err := explore.Play(ctx, explore.Config{Budget: t.Budget}, s)
	if err != nil {
		return Outcome{}, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	for i, n := range played.Spent {
		if n > t.Budget[i] {
			return Outcome{Says: []i18n.Text{i18n.F("It costs %s; there are %s.", played.Spent.String(), t.Budget.String())}}, nil
		}
	}
	if !slices.ContainsFunc(played.Found, func(f explore.Violation) bool { return f.Kind == t.Aim }) {
		return Outcome{Says: []i18n.Text{i18n.F("This is not seen in it: %s.", titleOf(t.Aim))}}, nil
	}
	return Outcome{Done: true, Right: true, Answer: s.String(), Says: []i18n.Text{i18n.F("Seen, with %s.", played.Spent.String())}}, nil
}
