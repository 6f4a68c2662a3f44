package witness

import (
	"cmp"
	"fmt"

	"seckill/internal/eventlog"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
)

func (h *history) showLostUpdate(found []judge.LostUpdate) (finding.Witness, bool) {
	l, ok := best(among(h, found, writers), h.visible)
	if !ok {
		return finding.Witness{}, false
	}
	d := h.drawLostUpdate(finding.LostUpdates, l)
	return d.witness(i18n.F("%s.", d.tellLostUpdate(l))), true
}

func writers(l judge.LostUpdate) []judge.Actor { return []judge.Actor{l.Overwritten.By, l.By.By} }

// visible scores a lost update: two writers that read the same value and lie apart are best.
func (h *history) visible(l judge.LostUpdate) int64 {
	score := min(l.By.Ended.At-l.By.Read.At, l.By.Ended.At-l.Overwritten.Ended.At)
	if l.Overwritten.Read != nil && l.Overwritten.Read.Stock == l.By.Read.Stock {
		score += int64(1e12)
	}
	return score
}

func (h *history) drawLostUpdate(kind finding.Kind, l judge.LostUpdate) *drawing {
	in := subjects{transactions: []*judge.Transaction{l.Overwritten, l.By}}
	begun := min(l.By.Read.At, l.Overwritten.Ended.At)
	if l.Overwritten.Read != nil {
		begun = min(begun, max(l.Overwritten.Read.At, l.By.Read.At-(l.By.Ended.At-l.By.Read.At)))
	}
	key := ""
	for _, s := range in.transactions {
		if s.Under != nil {
			key = s.Under.Key
			in.holds = append(in.holds, s.Under)
			begun = min(begun, h.leaseOver(s.Under))
		}
	}
	d := h.draw(kind, key, begun, l.By.Ended.At, in)
	d.wrong[l.By] = true
	return d
}

func (d *drawing) tellLostUpdate(l judge.LostUpdate) i18n.Text {
	first, last := d.nameOf(l.Overwritten.By), d.nameOf(l.By.By)
	switch {
	case l.Overwritten.Read != nil && l.Overwritten.Read.Stock == l.By.Read.Stock && l.Overwritten.Unguarded():
		return i18n.F("%s and %s both read a stock of %d; %s commits %d at %s, and %s commits %d over it at %s: both sell the same unit",
			first, last, l.By.Read.Stock, first, l.Overwritten.Write.Stock, d.when(l.Overwritten.Ended.At), last, l.By.Write.Stock, d.when(l.By.Ended.At))
	case l.Overwritten.Unguarded():
		return i18n.F("%s reads a stock of %d; %s commits %d at %s; at %s %s commits %d over it, computed from what it had read",
			last, l.By.Read.Stock, first, l.Overwritten.Write.Stock, d.when(l.Overwritten.Ended.At), d.when(l.By.Ended.At), last, l.By.Write.Stock)
	}
	return i18n.F("%s reads a stock of %d; %s takes one at %s; at %s %s commits %d, computed from what it had read",
		last, l.By.Read.Stock, first, d.when(l.Overwritten.Ended.At), d.when(l.By.Ended.At), last, l.By.Write.Stock)
}

func (h *history) showLostOrder(found []judge.Ack) (finding.Witness, bool) {
	if h.Rows == nil {
		return finding.Witness{}, false
	}
	for _, ack := range found {
		for _, s := range h.Transactions {
			if s.Insert == nil || s.Insert.Order != ack.Order {
				continue
			}
			in := subjects{transactions: []*judge.Transaction{s}}
			key := ""
			if s.Under != nil {
				key, in.holds = s.Under.Key, []*judge.Hold{s.Under}
			}
			d := h.draw(finding.LostOrders, key, s.Began, min(s.EndedAt(), h.End), in)
			d.wrong[s], d.showOrders = true, true
			return d.witness(i18n.F("%s is told that its order %d is placed; at the end the database does not have it.", d.nameOf(s.By), ack.Order)), true
		}
	}
	return finding.Witness{}, false
}

// showDuplicates shows two orders of one user: of those in the database, the two that overlapped the longest.
func (h *history) showDuplicates() (finding.Witness, bool) {
	type pair struct{ one, other *judge.Transaction }
	type buyer struct{ voucher, user int64 }
	before := map[buyer]*judge.Transaction{}
	var pairs []pair
	for _, s := range h.Transactions {
		if s.Insert == nil || s.Committed() == nil {
			continue
		}
		b := buyer{s.Voucher, s.Insert.User}
		if before[b] != nil {
			pairs = append(pairs, pair{before[b], s})
		}
		before[b] = s
	}
	together := func(p pair) int64 { return p.one.Ended.At - p.other.Began }
	p, ok := best(pairs, together)
	if !ok {
		return finding.Witness{}, false
	}
	in := subjects{transactions: []*judge.Transaction{p.one, p.other}}
	key := ""
	for _, s := range in.transactions {
		if s.Under != nil {
			key, in.holds = s.Under.Key, append(in.holds, s.Under)
		}
	}
	d := h.draw(finding.DuplicateOrders, key, min(p.one.Began, p.other.Began), p.other.Ended.At, in)
	d.showOrders, d.wrong[p.other] = true, true
	summary := i18n.F("%s has two orders", i18n.Name(fmt.Sprintf("User %d", p.one.Insert.User)))
	asked, also := p.one.Checked, p.other.Checked
	switch {
	case asked != nil && also != nil && !asked.Found && !also.Found:
		summary = i18n.F("%s: both requests look for an earlier order, at %s and at %s, and find none; the first is committed at %s, the second at %s",
			summary, d.when(asked.At), d.when(also.At), d.when(p.one.Ended.At), d.when(p.other.Ended.At))
	case together(p) > 0:
		summary = i18n.F("%s: the second is begun at %s, before the first is committed at %s", summary, d.when(p.other.Began), d.when(p.one.Ended.At))
	}
	return d.witness(i18n.F("%s.", summary)), true
}

// showOversold shows how one unit was sold twice: by a lost update, otherwise by two holders, otherwise by the last
// orders beyond the stock.
func (h *history) showOversold(a judge.Incidents) (finding.Witness, bool) {
	if h.Audit == nil || h.Audit.Oversold() == 0 {
		return finding.Witness{}, false
	}
	many := i18n.F("Of %d units %d were sold.", h.Audit.InitialStock, h.Audit.Orders)
	if l, ok := best(among(h, a.LostUpdates, writers), h.visible); ok {
		d := h.drawLostUpdate(finding.Oversold, l)
		return d.witness(i18n.F("%s. %s", d.tellLostUpdate(l), many)), true
	}
	if o, ok := best(among(h, a.Overlaps, holders), func(o judge.Overlap) int64 { return o.Lasted(h.End) }); ok {
		d := h.drawOverlap(finding.Oversold, o)
		return d.witness(i18n.F("%s %s", d.tellOverlap(o), many)), true
	}
	var sold []*judge.Transaction
	for _, s := range h.Transactions {
		if s.Insert != nil && s.Committed() != nil {
			sold = append(sold, s)
		}
	}
	if len(sold) < 2 {
		return finding.Witness{}, false
	}
	last := sold[len(sold)-2:]
	d := h.draw(finding.Oversold, "", last[0].Began, last[1].Ended.At, subjects{transactions: last})
	d.showOrders, d.wrong[last[1]] = true, true
	return d.witness(i18n.F("%s and %s order in turn, the last ones of too many. %s", d.nameOf(last[0].By), d.nameOf(last[1].By), many)), true
}

// commitMatters reports whether it has to be seen when a transaction was committed: two orders of a user, or a commit
// after the lock was given back.
func (d *drawing) commitMatters(s *judge.Transaction) bool {
	return s.Ended != nil && (d.showOrders || s.Under != nil && s.Committed() != nil && s.Ended.At > s.Under.End)
}

// transactionMarks shows what an actor did in a transaction.
func (d *drawing) transactionMarks(s *judge.Transaction, mark func(finding.MarkKind, int64, i18n.Text, bool)) {
	if e := s.Checked; e != nil && d.showOrders {
		label := i18n.F("finds no order")
		if e.Found {
			label = i18n.F("finds an order")
		}
		mark(finding.Notes, e.At, label, false)
	}
	if e := s.Read; e != nil {
		mark(finding.ReadsStock, e.At, i18n.F("reads %d", e.Stock), false)
	}
	if e := s.Write; e != nil {
		mark(finding.WritesStock, e.At, d.writing(s), d.wrong[s])
	}
	if e := s.Insert; e != nil && d.showOrders {
		mark(finding.Notes, e.At, i18n.F("orders"), d.wrong[s])
	}
}

// writing names what a transaction does to the stock.
func (d *drawing) writing(s *judge.Transaction) i18n.Text {
	switch e := s.Write; e.Mode {
	case eventlog.ModeUnguarded:
		return i18n.F("writes %d", e.Stock)
	case eventlog.ModeVersion:
		return i18n.F("takes 1 of version %d", e.Version)
	case eventlog.ModeFenced:
		return i18n.F("takes 1, token %d", d.token(e.Token))
	}
	return i18n.F("takes 1")
}

// databaseLane shows the results of the transactions.
func (d *drawing) databaseLane() finding.Lane {
	lane := finding.Lane{Name: d.Database, Role: finding.Database}
	left := d.stock(&lane)
	for _, p := range d.participants {
		for _, s := range p.transactions {
			if s.Ended == nil || !d.inside(s.Ended.At) || s.Write == nil && s.Insert == nil {
				continue
			}
			m := finding.Mark{Kind: finding.WritesStock, At: d.ms(s.Ended.At), Who: p.name, Wrong: d.wrong[s], Stock: left[s]}
			switch {
			case s.Committed() == nil:
				m.Kind, m.Label, m.Wrong = finding.Refuses, i18n.F("refused"), false
			case s.Write != nil && s.Write.Mode == eventlog.ModeVersion:
				m.Label = i18n.F("version %d→%d", s.Write.Version, s.Write.Version+1)
			case s.Write == nil:
				m.Kind, m.Label = finding.Notes, i18n.F("order")
			case s.Unguarded() && s.Read != nil:
				from := s.Read.Stock
				if before := d.lastSold(s); before != nil && before.Unguarded() {
					from = before.Write.Stock // what it writes over, which it may not have read
				}
				m.Label = i18n.F("stock %d→%d", from, s.Write.Stock)
			case s.Unguarded():
				m.Label = i18n.F("stock %d", s.Write.Stock)
			default:
				m.Label = i18n.F("stock −1")
			}
			lane.Marks = append(lane.Marks, m)
		}
	}
	return lane
}

// stock notes what is left when the picture begins, and returns what was left after each transaction that took from it.
// Nothing is noted if there is more than one voucher, or if the beginning is not known.
func (d *drawing) stock(lane *finding.Lane) map[*judge.Transaction]*int64 {
	var voucher int64
	for _, p := range d.participants {
		for _, s := range p.transactions {
			if voucher = cmp.Or(voucher, s.Voucher); s.Voucher != voucher {
				return nil
			}
		}
	}
	var now int64
	switch first := d.firstRead(voucher); {
	case d.Audit != nil:
		now = d.Audit.InitialStock
	case first != nil:
		now = first.Stock
	default:
		return nil
	}
	lane.Stock = new(now)
	left := map[*judge.Transaction]*int64{}
	for _, s := range d.Transactions {
		if s.Voucher != voucher || !s.TookStock() {
			continue
		}
		if now--; s.Unguarded() {
			now = s.Write.Stock
		}
		if left[s] = new(now); s.Ended.At < d.from {
			lane.Stock = new(now)
		}
	}
	return left
}

// firstRead is the first time that a voucher's stock was read; nil if it never was.
func (d *drawing) firstRead(voucher int64) *eventlog.Event {
	for i := range d.Events {
		if e := &d.Events[i]; e.Kind == eventlog.Read && e.Voucher == voucher {
			return e
		}
	}
	return nil
}
