package judge

import (
	"fmt"

	"seckill/internal/lab/finding"
)

func (h *history) showLostUpdate(found []lostUpdate) (finding.Witness, bool) {
	l, ok := best(found, h.visible)
	if !ok {
		return finding.Witness{}, false
	}
	d := h.drawLostUpdate(finding.LostUpdates, l)
	return d.witness(d.tellLostUpdate(l) + "."), true
}

// visible prefers, of the lost updates, two that read the same and lie apart.
func (h *history) visible(l lostUpdate) int64 {
	score := min(l.by.ended.At-l.by.read.At, l.by.ended.At-l.undone.ended.At)
	if l.undone.read != nil && l.undone.read.Stock == l.by.read.Stock {
		score += int64(1e12)
	}
	return score
}

func (h *history) drawLostUpdate(kind finding.Kind, l lostUpdate) *drawing {
	in := involved{sales: []*sale{l.undone, l.by}}
	begun := min(l.by.read.At, l.undone.ended.At)
	if l.undone.read != nil {
		begun = min(begun, max(l.undone.read.At, l.by.read.At-(l.by.ended.At-l.by.read.At)))
	}
	key := ""
	for _, s := range in.sales {
		if s.under != nil {
			key = s.under.key
			in.holds = append(in.holds, s.under)
		}
	}
	d := h.draw(kind, key, begun, l.by.ended.At, in)
	d.wrong[l.by] = true
	return d
}

func (d *drawing) tellLostUpdate(l lostUpdate) string {
	first, last := d.who(l.undone.by), d.who(l.by.by)
	switch {
	case l.undone.read != nil && l.undone.read.Stock == l.by.read.Stock && l.undone.unguarded():
		return fmt.Sprintf("%s and %s both read a stock of %d; %s writes %d, committed at %s, and %s writes %d over it at %s: one of the two is lost",
			first, last, l.by.read.Stock, first, l.undone.write.Stock, d.when(l.undone.ended.At), last, l.by.write.Stock, d.when(l.by.ended.At))
	case l.undone.unguarded():
		return fmt.Sprintf("%s reads a stock of %d; %s commits %d at %s; at %s %s commits %d over it, computed from what it had read",
			last, l.by.read.Stock, first, l.undone.write.Stock, d.when(l.undone.ended.At), d.when(l.by.ended.At), last, l.by.write.Stock)
	}
	return fmt.Sprintf("%s reads a stock of %d; %s takes one at %s; at %s %s commits %d, computed from what it had read",
		last, l.by.read.Stock, first, d.when(l.undone.ended.At), d.when(l.by.ended.At), last, l.by.write.Stock)
}

func (h *history) showLostOrder(found []Ack) (finding.Witness, bool) {
	if h.Rows == nil {
		return finding.Witness{}, false
	}
	for _, ack := range found {
		for _, s := range h.sales {
			if s.insert == nil || s.insert.Order != ack.Order {
				continue
			}
			in := involved{sales: []*sale{s}}
			key := ""
			if s.under != nil {
				key, in.holds = s.under.key, []*hold{s.under}
			}
			d := h.draw(finding.LostOrders, key, s.began, min(s.over(), h.End), in)
			d.wrong[s], d.sold = true, true
			return d.witness(fmt.Sprintf("%s is told that its order %d is placed; at the end the database does not have it.", d.who(s.by), ack.Order)), true
		}
	}
	return finding.Witness{}, false
}

// showDuplicates shows two orders of one user, of those in the database the two that
// were under way together the longest.
func (h *history) showDuplicates() (finding.Witness, bool) {
	type pair struct{ one, other *sale }
	type buyer struct{ voucher, user int64 }
	before := map[buyer]*sale{}
	var pairs []pair
	for _, s := range h.sales {
		if s.insert == nil || s.committed() == nil {
			continue
		}
		b := buyer{s.voucher, s.insert.User}
		if before[b] != nil {
			pairs = append(pairs, pair{before[b], s})
		}
		before[b] = s
	}
	together := func(p pair) int64 { return p.one.ended.At - p.other.began }
	p, ok := best(pairs, together)
	if !ok {
		return finding.Witness{}, false
	}
	in := involved{sales: []*sale{p.one, p.other}}
	key := ""
	for _, s := range in.sales {
		if s.under != nil {
			key, in.holds = s.under.key, append(in.holds, s.under)
		}
	}
	d := h.draw(finding.DuplicateOrders, key, min(p.one.began, p.other.began), p.other.ended.At, in)
	d.sold, d.wrong[p.other] = true, true
	summary := fmt.Sprintf("User %d has two orders", p.one.insert.User)
	asked, also := p.one.checked, p.other.checked
	switch {
	case asked != nil && also != nil && !asked.Found && !also.Found:
		summary += fmt.Sprintf(": both look for an earlier one, at %s and at %s, and find none; the first is committed at %s, the second at %s",
			d.when(asked.At), d.when(also.At), d.when(p.one.ended.At), d.when(p.other.ended.At))
	case together(p) > 0:
		summary += fmt.Sprintf(": the second is begun at %s, before the first is committed at %s", d.when(p.other.began), d.when(p.one.ended.At))
	}
	return d.witness(summary + "."), true
}

// showOversold shows how one voucher became two: by a lost update, else by two
// holders, else by whoever committed beyond the stock.
func (h *history) showOversold(a *anomalies) (finding.Witness, bool) {
	if h.Audit == nil || h.Audit.Oversold() == 0 {
		return finding.Witness{}, false
	}
	many := fmt.Sprintf("Of %d vouchers %d were sold.", h.Audit.InitialStock, h.Audit.Orders)
	if l, ok := best(a.lostUpdates, h.visible); ok {
		d := h.drawLostUpdate(finding.Oversold, l)
		return d.witness(d.tellLostUpdate(l) + ". " + many), true
	}
	if o, ok := best(a.overlaps, func(o overlap) int64 { return o.lasted(h.End) }); ok {
		d := h.drawOverlap(finding.Oversold, o)
		return d.witness(d.tellOverlap(o) + " " + many), true
	}
	var sold []*sale
	for _, s := range h.sales {
		if s.insert != nil && s.committed() != nil {
			sold = append(sold, s)
		}
	}
	if len(sold) < 2 {
		return finding.Witness{}, false
	}
	last := sold[len(sold)-2:]
	d := h.draw(finding.Oversold, "", last[0].began, last[1].ended.At, involved{sales: last})
	d.sold, d.wrong[last[1]] = true, true
	return d.witness(fmt.Sprintf("%s and %s order in turn, the last ones of too many. %s", d.who(last[0].by), d.who(last[1].by), many)), true
}
