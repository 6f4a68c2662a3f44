package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

// narrowest is the least width for which [Lanes] lays out.
const narrowest = 60

// ColourWanted reports whether to write colours to a terminal. NO_COLOR and a dumb terminal
// forbid it.
func ColourWanted(getenv func(string) string, terminal bool) bool {
	return terminal && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}

// Lanes writes a witness as text in a language, width columns wide: a row of bars for each lane, and its
// marks below. Texts without space are numbered, in the order of time, and written as
// footnotes. Colour adds no information.
func Lanes(w io.Writer, wit finding.Witness, width int, colour bool, lang i18n.Language) error {
	return lanesIn(w, wit, width, colour, lang, false)
}

// Brief writes the same in fewer lines: without the other anomalies that the picture shows, and with a legend for what
// no text in the picture says.
func Brief(w io.Writer, wit finding.Witness, width int, colour bool, lang i18n.Language) error {
	wit.Also = nil
	return lanesIn(w, wit, width, colour, lang, true)
}

func lanesIn(w io.Writer, wit finding.Witness, width int, colour bool, lang i18n.Language, brief bool) error {
	t := text{actors: newActorIndex(wit), lanes: arranged(wit.Lanes), width: max(width, narrowest), lang: lang, said: map[finding.SpanKind]bool{}}
	t.from, t.to = period(t.lanes, nil, 0)
	t.layOut()
	var out strings.Builder
	for _, line := range wrap(wit.Summary.In(lang), t.width) {
		out.WriteString(line + "\n")
	}
	for _, also := range wit.Also {
		for _, line := range wrap(i18n.F("Also %s: %s", titleOfKind(also.Kind), also.Summary).In(lang), t.width) {
			out.WriteString(line + "\n")
		}
	}
	out.WriteString("\n")
	for _, row := range t.rows {
		out.WriteString(row.render(colour))
	}
	if len(t.notes) > 0 {
		out.WriteString("\n")
	}
	for _, line := range t.footnotes(brief) {
		out.WriteString(line + "\n")
	}
	legend := t.legend(brief)
	if legend != "" {
		out.WriteString("\n")
	}
	for _, line := range wrap(legend, t.width) {
		out.WriteString(line + "\n")
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// text is the layout of a witness in a terminal.
type text struct {
	actors   actorIndex
	lanes    []finding.Lane
	lang     i18n.Language
	width    int
	gutter   int // columns of the names
	from, to float64
	axes     axis
	rows     []*row
	notes    []*note
	said     map[finding.SpanKind]bool // a bar of that kind says what it is
}

// note is a text at a moment. It is beside its sign, or has a number and is written below.
type note struct {
	at     float64
	col    int
	sign   rune
	text   string
	who    string // told in the footnote
	owner  int
	wrong  bool
	cause  bool
	where  where
	number int // of the footnote
}

// col is the column of a moment.
func (t *text) col(ms float64) int {
	plot := t.width - t.gutter - 1
	c := int(math.Round(t.axes.at(ms) * float64(plot-1)))
	return t.gutter + min(max(c, 0), plot-1)
}

func (t *text) layOut() {
	for _, lane := range t.lanes {
		t.gutter = max(t.gutter, length(t.name(lane))+2)
	}
	t.gutter = min(t.gutter, t.width/4)
	t.axes = newAxis(t.lanes, t.from, t.to, t.width-t.gutter-1)
	t.axis()
	var rails []rail
	for _, lane := range t.lanes {
		rails = append(rails, t.lane(lane))
	}
	t.number(rails)
	for _, r := range rails {
		t.write(r)
	}
}

// name is the title of a lane; an actor's letter comes first.
func (t *text) name(lane finding.Lane) string {
	name := i18n.Name(lane.Name).In(t.lang)
	if lane.Role == finding.Actor {
		return letter(t.actors[lane.Name]) + " " + name
	}
	return name
}

func (t *text) row() *row {
	r := newRow(t.width)
	t.rows = append(t.rows, r)
	return r
}

func (t *text) axis() {
	labels, line := t.row(), t.row()
	for c := t.gutter; c < t.width-1; c++ {
		line.set(c, '─', 0, false)
	}
	last := -1
	unit := unitOf(t.axes.to)
	for i, ms := range t.axes.ticks((t.width - t.gutter) / 9) {
		label := unit.of(ms)
		if i == 0 {
			label += " " + unit.name
		}
		c := t.col(ms)
		line.set(c, '┴', 0, false)
		at := min(max(c-length(label)/2, t.gutter), t.width-length(label))
		if at > last+1 {
			labels.put(at, label, 0, false)
			last = at + length(label)
		}
	}
	for _, b := range t.axes.breaks {
		for c, end := t.col(b.from)+1, t.col(b.to); c < end; c++ {
			line.set(c, '╱', 0, false)
		}
	}
}

// rail is the row of marks of a lane, below its bars.
type rail struct {
	row   *row
	notes []*note
}

// lane lays out a lane's bars, and leaves a row for its marks.
func (t *text) lane(lane finding.Lane) rail {
	var notes []*note
	end := func(s finding.Span) float64 {
		if s.Open {
			return math.Inf(1)
		}
		return s.To
	}
	spans := stack(lane.Spans, func(a, b finding.Span) bool {
		return a.From < end(b) && b.From < end(a) || a.From == b.From
	})
	first := len(t.rows)
	for _, s := range spans {
		bars := t.row()
		for _, span := range s {
			if beside := t.bar(bars, lane, span); beside != nil {
				notes = append(notes, beside)
			}
		}
	}
	for _, m := range lane.Marks {
		n := &note{
			at: m.At, col: t.col(m.At), sign: markKindOf(m.Kind).sign, text: t.actors.text(lane, m).In(t.lang),
			owner: t.actors.owner(lane, m.Who), wrong: m.Wrong, cause: m.Cause,
		}
		notes = append(notes, n)
	}
	slices.SortStableFunc(notes, func(a, b *note) int { return cmp.Compare(a.at, b.at) })
	for _, n := range notes {
		n.who = i18n.Name(lane.Name).In(t.lang)
	}
	r := rail{notes: notes}
	if len(notes) > 0 || len(spans) == 0 {
		r.row = t.row()
	}
	t.rows[first].put(0, fit(t.name(lane), t.gutter-1), t.actors.owner(lane, ""), false)
	return r
}

func (t *text) extent(s finding.Span) (from, to int) {
	from, to = t.col(s.From), t.col(s.To)
	if s.Open {
		to = t.width - 1
	}
	return from, max(from, to)
}

// bar draws a span. It returns a text that must be shown and has no space inside.
func (t *text) bar(r *row, lane finding.Lane, s finding.Span) *note {
	from, to := t.extent(s)
	owner := t.actors.owner(lane, s.Who)
	b := barStyle(s)
	for c := from; c <= to; c++ {
		r.set(c, b.fill, owner, s.Wrong)
	}
	r.set(to, b.right, owner, s.Wrong)
	r.set(from, b.left, owner, s.Wrong) // last, so that the shortest bars show this end
	told, must := spanText(s, lane.Role)
	inside := told.In(t.lang)
	name := letter(owner)
	whose := s.Label.IsZero() || s.Label.String() == shortName(s.Who) // it says no more than the letter
	if !whose || lane.Role == finding.Actor || owner == 0 {
		if lane.Role != finding.Actor && owner > 0 {
			inside = name + " " + inside
		}
	} else {
		inside = name + " " + inside
		must = to-from-1 < length(name) // the letter shows it
	}
	for _, try := range []string{" " + inside + " ", inside} {
		if length(try) <= to-from-1 {
			t.said[s.Kind] = true
			r.put(from+1+min(1, to-from-1-length(try)), try, owner, s.Wrong)
			return nil
		}
	}
	if whose && lane.Role != finding.Actor && owner > 0 && !must {
		r.put(from+1+(to-from-1-length(name))/2, name, owner, s.Wrong)
		return nil
	}
	if !must {
		return nil
	}
	return &note{at: s.From, col: (from + to) / 2, sign: '╵', text: inside, owner: owner, wrong: s.Wrong}
}

// number decides where texts go, and numbers those without space in the order of time.
func (t *text) number(rails []rail) {
	for _, r := range rails {
		t.decide(r)
		for _, n := range r.notes {
			if n.where == below {
				t.notes = append(t.notes, n)
			}
		}
	}
	slices.SortStableFunc(t.notes, func(a, b *note) int { return cmp.Compare(a.at, b.at) })
	for i, n := range t.notes {
		n.number = i + 1
	}
}

// decide puts the texts of a rail right of their signs, left of them, or below.
func (t *text) decide(r rail) {
	end := t.gutter - 1 // of what is to the left
	for i, n := range r.notes {
		next := t.width + 1
		if i+1 < len(r.notes) {
			next = r.notes[i+1].col
		}
		room := 3 + length(n.text) // with a sign of two columns
		switch {
		case n.col+room < next:
			n.where, end = right, n.col+room
		case n.col-length(n.text)-1 > end+2:
			n.where, end = left, n.col+2
		default:
			n.where, end = below, n.col+3
		}
	}
	// Signs that are close push each other away. If that moves a sign far from its moment, the
	// longest text goes below.
	for {
		far := 0
		for i, col := range t.columns(r) {
			far = max(far, col-r.notes[i].start(), r.notes[i].start()-col)
		}
		var longest *note
		for _, n := range r.notes {
			if n.where != below && (longest == nil || length(n.text) > length(longest.text)) {
				longest = n
			}
		}
		if far <= 2 || longest == nil {
			return
		}
		longest.where = below
	}
}

// columns returns where the notes of a rail begin.
func (t *text) columns(r rail) []int {
	cols := make([]int, len(r.notes))
	next := 0
	for i, n := range r.notes {
		cols[i] = max(n.start(), next)
		next = cols[i] + length(n.shown()) + 1
	}
	limit := t.width + 1
	for i, n := range slices.Backward(r.notes) {
		cols[i] = min(cols[i], limit-1-length(n.shown()))
		limit = cols[i]
	}
	return cols
}

// write writes a rail's signs, and the texts beside them, into its row.
func (t *text) write(r rail) {
	cols := t.columns(r)
	for i, n := range r.notes {
		r.row.put(cols[i], n.shown(), n.owner, n.wrong)
	}
}

// where says where a note's text is.
type where int

const (
	right where = iota
	left
	below
)

// start is the column at which a note should begin.
func (n *note) start() int {
	if n.where == left {
		return n.col - length(n.text) - 1
	}
	return n.col
}

// shown is what is written in the rail.
func (n *note) shown() string {
	s := string(n.sign)
	switch {
	case n.wrong:
		s = "✗" + s
	case n.cause:
		s = "!" + s
	}
	switch {
	case n.where == left:
		return n.text + " " + s
	case n.where == right:
		return s + " " + n.text
	case n.number > 0:
		return s + fmt.Sprint(n.number)
	}
	return s + "0" // gets a number later
}
