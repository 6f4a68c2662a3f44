package judge

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"seckill/internal/lab/finding"
	"seckill/internal/lock"
	"seckill/internal/trace"
)

// idle is how many times as long as what it is about the time before may be in a
// picture, for one to see how it came about.
const idle = 12

// best is the candidate that shows the most, the first of equals.
func best[T any](candidates []T, shows func(T) int64) (T, bool) {
	var none T
	if len(candidates) == 0 {
		return none, false
	}
	return slices.MaxFunc(candidates, func(a, b T) int { return cmp.Compare(shows(a), shows(b)) }), true
}

func (h *history) showOverlap(found []overlap) (finding.Witness, bool) {
	o, ok := best(found, func(o overlap) int64 { return o.lasted(h.End) })
	if !ok {
		return finding.Witness{}, false
	}
	d := h.drawOverlap(finding.Overlaps, o)
	return d.witness(d.tellOverlap(o)), true
}

func (h *history) drawOverlap(kind finding.Kind, o overlap) *drawing {
	lasted := o.lasted(h.End)
	begun := max(o.earlier.at, o.later.at-idle*max(lasted, 1e6))
	d := h.draw(kind, o.later.key, begun, o.later.at+lasted, involved{holds: []*hold{o.earlier, o.later}})
	d.wrong[o.later] = true
	return d
}

func (d *drawing) tellOverlap(o overlap) string {
	both := "both believe to hold it"
	if o.earlier.open && o.later.open {
		both = "both are inside"
	}
	until := both + " to the end"
	if o.earlier.end < d.End || o.later.end < d.End {
		until = fmt.Sprintf("for %s %s", length(o.lasted(d.End)), both)
	}
	return fmt.Sprintf("%s; at %s %s %s, too: %s.",
		d.tellHold(o.earlier, o.later.at), d.when(o.later.at), d.who(o.later.by), o.later.granted(), until)
}

// tellHold says of a holder since when it is one, and what was done to it before at.
func (d *drawing) tellHold(one *hold, at int64) string {
	var b strings.Builder
	b.WriteString(d.who(one.by))
	switch before := d.from - one.at; {
	case one.open && before > 0:
		fmt.Fprintf(&b, " has come in %s earlier", length(before))
	case one.open:
		fmt.Fprintf(&b, " comes in at %s", d.when(one.at))
	case before > 0:
		fmt.Fprintf(&b, " has got the lock %s earlier", length(before))
	default:
		fmt.Fprintf(&b, " gets the lock at %s", d.when(one.at))
	}
	if left, known := one.leaseLeft(); known {
		fmt.Fprintf(&b, " with %s of its lease left", length(left))
	}
	for _, stop := range d.Pauses {
		to := cmp.Or(stop.To, d.End)
		if stop.Process == one.by.process && stop.From < at && to > one.at {
			fmt.Fprintf(&b, ", and its process stands still for %s", length(to-stop.From))
			break
		}
	}
	return b.String()
}

// granted says of a holder that it becomes one.
func (h *hold) granted() string {
	if h.open {
		return "comes in"
	}
	return "is granted it"
}

// leaseLeft is what is left of a lease that has an end when it is granted, as far as it
// is known. The way there and back has taken its part of what was asked for.
func (h *hold) leaseLeft() (int64, bool) {
	if h.left != nil {
		return nanos(*h.left), true
	}
	end, known := h.lease()
	return end - h.at, known && end != never && end > h.at
}

func (h *history) showStale(found []stale) (finding.Witness, bool) {
	s, ok := best(found, func(s stale) int64 {
		certain, _ := s.late.commitSpan()
		return certain - s.next.at
	})
	if !ok {
		return finding.Witness{}, false
	}
	mine, end := s.late.under, s.late.ended.At
	d := h.draw(finding.StaleWrites, mine.key, mine.at, end, involved{holds: []*hold{mine, s.next}, sales: []*sale{s.late}})
	d.wrong[s.late] = true
	what := "commits its write"
	if s.late.unguarded() {
		what = fmt.Sprintf("commits a stock of %d", s.late.write.Stock)
	}
	if before := h.lastSold(s.late); before != nil && before.unguarded() && before.under != mine {
		what += fmt.Sprintf(" over %d", before.write.Stock)
	}
	return d.witness(fmt.Sprintf("%s; at %s %s %s; at %s %s %s all the same.",
		d.tellHold(mine, s.next.at), d.when(s.next.at), d.who(s.next.by), s.next.granted(), d.when(end), d.who(mine.by), what)), true
}

// lastSold is the transaction that changed the stock before one did.
func (h *history) lastSold(late *sale) (before *sale) {
	for _, s := range h.sales {
		if s == late {
			break
		}
		if s.sold() && s.voucher == late.voucher {
			before = s
		}
	}
	return before
}

func (h *history) showWrongRelease() (finding.Witness, bool) {
	victims := map[*hold]wrongRelease{}
	for _, w := range h.wrongs {
		victims[w.victim] = w
	}
	// The story begins with a release that is late, and not with one that has been
	// robbed itself; and it is better with somebody who profits.
	w, ok := best(h.wrongs, func(w wrongRelease) int64 {
		score := min(w.victim.end, h.End) - w.gone
		if _, also := victims[w.culprit]; !also {
			score += int64(1e12)
		}
		if h.nextIn(w) != nil {
			score += int64(2e12)
		}
		return score
	})
	if !ok {
		return finding.Witness{}, false
	}
	in := involved{holds: []*hold{w.culprit, w.victim}}
	chain := []wrongRelease{w}
	for next := h.nextIn(w); next != nil; next = h.nextIn(chain[len(chain)-1]) {
		in.holds = append(in.holds, next)
		follow, also := victims[next]
		if !also || follow.culprit != chain[len(chain)-1].victim || len(in.holds) == 4 {
			break
		}
		chain = append(chain, follow)
	}
	done := min(w.victim.end, h.End)
	if last := in.holds[len(in.holds)-1]; last != w.victim {
		done = max(done, last.at)
	}
	d := h.draw(finding.WrongReleases, w.victim.key, max(w.culprit.at, w.culprit.releasing.At-idle*(done-w.victim.at)), done, in)
	for _, link := range chain {
		d.wrong[link.culprit.releasing] = true
	}
	return d.witness(d.tellWrongReleases(chain, in.holds)), true
}

// nextIn is who came in because of a wrong release, while the victim believed to
// hold.
func (h *history) nextIn(w wrongRelease) *hold {
	all := h.of[w.victim.key]
	for i := after(all, max(w.victim.at, w.culprit.releasing.At)); i < len(all) && all[i].at < w.victim.end; i++ {
		if all[i].conflicts(w.victim) {
			return all[i]
		}
	}
	return nil
}

func (d *drawing) tellWrongReleases(chain []wrongRelease, holds []*hold) string {
	first := chain[0]
	var b strings.Builder
	fmt.Fprintf(&b, "%s; at %s %s is granted it", d.tellHold(first.culprit, first.victim.at),
		d.when(first.victim.at), d.who(first.victim.by))
	for i, link := range chain {
		release := link.culprit.releasing.At
		if release < link.victim.at {
			fmt.Fprintf(&b, "; the release that %s began at %s deletes the lock of %s",
				d.who(link.culprit.by), d.when(release), d.who(link.victim.by))
		} else {
			fmt.Fprintf(&b, "; at %s %s releases, which deletes the lock of %s",
				d.when(release), d.who(link.culprit.by), d.who(link.victim.by))
		}
		if next := i + 2; next < len(holds) {
			fmt.Fprintf(&b, " and lets %s in at %s", d.who(holds[next].by), d.when(holds[next].at))
		}
	}
	return b.String() + "."
}

func (h *history) showStuck(found []stuck) (finding.Witness, bool) {
	s, ok := best(found, func(s stuck) int64 {
		if s.holder == nil {
			return 0
		}
		return 1
	})
	if !ok {
		return finding.Witness{}, false
	}
	in := involved{}
	begun := s.kept.from
	if s.holder != nil {
		in.holds, begun = []*hold{s.holder}, s.holder.at
	}
	taker, taken := h.taker(s.key, s.kept.value)
	if s.holder == nil && taken {
		in.unheard, begun = []unheard{taker}, taker.asked.At
	}
	var turned *trace.Event // whoever is refused because of it
	for _, e := range h.fails {
		if e.Key == s.key && e.At > s.kept.from && (s.holder == nil || e.At > s.holder.end) {
			turned = e
			in.fails = []*trace.Event{e}
			break
		}
	}
	done := h.End
	if turned != nil {
		done = turned.At
	}
	d := h.draw(finding.StuckKeys, s.key, begun, done, in)
	d.wrong[s.kept] = true
	var b strings.Builder
	b.WriteString("Nobody was ever told that the lock is theirs")
	switch {
	case s.holder == nil && taken:
		b.Reset()
		fmt.Fprintf(&b, "%s asks for the lock at %s; at %s %s is killed, before it was told that the lock is its own",
			d.who(by(taker.asked)), d.when(taker.asked.At), d.when(taker.died), taker.asked.Process)
	case s.holder != nil:
		b.Reset()
		b.WriteString(d.tellHold(s.holder, s.holder.end))
		switch s.holder.how {
		case died:
			fmt.Fprintf(&b, "; at %s %s is killed", d.when(s.holder.end), s.holder.by.process)
		case walkedOff:
			fmt.Fprintf(&b, "; at %s it is gone without a release", d.when(s.holder.end))
		case gaveBack:
			fmt.Fprintf(&b, "; at %s it gives it back", d.when(s.holder.end))
		}
	}
	fmt.Fprintf(&b, "; %s later the store still has the key", length(h.End-max(s.kept.from, s.since())))
	if s.kept.ttl == never {
		b.WriteString(", without an end")
	}
	if turned != nil {
		fmt.Fprintf(&b, "; %s %s", d.who(by(turned)), refusal(turned))
	}
	return d.witness(b.String() + "."), true
}

// since is when the holder was gone.
func (s stuck) since() int64 {
	if s.holder == nil {
		return s.kept.from
	}
	return s.holder.end
}

func (h *history) showLockedOut(found []lockedOut) (finding.Witness, bool) {
	l, ok := best(found, func(l lockedOut) int64 { return l.refused.At - l.holder.released.At }) // the longest
	if !ok {
		return finding.Witness{}, false
	}
	d := h.draw(finding.LockedOut, l.holder.key, l.holder.at, l.refused.At,
		involved{holds: []*hold{l.holder}, fails: []*trace.Event{l.refused}})
	d.wrong[l.refused] = true
	if sh := h.store[l.holder.key]; sh != nil {
		if k := sh.at(l.refused.At); k != nil && k.by == l.holder {
			d.wrong[k] = true
		}
	}
	return d.witness(fmt.Sprintf("%s and gives it back at %s; the store keeps it, and %s after the release %s %s because of it.",
		d.tellHold(l.holder, l.holder.end), d.when(l.holder.end), length(l.refused.At-l.holder.released.At),
		d.who(by(l.refused)), refusal(l.refused))), true
}

// refusal says how an acquisition ended without the lock. Who had no answer was not
// refused: it gave up. The text of the error is all that an event keeps of it.
func refusal(e *trace.Event) string {
	for _, unanswered := range []error{context.DeadlineExceeded, context.Canceled, lock.ErrUnavailable} {
		if strings.Contains(e.Error, unanswered.Error()) && !strings.Contains(e.Error, lock.ErrNotAcquired.Error()) {
			return "gives up"
		}
	}
	return "is refused"
}
