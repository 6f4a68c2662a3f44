package judge

import (
	"strings"

	"seckill/internal/lab/finding"
)

// Judge counts the anomalies that the evidence shows, and proves each kind.
func Judge(ev Evidence) Judgement {
	h := newHistory(ev)
	found := h.find()
	j := Judgement{Anomalies: found.counts(h)}
	proofs := found.witnesses(h)
	for _, info := range finding.Kinds() {
		if w, proven := proofs[info.Kind]; proven && j.Anomalies[info.Kind] > 0 {
			j.Witnesses = append(j.Witnesses, w)
		}
	}
	if len(h.holds) > 0 {
		verdict, judged := h.mutex()
		j.Measures = append(j.Measures, finding.Measure{
			Name: "porcupine: " + strings.ToLower(string(verdict)), Value: float64(judged), Unit: "operations",
		})
	}
	return j
}

// anomalies are all that were found.
type anomalies struct {
	overlaps    []overlap
	stale       []stale
	lostUpdates []lostUpdate
	lostOrders  []Ack
	lockedOut   []lockedOut
	stuck       []stuck
}

func (h *history) find() *anomalies {
	return &anomalies{
		overlaps: h.overlaps(), stale: h.staleWrites(), lostUpdates: h.lostUpdates(), lostOrders: h.lostOrders(),
		lockedOut: h.lockedOuts(), stuck: h.stuckKeys(),
	}
}

// counts leaves out the kinds that the evidence says nothing about.
func (a *anomalies) counts(h *history) map[finding.Kind]int {
	n := map[finding.Kind]int{}
	if h.Audit != nil {
		n[finding.Oversold] = int(h.Audit.Oversold())
		n[finding.DuplicateOrders] = int(h.Audit.DuplicateOrders())
	}
	if h.Rows != nil {
		n[finding.LostOrders] = len(a.lostOrders)
	}
	if len(h.sales) > 0 {
		n[finding.LostUpdates] = len(a.lostUpdates)
		n[finding.StaleWrites] = len(a.stale)
	}
	if len(h.holds) > 0 {
		n[finding.Overlaps] = len(a.overlaps)
		n[finding.WrongReleases] = len(h.wrongs)
	}
	if len(h.store) > 0 {
		n[finding.StuckKeys] = len(a.stuck)
	}
	if len(h.fails) > 0 || len(h.store) > 0 {
		n[finding.LockedOut] = len(a.lockedOut)
	}
	return n
}

// witnesses are the best ones of each kind: those with the fewest actors, and of
// them those in which one sees the most.
func (a *anomalies) witnesses(h *history) map[finding.Kind]finding.Witness {
	proofs := map[finding.Kind]finding.Witness{}
	put := func(w finding.Witness, ok bool) {
		if ok {
			proofs[w.Kind] = w
		}
	}
	put(h.showOverlap(a.overlaps))
	put(h.showStale(a.stale))
	put(h.showLostUpdate(a.lostUpdates))
	put(h.showWrongRelease())
	put(h.showStuck(a.stuck))
	put(h.showLockedOut(a.lockedOut))
	put(h.showLostOrder(a.lostOrders))
	put(h.showDuplicates())
	put(h.showOversold(a))
	return proofs
}
