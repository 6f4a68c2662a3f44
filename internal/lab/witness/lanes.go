package witness

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab/finding"
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
	mark := func(kind finding.MarkKind, at int64, label string, wrong bool) {
		if d.inside(at) {
			lane.Marks = append(lane.Marks, finding.Mark{Kind: kind, At: d.ms(at), Label: label, Who: p.name, Wrong: wrong})
		}
	}
	for _, one := range p.holds {
		if one.Began < one.At && one.At > d.from && !one.Unlocked {
			span(finding.Waits, one.Began, one.At, false)
		}
		kind := finding.Believes
		if one.Shared && !one.Unlocked {
			kind = finding.Reads
		}
		span(kind, one.At, min(one.End, max(d.End, d.to+1)), d.wrong[one])
		if one.Unlocked {
			lane.Spans[len(lane.Spans)-1].Label = "is inside"
		}
		if one.How == judge.EndNotified {
			mark(finding.Told, one.Lost.At, "told", false)
		}
		if one.How == judge.EndDied {
			mark(finding.Killed, one.End, "killed", false)
		}
		if one.How == judge.EndAbandoned {
			mark(finding.Killed, one.End, "gone", false)
		}
		switch {
		case one.Releasing == nil:
		case one.Unlocked:
			mark(finding.Notes, one.Releasing.At, "leaves", false)
		default:
			mark(finding.Releases, one.Releasing.At, "releases", d.wrong[one.Releasing])
		}
	}
	for _, e := range p.refusals {
		span(finding.Waits, cmp.Or(e.Began, e.At), e.At, false)
		mark(finding.Refuses, e.At, strings.TrimPrefix(refusal(e), "is "), d.wrong[e])
	}
	for _, e := range p.pending {
		span(finding.Waits, e.At, max(d.End, d.to+1), false)
	}
	for _, u := range p.unanswered {
		span(finding.Waits, u.Request.At, u.Died, false)
		mark(finding.Killed, u.Died, "killed", false)
	}
	for _, s := range p.transactions {
		d.transactionMarks(s, mark)
	}
	for _, stop := range d.Pauses {
		if to := cmp.Or(stop.To, judge.Never); stop.Process == p.by.Process && stop.From < d.to && to > d.from {
			span(finding.Paused, stop.From, to, false)
			mark(finding.Wakes, to, "wakes", false)
		}
	}
	return lane
}

// transactionMarks shows what an actor did in a transaction.
func (d *drawing) transactionMarks(s *judge.Transaction, mark func(finding.MarkKind, int64, string, bool)) {
	if e := s.Checked; e != nil && d.showOrders {
		label := "finds no order"
		if e.Found {
			label = "finds an order"
		}
		mark(finding.Notes, e.At, label, false)
	}
	if e := s.Read; e != nil {
		mark(finding.ReadsStock, e.At, fmt.Sprintf("reads %d", e.Stock), false)
	}
	if e := s.Write; e != nil {
		mark(finding.WritesStock, e.At, writing(s), d.wrong[s])
	}
	if e := s.Insert; e != nil && d.showOrders {
		mark(finding.Notes, e.At, "orders", d.wrong[s])
	}
}

// writing names what a transaction does to the stock.
func writing(s *judge.Transaction) string {
	switch e := s.Write; e.Mode {
	case eventlog.ModeUnguarded:
		return fmt.Sprintf("writes %d", e.Stock)
	case eventlog.ModeVersion:
		return fmt.Sprintf("takes 1 of version %d", e.Version)
	case eventlog.ModeFenced:
		return fmt.Sprintf("takes 1, token %d", e.Token)
	}
	return "takes 1"
}

// databaseLane shows the results of the transactions.
func (d *drawing) databaseLane() finding.Lane {
	lane := finding.Lane{Name: d.Database, Role: finding.Database}
	for _, p := range d.participants {
		for _, s := range p.transactions {
			if s.Ended == nil || !d.inside(s.Ended.At) || s.Write == nil && s.Insert == nil {
				continue
			}
			m := finding.Mark{Kind: finding.WritesStock, At: d.ms(s.Ended.At), Who: p.name, Wrong: d.wrong[s]}
			switch {
			case s.Committed() == nil:
				m.Kind, m.Label, m.Wrong = finding.Refuses, "refused", false
			case s.Write == nil:
				m.Kind, m.Label = finding.Notes, "order"
			case s.Unguarded() && s.Read != nil:
				m.Label = fmt.Sprintf("stock %d→%d", s.Read.Stock, s.Write.Stock)
			case s.Unguarded():
				m.Label = fmt.Sprintf("stock %d", s.Write.Stock)
			default:
				m.Label = "stock −1"
			}
			lane.Marks = append(lane.Marks, m)
		}
	}
	return lane
}

// storeLanes shows what the lock store held, and what single servers held, as far as they were
// observed.
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
	for i := max(0, keys.After(d.from)-1); i < len(keys.Entries); i++ {
		k := &keys.Entries[i]
		if k.From > d.to {
			break
		}
		if k.Unknown {
			lane.Marks = append(lane.Marks, finding.Mark{Kind: finding.Notes, At: d.ms(k.From), Label: "no answer"})
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
		s.Label, s.Wrong = brief(k.Value), d.wrong[k]
		if k.By != nil {
			s.Who = d.lane(k.By.By)
			if k.Certain || describes(k.Value) {
				s.Label = d.who(k.By.By)
			}
		} else if u, known := d.Taker(d.key, k.Value); known {
			s.Who, s.Label = d.lane(judge.ActorOf(u.Request)), d.who(judge.ActorOf(u.Request))
		} else if refused, known := d.gaveUp(k.Value); known {
			s.Who, s.Label = d.lane(refused), d.who(refused)
		}
		lane.Spans = append(lane.Spans, s)
		if i+1 < len(keys.Entries) && !keys.Entries[i+1].Unknown && d.inside(k.To) {
			lane.Marks = append(lane.Marks, d.removal(k, name != d.LockStore))
		}
	}
	return lane
}

// removal says how a value disappeared from the store: it expired, a release that was running
// deleted it, or it is unknown. A release may take longer than the rest of the lease, so
// expiry is checked first. A single server deletes its key even if the release fails because
// the other servers no longer have it.
func (d *drawing) removal(k *judge.Entry, single bool) finding.Mark {
	m := finding.Mark{Kind: finding.Notes, At: d.ms(k.To), Label: "gone"}
	if k.Expires != judge.Never && k.To >= k.Expires-2*judge.TTLSlack {
		m.Kind, m.Label = finding.Expires, "expired"
		return m
	}
	if k.By != nil && k.By.ReleasedAround(k.To) && (single || judge.MayHaveDeleted(k.By)) {
		m.Kind, m.Label, m.Who = finding.Deletes, "deleted", d.lane(k.By.By)
		return m
	}
	for _, w := range d.WrongReleases {
		if w.Holder == k.By && w.Releaser.ReleasedAround(k.To) && judge.MayHaveDeleted(w.Releaser) {
			m.Kind, m.Label, m.Who = finding.Deletes, "deleted by "+d.who(w.Releaser.By), d.lane(w.Releaser.By)
			m.Wrong = d.wrong[w.Releaser.Releasing]
			return m
		}
	}
	return m
}

// describes reports whether a value is a description, such as "connection 12": the name of its
// owner says more. A single word is shown as it is, because some experiments are about two
// holders with the same number.
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
	add := func(kind finding.SpanKind, from, to int64, label string) {
		if from < d.to && to > d.from {
			s := d.span(kind, from, to)
			s.Label = label
			lane.Spans = append(lane.Spans, s)
		}
	}
	for _, stop := range d.Pauses {
		if in[stop.Process] {
			add(finding.Paused, stop.From, cmp.Or(stop.To, judge.Never), stop.Process+" stands still")
		}
	}
	for _, death := range d.Deaths {
		if !in[death.Process] {
			continue
		}
		add(finding.Down, death.At, judge.Never, death.Process+" is dead")
		if d.inside(death.At) {
			lane.Marks = append(lane.Marks, finding.Mark{Kind: finding.Killed, At: d.ms(death.At), Label: death.Process + " killed"})
		}
	}
	for _, f := range d.Faults {
		const moment = int64(time.Millisecond)
		if to := cmp.Or(f.To, judge.Never); to-f.From > moment {
			add(finding.Down, f.From, to, f.What)
		} else if d.inside(f.From) {
			lane.Marks = append(lane.Marks, finding.Mark{Kind: finding.Notes, At: d.ms(f.From), Label: f.What})
		}
	}
	return lane
}
