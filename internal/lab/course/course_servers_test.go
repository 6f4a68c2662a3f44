package course

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/lockjudge/template"
	"seckill/internal/lab/testbed"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// alone is a checker on what the laboratory brings: no server that is installed is used.
func alone(t *testing.T) *Checker {
	t.Helper()
	testkit.Servers(t)
	options := testbed.Defaults()
	options.Embedded = true
	env, err := testbed.Open(t.Context(), options)
	fail.NowIf(t, err)
	t.Cleanup(func() { fail.If(t, env.Close()) })
	set := everyExperiment(t)
	bench, err := lab.New(env, set)
	fail.NowIf(t, err)
	return &Checker{Env: env, Lab: bench, Set: set}
}

// start is what a task begins with: no answer, or the lock with its mistake.
func start(task Task) string {
	switch task.Kind {
	case Repair:
		return mustTemplate(task.Template).Source("start")
	case Smallest:
		return "1s"
	case Predict, Hold, Cause, ByHand, Schedule:
	}
	return ""
}

// patience is how often the reference may try: that the course can be done is shown here. How often it takes only one
// is a matter of the machine.
const patience = 5

// The whole course is done with the answers of the reference, on Go alone. What a lesson begins with does not pass its
// checks.
func TestWholeCourse(t *testing.T) {
	c := alone(t)
	p := &Progress{Lessons: map[string]*LessonProgress{}}
	for _, l := range Lessons() {
		for n, task := range l.Tasks {
			began := time.Now()
			o, err := c.Check(t.Context(), task, start(task))
			for try := 1; task.Kind == Repair && !breaksGoal(task, o) && try < patience; try++ {
				o, err = c.Check(t.Context(), task, start(task)) // a machine that is late breaks others, too
			}
			if err == nil && o.Done || err != nil && !errors.Is(err, ErrAnswer) || task.Kind == Repair && !breaksGoal(task, o) {
				t.Errorf("%s, task %d: its start gives %+v, %v", l.ID, n+1, o, err)
			}
			o, err = c.Check(t.Context(), task, task.Reference())
			for try := 1; (err != nil || !o.Done) && try < patience; try++ {
				t.Logf("%s, task %d: %v, %v", l.ID, n+1, o.Says, err)
				o, err = c.Check(t.Context(), task, task.Reference())
			}
			if err != nil || !o.Right {
				t.Errorf("%s, task %d, %s: %+v, %v", l.ID, n+1, task.Kind, o, err)
			}
			t.Logf("%s, task %d, %s: %v", l.ID, n+1, task.Kind, time.Since(began).Round(time.Millisecond))
			p.Add(l, o, time.Now())
		}
	}
	if _, number, open := p.Next(); open {
		t.Errorf("lesson %d is still open", number)
	}
}

// breaksGoal reports whether a lock breaks the behaviour that its mistake is about, and nothing else.
func breaksGoal(task Task, o Outcome) bool {
	var broken []string
	for _, text := range o.Says {
		if name, _, is := strings.Cut(text.String(), " breaks: "); is {
			broken = append(broken, name)
		}
	}
	return len(broken) == 1 && broken[0] == string(mustTemplate(task.Template).Goal)
}

// A wrong prediction completes its task as well, and the outcome says what was thought. So does an answer that is none.
func TestWrongAnswers(t *testing.T) {
	c := alone(t)
	first := Lessons()[0]
	o, err := c.Check(t.Context(), first.Tasks[0], "breaks:duplicate_orders")
	if err != nil || !o.Done || o.Right || len(o.Says) != 3 || !strings.Contains(o.Says[1].String(), "unique index") {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err = c.Check(t.Context(), first.Tasks[1], "lock=reentrant"); err != nil || o.Done || !strings.Contains(o.Says[0].String(), "not to be changed") {
		t.Errorf("%+v, %v", o, err)
	}
	asked := 0
	c.Choose = func(_ context.Context, events []i18n.Text) (int, error) { asked = len(events); return 0, nil }
	if o, err = c.Check(t.Context(), Lessons()[2].Tasks[1], ""); err != nil || o.Answer != "killed" || asked < 2 {
		t.Errorf("of %d events the first: %+v, %v", asked, o, err)
	}
	c.Choose = func(_ context.Context, events []i18n.Text) (int, error) { return len(events) - 1, nil }
	if o, err = c.Check(t.Context(), Lessons()[2].Tasks[1], ""); err != nil || o.Done || !strings.Contains(o.Says[0].String(), "came first") {
		t.Errorf("the last event: %+v, %v", o, err)
	}
	if o, err = c.Check(t.Context(), first.Tasks[0], "breaks: oversold, lost updates"); err != nil || !o.Right || o.Answer != "breaks:oversold,lost_updates" {
		t.Errorf("two anomalies: %+v, %v", o, err)
	}
	// A lock that reaches the goal, and breaks what it promised before, is not mended.
	one, err := template.Find("release")
	fail.NowIf(t, err)
	other := strings.Replace(one.Solution("other"), `"other:{"+key+"}"`, `fmt.Sprintf("other:{%.4s}", key)`, 1)
	repair := Task{Kind: Repair, Template: "release"}
	if o, err = c.Check(t.Context(), repair, other); err != nil || o.Done || len(o.Says) == 0 {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err = c.Check(t.Context(), repair, "no program"); err != nil || o.Done || !strings.Contains(o.Says[0].String(), "built") {
		t.Errorf("%+v, %v", o, err)
	}
}

// A certificate is checked again, and one that claims too much is found out.
func TestVerify(t *testing.T) {
	c := alone(t)
	l := Lessons()[0]
	p := &Progress{Lessons: map[string]*LessonProgress{l.ID: {Tasks: []Done{
		{Right: true, Answer: l.Tasks[0].Answer}, {Right: true, Answer: "stock-mode=unguarded"}, {Right: false, Answer: "breaks"},
	}}}}
	var told []Verified
	wrong, err := Verify(t.Context(), c, p, func(v Verified) { told = append(told, v) })
	if err != nil || wrong != 1 || len(told) != 3 || told[0].Is != told[0].Claimed || told[1].Is || told[2].Is {
		t.Errorf("%d wrong, %v: %+v", wrong, err, told)
	}
}

// A script without pauses is judged as one with them, however seldom the store is looked at: in a script of a lesson
// the next holder's key is there for less than a millisecond.
func TestScriptWithoutPauses(t *testing.T) {
	c := alone(t)
	task := Lessons()[3].Tasks[2]
	for _, after := range []string{"0", "60"} {
		script := strings.Replace(task.Answer, `"after_ms": 100`, `"after_ms": `+after, 1)
		if o, err := c.Check(t.Context(), task, script); err != nil || !o.Done {
			t.Errorf("after %s ms: %+v, %v", after, o, err)
		}
	}
}
