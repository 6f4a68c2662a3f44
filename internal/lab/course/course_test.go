package course

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/byhand"
	"seckill/internal/lab/experiments"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/testkit/fail"
)

func everyExperiment(t *testing.T) lab.Set {
	t.Helper()
	set, err := experiments.All()
	fail.NowIf(t, err)
	return set
}

// The course can be done as it stands: what a lesson names is there, comes earlier, and runs with Go alone.
func TestLessonsAreComplete(t *testing.T) {
	set := everyExperiment(t)
	seen, minutes := []string{}, 0
	for i, l := range Lessons() {
		for _, before := range l.Before {
			if !slices.Contains(seen, before) {
				t.Errorf("%s needs %s, which does not come before it", l.ID, before)
			}
		}
		if slices.Contains(seen, l.ID) || l.Level < First || l.Level > Hard || len(l.Tasks) < 2 {
			t.Errorf("%s: %+v", l.ID, l)
		}
		seen = append(seen, l.ID)
		if i < 12 {
			minutes += l.Minutes
		}
		for _, text := range slices.Concat([]i18n.Text{l.Title, l.Goal, l.Trouble}, l.Hints[:]) {
			mustBeTold(t, l.ID, text)
		}
		for _, task := range l.Tasks {
			mustFit(t, set, l, task)
		}
	}
	if len(seen) != 15 || minutes < 180 || minutes > 240 {
		t.Errorf("%d lessons, the first twelve of %d minutes", len(seen), minutes)
	}
}

// mustBeTold fails the test if a text is missing in a language.
func mustBeTold(t *testing.T, where string, text i18n.Text) {
	t.Helper()
	english, chinese := text.In(i18n.English), text.In(i18n.Chinese)
	if english == "" || chinese == "" || english == chinese {
		t.Errorf("%s: %q, %q", where, english, chinese)
	}
}

func mustFit(t *testing.T, set lab.Set, l Lesson, task Task) {
	t.Helper()
	mustBeTold(t, l.ID, task.Ask(set, "folder"))
	for wrong, thought := range task.Thoughts {
		mustBeTold(t, l.ID, thought)
		_, err := finding.ParsePrediction("breaks:" + wrong)
		if wrong != "holds" && wrong != "breaks" && err != nil || strings.HasSuffix(task.Answer, wrong) {
			t.Errorf("%s: a thought about %q", l.ID, wrong)
		}
	}
	if task.Kind == ByHand {
		setup, moves, err := byhand.ReadFile(strings.NewReader(task.Answer))
		fail.If(t, err, l.ID)
		if n := strings.Count(moves, ".") + 1; setup.Lock != task.Lock || n > task.Most {
			t.Errorf("%s: the script has %d moves with %s", l.ID, n, setup.Lock)
		}
	}
	if task.Experiment == "" {
		return
	}
	e, err := set.Find(task.Experiment)
	fail.NowIf(t, err, l.ID)
	for _, server := range e.Needs {
		if server.Substitute() == "" {
			t.Errorf("%s: %s needs %s", l.ID, e.ID, server)
		}
	}
	switch task.Kind {
	case Predict:
		if p, err := finding.ParsePrediction(task.Answer); err != nil || p.Verdict != e.Expect || len(task.Thoughts) == 0 {
			t.Errorf("%s: the answer to %s is %q: %v", l.ID, e.ID, task.Answer, err)
		}
	case Hold, Smallest:
		if e.Expect != finding.Breaks || slices.Contains(task.Allowed, "lock") && e.ID != "local-two-processes" {
			t.Errorf("%s: %s is to be changed", l.ID, e.ID)
		}
	case Cause, ByHand, Repair, Schedule:
	}
}

// A schedule is played in virtual time: with the reference's the aim is reached, and not with one that does nothing, is
// of another lock, or costs too much.
func TestSchedulesAreChecked(t *testing.T) {
	c := &Checker{}
	for _, l := range Lessons() {
		for _, task := range l.Tasks {
			if task.Kind != Schedule {
				continue
			}
			o, err := c.Check(t.Context(), task, task.Reference())
			if err != nil || !o.Done || !o.Right || o.Answer != task.Answer {
				t.Errorf("%s: %+v, %v", task.Lock, o, err)
			}
			for _, wrong := range []string{task.Lock + "~2~s1-q1-r1", "lua~2~s1-q1-r1"} {
				if o, err := c.Check(t.Context(), task, wrong); err != nil || o.Done || len(o.Says) == 0 {
					t.Errorf("%s: %+v, %v", wrong, o, err)
				}
			}
			poor := task
			poor.Budget = onceLate
			poor.Budget[0]--
			if o, err := c.Check(t.Context(), poor, task.Answer); err != nil || o.Done {
				t.Errorf("beyond the budget: %+v, %v", o, err)
			}
			fail.Unless(t, fail.Of(c.Check(t.Context(), task, "nonsense")), ErrAnswer)
		}
	}
}

// What was done is there after an end at any moment, and moves with the folder.
func TestProgress(t *testing.T) {
	folder, now := filepath.Join(t.TempDir(), "mycourse"), time.Date(2026, 7, 1, 9, 0, 0, 0, time.UTC)
	p, err := Load(folder)
	fail.NowIf(t, err)
	first, number, ok := p.Next()
	if number != 1 || !ok {
		t.Fatalf("the first lesson is %d", number)
	}
	p.Name = "=Ann"
	p.Hint(first, now)
	p.Add(first, Outcome{}, now.Add(5*time.Minute))
	p.Add(first, Outcome{Done: true, Right: true, Answer: "breaks:oversold"}, now.Add(10*time.Minute))
	fail.NowIf(t, p.Save(folder))
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 1 {
		t.Errorf("the folder has %v, %v", left, err)
	}
	again, err := Load(folder)
	fail.NowIf(t, err)
	if n, open := again.Task(first); n != 1 || !open || again.Minutes(first) != 10 || again.Lessons[first.ID].Tasks[0].Tries != 2 {
		t.Errorf("it reads %+v", again.Lessons[first.ID])
	}
	for range len(first.Tasks) - 1 {
		again.Add(first, Outcome{Done: true, Right: true}, now.Add(48*time.Hour))
	}
	if l, number, _ := again.Next(); number != 2 || l.ID != Lessons()[1].ID || again.Minutes(first) != 10+45 {
		t.Errorf("after the first lesson comes %d; it took %d minutes", number, again.Minutes(first))
	}
	var table bytes.Buffer
	fail.If(t, Export(&table, []*Progress{again}))
	fail.Without(t, table.String(), "1 no-lock: done", "'=Ann,1,55,1,3 of 3,2,55,1,")
	for _, bad := range []string{`{`, `{"format":"x"}`, `{"format":"seckill course","version":1,"lessons":{"none":{"tasks":[]}}}`, `{"format":"seckill course","version":1,"lessons":{"no-lock":null}}`,
		`{"format":"seckill course","version":1,"lessons":{"no-lock":{"hints":4}}}`, `{"format":"seckill course","version":1,"lessons":{"no-lock":{"hints":-1}}}`} {
		fail.NowIf(t, os.WriteFile(filepath.Join(folder, ProgressFile), []byte(bad), 0o600))
		if _, err := Load(folder); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

// A run of the page counts for the task that comes next, and only for that.
func TestCredit(t *testing.T) {
	p, right := &Progress{Lessons: map[string]*LessonProgress{}}, true
	run := finding.Result{ID: "no-lock", Observed: finding.Breaks, AsExpected: true}
	now := time.Now()
	predicted := run
	predicted.Prediction, predicted.PredictionRight = "breaks:oversold", &right
	held := run
	held.Observed, held.Changed = finding.Holds, []finding.Change{{Name: "stock-mode", To: "conditional"}}
	locked := held
	locked.Changed = append(locked.Changed, finding.Change{Name: "lock", To: "lua"})
	still := held
	still.Observed = finding.Breaks
	if p.Credit(&run, now) || p.Credit(&held, now) || !p.Credit(&predicted, now) || p.Credit(&predicted, now) {
		t.Errorf("a prediction: %+v", p.Lessons["no-lock"])
	}
	if p.Credit(&locked, now) || p.Credit(&still, now) || !p.Credit(&held, now) {
		t.Errorf("a number: %+v", p.Lessons["no-lock"])
	}
	if done := p.Lessons["no-lock"].Tasks; len(done) != 2 || done[0].Answer != "breaks:oversold" || done[1].Answer != "stock-mode=conditional" {
		t.Errorf("it counted %+v", done)
	}
}

// The sheet has every answer, in both languages.
func TestSheet(t *testing.T) {
	for _, l := range i18n.Languages() {
		var sheet bytes.Buffer
		fail.NowIf(t, Sheet(&sheet, everyExperiment(t), l))
		for _, lesson := range Lessons() {
			fail.Without(t, sheet.String(), lesson.Title.In(l), lesson.Trouble.In(l))
		}
		fail.Without(t, sheet.String(), "stock-mode=conditional", "PEXPIRE")
		if strings.Contains(sheet.String(), "%!") {
			t.Errorf("%s: %s", l, sheet.String())
		}
	}
}

// An answer that cannot be understood is no attempt.
func TestAnswersThatAreNotUnderstood(t *testing.T) {
	c := &Checker{Set: everyExperiment(t)}
	for _, l := range Lessons() {
		for _, task := range l.Tasks {
			bad := []string{"?"}
			switch task.Kind {
			case Repair:
				continue // a program that is none cannot be built
			case Cause:
				bad = []string{"", "1", "2"} // the number of an event in a run that is still to come
			case Predict:
				bad = append(bad, "", "holds, oversold", "breaks: stuck keys, no anomaly", "breaks: queue jumping, lost commits", "breaks: ,")
			case Hold:
				e, err := c.Set.Find(task.Experiment)
				fail.NowIf(t, err)
				bad = append(bad, "") // and what it has already
				for _, p := range e.Changeable() {
					if slices.Contains(task.Allowed, p.Name) {
						bad = append(bad, p.Name+"="+p.Value(e.Setup))
					}
				}
			case Smallest, ByHand, Schedule:
			}
			for _, answer := range bad {
				if o, err := c.Check(t.Context(), task, answer); !errors.Is(err, ErrAnswer) {
					t.Errorf("%s, %s, %q: %+v, %v", l.ID, task.Kind, answer, o, err)
				}
			}
		}
	}
}

// A task says what its answer may be, so that it can be done at a terminal.
func TestAskSaysWhatTheAnswerMayBe(t *testing.T) {
	set := everyExperiment(t)
	for lesson, wants := range map[int][]string{
		0: {"oversold, lost updates", "stock-mode can be unguarded, conditional, version"},
		3: {"docs/workshop.md"},
	} {
		asked := ""
		for _, task := range Lessons()[lesson].Tasks {
			asked += task.Ask(set, "folder").String() + "\n"
		}
		fail.Without(t, asked, wants...)
	}
}

// Several anomalies of the experiment may be predicted at once.
func TestPredictions(t *testing.T) {
	e, err := everyExperiment(t).Find("no-lock")
	fail.NowIf(t, err)
	for _, answer := range []string{"breaks: oversold, lost updates", "breaks:oversold,lost_updates", "失守：超卖、更新丢失"} {
		all, err := predictions(e, answer)
		if err != nil || len(all) != 2 || all[0].Kind != finding.Oversold || all[1].Kind != finding.LostUpdates {
			t.Errorf("%q: %+v, %v", answer, all, err)
		}
	}
}

// The picture of a task that asks for the cause does not show it, and the result stays as it was.
func TestPictureWithoutTheCause(t *testing.T) {
	r := finding.Result{Witness: &finding.Witness{Lanes: []finding.Lane{{Marks: []finding.Mark{{Kind: finding.Expires, Cause: true}}}}}}
	if shown := withoutCause(r); shown.Witness.Lanes[0].Marks[0].Cause || !r.Witness.Lanes[0].Marks[0].Cause {
		t.Errorf("%+v of %+v", shown.Witness, r.Witness)
	}
}
