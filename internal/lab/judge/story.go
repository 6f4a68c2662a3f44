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
	for _, wrong := range s.Wrong {
		for _, p := range d.parts {
			if p.by.who == wrong.Who {
				d.accuse(&w, p, s, wrong)
			}
		}
	}
	return w
}

// accuse marks what is wrong in the lane of a part.
func (d *drawing) accuse(w *finding.Witness, p *part, s Story, wrong Wrong) {
	from, to := d.ms(s.From), d.ms(s.To)
	for i := range w.Lanes {
		lane := &w.Lanes[i]
		if lane.Role != finding.Actor || lane.Name != p.name {
			continue
		}
		for j := range lane.Spans {
			if span := &lane.Spans[j]; span.Kind == wrong.Span && span.From < to && span.To > from {
				span.Wrong = true
			}
		}
		for j := range lane.Marks {
			if mark := &lane.Marks[j]; mark.Kind == wrong.Mark && mark.At >= from && mark.At <= to {
				mark.Wrong = true
			}
		}
	}
}
