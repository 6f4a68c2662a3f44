package judge

import (
	"cmp"
	"slices"

	"seckill/internal/lab/finding"
)

// Story is what some actors did with a key, for an anomaly that a scene finds by
// itself.
type Story struct {
	Kind finding.Kind
	Key  string
	Who  []string // the actors, as [trace.Event.Who] has them
	// From and To are what it is about: more is shown only as far as it does not
	// dwarf that.
	From, To int64
	// Summary says what one sees. when puts a time on the picture's axis in words.
	Summary func(when func(at int64) string) string
	// Wrong is what should not be, of that which happens between From and To.
	Wrong []Wrong
	// Moments are marks that no event tells of.
	Moments []Moment
}

// Moment is a mark in the lane of an actor.
type Moment struct {
	Who   string
	At    int64
	Kind  finding.MarkKind
	Label string
	Wrong bool
}

// Wrong names spans and marks of an actor by their kinds; "" is none.
type Wrong struct {
	Who  string
	Span finding.SpanKind
	Mark finding.MarkKind
}

// Tell draws a story.
func Tell(ev Evidence, s Story) finding.Witness {
	h := newHistory(ev)
	in := involved{}
	for _, one := range h.of[s.Key] {
		if slices.Contains(s.Who, one.by.who) && one.asked <= s.To && one.end >= s.From {
			in.holds = append(in.holds, one)
		}
	}
	for _, e := range h.fails {
		if slices.Contains(s.Who, e.Who) && e.Key == s.Key && cmp.Or(e.Asked, e.At) <= s.To && e.At >= s.From {
			in.fails = append(in.fails, e)
		}
	}
	d := h.draw(s.Kind, s.Key, s.From, s.To, in)
	w := d.witness(s.Summary(d.when))
	for _, m := range s.Moments {
		d.note(&w, m)
	}
	for _, wrong := range s.Wrong {
		for _, p := range d.parts {
			if p.by.who == wrong.Who {
				d.accuse(&w, p, s, wrong)
			}
		}
	}
	return w
}

// note puts a moment into the lane of its actor, where both are in the picture.
func (d *drawing) note(w *finding.Witness, m Moment) {
	for _, p := range d.parts {
		i := slices.IndexFunc(w.Lanes, func(l finding.Lane) bool { return l.Role == finding.Actor && l.Name == p.name })
		if p.by.who != m.Who || i < 0 || !d.inside(m.At) {
			continue
		}
		lane := &w.Lanes[i]
		lane.Marks = append(lane.Marks, finding.Mark{Kind: m.Kind, At: d.ms(m.At), Label: m.Label, Who: p.name, Wrong: m.Wrong})
		slices.SortStableFunc(lane.Marks, func(a, b finding.Mark) int { return cmp.Compare(a.At, b.At) })
	}
}

// giver is who gave up an acquisition that put a value into the store all the same, as
// far as the value says that.
func (d *drawing) giver(value string) (actor, bool) {
	for _, e := range d.fails {
		if e.Key == d.key && e.Owner != "" && named(value, map[string]bool{e.Owner: true}) != "" {
			return by(e), true
		}
	}
	return actor{}, false
}

// accuse marks what is wrong in the lane of a part, and in that of the store.
func (d *drawing) accuse(w *finding.Witness, p *part, s Story, wrong Wrong) {
	from, to := d.ms(s.From), d.ms(s.To)
	for i := range w.Lanes {
		lane := &w.Lanes[i]
		if lane.Name != p.name && lane.Role != finding.LockStore {
			continue
		}
		for j := range lane.Spans {
			if span := &lane.Spans[j]; span.Kind == wrong.Span && span.Who == p.name && span.From < to && span.To > from {
				span.Wrong = true
			}
		}
		for j := range lane.Marks {
			if mark := &lane.Marks[j]; mark.Kind == wrong.Mark && mark.Who == p.name && mark.At >= from && mark.At <= to {
				mark.Wrong = true
			}
		}
	}
}
