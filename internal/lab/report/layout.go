package report

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"seckill/internal/lab/finding"
)

// axis maps times to places from 0 to 1. Where something that decides would be too short to be seen, long times in
// which nothing happens are left out.
type axis struct {
	from, to float64
	breaks   []gap // in the order of time
}

// gap is a time that is left out.
type gap struct{ from, to float64 }

const (
	// longGap is the fraction of the period from which on a time without an event may be left out.
	longGap = 0.2
	// gapRoom is the fraction of the width that a gap keeps.
	gapRoom = 0.06
	// leastColumns is the least width of the time for which somebody has the lock.
	leastColumns = 1
)

// newAxis is an axis for a picture that is so many columns wide.
func newAxis(lanes []finding.Lane, from, to float64, columns int) axis {
	a := axis{from: from, to: to}
	times := []float64{from, to}
	add := func(at float64) { times = append(times, min(max(at, from), to)) }
	hidden := false
	for _, lane := range lanes {
		for _, s := range lane.Spans {
			add(s.From)
			add(s.To)
			decides := lane.Role == finding.Actor && (s.Kind == finding.Held || s.Kind == finding.Believes)
			hidden = hidden || decides && !s.Open && (s.To-s.From)/(to-from)*float64(columns) < leastColumns
		}
		for _, m := range lane.Marks {
			add(m.At)
		}
	}
	if !hidden {
		return a
	}
	slices.SortFunc(times, cmp.Compare[float64])
	left := to - from
	var found []gap
	for i := range times[1:] {
		if g := (gap{times[i], times[i+1]}); g.to-g.from > longGap*(to-from) {
			found = append(found, g)
			left -= g.to - g.from
		}
	}
	if left > 0 {
		a.breaks = found
	}
	return a
}

// at is the place of a time.
func (a axis) at(ms float64) float64 {
	shown, before, gaps := a.to-a.from, ms-a.from, 0.0
	for _, b := range a.breaks {
		shown -= b.to - b.from
		passed := min(max(ms-b.from, 0), b.to-b.from)
		before -= passed
		gaps += passed / (b.to - b.from) * gapRoom
	}
	return gaps + before/shown*(1-gapRoom*float64(len(a.breaks)))
}

// ticks are round times that are shown, about so many.
func (a axis) ticks(about int) []float64 {
	if len(a.breaks) == 0 {
		return ticks(a.from, a.to, about)
	}
	var all []float64
	from := a.from
	for _, b := range append(slices.Clone(a.breaks), gap{a.to, a.to}) {
		share := int(float64(about) * (a.at(b.from) - a.at(from)))
		if share < 2 {
			all = append(all, b.from)
		} else {
			all = append(all, ticks(from, b.from, share)...)
		}
		from = b.to
	}
	return all
}

// Sizes of the marks and labels below a lane, in the units of the picture.
const (
	symbolSize = 14.0
	ringSize   = 22.0 // of a symbol that is marked as wrong, with its ring
	rowHeight  = 21.0
	labelSize  = 15.0
	labelGap   = 6.0
)

// label is a text at a moment: beside its symbol, or below it, at the end of a line.
type label struct {
	at     float64 // its x; it may differ slightly from the moment's
	moment float64 // the moment
	symbol float64 // the size of its symbol; 0: none
	text   string
	width  float64

	row  int
	left float64 // where the text begins
}

// spread moves overlapping symbols apart, in order and as little as possible, between lo and hi.
func spread(labels []*label, lo, hi float64) {
	gap := func(i int) float64 { return (max(labels[i-1].symbol, 4) + max(labels[i].symbol, 4)) / 2 }
	needed := 0.0
	for i := range labels[min(1, len(labels)):] {
		needed += gap(i + 1)
	}
	squeeze := 1.0
	if needed > hi-lo {
		squeeze = (hi - lo) / needed
	}
	for i, f := range labels {
		f.at = max(f.moment, lo)
		if i > 0 {
			f.at = max(f.at, labels[i-1].at+squeeze*gap(i))
		}
	}
	for i, f := range slices.Backward(labels) {
		f.at = min(f.at, hi)
		if i+1 < len(labels) {
			f.at = min(f.at, labels[i+1].at-squeeze*gap(i+1))
		}
	}
}

// place gives every label a row and a position so that no text covers another one or a symbol, all are between lo and
// hi, and lines cross as little text as possible. It returns the number of rows.
func place(labels []*label, lo, hi float64) int {
	slices.SortStableFunc(labels, func(a, b *label) int { return cmp.Compare(a.moment, b.moment) })
	spread(labels, lo+ringSize/2, hi-ringSize/2)
	rows := 0
	var placed []*label
	for _, f := range slices.Backward(labels) {
		best := -1.0
		for row := range len(labels) + 1 {
			for i, left := range f.candidates(row, lo, hi) {
				crossings, free := f.tries(row, left, placed, labels)
				cost := float64(row) + 2.5*float64(crossings) + 0.3*float64(i)
				if free && (best < 0 || cost < best) {
					best, f.row, f.left = cost, row, left
				}
			}
		}
		placed = append(placed, f)
		rows = max(rows, f.row+1)
	}
	return rows
}

// candidates returns the positions of a text in a row, the best one first.
func (f *label) candidates(row int, lo, hi float64) []float64 {
	away := 5.0
	if row == 0 && f.symbol > 0 {
		away = f.symbol/2 + 5
	}
	var in []float64
	for _, left := range []float64{f.at + away, f.at - away - f.width} {
		if left >= lo && left+f.width <= hi {
			in = append(in, left)
		}
	}
	if row > 0 {
		in = append(in, max(lo, min(f.at-f.width/2, hi-f.width)))
	}
	return in
}

// tries reports whether a text covers no other text and no symbol, and how many texts its line would cross.
func (f *label) tries(row int, left float64, placed, all []*label) (crossings int, free bool) {
	right := left + f.width
	if row == 0 {
		for _, o := range all {
			if o != f && o.symbol > 0 && o.at+o.symbol/2+2 > left && o.at-o.symbol/2-2 < right {
				return 0, false
			}
		}
	}
	covers := func(left, right, at float64) bool { return left-2 < at && at < right+2 }
	for _, o := range placed {
		switch {
		case o.row == row:
			if left < o.left+o.width+labelGap && o.left < right+labelGap {
				return 0, false
			}
		case o.row > row && covers(left, right, o.at), o.row < row && covers(o.left, o.left+o.width, f.at):
			crossings++
		}
	}
	return crossings, true
}

// widths are those of DejaVu Sans, of the characters from space to ~, in hundredths of the font's size.
var widths = [...]uint8{
	32, 40, 46, 84, 64, 95, 78, 27, 39, 39, 50, 84, 32, 36, 32, 34,
	64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 34, 34, 84, 84, 84, 53,
	100, 68, 69, 70, 77, 63, 58, 77, 75, 29, 29, 66, 56, 86, 75, 79,
	60, 79, 69, 63, 61, 73, 68, 99, 69, 61, 69, 39, 34, 39, 84, 50,
	50, 61, 63, 55, 63, 62, 35, 63, 63, 28, 28, 58, 28, 97, 63, 61,
	63, 63, 41, 52, 39, 63, 59, 82, 59, 59, 52, 64, 34, 64, 84,
}

// bolder is how much wider bold text is.
const bolder = 1.14

// textWidth is the width of a text.
func textWidth(text string, size float64) float64 {
	sum := 0
	for _, r := range text {
		if i := int(r) - ' '; i >= 0 && i < len(widths) {
			sum += int(widths[i])
		} else {
			sum += 100
		}
	}
	return float64(sum) / 100 * size
}

// fitText shortens a text to a width.
func fitText(text string, size, width float64) string {
	if textWidth(text, size) <= width {
		return text
	}
	for text != "" {
		_, last := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-last]
		if textWidth(text+"…", size) <= width {
			return text + "…"
		}
	}
	return ""
}
