package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"seckill/internal/lab/finding"
	"seckill/internal/trace"
)

// drawing becomes a witness: who is in it, from when to when, and what is wrong.
type drawing struct {
	*history
	kind  finding.Kind
	key   string
	parts []*part
	// from and to are the window. What the witness is about lies within begun and
	// done; more is shown only as far as it does not dwarf that.
	from, to    int64
	begun, done int64
	wrong       map[any]bool // holds, sales, events and what the store kept
	sold        bool         // what the buyers asked about their orders is shown, too
}

// part is what an actor does in it.
type part struct {
	by      actor
	name    string // of its lane
	short   string // in a sentence
	holds   []*hold
	sales   []*sale
	fails   []*trace.Event
	asks    []*trace.Event
	unheard []unheard
}

// involved is what a drawing is about: of these the actors are the parts.
type involved struct {
	holds   []*hold
	sales   []*sale
	fails   []*trace.Event
	unheard []unheard
}

// draw begins a drawing of a kind that is about what happened from begun to done.
func (h *history) draw(kind finding.Kind, key string, begun, done int64, in involved) *drawing {
	d := &drawing{history: h, kind: kind, key: key, begun: begun, done: max(done, begun), wrong: map[any]bool{}}
	of := map[actor]*part{}
	add := func(a actor, at int64) {
		if of[a] == nil {
			of[a] = &part{by: a}
			d.parts = append(d.parts, of[a])
		}
		d.from = min(cmp.Or(d.from, at), at)
	}
	d.to = d.done
	for _, one := range in.holds {
		add(one.by, one.asked)
		d.to = max(d.to, min(one.end, h.End))
		if _, to, ok := one.releaseSpan(); ok {
			d.to = max(d.to, min(to, h.End))
		}
	}
	for _, s := range in.sales {
		add(s.by, s.began)
		d.to = max(d.to, min(s.over(), h.End))
	}
	for _, e := range in.fails {
		add(by(e), cmp.Or(e.Asked, e.At))
		d.to = max(d.to, e.At)
	}
	for _, u := range in.unheard {
		add(by(u.asked), u.asked.At)
	}
	d.window()
	d.fill(of)
	return d
}

// window cuts what is shown: half as long again before and after what it is about,
// and a little air.
func (d *drawing) window() {
	const least = int64(1e6)
	about := max(d.done-d.begun, least)
	d.from = max(min(d.from, d.begun), d.begun-about/2)
	d.to = min(max(d.to, d.done), d.done+about/2)
	air := max((d.to-d.from)/20, least/10)
	d.from, d.to = d.from-air, d.to+air
}

// fill gives each part what its actor did within the window, and a name.
func (d *drawing) fill(of map[actor]*part) {
	for _, one := range d.holds {
		if p := of[one.by]; p != nil && one.key == d.key && one.asked < d.to && min(one.end, never-1) > d.from {
			p.holds = append(p.holds, one)
		}
	}
	for _, s := range d.sales {
		if p := of[s.by]; p != nil && s.began < d.to && s.over() > d.from {
			p.sales = append(p.sales, s)
		}
	}
	within := func(events []*trace.Event, add func(*part, *trace.Event)) {
		for _, e := range events {
			if p := of[by(e)]; p != nil && e.Key == d.key && e.At > d.from && cmp.Or(e.Asked, e.At) < d.to {
				add(p, e)
			}
		}
	}
	within(d.fails, func(p *part, e *trace.Event) { p.fails = append(p.fails, e) })
	within(d.asks, func(p *part, e *trace.Event) { p.asks = append(p.asks, e) })
	for _, u := range d.unheard {
		if p := of[by(u.asked)]; p != nil && u.asked.Key == d.key && u.died > d.from && u.asked.At < d.to {
			p.unheard = append(p.unheard, u)
		}
	}
	slices.SortStableFunc(d.parts, func(a, b *part) int { return cmp.Compare(a.first(), b.first()) })
	names, shorts := map[string]int{}, map[string]int{}
	for _, p := range d.parts {
		shorts[p.by.short()]++
	}
	for _, p := range d.parts {
		p.name, p.short = p.by.name(), p.by.short()
		if names[p.name]++; names[p.name] > 1 {
			p.name = fmt.Sprintf("%s, again", p.name)
			if names[p.by.name()] > 2 {
				p.name = fmt.Sprintf("%s %d", p.name, names[p.by.name()]-1)
			}
		}
		if shorts[p.short] > 1 {
			p.short = p.name
		}
	}
}

// first is when a part gets the lock, or appears, where it does not: holders that come
// one after the other are then steps of a staircase, however long they have waited.
func (p *part) first() int64 {
	at := int64(never)
	for _, h := range p.holds {
		at = min(at, h.at)
	}
	if at != never {
		return at
	}
	for _, s := range p.sales {
		at = min(at, s.began)
	}
	for _, e := range slices.Concat(p.fails, p.asks) {
		at = min(at, cmp.Or(e.Asked, e.At))
	}
	for _, u := range p.unheard {
		at = min(at, u.asked.At)
	}
	return at
}

// who is what an actor is called in a sentence.
func (d *drawing) who(a actor) string {
	for _, p := range d.parts {
		if p.by == a {
			return p.short
		}
	}
	return a.short()
}

// lane is the name of an actor's lane, "" where it has none.
func (d *drawing) lane(a actor) string {
	for _, p := range d.parts {
		if p.by == a {
			return p.name
		}
	}
	return ""
}

// ms is a time on the picture's axis.
func (d *drawing) ms(at int64) float64 { return milli(min(max(at, d.from), d.to) - d.from) }

// when is a time on the picture's axis, for a sentence.
func (d *drawing) when(at int64) string { return length(at - d.from) }

// milli makes milliseconds of nanoseconds, to the microsecond.
func milli(ns int64) float64 { return math.Round(float64(ns)/1e3) / 1e3 }

// length is a time for a sentence.
func length(ns int64) string {
	switch ms := float64(ns) / 1e6; {
	case ms < 0.05:
		return "0 ms"
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	default:
		return fmt.Sprintf("%.0f ms", ms)
	}
}

// span is one clipped to the window.
func (d *drawing) span(kind finding.SpanKind, from, to int64) finding.Span {
	return finding.Span{Kind: kind, From: d.ms(from), To: d.ms(to), Open: to > d.to}
}

func (d *drawing) inside(at int64) bool { return at >= d.from && at <= d.to }

// witness is the drawing, finished.
func (d *drawing) witness(summary string) finding.Witness {
	w := finding.Witness{Kind: d.kind, Summary: summary, Key: d.key}
	for _, p := range d.parts {
		w.Lanes = append(w.Lanes, d.actorLane(p))
	}
	for _, lane := range append(d.storeLanes(), d.databaseLane(), d.faultLane()) {
		if len(lane.Spans)+len(lane.Marks) > 0 {
			w.Lanes = append(w.Lanes, lane)
		}
	}
	for i := range w.Lanes {
		slices.SortStableFunc(w.Lanes[i].Spans, func(a, b finding.Span) int { return cmp.Compare(a.From, b.From) })
		slices.SortStableFunc(w.Lanes[i].Marks, func(a, b finding.Mark) int { return cmp.Compare(a.At, b.At) })
	}
	return w
}
