package report

import (
	"cmp"
	"slices"

	"seckill/internal/lab/finding"
)

// axis maps times to places from 0 to 1. Where something that decides would be too short to be seen, long times in which
// nothing happens are left out.
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
