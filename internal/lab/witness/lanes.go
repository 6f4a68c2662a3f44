package witness

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
)

// actorLane shows what an actor believed and did.
func (d *drawing) actorLane(p *participant) finding.Lane {
	lane := finding.Lane{Name: p.name, Role: finding.Actor}
	span := func(kind finding.SpanKind, from, to int64, wrong bool) {
		s := d.span(kind, from, to)
		s.Who, s.Wrong = p.name, wrong
		lane.Spans = append(lane.Spans, s)
	}
	mark := func(kind finding.MarkKind, at int64, label i18n.Text, wrong bool) {
		if d.inside(at) {
			lane.Marks = append(lane.Marks, finding.Mark{Kind: kind, At: d.ms(at), Label: label, Who: p.name, Wrong: wrong})
		}
	}
	for _, one := range p.holds {
		if one.At-one.Began > (d.to-d.from)/visible && one.At > d.from && !one.Unlocked {
			span(finding.Waits, one.Began, one.At, false)
		}
		d.holdSpans(one, span)
		if one.Unlocked {
			lane.Spans[len(lane.Spans)-1].Label = i18n.F("is inside")
		}
		if n, of := d.votes(one); of > 0 {
			mark(finding.Notes, one.At, i18n.F("on %d of %d nodes", n, of), false)
		}
		endMark(one, mark)
		d.releaseSpan(one, &lane)
		switch {
		case one.Releasing == nil:
		case one.Unlocked:
			mark(finding.Notes, one.Releasing.At, i18n.F("leaves"), false)
		default:
			mark(finding.Releases, one.Releasing.At, i18n.F("releases"), d.wrong[one.Releasing])
			d.nameVictim(&lane, one)
		}
	}
	for _, e := range p.refusals {
		span(finding.Waits, cmp.Or(e.Began, e.At), e.At, false)
		mark(finding.Refuses, e.At, refusalLabel(e), d.wrong[e])
	}
	for _, e := range p.pending {
		span(finding.Waits, e.At, max(d.End, d.to+1), false)
	}
	for _, u := range p.unanswered {
		span(finding.Waits, u.Request.At, u.Died, false)
		mark(finding.Killed, u.Died, i18n.F("killed"), false)
	}
	for _, s := range p.transactions {
		if d.commitMatters(s) {
			span(finding.Transacts, s.Began, s.Ended.At, false)
		}
		d.transactionMarks(s, mark)
	}
	for _, stop := range d.Pauses {
		if to := cmp.Or(stop.To, judge.Never); stop.Process == p.by.Process && stop.From < d.to && to > d.from {
			span(finding.Paused, stop.From, to, false)
			mark(finding.Wakes, to, i18n.F("wakes"), false)
		}
	}
	for _, f := range d.Faults {
		if to := cmp.Or(f.To, judge.Never); f.Process == p.by.Process && f.From < d.to && to > d.from {
			span(finding.Down, f.From, to, false)
			lane.Spans[len(lane.Spans)-1].Label = i18n.F("cut off")
		}
	}
	return lane
}

// endMark shows how a hold ended without a release.
func endMark(one *judge.Hold, mark func(finding.MarkKind, int64, i18n.Text, bool)) {
	switch one.How {
	case judge.EndNotified:
		mark(finding.Told, one.Lost.At, i18n.F("told"), false)
	case judge.EndDied:
		mark(finding.Killed, one.End, i18n.F("killed"), false)
	case judge.EndAbandoned:
		mark(finding.Killed, one.End, i18n.F("gone"), false)
	}
}

// releaseSpan shows a release that lasted.
func (d *drawing) releaseSpan(one *judge.Hold, lane *finding.Lane) {
	if one.Releasing == nil || one.Released == nil || one.Unlocked {
		return
	}
	from, to := one.Releasing.At, one.Released.At
	if one.How == judge.EndReleased {
		from = one.End // it began by looking at the store
	}
	if min(to, d.to)-max(from, d.from) < (d.to-d.from)/lasting {
		return
	}
	s := d.span(finding.Waits, from, to)
	s.Who, s.Label = lane.Name, i18n.F("releases")
	if slices.Contains([]string{"uuid", "thread-id"}, one.Releasing.Mechanism) {
		s.Label = i18n.F("between GET and DEL")
	}
	lane.Spans = append(lane.Spans, s)
}

// holdSpans shows a hold: the time in which the holder has the lock, and the time after that in which it only believes
// so.
func (d *drawing) holdSpans(one *judge.Hold, span func(finding.SpanKind, int64, int64, bool)) {
	kind, end := finding.Held, min(one.End, max(d.End, d.to+1))
	if one.Shared && !one.Unlocked {
		kind = finding.Reads
	}
	lost := d.lostAt(one)
	if lost >= end || lost >= d.to {
		span(kind, one.At, end, d.wrong[one])
		return
	}
	if lost > one.At && lost > d.from {
		span(kind, one.At, lost, d.wrong[one])
	}
	span(finding.Believes, max(lost, one.At), end, d.wrong[one] || d.outlived[one])
}

// lostAt is when a holder no longer had the lock, though it believed so: the store had its key no longer, or, where
// several servers store one lock or none was observed, the lease was over on all of them or another one was granted the
// lock. judge.Never if that did not happen.
func (d *drawing) lostAt(one *judge.Hold) int64 {
	if one.Unlocked {
		return judge.Never
	}
	if keys := d.stored(one); keys != nil {
		for i := len(keys.Entries) - 1; i >= 0; i-- {
			if k := &keys.Entries[i]; k.By == one {
				if k.Last || k.To >= one.End {
					return judge.Never
				}
				for _, later := range keys.Entries[i+1:] {
					if !later.Unknown { // it may have had it until then
						return later.From
					}
				}
				return judge.Never
			}
		}
	}
	lost := d.expiredEverywhere(one)
	if next := d.next(one); next != nil && next.At < one.End && (d.outlived[one] || len(d.Servers) > 0) {
		lost = min(lost, next.At)
	}
	return lost
}

// expiredEverywhere is when the last of several servers no longer had a holder's key because its lease was over there.
// judge.Never if one of them had it to the end, or lost it in another way.
func (h *history) expiredEverywhere(one *judge.Hold) int64 {
	last, stored := int64(0), false
	for _, s := range h.Servers {
		keys := s.Keys[one.Key]
		if keys == nil {
			continue
		}
		for i := range keys.Entries {
			k := &keys.Entries[i]
			switch {
			case k.By != one:
			case k.Last || !expired(k):
				return judge.Never
			default:
				last, stored = max(last, k.To), true
			}
		}
	}
	if !stored {
		return judge.Never
	}
	return last
}

// leaseOver is when the store had a holder's key no longer because its lease was over. judge.Never if that was not
// seen.
func (h *history) leaseOver(one *judge.Hold) int64 {
	if keys := h.stored(one); keys != nil {
		for i := range keys.Entries {
			if k := &keys.Entries[i]; k.By == one && !k.Last && expired(k) {
				return k.To
			}
		}
	}
	return h.expiredEverywhere(one)
}

// expired reports whether a key was gone when its lease was over.
func expired(k *judge.Entry) bool {
	return k.Expires != judge.Never && k.To >= k.Expires-2*judge.TTLSlack
}

// stored is what the store held under a holder's key: the store as a whole, or, where the servers are locks of their
// own, the one that held it for this holder. nil if that was not observed.
func (h *history) stored(one *judge.Hold) *judge.KeyHistory {
	if !h.Apart {
		return h.Store[one.Key]
	}
	for _, s := range h.Servers {
		keys := s.Keys[one.Key]
		if keys != nil && slices.ContainsFunc(keys.Entries, func(k judge.Entry) bool { return k.By == one }) {
			return keys
		}
	}
	return nil
}

// votes counts the nodes that stored a holder's key while it held the lock; of none unless the mechanism uses several
// nodes.
func (d *drawing) votes(one *judge.Hold) (n, of int) {
	if d.LockStore != severalNodes {
		return 0, 0
	}
	for _, s := range d.Servers {
		if keys := s.Keys[d.key]; keys != nil {
			of++
			if slices.ContainsFunc(keys.Entries, func(k judge.Entry) bool { return k.By == one && k.From < one.End && k.To > one.At }) {
				n++
			}
		}
	}
	return n, of
}

// visible is the fraction of the period from which on a wait is drawn.
const visible = 100

// lasting is the fraction of the period from which on a release is drawn as a span.
const lasting = 12

// severalNodes is the store of the mechanisms that ask independent nodes.
const severalNodes = "Redis nodes"

// nameVictim says at a wrong release whose lock it deletes.
func (d *drawing) nameVictim(lane *finding.Lane, one *judge.Hold) {
	if !d.inside(one.Releasing.At) {
		return
	}
	for _, w := range d.WrongReleases {
		if w.Releaser == one && d.lane(w.Holder.By) != "" {
			m := &lane.Marks[len(lane.Marks)-1]
			m.Label, m.Of, m.Wrong = i18n.F("deletes the lock of %s", d.nameOf(w.Holder.By)), d.lane(w.Holder.By), d.wrong[one.Releasing] || d.kind != ""
		}
	}
}

// storeLanes shows what the lock store held, and what single servers held, as far as they were observed.
func (d *drawing) storeLanes() []finding.Lane {
	lanes := []finding.Lane{d.storeLane(d.LockStore, d.Store[d.key])}
	for _, s := range d.Servers {
		lanes = append(lanes, d.storeLane(s.Name, s.Keys[d.key]))
	}
	return lanes
}

func (d *drawing) storeLane(name string, keys *judge.KeyHistory) finding.Lane {
	lane := finding.Lane{Name: name, Role: finding.LockStore}
	if keys == nil {
		return lane
	}
	others := 0 // locks in a row whose holders are not in the picture
	for i := max(0, keys.After(d.from)-1); i < len(keys.Entries); i++ {
		k := &keys.Entries[i]
		if k.From > d.to {
			break
		}
		if k.Unknown {
			lane.Marks = append(lane.Marks, finding.Mark{Kind: finding.Notes, At: d.ms(k.From), Label: i18n.F("no answer")})
			continue
		}
		if k.Value == "" {
			continue
		}
		to := k.To
		if k.Last {
			to = judge.Never
		}
		s := d.span(finding.Stored, k.From, to)
		s.Label, s.Wrong = i18n.Of(i18n.Name(brief(k.Value))), d.wrong[k]
		if k.By != nil {
			s.Who = d.lane(k.By.By)
			switch {
			case s.Who == "":
				others, s.Label = others+1, i18n.F("another")
				if others > 1 {
					last := &lane.Spans[len(lane.Spans)-1]
					last.To, last.Open, last.Label = s.To, s.Open, i18n.F("%d others", others)
					continue
				}
			case k.Certain || describes(k.Value):
				s.Label = i18n.Of(d.nameOf(k.By.By))
			}
		} else if u, known := d.Taker(d.key, k.Value); known {
			s.Who, s.Label = d.lane(judge.ActorOf(u.Request)), i18n.Of(d.nameOf(judge.ActorOf(u.Request)))
		} else if e := d.gaveUp(d.key, k.Value); e != nil {
			s.Who, s.Label = d.lane(judge.ActorOf(e)), i18n.Of(d.nameOf(judge.ActorOf(e)))
		}
		lane.Spans = append(lane.Spans, s)
		if k.By != nil && s.Who == "" { // the locks of others are one bar, and how they ended plays no part
			continue
		}
		others = 0
		for n, at := range k.Renewed {
			if d.inside(at) {
				m := finding.Mark{Kind: finding.Renews, At: d.ms(at), Who: s.Who}
				if n == 0 {
					m.Label = i18n.F("renewed")
				}
				lane.Marks = append(lane.Marks, m)
			}
		}
		if i+1 < len(keys.Entries) && !keys.Entries[i+1].Unknown && d.inside(k.To) {
			lane.Marks = append(lane.Marks, d.removal(k, name != d.LockStore))
		}
	}
	return lane
}

// removal says how a value disappeared from the store: it expired, a release that was running deleted it, or it is
// unknown. A release may take longer than the rest of the lease, so expiry is checked first. A single server deletes
// its key even if the release fails because the other servers no longer have it.
func (d *drawing) removal(k *judge.Entry, single bool) finding.Mark {
	m := finding.Mark{Kind: finding.Notes, At: d.ms(k.To), Label: i18n.F("gone")}
	if expired(k) {
		m.Kind, m.Label = finding.Expires, i18n.F("lease over")
		if k.By != nil && d.lane(k.By.By) != "" {
			m.Who = d.lane(k.By.By)
			m.Cause = d.kind != "" && d.lostAt(k.By) < k.By.End
		}
		return m
	}
	if k.By != nil && k.By.ReleasedAround(k.To) && (single || judge.MayHaveDeleted(k.By)) {
		m.Kind, m.Label, m.Who = finding.Deletes, i18n.F("deleted"), d.lane(k.By.By)
		return m
	}
	for _, w := range d.WrongReleases {
		if w.Holder == k.By && k.To >= w.Releaser.Releasing.At && judge.MayHaveDeleted(w.Releaser) {
			m.Kind, m.Label = finding.Deletes, i18n.F("deleted by another's release")
			m.Who, m.Of = d.lane(w.Releaser.By), d.lane(w.Holder.By)
			switch {
			case m.Who != "" && m.Of != "":
				m.Label, m.Wrong = i18n.F("the release of %s deletes the lock of %s", d.nameOf(w.Releaser.By), d.nameOf(w.Holder.By)), d.wrong[w.Releaser.Releasing] || d.kind != ""
			case m.Who != "":
				m.Label = i18n.F("deletes another's lock")
			}
			return m
		}
	}
	return m
}

// describes reports whether a value is a description, such as "connection 12": the name of its owner says more. A
// single word is shown as it is, because some experiments are about two holders with the same number.
func describes(value string) bool { return strings.Contains(value, " ") }

// brief is the beginning of a value that names no owner.
func brief(value string) string {
	const most = 12
	if runes := []rune(value); len(runes) > most {
		return strings.TrimSpace(string(runes[:most-1])) + "…"
	}
	return value
}

// faultLane shows the faults of the participants' processes, and of servers.
func (d *drawing) faultLane() finding.Lane {
	lane := finding.Lane{Name: "faults", Role: finding.Fault}
	in := map[string]bool{}
	for _, p := range d.participants {
		in[p.by.Process] = true
	}
	add := func(kind finding.SpanKind, from, to int64, label i18n.Text) {
		if from < d.to && to > d.from {
			s := d.span(kind, from, to)
			s.Label = label
			lane.Spans = append(lane.Spans, s)
		}
	}
	for _, stop := range d.Pauses {
		if in[stop.Process] {
			add(finding.Paused, stop.From, cmp.Or(stop.To, judge.Never), i18n.F("%s stands still", stop.Process))
		}
	}
	for _, death := range d.Deaths {
		if !in[death.Process] {
			continue
		}
		add(finding.Down, death.At, judge.Never, i18n.F("%s is dead", death.Process))
		if d.inside(death.At) {
			lane.Marks = append(lane.Marks, finding.Mark{Kind: finding.Killed, At: d.ms(death.At), Label: i18n.F("%s killed", death.Process)})
		}
	}
	for _, f := range d.Faults {
		const moment = int64(time.Millisecond)
		if to := cmp.Or(f.To, judge.Never); to-f.From > moment {
			add(finding.Down, f.From, to, f.What)
		} else if d.inside(f.From) {
			lane.Marks = append(lane.Marks, finding.Mark{Kind: finding.Notes, At: d.ms(f.From), Label: f.What, Cause: d.kind != ""})
		}
	}
	return lane
}
