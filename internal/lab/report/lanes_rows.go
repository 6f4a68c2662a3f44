package report

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"seckill/internal/lab/finding"
)

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
		r.cells[col], r.owners[col], r.wrong[col] = c, owner, wrong
	}
}

func (r *row) put(col int, text string, owner int, wrong bool) {
	for _, c := range text {
		r.set(col, c, owner, wrong)
		col++
	}
}

// render returns the row as a line. The colours are those of the picture, as near as 256
// colours allow; wrong parts are bold and vermilion.
func (r *row) render(colour bool) string {
	line := strings.TrimRight(string(r.cells), " ")
	if !colour {
		return line + "\n"
	}
	var out strings.Builder
	now := ""
	for i, c := range []rune(line) {
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

// barEnds is the style of a span.
type barEnds struct{ left, fill, right rune }

func barStyle(s finding.Span) barEnds {
	b := map[finding.SpanKind]barEnds{
		finding.Waits:    {'├', '┄', '┤'},
		finding.Believes: {'┣', '━', '┫'},
		finding.Stored:   {'╠', '═', '╣'},
		finding.Reads:    {'├', '─', '┤'},
		finding.Paused:   {'░', '░', '░'},
		finding.Down:     {'▓', '▓', '▓'},
	}[s.Kind]
	if b.fill == 0 {
		b = barEnds{'├', '─', '┤'}
	}
	if s.Wrong {
		b.left, b.right = '✗', '✗'
	}
	if s.Open {
		b.right = '▶'
	}
	return b
}

func sign(k finding.MarkKind) rune {
	for _, known := range markKinds() {
		if known.kind == k {
			return known.sign
		}
	}
	return '◆'
}

// legend explains the styles and signs that are used.
func (t *text) legend() string {
	d := drawing{lanes: t.lanes}
	spans, marks, wrong := d.used()
	var parts []string
	for _, kind := range []finding.SpanKind{finding.Waits, finding.Believes, finding.Reads, finding.Stored, finding.Paused, finding.Down} {
		if spans[kind] {
			parts = append(parts, strings.Repeat(string(barStyle(finding.Span{Kind: kind}).fill), 2)+" "+spanMeaning(kind))
		}
	}
	for _, k := range markKinds() {
		if marks[k.kind] {
			parts = append(parts, string(k.sign)+" "+k.means)
		}
	}
	if wrong {
		parts = append(parts, "✗ should not be")
	}
	// Each part stays on one line.
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(p, " ", "\u00a0")
	}
	return strings.Join(parts, "\u00a0 ")
}

// footnotes returns the numbered texts.
func (t *text) footnotes() []string {
	moment := 0
	for _, n := range t.notes {
		moment = max(moment, length(num(n.at)))
	}
	var lines []string
	for _, n := range t.notes {
		head := fmt.Sprintf("%3d  %*s ms  ", n.number, moment, num(n.at))
		what := shortName(n.who) + ": " + n.text
		if n.wrong {
			what = "✗ " + what
		}
		for i, line := range wrap(what, t.width-length(head)) {
			if i > 0 {
				head = strings.Repeat(" ", length(head))
			}
			lines = append(lines, head+line)
		}
	}
	return lines
}

// wrap breaks a text at its spaces.
func wrap(text string, width int) []string {
	var lines []string
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\n' }) {
		if n := len(lines); n > 0 && length(lines[n-1])+1+length(word) <= width {
			lines[n-1] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	for i, line := range lines {
		lines[i] = strings.TrimRight(strings.ReplaceAll(line, "\u00a0", " "), " ")
	}
	return lines
}

func length(s string) int { return utf8.RuneCountInString(s) }

// fit shortens a text to a number of columns.
func fit(s string, columns int) string {
	if length(s) <= columns {
		return s
	}
	return string([]rune(s)[:max(columns-1, 0)]) + "…"
}
