// Package witness draws what the judge found: for each kind of anomaly the smallest set of
// events that proves it, as lanes on one time axis.
//
//   - [Proofs] draws the anomalies that [judge.Judge] found.
//   - [Picture] draws how an anomaly was prevented, for an experiment that holds.
//   - [Tell] draws an anomaly that a scenario found itself.
package witness

import (
	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
)

// history is the judge's history, with the methods that draw it.
type history struct{ *judge.History }

// Proofs draws one witness of each kind of anomaly that was found, the gravest kind first.
// It chooses the anomalies with the fewest actors, and of these the most visible ones.
func Proofs(j judge.Judgement) []finding.Witness {
	h, found := &history{j.History}, j.Findings
	proofs := map[finding.Kind]finding.Witness{}
	put := func(w finding.Witness, ok bool) {
		if ok {
			proofs[w.Kind] = w
		}
	}
	put(h.showOverlap(found.Overlaps))
	put(h.showStale(found.StaleWrites))
	put(h.showLostUpdate(found.LostUpdates))
	put(h.showWrongRelease())
	put(h.showStuck(found.StuckKeys))
	put(h.showLockedOut(found.LockedOut))
	put(h.showLostOrder(found.LostOrders))
	put(h.showDuplicates())
	put(h.showOversold(found))
	var witnesses []finding.Witness
	for _, info := range finding.Kinds() {
		if w, proven := proofs[info.Kind]; proven && j.Anomalies[info.Kind] > 0 {
			witnesses = append(witnesses, w)
		}
	}
	return witnesses
}
