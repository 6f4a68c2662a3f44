package judge

import (
	"fmt"
	"slices"

	"seckill/internal/lab/finding"
	"seckill/internal/trace"
)

// Focus says what [Picture] is to be about. What is left empty is not asked for.
type Focus struct {
	Key  string
	Who  string // one of the actors, as [trace.Event.Who] has it
	From int64  // nothing before
	To   int64  // nothing after
	// Summary is what one sees, where the scene knows better; empty: it is said from
	// the evidence.
	Summary string
}

// Picture shows how an anomaly was prevented, in an experiment that holds: a late
// write that was refused, a holder that was told, a late release that left the next
// one's lock alone, a dead holder's lock that went to the next one, or, where nothing
// of that happened, one who waits for another. It reports false where there is nothing
// to show.
func Picture(ev Evidence, focus Focus) (finding.Witness, bool) {
	h := newHistory(ev)
	for _, show := range []func(Focus) (*drawing, string){
		h.refusedWrite, h.toldHolder, h.lateRelease, h.inherited, h.handover, h.turnedAway, h.alone,
	} {
		d, summary := show(focus)
		if d == nil {
			continue
		}
		if focus.Summary != "" {
			summary = focus.Summary
		}
		return d.witness(summary), true
	}
	return finding.Witness{}, false
}

// on says whether a hold is within the focus.
func (f Focus) on(h *hold) bool {
	return (f.Key == "" || f.Key == h.key) && f.within(h.by, h.at)
}

// within says whether an actor and a time are.
func (f Focus) within(a actor, at int64) bool {
	return (f.Who == "" || f.Who == a.who) && at >= f.From && (f.To == 0 || at <= f.To)
}

// next is who was granted the key first after a hold was.
func (h *history) next(one *hold) *hold {
	all := h.of[one.key]
	for i := after(all, one.at); i < len(all); i++ {
		if all[i].conflicts(one) {
			return all[i]
		}
	}
	return nil
}

// refusedWrite shows a write that came after the lock had gone to the next holder,
// and was not accepted.
func (h *history) refusedWrite(f Focus) (*drawing, string) {
	type late struct {
		sale *sale
		next *hold
	}
	var found []late
	for _, s := range h.sales {
		if s.under == nil || s.write == nil || s.ended == nil || s.committed() != nil || !f.on(s.under) {
			continue
		}
		if next := h.next(s.under); next != nil && next.at < s.ended.At && (s.under.how != gaveBack || next.at < s.under.end) {
			found = append(found, late{s, next})
		}
	}
	l, ok := best(found, func(l late) int64 { return l.sale.ended.At - l.next.at })
	if !ok {
		return nil, ""
	}
	mine := l.sale.under
	d := h.draw("", mine.key, mine.at, l.sale.ended.At, involved{holds: []*hold{mine, l.next}, sales: []*sale{l.sale}})
	return d, fmt.Sprintf("%s; at %s %s %s; the late write of %s is refused at %s.",
		d.tellHold(mine, l.next.at), d.when(l.next.at), d.who(l.next.by), l.next.granted(), d.who(mine.by), d.when(l.sale.ended.At))
}

// toldHolder shows a holder that is told that it is none any more.
func (h *history) toldHolder(f Focus) (*drawing, string) {
	var found []*hold
	for _, one := range h.holds {
		if one.how == wasTold && f.on(one) {
			found = append(found, one)
		}
	}
	one, ok := best(found, func(one *hold) int64 {
		if h.next(one) != nil {
			return 1
		}
		return 0
	})
	if !ok {
		return nil, ""
	}
	in, done := involved{holds: []*hold{one}}, one.lost.At
	next := h.next(one)
	if next != nil {
		in.holds, done = append(in.holds, next), max(done, next.at)
	}
	d := h.draw("", one.key, one.at, done, in)
	summary := fmt.Sprintf("%s; at %s it is told that it holds it no longer", d.tellHold(one, one.lost.At), d.when(one.lost.At))
	if next != nil {
		summary += fmt.Sprintf("; %s is granted it at %s", d.who(next.by), d.when(next.at))
	}
	return d, summary + "."
}

// lateRelease shows a holder whose release comes when another has the lock, finds that
// out, and leaves it.
func (h *history) lateRelease(f Focus) (*drawing, string) {
	type late struct{ holder, next *hold }
	var found []late
	for _, one := range h.holds {
		if one.how != gaveBack || one.released == nil || one.released.Error == "" || !f.on(one) {
			continue
		}
		next := h.next(one)
		if next == nil || next.at > one.releasing.At || next.end <= one.released.At {
			continue
		}
		if !slices.ContainsFunc(h.wrongs, func(w wrongRelease) bool { return w.victim == next }) {
			found = append(found, late{one, next})
		}
	}
	l, ok := best(found, func(l late) int64 { return min(l.next.end, h.End) - l.holder.released.At })
	if !ok {
		return nil, ""
	}
	done := min(l.next.end, h.End)
	d := h.draw("", l.holder.key, l.holder.at, done, involved{holds: []*hold{l.holder, l.next}})
	return d, fmt.Sprintf("%s; at %s %s is granted it; at %s %s releases, finds that the lock is not its own, and leaves it; %s has it until %s.",
		d.tellHold(l.holder, l.next.at), d.when(l.next.at), d.who(l.next.by), d.when(l.holder.end), d.who(l.holder.by),
		d.who(l.next.by), d.when(done))
}

// inherited shows a dead holder's lock going to the next one.
func (h *history) inherited(f Focus) (*drawing, string) {
	for _, one := range h.holds {
		if one.how != died && one.how != walkedOff || !f.on(one) {
			continue
		}
		next := h.next(one)
		if next == nil || next.at < one.end {
			continue
		}
		d := h.draw("", one.key, one.at, next.at, involved{holds: []*hold{one, next}})
		how := "is gone without a release"
		if one.how == died {
			how = "is killed"
		}
		return d, fmt.Sprintf("%s and %s at %s; %s later, at %s, %s is granted it.", d.tellHold(one, one.end), how,
			d.when(one.end), length(next.at-one.end), d.when(next.at), d.who(next.by))
	}
	return nil, ""
}

// handover shows the one that waited the longest for a holder to give the key back.
func (h *history) handover(f Focus) (*drawing, string) {
	type wait struct{ holder, waiter *hold }
	var found []wait
	for _, one := range h.holds {
		if one.how != gaveBack || !f.on(one) {
			continue
		}
		if next := h.next(one); next != nil && next.asked < one.end && one.end <= next.at {
			found = append(found, wait{one, next})
		}
	}
	// Long, but not so long that others had it meanwhile.
	w, ok := best(found, func(w wait) int64 { return w.holder.end - max(w.holder.at, w.waiter.asked) })
	if !ok {
		return nil, ""
	}
	begun, done := w.holder.at, min(w.waiter.end, h.End)
	d := h.draw("", w.holder.key, begun, done, involved{holds: []*hold{w.holder, w.waiter}})
	return d, fmt.Sprintf("%s; %s asks for it and waits; %s gives it back at %s, and %s is granted it at %s.",
		d.tellHold(w.holder, w.holder.end), d.who(w.waiter.by), d.who(w.holder.by), d.when(w.holder.end), d.who(w.waiter.by), d.when(w.waiter.at))
}

// turnedAway shows one who is refused while another holds the key.
func (h *history) turnedAway(f Focus) (*drawing, string) {
	for _, e := range h.fails {
		if f.Key != "" && f.Key != e.Key || !f.within(by(e), e.At) {
			continue
		}
		all := h.of[e.Key]
		if i := after(all, e.At) - 1; i >= 0 && all[i].end >= e.At {
			d := h.draw("", e.Key, all[i].at, min(all[i].end, h.End), involved{holds: []*hold{all[i]}, fails: []*trace.Event{e}})
			return d, fmt.Sprintf("%s; while it holds it, %s %s, at %s.", d.tellHold(all[i], e.At), d.who(by(e)), refusal(e), d.when(e.At))
		}
	}
	return nil, ""
}

// alone shows two transactions that were under way together, or one hold.
func (h *history) alone(f Focus) (*drawing, string) {
	type pair struct{ one, other *sale }
	var found []pair
	var before *sale
	for _, s := range h.sales {
		if s.write == nil || s.ended == nil || !f.within(s.by, s.ended.At) {
			continue
		}
		if before != nil {
			found = append(found, pair{before, s})
		}
		before = s
	}
	if p, ok := best(found, func(p pair) int64 { return p.one.ended.At - p.other.began }); ok {
		key := f.Key
		if p.one.under != nil && key == "" {
			key = p.one.under.key
		}
		d := h.draw("", key, min(p.one.began, p.other.began), p.other.ended.At, involved{sales: []*sale{p.one, p.other}})
		return d, fmt.Sprintf("%s %s at %s, %s %s at %s.", d.who(p.one.by), p.one.outcome(), d.when(p.one.ended.At),
			d.who(p.other.by), p.other.outcome(), d.when(p.other.ended.At))
	}
	for _, one := range h.holds {
		if f.on(one) {
			d := h.draw("", one.key, one.at, min(one.end, h.End), involved{holds: []*hold{one}})
			has := "has it"
			if one.open {
				has = "is inside"
			}
			return d, fmt.Sprintf("%s and %s until %s.", d.tellHold(one, one.end), has, d.when(min(one.end, h.End)))
		}
	}
	return nil, ""
}

func (s *sale) outcome() string {
	if s.committed() == nil {
		return "is refused"
	}
	return "commits"
}
