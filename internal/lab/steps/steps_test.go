package steps_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/steps"
	"seckill/internal/testkit/fail"
)

// wrongRelease is a picture in which the observer is late: it sees a key after its holder was told, and a deletion
// after the next one was let in.
func wrongRelease(about finding.Kind) finding.Witness {
	const one, two, three = "buyer 1 (api-1)", "buyer 2 (api-2)", "buyer 3 (api-1)"
	label := func(text string) i18n.Text { return i18n.Plain(text) }
	return finding.Witness{Kind: about, Lanes: []finding.Lane{
		{Name: one, Role: finding.Actor, Spans: []finding.Span{
			{Kind: finding.Held, From: 1, To: 401, Who: one}, {Kind: finding.Believes, From: 401, To: 549, Who: one},
		}, Marks: []finding.Mark{
			{Kind: finding.ReadsStock, At: 2, Label: label("reads 10")}, {Kind: finding.WritesStock, At: 500, Label: label("writes 9")},
			{Kind: finding.Releases, At: 550, Label: label("deletes the lock of buyer 2"), Of: two, Wrong: true},
		}},
		{Name: two, Role: finding.Actor, Spans: []finding.Span{
			{Kind: finding.Waits, From: 5, To: 402, Who: two}, {Kind: finding.Held, From: 402, To: 552, Who: two}, {Kind: finding.Believes, From: 552, To: 700, Who: two},
		}},
		{Name: three, Role: finding.Actor, Spans: []finding.Span{{Kind: finding.Held, From: 551, To: 800, Open: true, Who: three}}},
		{Name: "Redis", Role: finding.LockStore, Spans: []finding.Span{
			{Kind: finding.Stored, From: 3, To: 401, Who: one}, {Kind: finding.Stored, From: 403, To: 552, Who: two}, {Kind: finding.Stored, From: 553, To: 800, Open: true, Who: three},
		}, Marks: []finding.Mark{
			{Kind: finding.Expires, At: 401, Label: label("lease over"), Who: one, Cause: true},
			{Kind: finding.Deletes, At: 552, Label: label("the release deletes it"), Who: one, Of: two, Wrong: true},
		}},
		{Name: "MariaDB", Role: finding.Database, Stock: new(int64(10)), Marks: []finding.Mark{
			{Kind: finding.WritesStock, At: 501, Label: label("stock 10→9"), Who: one, Stock: new(int64(9))},
		}},
	}}
}

// told is a walkthrough as lines: when, what, who has the key, the stock, and what each actor is in.
func told(r steps.Walkthrough) (lines []string) {
	for _, s := range r.Steps {
		line := fmt.Sprintf("%v %s |", s.At, s.Says)
		for _, k := range s.After.Keys {
			line += fmt.Sprintf(" %s", k.Text)
		}
		if s.After.Stock != nil {
			line += fmt.Sprintf(" %d |", *s.After.Stock)
		}
		for _, a := range s.After.Actors {
			line += fmt.Sprintf(" %s", a.Does)
		}
		lines = append(lines, line)
	}
	return lines
}

// What one cause does in several lanes is one step, also if the observer was late; the state is that after the step.
func TestSteps(t *testing.T) {
	r := steps.New(wrongRelease(finding.WrongReleases))
	want := []string{
		"1 Buyer 1 gets the lock | buyer 1 10 | holds  ",
		"2 Buyer 1 reads 10 | buyer 1 10 | holds  ",
		"5 Buyer 2 asks for the lock | buyer 1 10 | holds waits ",
		"401 The lease of buyer 1 is over, and Redis lets its key go |  10 | believes waits ",
		"402 Buyer 2 gets the lock; buyer 1 believes that it has it, too | buyer 2 10 | believes holds ",
		"500 Buyer 1 writes 9 | buyer 2 10 | believes holds ",
		"501 MariaDB commits what buyer 1 wrote: stock 10→9 | buyer 2 9 | believes holds ",
		"550 The release of buyer 1 deletes the lock of buyer 2 |  9 |  believes ",
		"551 Buyer 3 gets the lock; buyer 2 believes that it has it, too | buyer 3 9 |  believes holds",
	}
	if got := told(r); !slices.Equal(got, want) {
		t.Errorf("told:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	fail.Unequal(t, r.Steps[0].Says.In(i18n.Chinese), "买家 1 得到锁", "in Chinese")
	if !r.Steps[3].Cause || !r.Steps[7].Wrong || r.Steps[8].Wrong {
		t.Errorf("causes and what is wrong: %+v", r.Steps)
	}
}

// It is asked before the cause, and before the first thing that should not be; of a picture that shows how it is
// prevented, before that.
func TestAsks(t *testing.T) {
	r := steps.New(wrongRelease(finding.WrongReleases))
	if got := fmt.Sprint(r.Asks); got != "[{3 Buyer 1 keeps the lock until it releases it} {7 Buyer 1 finds that the lock is not its own, and leaves it to buyer 2}]" {
		t.Errorf("asked: %s", got)
	}
	kept := wrongRelease("")
	kept.Lanes[0].Marks[2].Of, kept.Lanes[3].Marks = "", kept.Lanes[3].Marks[:1]
	kept.Lanes[3].Spans[1].To, kept.Lanes[3].Spans = 700, kept.Lanes[3].Spans[:2]
	kept.Lanes = slices.Delete(kept.Lanes, 2, 3)
	r = steps.New(kept)
	i := slices.IndexFunc(r.Steps, func(s steps.Step) bool { return s.At == 550 })
	fail.Unequal(t, r.Steps[i].Says.String(), "Buyer 1 releases, and the lock of buyer 2 stays", "a late release")
	if got := fmt.Sprint(r.Asks); got != fmt.Sprintf("[{%d The release of buyer 1 deletes the lock of buyer 2}]", i) {
		t.Errorf("asked: %s", got)
	}
	if r := steps.New(finding.Witness{}); len(r.Steps)+len(r.Asks) != 0 {
		t.Errorf("of nothing: %+v", r)
	}
}

// A release may be under way for long: what it deletes is another's by then.
func TestSlowRelease(t *testing.T) {
	w := wrongRelease(finding.WrongReleases)
	w.Lanes[0].Marks[2].At, w.Lanes[0].Spans = 300, []finding.Span{{Kind: finding.Held, From: 1, To: 299, Who: w.Lanes[0].Name}}
	w.Lanes[3].Marks[1].At = 552
	var says []string
	for _, s := range steps.New(w).Steps {
		if s.At == 300 || s.At == 552 {
			says = append(says, fmt.Sprint(s.Says, s.Wrong))
		}
	}
	fail.Unequal(t, strings.Join(says, ", "), "Buyer 1 begins to release the lock false, The release of buyer 1 deletes the lock of buyer 2 true", "told")
}

// A stock that is written over another's write is told as that.
func TestLostUpdate(t *testing.T) {
	const one, two = "buyer 1 (api-1)", "buyer 2 (api-2)"
	h := steps.New(finding.Witness{Kind: finding.LostUpdates, Lanes: []finding.Lane{{Name: one, Role: finding.Actor}, {Name: two, Role: finding.Actor}, {
		Name: "MariaDB", Role: finding.Database, Marks: []finding.Mark{
			{Kind: finding.WritesStock, At: 1, Who: one, Label: i18n.Plain("stock 10→9")},
			{Kind: finding.WritesStock, At: 2, Who: two, Label: i18n.Plain("stock 9→9"), Wrong: true},
		},
	}}})
	fail.Unequal(t, h.Steps[1].Says.String(), "MariaDB commits what buyer 2 wrote, over what buyer 1 wrote: stock 9→9", "told")
	fail.Unequal(t, h.Asks[0].Other.String(), "MariaDB refuses what buyer 2 wrote", "what might have happened")
}

// The picture by steps has the same spans and marks, at the numbers of the steps.
func TestByStep(t *testing.T) {
	w := wrongRelease(finding.WrongReleases)
	by := steps.New(w).ByStep
	if got := by.Lanes[1].Spans; got[0].From != 2 || got[0].To != 4 || got[1].To != 7 || got[2].To != 9 {
		t.Errorf("buyer 2: %+v", got)
	}
	if w.Lanes[1].Spans[0].From != 5 {
		t.Error("the picture itself was changed")
	}
}
