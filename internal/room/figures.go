package room

import (
	"cmp"
	"slices"
)

// Figures are the numbers of a room, for an operator.
type Figures struct {
	VoucherID                 int64
	Tickets, Waiting, Serving int64
	Backlog, UnitsLeft, Rate  int64
	Issued, Spent, Lapsed     int64
	Calling                   bool
}

// Figures returns those of the fullest rooms that this instance has open.
func (s *Service) Figures(most int) []Figures {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []Figures
	for _, l := range s.rooms {
		seen := l.view()
		if seen == nil { // not loaded yet
			continue
		}
		f := Figures{
			VoucherID: l.id, Tickets: seen.Tickets, Waiting: seen.Tickets - seen.Serving, Serving: seen.Serving,
			Backlog: seen.Backlog, UnitsLeft: max(0, seen.stock.Left), Issued: seen.Issued, Spent: seen.Spent, Lapsed: seen.Lapsed,
			Calling: seen.Drawn >= 0 && !seen.paused && !seen.ended,
		}
		if room := l.voucher.Load().Policy.Room; room != nil {
			f.Rate = room.Rate
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b Figures) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.VoucherID, b.VoucherID))
	})
	return all[:min(most, len(all))]
}
