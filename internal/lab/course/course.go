// Package course is a course about locks that checks itself: lessons with tasks that are carried out in the laboratory.
//
// A [Lesson] is data: a question, what it needs before, hints, and tasks. A [Task] is one of a handful of kinds, and
// carries the answer of the reference, so that a test does the whole course. A [Checker] does what an answer says: it
// runs the experiment, replays the script, judges the lock, plays the schedule. Nothing is read and believed.
//
// [Progress] is a file that the command line and the page share. It has the answers, so it is a certificate, too: they can be
// checked again.
package course

import (
	"fmt"
	"slices"
	"strconv"

	"seckill/internal/lab"
	"seckill/internal/lab/explore"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/lockjudge/template"
)

// Lesson is a question, and the tasks that answer it.
type Lesson struct {
	ID      string
	Title   i18n.Text // the question
	Level   Level
	Before  []string // lessons that it builds on
	Goal    i18n.Text
	Minutes int
	Tasks   []Task
	// Hints are a question, the place in the picture or the program, and the line.
	Hints [3]i18n.Text
	// Trouble is what goes wrong in a room.
	Trouble i18n.Text
}

// Sources are where the documents describe what its experiments show.
func (l Lesson) Sources(set lab.Set) (all []lab.Source) {
	for _, t := range l.Tasks {
		if e, err := set.Find(t.Experiment); err == nil {
			for _, s := range e.Sources {
				if !slices.Contains(all, s) {
					all = append(all, s)
				}
			}
		}
	}
	return all
}

// Level is how hard a lesson is.
type Level int

// The levels.
const (
	First Level = iota + 1
	Middle
	Hard
)

// Text names a level.
func (l Level) Text() i18n.Text {
	return [...]i18n.Text{First: i18n.F("level|first steps"), Middle: i18n.F("level|middle"), Hard: i18n.F("level|hard")}[l]
}

// Kind is what a task asks for.
type Kind string

// The kinds.
const (
	// Predict: how an experiment will come out. The answer is a prediction; a wrong one counts as done, and is explained.
	Predict Kind = "predict"
	// Hold: numbers of an experiment with which it holds, among those that the task allows.
	Hold Kind = "hold"
	// Smallest: the smallest value of a parameter with which an experiment holds every time.
	Smallest Kind = "smallest"
	// Cause: which of the recorded events is the cause.
	Cause Kind = "cause"
	// ByHand: a script of the bench that brings something about.
	ByHand Kind = "by hand"
	// Repair: a lock with one mistake.
	Repair Kind = "repair"
	// Schedule: a schedule of the explorer that brings something about.
	Schedule Kind = "schedule"
)

// Task is one thing to do.
type Task struct {
	Kind       Kind
	Experiment string   // of predict, hold, smallest and cause
	Allowed    []string // of hold: the parameters that may be changed
	Parameter  string   // of smallest
	Template   string   // of repair
	Lock       string   // of by hand and schedule
	Aim        finding.Kind
	Most       int            // by hand: moves
	Budget     explore.Budget // of a schedule
	// Answer is the reference's. Of a repair it is the template's own solution.
	Answer string
	// Thoughts are what somebody had in mind who predicted something else, by the prediction.
	Thoughts map[string]i18n.Text
}

// Ask says what is to be done. file is where the lock of a repair is.
func (t Task) Ask(set lab.Set, file string) i18n.Text {
	switch t.Kind {
	case Predict:
		return i18n.F("Predict %s. Answer holds, breaks, or breaks: and one or more of its anomalies, with commas: %s.", t.Experiment, anomaliesOf(mustExperiment(set, t.Experiment)))
	case Hold:
		return i18n.F("%s breaks. Make it hold, and change nothing but %s. Answer NAME=VALUE; %s.",
			t.Experiment, i18n.List(plain(t.Allowed)...), i18n.Clauses(t.values(set)...))
	case Smallest:
		return i18n.F("Find the smallest %s with which %s holds in %d of %d runs, to within %v. lab sweep helps. Answer with the value.",
			t.Parameter, t.Experiment, smallestRuns, smallestRuns, smallestStep)
	case Cause:
		return i18n.F("Run %s. Which of its events made the wrong thing possible? Answer with its number.", t.Experiment)
	case ByHand:
		return i18n.F("Bring this about by hand: %s, with the lock %s, in at most %d moves. Use By hand on the page of lab serve, save what was done as a file, and answer with its name. Or write the file: docs/workshop.md, By hand, shows its form.",
			titleOf(t.Aim), t.Lock, t.Most)
	case Repair:
		return i18n.F("%s has one mistake: the behaviour %s breaks. Mend it.", file, string(mustTemplate(t.Template).Goal))
	case Schedule:
		return i18n.F("Bring this about as the scheduler of %s: %s, with at most %s. Use Be the scheduler on the page of lab serve, or lab explore, and answer with the schedule.",
			t.Lock, titleOf(t.Aim), t.Budget.String())
	}
	return i18n.Text{}
}

// values says what the parameters that may be changed can be.
func (t Task) values(set lab.Set) (all []i18n.Text) {
	for _, p := range mustExperiment(set, t.Experiment).Changeable() {
		if slices.Contains(t.Allowed, p.Name) {
			all = append(all, i18n.F("%s can be %s", p.Name, p.Bounds))
		}
	}
	return all
}

func plain(words []string) (texts []i18n.Text) {
	for _, w := range words {
		texts = append(texts, i18n.Plain(w))
	}
	return texts
}

// mustTemplate is a template that a task names; a test reads all lessons.
func mustTemplate(name string) template.Template {
	one, err := template.Find(name)
	if err != nil {
		panic(err)
	}
	return one
}

// mustExperiment is an experiment that a task names; a test reads all lessons.
func mustExperiment(set lab.Set, id string) *lab.Experiment {
	e, err := set.Find(id)
	if err != nil {
		panic(err)
	}
	return e
}

func titleOf(kind finding.Kind) i18n.Text {
	for _, info := range finding.Kinds() {
		if info.Kind == kind {
			return i18n.Both(info.Title, info.In(i18n.Chinese).Title)
		}
	}
	return i18n.Plain(string(kind))
}

// Reference is the answer of the reference to a task.
func (t Task) Reference() string {
	if t.Kind == Repair {
		return mustTemplate(t.Template).Solution("solution")
	}
	return t.Answer
}

// Find returns a lesson and its number, counted from 1, by that number or its id.
func Find(name string) (Lesson, int, error) {
	for i, l := range Lessons() {
		if l.ID == name || strconv.Itoa(i+1) == name {
			return l, i + 1, nil
		}
	}
	return Lesson{}, 0, fmt.Errorf("course: there is no lesson %q", name)
}
