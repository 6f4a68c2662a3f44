package judge

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/trace"
)

// actorLane is what an actor believed and did.
func (d *drawing) actorLane(p *part) finding.Lane {
	lane := finding.Lane{Name: p.name, Role: finding.Actor}
	span := func(kind finding.SpanKind, from, to int64, wrong bool) {
		s := d.span(kind, from, to)
		s.Who, s.Wrong = p.name, wrong
		lane.Spans = append(lane.Spans, s)
	}
	mark := func(kind finding.MarkKind, at int64, label string, wrong bool) {
		if d.inside(at) {
			lane.Marks = append(lane.Marks, finding.Mark{Kind: kind, At: d.ms(at), Label: label, Who: p.name, Wrong: wrong})
		}
	}
	for _, one := range p.holds {
		if one.asked < one.at && one.at > d.from && !one.open {
			span(finding.Waits, one.asked, one.at, false)
		}
		kind := finding.Believes
		if one.shared && !one.open {
			kind = finding.Reads
		}
		span(kind, one.at, min(one.end, max(d.End, d.to+1)), d.wrong[one])
		if one.open {
			lane.Spans[len(lane.Spans)-1].Label = "is inside"
		}
		if one.how == wasTold {
			mark(finding.Told, one.lost.At, "told", false)
		}
		if one.how == died {
			mark(finding.Killed, one.end, "killed", false)
		}
		if one.how == walkedOff {
			mark(finding.Killed, one.end, "gone", false)
		}
		switch {
		case one.releasing == nil:
		case one.open:
			mark(finding.Notes, one.releasing.At, "leaves", false)
		default:
			mark(finding.Releases, one.releasing.At, "releases", d.wrong[one.releasing])
		}
	}
	for _, e := range p.fails {
		span(finding.Waits, cmp.Or(e.Asked, e.At), e.At, false)
		mark(finding.Refuses, e.At, strings.TrimPrefix(refusal(e), "is "), d.wrong[e])
	}
	for _, e := range p.asks {
		span(finding.Waits, e.At, max(d.End, d.to+1), false)
	}
	for _, u := range p.unheard {
		span(finding.Waits, u.asked.At, u.died, false)
		mark(finding.Killed, u.died, "killed", false)
	}
	for _, s := range p.sales {
		d.saleMarks(s, mark)
	}
	for _, stop := range d.Pauses {
		if to := cmp.Or(stop.To, never); stop.Process == p.by.process && stop.From < d.to && to > d.from {
			span(finding.Paused, stop.From, to, false)
			mark(finding.Wakes, to, "wakes", false)
		}
	}
	return lane
}

// saleMarks are what an actor did in a transaction.
func (d *drawing) saleMarks(s *sale, mark func(finding.MarkKind, int64, string, bool)) {
	if e := s.checked; e != nil && d.sold {
		label := "finds no order"
		if e.Found {
			label = "finds an order"
		}
		mark(finding.Notes, e.At, label, false)
	}
	if e := s.read; e != nil {
		mark(finding.ReadsStock, e.At, fmt.Sprintf("reads %d", e.Stock), false)
	}
	if e := s.write; e != nil {
		mark(finding.WritesStock, e.At, writing(s), d.wrong[s])
	}
	if e := s.insert; e != nil && d.sold {
		mark(finding.Notes, e.At, "orders", d.wrong[s])
	}
}

// writing says what a transaction does to the stock.
func writing(s *sale) string {
	switch e := s.write; e.Mode {
	case trace.ModeUnguarded:
		return fmt.Sprintf("writes %d", e.Stock)
	case trace.ModeVersion:
		return fmt.Sprintf("takes 1 of version %d", e.Version)
	case trace.ModeFenced:
		return fmt.Sprintf("takes 1, token %d", e.Token)
	}
	return "takes 1"
}

// databaseLane is what became of the transactions.
func (d *drawing) databaseLane() finding.Lane {
	lane := finding.Lane{Name: d.Database, Role: finding.Database}
	for _, p := range d.parts {
		for _, s := range p.sales {
			if s.ended == nil || !d.inside(s.ended.At) || s.write == nil && s.insert == nil {
				continue
			}
			m := finding.Mark{Kind: finding.WritesStock, At: d.ms(s.ended.At), Who: p.name, Wrong: d.wrong[s]}
			switch {
			case s.committed() == nil:
				m.Kind, m.Label, m.Wrong = finding.Refuses, "refused", false
			case s.write == nil:
				m.Kind, m.Label = finding.Notes, "order"
			case s.unguarded() && s.read != nil:
				m.Label = fmt.Sprintf("stock %d→%d", s.read.Stock, s.write.Stock)
			case s.unguarded():
				m.Label = fmt.Sprintf("stock %d", s.write.Stock)
			default:
				m.Label = "stock −1"
			}
			lane.Marks = append(lane.Marks, m)
		}
	}
	return lane
}

// storeLanes are what the lock's store held, as far as it was observed, and what
// single servers did.
func (d *drawing) storeLanes() []finding.Lane {
	lanes := []finding.Lane{d.storeLane(d.LockStore, d.store[d.key])}
	for _, s := range d.servers {
		lanes = append(lanes, d.storeLane(s.name, s.kept[d.key]))
	}
	return lanes
}

func (d *drawing) storeLane(name string, sh *shelf) finding.Lane {
	lane := finding.Lane{Name: name, Role: finding.LockStore}
	if sh == nil {
		return lane
	}
	for i := max(0, sh.from(d.from)-1); i < len(sh.kept); i++ {
		k := &sh.kept[i]
		if k.from > d.to {
			break
		}
		if k.blind {
			lane.Marks = append(lane.Marks, finding.Mark{Kind: finding.Notes, At: d.ms(k.from), Label: "no answer"})
			continue
		}
		if k.value == "" {
			continue
		}
		to := k.to
		if k.last {
			to = never
		}
		s := d.span(finding.Stored, k.from, to)
		s.Label, s.Wrong = brief(k.value), d.wrong[k]
		if k.by != nil {
			s.Who = d.lane(k.by.by)
			if k.certain || describes(k.value) {
				s.Label = d.who(k.by.by)
			}
		} else if u, known := d.taker(d.key, k.value); known {
			s.Who, s.Label = d.lane(by(u.asked)), d.who(by(u.asked))
		} else if refused, known := d.giver(k.value); known {
			s.Who, s.Label = d.lane(refused), d.who(refused)
		}
		lane.Spans = append(lane.Spans, s)
		if i+1 < len(sh.kept) && !sh.kept[i+1].blind && d.inside(k.to) {
			lane.Marks = append(lane.Marks, d.went(k, name != d.LockStore))
		}
	}
	return lane
}

// went says how a value went from the store: by its time to live, by a release that was
// under way when the observer last saw it, or otherwise. A release may take longer than
// the lease has left, so that the time to live is asked first. A single server deletes
// what it has also where the release fails, because others had it no more.
func (d *drawing) went(k *kept, single bool) finding.Mark {
	m := finding.Mark{Kind: finding.Notes, At: d.ms(k.to), Label: "gone"}
	if k.ttl != never && k.to >= k.ttl-2*ttlSlack {
		m.Kind, m.Label = finding.Expires, "expired"
		return m
	}
	if k.by != nil && k.by.releasesAround(k.to) && (single || mayHaveDeleted(k.by)) {
		m.Kind, m.Label, m.Who = finding.Deletes, "deleted", d.lane(k.by.by)
		return m
	}
	for _, w := range d.wrongs {
		if w.victim == k.by && w.culprit.releasesAround(k.to) && mayHaveDeleted(w.culprit) {
			m.Kind, m.Label, m.Who = finding.Deletes, "deleted by "+d.who(w.culprit.by), d.lane(w.culprit.by)
			m.Wrong = d.wrong[w.culprit.releasing]
			return m
		}
	}
	return m
}

// releasesAround says whether a release was under way when the observer saw a change,
// or just before.
func (h *hold) releasesAround(seen int64) bool {
	from, to, ok := h.releaseSpan()
	return ok && from <= seen && to >= seen-seenLate
}

// describes says whether a value is a description, such as "connection 12": whose it is
// says more. A single word is told as it is: that two holders have the same number is
// what some stories are about.
func describes(value string) bool { return strings.Contains(value, " ") }

// brief is the beginning of a value that names nobody.
func brief(value string) string {
	const most = 12
	if runes := []rune(value); len(runes) > most {
		return strings.TrimSpace(string(runes[:most-1])) + "…"
	}
	return value
}

// faultLane is what was done to the processes of the picture, and to servers.
func (d *drawing) faultLane() finding.Lane {
	lane := finding.Lane{Name: "faults", Role: finding.Fault}
	in := map[string]bool{}
	for _, p := range d.parts {
		in[p.by.process] = true
	}
	add := func(kind finding.SpanKind, from, to int64, label string) {
		if from < d.to && to > d.from {
			s := d.span(kind, from, to)
			s.Label = label
			lane.Spans = append(lane.Spans, s)
		}
	}
	for _, stop := range d.Pauses {
		if in[stop.Process] {
			add(finding.Paused, stop.From, cmp.Or(stop.To, never), stop.Process+" stands still")
		}
	}
	for _, death := range d.Deaths {
		if !in[death.Process] {
			continue
		}
		add(finding.Down, death.At, never, death.Process+" is dead")
		if d.inside(death.At) {
			lane.Marks = append(lane.Marks, finding.Mark{Kind: finding.Killed, At: d.ms(death.At), Label: death.Process + " killed"})
		}
	}
	for _, f := range d.Faults {
		const moment = int64(time.Millisecond)
		if to := cmp.Or(f.To, never); to-f.From > moment {
			add(finding.Down, f.From, to, f.What)
		} else if d.inside(f.From) {
			lane.Marks = append(lane.Marks, finding.Mark{Kind: finding.Notes, At: d.ms(f.From), Label: f.What})
		}
	}
	return lane
}
