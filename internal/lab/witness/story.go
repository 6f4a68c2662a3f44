package witness

import (
	"cmp"
	"slices"

	"seckill/internal/eventlog"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
)

// Story is an anomaly that a scenario has found itself: what some actors did with a key.
type Story struct {
	Kind finding.Kind
	Key  string
	Who  []string // the actors, as [eventlog.Event.Who] has them
	// From and To limit the anomaly itself; some context is shown before and after.
	From, To int64
	// Summary describes it. A value that is an [At] is told as a time on the picture's axis.
	Summary i18n.Text
	// Wrong names what is wrong between From and To.
	Wrong []Wrong
	// Moments are additional marks, which no event records.
	Moments []Moment
}

// At is a moment, in nanoseconds since 1970.
type At int64

// Moment is a mark in the lane of an actor.
type Moment struct {
	Who   string
	At    int64
	Kind  finding.MarkKind
	Label i18n.Text
	Wrong bool
}

// Wrong names spans and marks of an actor by their kinds; "" is none.
type Wrong struct {
	Who  string
	Span finding.SpanKind
	Mark finding.MarkKind
}

// Tell draws a story.
func Tell(ev judge.Evidence, s Story) finding.Witness {
	h := &history{History: judge.NewHistory(ev)}
	in := subjects{}
	for _, one := range h.HoldsOf[s.Key] {
		if slices.Contains(s.Who, one.By.Who) && one.Began <= s.To && one.End >= s.From {
			in.holds = append(in.holds, one)
		}
	}
	for _, e := range h.Refusals {
		if slices.Contains(s.Who, e.Who) && e.Key == s.Key && cmp.Or(e.Began, e.At) <= s.To && e.At >= s.From {
			in.refusals = append(in.refusals, e)
		}
	}
	for _, u := range h.Unanswered {
		if e := u.Request; slices.Contains(s.Who, e.Who) && e.Key == s.Key && e.At <= s.To && u.Died >= s.From {
			in.unanswered = append(in.unanswered, u)
		}
	}
	d := h.draw(s.Kind, s.Key, s.From, s.To, in)
	w := d.witness(s.Summary.Map(func(value any) any {
		if at, is := value.(At); is {
			return d.when(int64(at))
		}
		return value
	}))
	for _, m := range s.Moments {
		d.addMoment(&w, m)
	}
	for _, wrong := range s.Wrong {
		for _, p := range d.participants {
			if p.by.Who == wrong.Who {
				d.markWrong(&w, p, s, wrong)
			}
		}
	}
	return w
}

// addMoment adds a moment to the lane of its actor, if both are in the picture.
func (d *drawing) addMoment(w *finding.Witness, m Moment) {
	for _, p := range d.participants {
		i := slices.IndexFunc(w.Lanes, func(l finding.Lane) bool { return l.Role == finding.Actor && l.Name == p.name })
		if p.by.Who != m.Who || i < 0 || !d.inside(m.At) {
			continue
		}
		lane := &w.Lanes[i]
		lane.Marks = append(lane.Marks, finding.Mark{Kind: m.Kind, At: d.ms(m.At), Label: m.Label, Who: p.name, Wrong: m.Wrong})
		slices.SortStableFunc(lane.Marks, func(a, b finding.Mark) int { return cmp.Compare(a.At, b.At) })
	}
}

// gaveUp returns the end of an acquisition that was given up and whose value was stored all the same, if the value
// names its owner; otherwise nil.
func (h *history) gaveUp(key, value string) *eventlog.Event {
	for _, e := range h.Refusals {
		if e.Key == key && e.Owner != "" && judge.OwnerIn(value, map[string]bool{e.Owner: true}) != "" {
			return e
		}
	}
	return nil
}

// markWrong marks what is wrong in the lane of a participant, and in that of the store.
func (d *drawing) markWrong(w *finding.Witness, p *participant, s Story, wrong Wrong) {
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
