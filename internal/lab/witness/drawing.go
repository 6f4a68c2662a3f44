package witness

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"seckill/internal/eventlog"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
)

// drawing is a witness under construction: its actors, its period, and what is wrong.
type drawing struct {
	*history
	kind         finding.Kind
	key          string
	participants []*participant
	// from and to are the period that is shown. The anomaly itself lies within begun and done; the context is limited
	// to a fraction of that.
	from, to    int64
	begun, done int64
	wrong       map[any]bool         // holds, transactions, events and store entries
	outlived    map[*judge.Hold]bool // that another one was granted the lock beside
	tokens      map[uint64]int       // a small number for each
	own         []*judge.Hold        // those that it is about, also of other keys
	showOrders  bool                 // also show whether buyers looked for earlier orders
}

// participant is an actor with all that it does in the drawing.
type participant struct {
	by           judge.Actor
	name         string // of its lane
	short        string // in a sentence
	holds        []*judge.Hold
	transactions []*judge.Transaction
	refusals     []*eventlog.Event
	pending      []*eventlog.Event
	unanswered   []judge.Unanswered
}

// subjects are what a drawing is about; their actors are its participants.
type subjects struct {
	holds        []*judge.Hold
	transactions []*judge.Transaction
	refusals     []*eventlog.Event
	unanswered   []judge.Unanswered
}

// draw begins a drawing of a kind about what happened from begun to done.
func (h *history) draw(kind finding.Kind, key string, begun, done int64, in subjects) *drawing {
	d := &drawing{history: h, kind: kind, key: key, begun: begun, done: max(done, begun), wrong: map[any]bool{}, outlived: map[*judge.Hold]bool{}, own: in.holds}
	of := map[judge.Actor]*participant{}
	add := func(a judge.Actor, at int64) {
		if of[a] == nil {
			of[a] = &participant{by: a}
			d.participants = append(d.participants, of[a])
		}
		d.from = min(cmp.Or(d.from, at), at)
	}
	d.to = d.done
	for _, one := range in.holds {
		add(one.By, one.Began)
		d.to = max(d.to, min(one.End, h.End))
		if _, to, ok := one.ReleaseSpan(); ok {
			d.to = max(d.to, min(to, h.End))
		}
	}
	for _, s := range in.transactions {
		add(s.By, s.Began)
		d.to = max(d.to, min(s.EndedAt(), h.End))
	}
	for _, e := range in.refusals {
		add(judge.ActorOf(e), cmp.Or(e.Began, e.At))
		d.to = max(d.to, e.At)
	}
	for _, u := range in.unanswered {
		add(judge.ActorOf(u.Request), u.Request.At)
	}
	d.window()
	d.fill(of)
	h.drawn = nil
	for _, p := range d.participants {
		h.drawn = append(h.drawn, p.by)
	}
	return d
}

// window limits the period to half of the anomaly's duration before and after it, plus a margin.
func (d *drawing) window() {
	const least = int64(1e6)
	about := max(d.done-d.begun, least)
	d.from = max(min(d.from, d.begun), d.begun-about/2)
	d.to = min(max(d.to, d.done), d.done+about/2)
	air := max((d.to-d.from)/20, least/10)
	d.from = max(d.from-air, d.Begin)
	d.to = max(d.to+air, d.from+least)
}

// fill gives each participant what its actor did within the period, and a name.
func (d *drawing) fill(of map[judge.Actor]*participant) {
	for _, one := range d.Holds {
		if p := of[one.By]; p != nil && (one.Key == d.key || slices.Contains(d.own, one)) && one.Began < d.to && min(one.End, judge.Never-1) > d.from {
			p.holds = append(p.holds, one)
		}
	}
	for _, s := range d.Transactions {
		if p := of[s.By]; p != nil && s.Began < d.to && s.EndedAt() > d.from {
			p.transactions = append(p.transactions, s)
		}
	}
	within := func(events []*eventlog.Event, add func(*participant, *eventlog.Event)) {
		for _, e := range events {
			if p := of[judge.ActorOf(e)]; p != nil && e.Key == d.key && e.At > d.from && cmp.Or(e.Began, e.At) < d.to {
				add(p, e)
			}
		}
	}
	within(d.Refusals, func(p *participant, e *eventlog.Event) { p.refusals = append(p.refusals, e) })
	within(d.Pending, func(p *participant, e *eventlog.Event) { p.pending = append(p.pending, e) })
	for _, u := range d.Unanswered {
		if p := of[judge.ActorOf(u.Request)]; p != nil && u.Request.Key == d.key && u.Died > d.from && u.Request.At < d.to {
			p.unanswered = append(p.unanswered, u)
		}
	}
	slices.SortStableFunc(d.participants, func(a, b *participant) int {
		return cmp.Or(compareBool(a.onlyWaits(), b.onlyWaits()), cmp.Compare(a.first(), b.first()))
	})
	names, shorts := map[string]int{}, map[string]int{}
	for _, p := range d.participants {
		shorts[p.by.Short()]++
	}
	for _, p := range d.participants {
		p.name, p.short = p.by.Name(), p.by.Short()
		if names[p.name]++; names[p.name] > 1 {
			p.name = fmt.Sprintf("%s, again", p.name)
			if names[p.by.Name()] > 2 {
				p.name = fmt.Sprintf("%s %d", p.name, names[p.by.Name()]-1)
			}
		}
		if shorts[p.short] > 1 {
			p.short = p.name
		}
	}
}

// onlyWaits reports whether a participant has done nothing but wait for the lock, and still does. Its lane is below
// those in which something happens.
func (p *participant) onlyWaits() bool {
	return len(p.pending) > 0 && len(p.holds)+len(p.transactions)+len(p.refusals)+len(p.unanswered) == 0
}

// compareBool sorts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// first is when a participant gets the lock, or else when it appears. Successive holders then form a staircase, however
// long they have waited.
func (p *participant) first() int64 {
	at := int64(judge.Never)
	for _, h := range p.holds {
		at = min(at, h.At)
	}
	if at != judge.Never {
		return at
	}
	for _, s := range p.transactions {
		at = min(at, s.Began)
	}
	for _, e := range slices.Concat(p.refusals, p.pending) {
		at = min(at, cmp.Or(e.Began, e.At))
	}
	for _, u := range p.unanswered {
		at = min(at, u.Request.At)
	}
	return at
}

// nameOf returns the name of an actor in a sentence.
func (d *drawing) nameOf(a judge.Actor) i18n.Name {
	for _, p := range d.participants {
		if p.by == a {
			return i18n.Name(p.short)
		}
	}
	return i18n.Name(a.Short())
}

// firstToken stands for the least token of a picture.
const firstToken = 33

// token is a small number in place of a fencing token: the counter that it comes from may have many digits, and only
// the order counts.
func (d *drawing) token(of uint64) int {
	if d.tokens == nil {
		var used []uint64
		for _, p := range d.participants {
			for _, s := range p.transactions {
				if s.Write != nil && s.Write.Mode == eventlog.ModeFenced {
					used = append(used, s.Write.Token)
				}
			}
		}
		slices.Sort(used)
		d.tokens = map[uint64]int{}
		for i, token := range slices.Compact(used) {
			d.tokens[token] = firstToken + i
		}
	}
	return d.tokens[of]
}

// lane is the name of an actor's lane, "" if it has none.
func (d *drawing) lane(a judge.Actor) string {
	for _, p := range d.participants {
		if p.by == a {
			return p.name
		}
	}
	return ""
}

// ms is a time on the axis, in milliseconds.
func (d *drawing) ms(at int64) float64 { return milli(min(max(at, d.from), d.to) - d.Begin) }

// when is a time on the axis, for a sentence.
func (d *drawing) when(at int64) i18n.Text { return length(at - d.Begin) }

// milli converts nanoseconds to milliseconds, rounded to the microsecond.
func milli(ns int64) float64 { return math.Round(float64(ns)/1e3) / 1e3 }

// length is a duration for a sentence.
func length(ns int64) i18n.Text {
	switch ms := float64(ns) / 1e6; {
	case ms < 0.05:
		return i18n.F("%d ms", 0)
	case ms < 10:
		return i18n.F("%.1f ms", ms)
	default:
		return i18n.F("%.0f ms", ms)
	}
}

// span is a span that is clipped to the period.
func (d *drawing) span(kind finding.SpanKind, from, to int64) finding.Span {
	return finding.Span{Kind: kind, From: d.ms(from), To: d.ms(to), Open: to > d.to}
}

func (d *drawing) inside(at int64) bool { return at >= d.from && at <= d.to }

// witness finishes the drawing.
func (d *drawing) witness(summary i18n.Text) finding.Witness {
	w := finding.Witness{Kind: d.kind, Summary: i18n.Sentence(summary), Key: d.key}
	for _, p := range d.participants {
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
