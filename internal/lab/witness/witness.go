// Package witness draws what the judge found: for each kind of anomaly the smallest set of
// events that proves it, as lanes on one time axis.
//
//   - [Proofs] draws the anomalies that [judge.Judge] found.
//   - [Picture] draws how an anomaly was prevented, for an experiment that holds.
//   - [Tell] draws an anomaly that a scenario found itself.
package witness

import (
	"slices"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
)

// history is the judge's history, with the methods that draw it.
type history struct {
	*judge.History
	drawn []judge.Actor   // the actors of the last drawing
	casts [][]judge.Actor // those of the proofs so far: others are shown of the same, if possible
}

// among returns the candidates whose actors are all in an earlier proof; if there are none, all.
func among[T any](h *history, candidates []T, actors func(T) []judge.Actor) []T {
	for _, cast := range h.casts {
		var some []T
		for _, c := range candidates {
			if !slices.ContainsFunc(actors(c), func(a judge.Actor) bool { return !slices.Contains(cast, a) }) {
				some = append(some, c)
			}
		}
		if len(some) > 0 {
			return some
		}
	}
	return candidates
}

// Proofs draws one witness of each kind of anomaly that was found: those that it is about in
// their order, then the others, the gravest kind first. It chooses anomalies of the actors of
// earlier witnesses, if there are any, with the fewest actors, and of these the most visible
// ones.
func Proofs(j judge.Judgement, about ...finding.Kind) []finding.Witness {
	h, found := &history{History: j.History}, j.Findings
	show := map[finding.Kind]func() (finding.Witness, bool){
		finding.Overlaps:        func() (finding.Witness, bool) { return h.showOverlap(found.Overlaps) },
		finding.StaleWrites:     func() (finding.Witness, bool) { return h.showStale(found.StaleWrites) },
		finding.LostUpdates:     func() (finding.Witness, bool) { return h.showLostUpdate(found.LostUpdates) },
		finding.WrongReleases:   h.showWrongRelease,
		finding.StuckKeys:       func() (finding.Witness, bool) { return h.showStuck(found.StuckKeys) },
		finding.LockedOut:       func() (finding.Witness, bool) { return h.showLockedOut(found.LockedOut) },
		finding.LostOrders:      func() (finding.Witness, bool) { return h.showLostOrder(found.LostOrders) },
		finding.DuplicateOrders: h.showDuplicates,
		finding.Oversold:        func() (finding.Witness, bool) { return h.showOversold(found) },
	}
	order := slices.Clone(about)
	for _, info := range finding.Kinds() {
		if !slices.Contains(order, info.Kind) {
			order = append(order, info.Kind)
		}
	}
	var witnesses []finding.Witness
	for _, kind := range order {
		if show[kind] == nil || j.Anomalies[kind] == 0 {
			continue
		}
		if w, proven := show[kind](); proven {
			witnesses = append(witnesses, w)
			h.casts = append(h.casts, h.drawn)
		}
	}
	return witnesses
}
