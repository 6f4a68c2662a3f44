package witness

import (
	"slices"
	"strings"

	"seckill/internal/eventlog"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// Picture shows how an anomaly was prevented, in an experiment that holds: a late write that
// was refused, a holder that was told of its loss, a late release that left the next lock
// alone, a dead holder's lock that was taken over, or, if nothing of that happened, a waiter
// and its predecessor. who is one of the actors, as [eventlog.Event.Who] has it; "": any. It
// reports false if there is nothing to show.
func Picture(ev judge.Evidence, who string) (finding.Witness, bool) {
	h := &history{History: judge.NewHistory(ev)}
	for _, show := range []func(focus) (*drawing, i18n.Text){
		h.overtaken, h.refusedWrite, h.toldHolder, h.lateRelease, h.takenOver, h.unheardRelease, h.handover, h.turnedAway, h.alone,
	} {
		if d, summary := show(focus(who)); d != nil {
			return d.witness(summary), true
		}
	}
	return finding.Witness{}, false
}

// focus is the actor that a picture has to show; "": any.
type focus string

func (f focus) on(a judge.Actor) bool { return f == "" || string(f) == a.Who }

// next is the first conflicting hold that was granted later.
func (h *history) next(one *judge.Hold) *judge.Hold {
	all := h.HoldsOf[one.Key]
	for i := judge.GrantedAfter(all, one.At); i < len(all); i++ {
		if all[i].Conflicts(one) {
			return all[i]
		}
	}
	return nil
}

// refused reports whether the database refused a transaction's write.
func refused(s *judge.Transaction) bool {
	return s.Write != nil && s.Ended != nil && s.Committed() == nil
}

// overtaken shows, without a lock, a write that the database refused, beside the one that came before it: the first one
// after the refused one had read, or the last one of all before it.
func (h *history) overtaken(f focus) (*drawing, i18n.Text) {
	type pair struct{ winner, loser *judge.Transaction }
	var found []pair
	for _, s := range h.Transactions {
		if s.Under == nil || !s.Under.Unlocked || !refused(s) || !f.on(s.Under.By) {
			continue
		}
		if winner := h.winner(s); winner != nil {
			found = append(found, pair{winner, s})
		}
	}
	p, ok := best(found, func(p pair) int64 { return p.loser.Ended.At - p.winner.Ended.At })
	if !ok {
		return nil, i18n.Text{}
	}
	in := subjects{holds: []*judge.Hold{p.winner.Under, p.loser.Under}, transactions: []*judge.Transaction{p.winner, p.loser}}
	d := h.draw("", p.loser.Under.Key, min(p.winner.Under.At, p.loser.Under.At), p.loser.Ended.At, in)
	first, last, at, end := d.nameOf(p.winner.By), d.nameOf(p.loser.By), d.when(p.winner.Ended.At), d.when(p.loser.Ended.At)
	if p.loser.Write.Mode == eventlog.ModeVersion {
		v := p.loser.Write.Version
		return d, i18n.F("%s and %s both read version %d. The write of %s makes it version %d at %s; that of %s, WHERE version = %d, finds no row and is refused at %s.",
			first, last, v, first, v+1, at, last, v, end)
	}
	return d, i18n.F("%s takes the last unit at %s; the write of %s, WHERE stock > 0, finds no row and is refused at %s.", first, at, last, end)
}

// winner is the transaction because of which a write by a condition was refused: it changed the version that both had
// read, or took the last unit. nil if the write had another condition, or another reason.
func (h *history) winner(loser *judge.Transaction) (winner *judge.Transaction) {
	for _, w := range h.Transactions {
		if w.Voucher != loser.Voucher || !w.TookStock() || w.Under == nil || w.Ended.At > loser.Ended.At {
			continue
		}
		switch loser.Write.Mode {
		case eventlog.ModeVersion:
			if w.Write.Version == loser.Write.Version {
				winner = w
			}
		case eventlog.ModeConditional:
			// Not the index of the orders refused it. The event keeps only the text of the error.
			if strings.Contains(loser.Ended.Error, voucher.ErrSoldOut.Error()) {
				winner = w
			}
		}
	}
	return winner
}

// refusedWrite shows a write that came after the lock had been granted to the next holder, and
// was refused.
func (h *history) refusedWrite(f focus) (*drawing, i18n.Text) {
	type late struct {
		sale *judge.Transaction
		next *judge.Hold
	}
	var found []late
	for _, s := range h.Transactions {
		if s.Under == nil || !refused(s) || !f.on(s.Under.By) {
			continue
		}
		if next := h.next(s.Under); next != nil && next.At < s.Ended.At && (s.Under.How != judge.EndReleased || next.At < s.Under.End) {
			found = append(found, late{s, next})
		}
	}
	l, ok := best(found, func(l late) int64 { return l.sale.Ended.At - l.next.At })
	if !ok {
		return nil, i18n.Text{}
	}
	mine := l.sale.Under
	d := h.draw("", mine.Key, mine.At, l.sale.Ended.At, subjects{holds: []*judge.Hold{mine, l.next}, transactions: []*judge.Transaction{l.sale}})
	if mine.Unlocked { // without a lock there is none to lose, so the write is not late
		return d, i18n.F("%s; at %s %s %s; the write of %s is refused at %s.",
			d.tellHold(mine, l.next.At), d.when(l.next.At), d.nameOf(l.next.By), granted(l.next), d.nameOf(mine.By), d.when(l.sale.Ended.At))
	}
	return d, i18n.F("%s; at %s %s %s; the late write of %s is refused at %s.",
		d.tellHold(mine, l.next.At), d.when(l.next.At), d.nameOf(l.next.By), granted(l.next), d.nameOf(mine.By), d.when(l.sale.Ended.At))
}

// toldHolder shows a holder that is told that it has lost the lock.
func (h *history) toldHolder(f focus) (*drawing, i18n.Text) {
	var found []*judge.Hold
	for _, one := range h.Holds {
		if one.How == judge.EndNotified && f.on(one.By) {
			found = append(found, one)
		}
	}
	one, ok := best(found, func(one *judge.Hold) int64 {
		if h.next(one) != nil {
			return 1
		}
		return 0
	})
	if !ok {
		return nil, i18n.Text{}
	}
	in, done := subjects{holds: []*judge.Hold{one}}, one.Lost.At
	next := h.next(one)
	if next != nil {
		in.holds, done = append(in.holds, next), max(done, next.At)
	}
	d := h.draw("", one.Key, one.At, done, in)
	summary := i18n.F("%s; at %s it is told that it holds it no longer", d.tellHold(one, one.Lost.At), d.when(one.Lost.At))
	if next != nil {
		summary = i18n.F("%s; %s is granted it at %s", summary, d.nameOf(next.By), d.when(next.At))
	}
	return d, i18n.F("%s.", summary)
}

// lateRelease shows a holder that releases when another one has the lock, finds that out, and
// leaves it.
func (h *history) lateRelease(f focus) (*drawing, i18n.Text) {
	type late struct{ holder, next *judge.Hold }
	var found []late
	for _, one := range h.Holds {
		if one.How != judge.EndReleased || one.Released == nil || one.Released.Error == "" || !f.on(one.By) {
			continue
		}
		next := h.next(one)
		if next == nil || next.At > one.Releasing.At || next.End <= one.Released.At {
			continue
		}
		if !slices.ContainsFunc(h.WrongReleases, func(w judge.WrongRelease) bool { return w.Holder == next }) {
			found = append(found, late{one, next})
		}
	}
	l, ok := best(found, func(l late) int64 { return min(l.next.End, h.End) - l.holder.Released.At })
	if !ok {
		return nil, i18n.Text{}
	}
	done := min(l.next.End, h.End)
	d := h.draw("", l.holder.Key, l.holder.At, done, subjects{holds: []*judge.Hold{l.holder, l.next}})
	return d, i18n.F("%s; at %s %s is granted it; at %s %s releases, finds that the lock is not its own, and leaves it; %s has it until %s.",
		d.tellHold(l.holder, l.next.At), d.when(l.next.At), d.nameOf(l.next.By), d.when(l.holder.End), d.nameOf(l.holder.By),
		d.nameOf(l.next.By), d.when(done))
}

// takenOver shows a dead holder's lock going to the next one.
func (h *history) takenOver(f focus) (*drawing, i18n.Text) {
	for _, one := range h.Holds {
		if one.How != judge.EndDied && one.How != judge.EndAbandoned || !f.on(one.By) {
			continue
		}
		next := h.next(one)
		if next == nil || next.At < one.End {
			continue
		}
		d := h.draw("", one.Key, one.At, next.At, subjects{holds: []*judge.Hold{one, next}})
		how := i18n.F("is gone without a release")
		if one.How == judge.EndDied {
			how = i18n.F("is killed")
		}
		return d, i18n.F("%s and %s at %s; %s later, at %s, %s is granted it.", d.tellHold(one, one.End), how,
			d.when(one.End), length(next.At-one.End), d.when(next.At), d.nameOf(next.By))
	}
	return nil, i18n.Text{}
}

// unheardRelease shows a holder whose release is not answered, and the next one.
func (h *history) unheardRelease(f focus) (*drawing, i18n.Text) {
	for _, one := range h.Holds {
		if one.How != judge.EndReleased || one.Released == nil || !strings.Contains(one.Released.Error, lock.ErrUnavailable.Error()) || !f.on(one.By) {
			continue
		}
		next := h.next(one)
		if next == nil || next.At < one.End {
			continue
		}
		d := h.draw("", one.Key, one.At, next.At, subjects{holds: []*judge.Hold{one, next}})
		return d, i18n.F("%s; its release at %s is not answered; %s later, at %s, %s is granted it.",
			d.tellHold(one, one.End), d.when(one.End), length(next.At-one.End), d.when(next.At), d.nameOf(next.By))
	}
	return nil, i18n.Text{}
}

// handover shows the client that waited longest for a release.
func (h *history) handover(f focus) (*drawing, i18n.Text) {
	type wait struct{ holder, waiter *judge.Hold }
	var found []wait
	for _, one := range h.Holds {
		if one.How != judge.EndReleased || !f.on(one.By) {
			continue
		}
		if next := h.next(one); next != nil && next.Began < one.End && one.End <= next.At {
			found = append(found, wait{one, next})
		}
	}
	// The longest wait, without the time in which others held the lock.
	w, ok := best(found, func(w wait) int64 { return w.holder.End - max(w.holder.At, w.waiter.Began) })
	if !ok {
		return nil, i18n.Text{}
	}
	begun, done := w.holder.At, min(w.waiter.End, h.End)
	d := h.draw("", w.holder.Key, begun, done, subjects{holds: []*judge.Hold{w.holder, w.waiter}})
	if w.waiter.Began < w.holder.At {
		return d, i18n.F("%s; %s waits for it already; %s gives it back at %s, and %s is granted it at %s.",
			d.tellHold(w.holder, w.holder.End), d.nameOf(w.waiter.By), d.nameOf(w.holder.By), d.when(w.holder.End), d.nameOf(w.waiter.By), d.when(w.waiter.At))
	}
	return d, i18n.F("%s; %s asks for it and waits; %s gives it back at %s, and %s is granted it at %s.",
		d.tellHold(w.holder, w.holder.End), d.nameOf(w.waiter.By), d.nameOf(w.holder.By), d.when(w.holder.End), d.nameOf(w.waiter.By), d.when(w.waiter.At))
}

// turnedAway shows a client that is refused while another one holds the key.
func (h *history) turnedAway(f focus) (*drawing, i18n.Text) {
	for _, e := range h.Refusals {
		if !f.on(judge.ActorOf(e)) {
			continue
		}
		all := h.HoldsOf[e.Key]
		if i := judge.GrantedAfter(all, e.At) - 1; i >= 0 && all[i].End >= e.At {
			d := h.draw("", e.Key, all[i].At, min(all[i].End, h.End), subjects{holds: []*judge.Hold{all[i]}, refusals: []*eventlog.Event{e}})
			return d, i18n.F("%s; %s %s at %s, before the release.", d.tellHold(all[i], e.At), d.nameOf(judge.ActorOf(e)), refusal(e), d.when(e.At))
		}
	}
	return nil, i18n.Text{}
}

// alone shows two concurrent transactions, or a single hold.
func (h *history) alone(f focus) (*drawing, i18n.Text) {
	type pair struct{ one, other *judge.Transaction }
	var found []pair
	var before *judge.Transaction
	for _, s := range h.Transactions {
		if s.Write == nil || s.Ended == nil || !f.on(s.By) {
			continue
		}
		if before != nil {
			found = append(found, pair{before, s})
		}
		before = s
	}
	if p, ok := best(found, func(p pair) int64 { return p.one.Ended.At - p.other.Began }); ok {
		key := ""
		if p.one.Under != nil {
			key = p.one.Under.Key
		}
		d := h.draw("", key, min(p.one.Began, p.other.Began), p.other.Ended.At, subjects{transactions: []*judge.Transaction{p.one, p.other}})
		return d, i18n.F("%s %s at %s, %s %s at %s.", d.nameOf(p.one.By), outcome(p.one), d.when(p.one.Ended.At),
			d.nameOf(p.other.By), outcome(p.other), d.when(p.other.Ended.At))
	}
	for _, one := range h.Holds {
		if f.on(one.By) {
			d := h.draw("", one.Key, one.At, min(one.End, h.End), subjects{holds: []*judge.Hold{one}})
			has := i18n.F("has it")
			if one.Unlocked {
				has = i18n.F("is inside")
			}
			return d, i18n.F("%s and %s until %s.", d.tellHold(one, one.End), has, d.when(min(one.End, h.End)))
		}
	}
	return nil, i18n.Text{}
}

func outcome(s *judge.Transaction) i18n.Text {
	if s.Committed() == nil {
		return i18n.F("is refused")
	}
	return i18n.F("commits")
}
