package report

import (
	"cmp"
	"slices"
)

// Sizes of what stands on a lane's rail, in the units of the picture.
const (
	symbolSize = 14.0
	ringSize   = 22.0 // of the symbol of what should not be, with the ring around it
	rowHeight  = 21.0
	labelSize  = 15.0
	labelGap   = 6.0
)

// flag is a text that belongs to a moment: on the rail beside its symbol, or below,
// at the end of a line down from it.
type flag struct {
	at     float64 // where on the rail; the moment itself may be a little beside it
	moment float64 // the moment
	symbol float64 // the size of its symbol; 0: it has none
	text   string
	width  float64

	row  int
	left float64 // where the text begins
}

// spread moves symbols apart that would cover each other, in order and as little as
// is needed, and keeps them between lo and hi.
func spread(flags []*flag, lo, hi float64) {
	gap := func(i int) float64 { return (max(flags[i-1].symbol, 4) + max(flags[i].symbol, 4)) / 2 }
	needed := 0.0
	for i := range flags[min(1, len(flags)):] {
		needed += gap(i + 1)
	}
	squeeze := 1.0
	if needed > hi-lo {
		squeeze = (hi - lo) / needed
	}
	for i, f := range flags {
		f.at = max(f.moment, lo)
		if i > 0 {
			f.at = max(f.at, flags[i-1].at+squeeze*gap(i))
		}
	}
	for i, f := range slices.Backward(flags) {
		f.at = min(f.at, hi)
		if i+1 < len(flags) {
			f.at = min(f.at, flags[i+1].at-squeeze*gap(i+1))
		}
	}
}

// place gives every flag a row and a position such that no text lies on another or
// on a symbol, all lie between lo and hi, and lines cross as little text as can be.
// It returns the number of rows.
func place(flags []*flag, lo, hi float64) int {
	slices.SortStableFunc(flags, func(a, b *flag) int { return cmp.Compare(a.moment, b.moment) })
	spread(flags, lo+ringSize/2, hi-ringSize/2)
	rows := 0
	var placed []*flag
	for _, f := range slices.Backward(flags) {
		best := -1.0
		for row := range len(flags) + 1 {
			for i, left := range f.candidates(row, lo, hi) {
				crossings, free := f.tries(row, left, placed, flags)
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

// candidates are the positions of a text in a row, the best one first.
func (f *flag) candidates(row int, lo, hi float64) []float64 {
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

// tries says whether a text is free of others and of symbols, and how often a line
// would cross a text.
func (f *flag) tries(row int, left float64, placed, all []*flag) (crossings int, free bool) {
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
