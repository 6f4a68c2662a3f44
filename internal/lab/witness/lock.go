package witness

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"seckill/internal/eventlog"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lock"
)

// maxLeadFactor limits the time before an anomaly in a picture, as a multiple of its duration.
const maxLeadFactor = 12

// best returns the candidate with the greatest score, the first one of equals.
func best[T any](candidates []T, shows func(T) int64) (T, bool) {
	var none T
	if len(candidates) == 0 {
		return none, false
	}
	return slices.MaxFunc(candidates, func(a, b T) int { return cmp.Compare(shows(a), shows(b)) }), true
}

func (h *history) showOverlap(found []judge.Overlap) (finding.Witness, bool) {
	o, ok := best(among(h, found, holders), func(o judge.Overlap) int64 { return o.Lasted(h.End) })
	if !ok {
		return finding.Witness{}, false
	}
	d := h.drawOverlap(finding.Overlaps, o)
	return d.witness(d.tellOverlap(o)), true
}

func holders(o judge.Overlap) []judge.Actor { return []judge.Actor{o.Earlier.By, o.Later.By} }

func (h *history) drawOverlap(kind finding.Kind, o judge.Overlap) *drawing {
	lasted := o.Lasted(h.End)
	begun := min(max(o.Earlier.At, o.Later.At-maxLeadFactor*max(lasted, 1e6)), h.leaseOver(o.Earlier))
	d := h.draw(kind, o.Later.Key, begun, o.Later.At+lasted, subjects{holds: []*judge.Hold{o.Earlier, o.Later}})
	d.wrong[o.Later], d.outlived[o.Earlier] = true, true
	return d
}

func (d *drawing) tellOverlap(o judge.Overlap) i18n.Text {
	both := i18n.F("both believe that they hold it")
	if o.Earlier.Unlocked && o.Later.Unlocked {
		both = i18n.F("both are inside")
	}
	until := i18n.F("%s to the end", both)
	if o.Earlier.End < d.End || o.Later.End < d.End {
		until = i18n.F("for %s %s", length(o.Lasted(d.End)), both)
	}
	return i18n.F("%s; at %s %s %s, too: %s.",
		d.tellHold(o.Earlier, o.Later.At), d.when(o.Later.At), d.nameOf(o.Later.By), granted(o.Later), until)
}

// tellHold says when a holder got the lock, when its lease was over if that was before at, and whether its process was
// paused before at.
func (d *drawing) tellHold(one *judge.Hold, at int64) i18n.Text {
	told := i18n.F("%s gets the lock at %s", d.nameOf(one.By), d.when(one.At))
	if one.Unlocked {
		told = i18n.F("%s comes in at %s", d.nameOf(one.By), d.when(one.At))
	}
	if over := d.leaseOver(one); over <= at {
		told = i18n.F("%s, with a lease until %s", told, d.when(over))
	}
	for _, stop := range d.Pauses {
		to := cmp.Or(stop.To, d.End)
		if stop.Process == one.By.Process && stop.From < at && to > one.At {
			told = i18n.F("%s, and its process stands still for %s", told, length(to-stop.From))
			break
		}
	}
	return told
}

// granted says that a holder gets the lock.
func granted(h *judge.Hold) i18n.Text {
	if h.Unlocked {
		return i18n.F("comes in")
	}
	return i18n.F("is granted it")
}

func (h *history) showStale(found []judge.StaleWrite) (finding.Witness, bool) {
	s, ok := best(among(h, found, func(s judge.StaleWrite) []judge.Actor { return []judge.Actor{s.Late.By, s.Next.By} }), func(s judge.StaleWrite) int64 {
		certain, _ := s.Late.CommitSpan()
		return certain - s.Next.At
	})
	if !ok {
		return finding.Witness{}, false
	}
	mine, end := s.Late.Under, s.Late.Ended.At
	d := h.draw(finding.StaleWrites, mine.Key, mine.At, end, subjects{holds: []*judge.Hold{mine, s.Next}, transactions: []*judge.Transaction{s.Late}})
	d.wrong[s.Late] = true
	what := i18n.F("commits its write")
	if s.Late.Unguarded() {
		what = i18n.F("commits a stock of %d", s.Late.Write.Stock)
	}
	if before := h.lastSold(s.Late); before != nil && before.Unguarded() && s.Late.Read != nil && before.Ended.At > s.Late.Read.At {
		what = i18n.F("%s over the %d that was committed meanwhile", what, before.Write.Stock)
	}
	return d.witness(i18n.F("%s; at %s %s %s; at %s %s nevertheless %s.",
		d.tellHold(mine, s.Next.At), d.when(s.Next.At), d.nameOf(s.Next.By), granted(s.Next), d.when(end), d.nameOf(mine.By), what)), true
}

// lastSold is the previous transaction that changed the stock.
func (h *history) lastSold(late *judge.Transaction) (before *judge.Transaction) {
	for _, s := range h.Transactions {
		if s == late {
			break
		}
		if s.TookStock() && s.Voucher == late.Voucher {
			before = s
		}
	}
	return before
}

func (h *history) showWrongRelease() (finding.Witness, bool) {
	victims := map[*judge.Hold]judge.WrongRelease{}
	for _, w := range h.WrongReleases {
		victims[w.Holder] = w
	}
	// The best chain begins with a late release and not with a holder whose own lock was deleted, and it has a third
	// client that gets in.
	w, ok := best(h.WrongReleases, func(w judge.WrongRelease) int64 {
		score := min(w.Holder.End, h.End) - w.GoneBy
		if _, also := victims[w.Releaser]; !also {
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
	in := subjects{holds: []*judge.Hold{w.Releaser, w.Holder}}
	chain := []judge.WrongRelease{w}
	for next := h.nextIn(w); next != nil; next = h.nextIn(chain[len(chain)-1]) {
		in.holds = append(in.holds, next)
		follow, also := victims[next]
		if !also || follow.Releaser != chain[len(chain)-1].Holder || len(in.holds) == 4 {
			break
		}
		chain = append(chain, follow)
	}
	done := min(w.Holder.End, h.End)
	if last := in.holds[len(in.holds)-1]; last != w.Holder {
		done = max(done, last.At)
	}
	d := h.draw(finding.WrongReleases, w.Holder.Key, max(w.Releaser.At, w.Releaser.Releasing.At-maxLeadFactor*(done-w.Holder.At)), done, in)
	for _, link := range chain {
		d.wrong[link.Releaser.Releasing] = true
	}
	return d.witness(d.tellWrongReleases(chain, in.holds)), true
}

// nextIn is the hold that a wrong release let in while the holder still believed to hold the lock.
func (h *history) nextIn(w judge.WrongRelease) *judge.Hold {
	all := h.HoldsOf[w.Holder.Key]
	for i := judge.GrantedAfter(all, max(w.Holder.At, w.Releaser.Releasing.At)); i < len(all) && all[i].At < w.Holder.End; i++ {
		if all[i].Conflicts(w.Holder) {
			return all[i]
		}
	}
	return nil
}

func (d *drawing) tellWrongReleases(chain []judge.WrongRelease, holds []*judge.Hold) i18n.Text {
	first := chain[0]
	told := i18n.F("%s; at %s %s is granted it", d.tellHold(first.Releaser, first.Holder.At),
		d.when(first.Holder.At), d.nameOf(first.Holder.By))
	for i, link := range chain {
		release := link.Releaser.Releasing.At
		if release < link.Holder.At {
			told = i18n.F("%s; the release that %s began at %s deletes the lock of %s",
				told, d.nameOf(link.Releaser.By), d.when(release), d.nameOf(link.Holder.By))
		} else {
			told = i18n.F("%s; at %s %s releases, which deletes the lock of %s",
				told, d.when(release), d.nameOf(link.Releaser.By), d.nameOf(link.Holder.By))
		}
		if next := i + 2; next < len(holds) {
			told = i18n.F("%s and lets %s in at %s", told, d.nameOf(holds[next].By), d.when(holds[next].At))
		}
	}
	return i18n.F("%s.", told)
}

func (h *history) showStuck(found []judge.StuckKey) (finding.Witness, bool) {
	s, ok := best(found, func(s judge.StuckKey) int64 {
		if s.Holder == nil {
			return 0
		}
		return 1
	})
	if !ok {
		return finding.Witness{}, false
	}
	in := subjects{}
	begun := s.Entry.From
	if s.Holder != nil {
		in.holds, begun = []*judge.Hold{s.Holder}, s.Holder.At
	}
	taker, taken := h.Taker(s.Key, s.Entry.Value)
	if s.Holder == nil && taken {
		in.unanswered, begun = []judge.Unanswered{taker}, taker.Request.At
	}
	gone := h.gaveUp(s.Key, s.Entry.Value)
	if s.Holder == nil && gone != nil {
		in.refusals, begun = append(in.refusals, gone), gone.Began
	}
	var turned *eventlog.Event // a client that is refused because of it
	for _, e := range h.Refusals {
		own := s.Holder == nil && e.Owner != "" && judge.OwnerIn(s.Entry.Value, map[string]bool{e.Owner: true}) != ""
		if e.Key == s.Key && !own && e.At > s.Entry.From && (s.Holder == nil || e.At > s.Holder.End) {
			turned = e
			in.refusals = append(in.refusals, e)
			break
		}
	}
	done := h.End
	if turned != nil {
		done = turned.At
	}
	d := h.draw(finding.StuckKeys, s.Key, begun, done, in)
	d.wrong[s.Entry] = true
	var asked *eventlog.Event // an acquisition that was never answered
	var ended i18n.Text
	switch {
	case s.Holder == nil && taken:
		asked, ended = taker.Request, i18n.F("at %s %s is killed, before it was told that the lock is its own", d.when(taker.Died), taker.Request.Process)
	case s.Holder == nil && gone != nil:
		asked, ended = gone, i18n.F("at %s it gives up without an answer", d.when(gone.At))
	}
	return d.witness(d.tellStuck(s, asked, ended, turned)), true
}

// tellStuck tells of a key that stays, of its holder or of the one that asked for it, and of the client that is refused
// because of it.
func (d *drawing) tellStuck(s judge.StuckKey, asked *eventlog.Event, ended i18n.Text, turned *eventlog.Event) i18n.Text {
	var told i18n.Text
	since := max(s.Entry.From, s.Since())
	switch {
	case asked != nil:
		told = i18n.F("%s asks for the lock at %s, and the store has its key at %s; %s",
			d.nameOf(judge.ActorOf(asked)), d.when(cmp.Or(asked.Began, asked.At)), d.when(s.Entry.From), ended)
		since = max(since, asked.At)
	case s.Holder == nil:
		told = i18n.F("Nobody was ever told that the lock is theirs")
	default:
		told = d.tellHold(s.Holder, s.Holder.End)
		switch s.Holder.How {
		case judge.EndDied:
			told = i18n.F("%s; at %s %s is killed", told, d.when(s.Holder.End), s.Holder.By.Process)
		case judge.EndAbandoned:
			told = i18n.F("%s; at %s it is gone without a release", told, d.when(s.Holder.End))
		case judge.EndReleased:
			told = i18n.F("%s; at %s it gives it back", told, d.when(s.Holder.End))
		}
	}
	told = i18n.F("%s; %s later the store still has the key", told, length(d.End-since))
	if s.Entry.Expires == judge.Never {
		told = i18n.F("%s, which has no expiry", told)
	}
	if turned != nil {
		told = i18n.F("%s; %s %s", told, d.nameOf(judge.ActorOf(turned)), refusal(turned))
	}
	return i18n.F("%s.", told)
}

func (h *history) showLockedOut(found []judge.LockedOut) (finding.Witness, bool) {
	l, ok := best(found, func(l judge.LockedOut) int64 { return l.Refused.At - l.Holder.Released.At }) // the longest time after the release
	if !ok {
		return finding.Witness{}, false
	}
	d := h.draw(finding.LockedOut, l.Holder.Key, l.Holder.At, l.Refused.At,
		subjects{holds: []*judge.Hold{l.Holder}, refusals: []*eventlog.Event{l.Refused}})
	d.wrong[l.Refused] = true
	if keys := h.Store[l.Holder.Key]; keys != nil {
		if k := keys.At(l.Refused.At); k != nil && k.By == l.Holder {
			d.wrong[k] = true
		}
	}
	return d.witness(i18n.F("%s and gives it back at %s; the store keeps it, and %s after the release %s %s because of it.",
		d.tellHold(l.Holder, l.Holder.End), d.when(l.Holder.End), length(l.Refused.At-l.Holder.Released.At),
		d.nameOf(judge.ActorOf(l.Refused)), refusal(l.Refused))), true
}

// refusalLabel is the same as [refusal], for a mark.
func refusalLabel(e *eventlog.Event) i18n.Text {
	if gaveUp(e) {
		return i18n.F("gives up")
	}
	return i18n.F("refused")
}

// refusal says how an acquisition ended without the lock.
func refusal(e *eventlog.Event) i18n.Text {
	if gaveUp(e) {
		return i18n.F("gives up")
	}
	return i18n.F("is refused")
}

// gaveUp reports whether a caller had no answer: it was not refused. The event keeps only the text of the error.
func gaveUp(e *eventlog.Event) bool {
	for _, unanswered := range []error{context.DeadlineExceeded, context.Canceled, lock.ErrUnavailable} {
		if strings.Contains(e.Error, unanswered.Error()) && !strings.Contains(e.Error, lock.ErrNotAcquired.Error()) {
			return true
		}
	}
	return false
}
