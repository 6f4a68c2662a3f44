package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

// covered is a cell that the wide character before it covers.
const covered rune = 0

// row is a line of the terminal.
type row struct {
	cells  []rune
	owners []int
	wrong  []bool
}

func newRow(width int) *row {
	return &row{cells: []rune(strings.Repeat(" ", width)), owners: make([]int, width), wrong: make([]bool, width)}
}

func (r *row) set(col int, c rune, owner int, wrong bool) {
	if col >= 0 && col < len(r.cells) {
		if r.cells[col] == covered && c != covered { // the half of a wide character goes with the other one
			r.cells[col-1] = ' '
		}
		if next := col + 1; next < len(r.cells) && r.cells[next] == covered {
			r.cells[next] = ' '
		}
		r.cells[col], r.owners[col], r.wrong[col] = c, owner, wrong
	}
}

func (r *row) put(col int, text string, owner int, wrong bool) {
	for _, c := range text {
		r.set(col, c, owner, wrong)
		col++
		if i18n.RuneColumns(c) == 2 {
			r.set(col, covered, owner, wrong)
			col++
		}
	}
}

// render returns the row as a line. The colours are those of the picture, as near as 256
// colours allow; wrong parts are bold and vermilion.
func (r *row) render(colour bool) string {
	line := strings.TrimRight(string(r.cells), " ")
	if !colour {
		return strings.ReplaceAll(line, string(covered), "") + "\n"
	}
	var out strings.Builder
	now := ""
	for i, c := range []rune(line) {
		if c == covered {
			continue
		}
		if want := code(r.owners[i], r.wrong[i]); want != now && c != ' ' {
			out.WriteString("\x1b[0m" + want)
			now = want
		}
		out.WriteRune(c)
	}
	if now != "" {
		out.WriteString("\x1b[0m")
	}
	return out.String() + "\n"
}

func code(owner int, wrong bool) string {
	if wrong {
		return "\x1b[1;38;5;202m"
	}
	if owner == 0 {
		return ""
	}
	colours := [ownerColours]int{33, 214, 36, 175, 117, 185, 99}
	return fmt.Sprintf("\x1b[38;5;%dm", colours[colourNumber(owner)-1])
}

// barStyle is how a span is drawn.
func barStyle(s finding.Span) barEnds {
	b := spanKindOf(s.Kind).bar
	if s.Wrong {
		b.left, b.right = '✗', '✗'
	}
	if s.Open {
		b.right = '▶'
	}
	return b
}

// legend explains the styles and signs that are used; a brief one those that nothing beside them explains.
func (t *text) legend(brief bool) string {
	d := drawing{lanes: t.lanes}
	spans, marks, wrong, cause := d.used()
	// The text beside these does not say what they are: “told” of what, and who woke whom.
	unexplained := []finding.MarkKind{finding.Renews, finding.Told, finding.Wakes}
	var parts []string
	for _, k := range spanKinds() {
		if spans[k.kind] && (!brief || !t.said[k.kind] || k.kind == finding.Paused) {
			parts = append(parts, strings.Repeat(string(k.bar.fill), 2)+" "+k.means.In(t.lang))
		}
	}
	for _, k := range markKinds() {
		if marks[k.kind] && (!brief || slices.Contains(unexplained, k.kind)) {
			parts = append(parts, string(k.sign)+" "+k.means.In(t.lang))
		}
	}
	if len(t.axes.breaks) > 0 {
		parts = append(parts, "╱╱ "+i18n.F("time left out").In(t.lang))
	}
	if cause {
		parts = append(parts, "! "+i18n.F("the cause").In(t.lang))
	}
	if wrong {
		parts = append(parts, "✗ "+i18n.F("should not be").In(t.lang))
	}
	// Each part stays on one line.
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(p, " ", "\u00a0")
	}
	return strings.Join(parts, "\u00a0 ")
}

// footnotes returns the numbered texts, in as many columns as there is room for; brief ones one after the other where
// there is room for one column only.
func (t *text) footnotes(brief bool) []string {
	moment, widest := 0, 0
	for _, n := range t.notes {
		moment = max(moment, length(num(n.at)))
		widest = max(widest, length(n.told()))
	}
	const gap = 3
	head := func(n *note) string { return fmt.Sprintf("%3d  %*s ms  ", n.number, moment, num(n.at)) }
	one := length("123  ") + moment + length(" ms  ") + widest
	across := max((t.width+gap)/(one+gap), 1)
	down := (len(t.notes) + across - 1) / across
	lines := make([]string, down)
	if across == 1 && brief {
		return t.flowing()
	}
	if across == 1 {
		lines = nil
	}
	for i, n := range t.notes {
		if across > 1 {
			line := &lines[i%down]
			*line += strings.Repeat(" ", max(i/down*(one+gap)-length(*line), 0)) + head(n) + n.told()
			continue
		}
		before := head(n)
		for _, line := range wrap(n.told(), t.width-length(before)) {
			lines = append(lines, before+line)
			before = strings.Repeat(" ", length(before))
		}
	}
	return lines
}

// flowing returns the numbered texts one after the other. None is broken unless it is longer than a line.
func (t *text) flowing() []string {
	var all []string
	for _, n := range t.notes {
		all = append(all, strings.ReplaceAll(fmt.Sprintf("%d %s ms %s", n.number, num(n.at), n.told()), " ", "\u00a0"))
	}
	lines := wrap(strings.Join(all, "\u00a0\u00a0 "), t.width-2)
	for i := range lines {
		lines[i] = "  " + lines[i]
	}
	return lines
}

// told is the text of a footnote.
func (n *note) told() string {
	what := shortName(n.who) + ": " + n.text
	switch {
	case n.wrong:
		return "✗ " + what
	case n.cause:
		return "! " + what
	}
	return what
}

// wrap breaks a text at its spaces, and between Chinese characters.
func wrap(text string, width int) []string {
	lines := i18n.Lines(text, width, func(r rune) bool { return r == ' ' || r == '\n' })
	for i, line := range lines {
		lines[i] = strings.TrimRight(strings.ReplaceAll(line, "\u00a0", " "), " ")
	}
	return lines
}

func length(s string) int { return i18n.Columns(s) }

// fit shortens a text to a number of columns.
func fit(s string, columns int) string {
	if length(s) <= columns {
		return s
	}
	for s != "" && length(s) > columns-1 {
		_, last := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-last]
	}
	return s + "…"
}
