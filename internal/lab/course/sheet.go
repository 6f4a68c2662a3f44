package course

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"seckill/internal/lab"
	"seckill/internal/lab/i18n"
)

// Sheet writes the teacher's sheet: the answers, the minutes, and what goes wrong in a room.
func Sheet(w io.Writer, set lab.Set, l i18n.Language) error {
	var text strings.Builder
	total := 0
	say := func(t i18n.Text) { fmt.Fprintf(&text, "%s\n", t.In(l)) }
	say(i18n.F("# The teacher's sheet"))
	for i, lesson := range Lessons() {
		total += lesson.Minutes
		fmt.Fprintf(&text, "\n## %d. %s\n\n", i+1, lesson.Title.In(l))
		say(i18n.F("%d minutes, from minute %d on; %s. Goal: %s", lesson.Minutes, total-lesson.Minutes, lesson.Level.Text(), lesson.Goal))
		fmt.Fprintln(&text)
		for n, task := range lesson.Tasks {
			fmt.Fprintf(&text, "%d. %s\n   %s\n", n+1, task.Ask(set, fmt.Sprintf("lesson%d/main.go", i+1)).In(l), i18n.F("Answer: %s", task.told()).In(l))
		}
		fmt.Fprintln(&text)
		say(i18n.F("In a room: %s", lesson.Trouble))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// told is the answer of the reference, as a teacher reads it.
func (t Task) told() i18n.Text {
	if t.Kind == Repair {
		return i18n.Plain("`" + strings.Join(strings.Fields(mustTemplate(t.Template).Change()), " ") + "`")
	}
	return i18n.Plain("`" + strings.Join(strings.Fields(t.Answer), " ") + "`")
}

// Export writes the progress of a class as a table: a row for each of them, and for each lesson the tasks that are done, of how
// many the first answer was right, the minutes and the hints.
func Export(w io.Writer, class []*Progress) error {
	out := csv.NewWriter(w)
	header := []string{"name", "lessons done", "minutes", "hints"}
	for i, l := range Lessons() {
		for _, what := range []string{"done", "right at once", "minutes", "hints"} {
			header = append(header, fmt.Sprintf("%d %s: %s", i+1, l.ID, what))
		}
	}
	rows := [][]string{header}
	for _, p := range class {
		done, minutes, hints := 0, 0, 0
		var cells []string
		for _, l := range Lessons() {
			n, open := p.Task(l)
			asked, right := 0, 0
			if one := p.Lessons[l.ID]; one != nil {
				asked = one.Hints
				for _, d := range one.Tasks {
					if d.Right && d.Tries == 1 {
						right++
					}
				}
			}
			if !open {
				done++
			}
			took := p.Minutes(l)
			minutes, hints = minutes+took, hints+asked
			cells = append(cells, fmt.Sprintf("%d of %d", n, len(l.Tasks)), strconv.Itoa(right), strconv.Itoa(took), strconv.Itoa(asked))
		}
		rows = append(rows, slices.Concat([]string{cell(p.Name), strconv.Itoa(done), strconv.Itoa(minutes), strconv.Itoa(hints)}, cells))
	}
	return errors.Join(out.WriteAll(rows), out.Error())
}

// cell keeps a spreadsheet from taking a name for a formula.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

// Verified is a task of a certificate that was checked again.
type Verified struct {
	Lesson string
	Number int // of the lesson
	Task   int // counted from 1
	Kind   Kind
	// Claimed and Is say whether the answer is right: as the file has it, and as it came out now.
	Claimed, Is bool
	Why         []i18n.Text // if they differ
}

// Verify checks all answers of a certificate again. Programs in it are run: it must come from somebody who is trusted that far.
func Verify(ctx context.Context, c *Checker, p *Progress, tell func(Verified)) (wrong int, err error) {
	for i, l := range Lessons() {
		one := p.Lessons[l.ID]
		if one == nil {
			continue
		}
		for n, d := range one.Tasks {
			o, err := c.Check(ctx, l.Tasks[n], d.Answer)
			if errors.Is(err, ErrAnswer) {
				o.Says = append(o.Says, i18n.Plain(err.Error()))
			} else if err != nil {
				return wrong, err
			}
			v := Verified{Lesson: l.ID, Number: i + 1, Task: n + 1, Kind: l.Tasks[n].Kind, Claimed: d.Right, Is: o.Right}
			if v.Claimed != v.Is {
				wrong++
				v.Why = o.Says
			}
			tell(v)
		}
	}
	return wrong, nil
}
