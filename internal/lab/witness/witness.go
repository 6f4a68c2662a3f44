// Package witness draws what the judge found: for each kind of anomaly the smallest set of events that proves it, as
// lanes on one time axis.
//
//   - [Proofs] draws the anomalies that [judge.Judge] found.
//   - [Picture] draws how an anomaly was prevented, for an experiment that holds.
//   - [Tell] draws an anomaly that a scenario found itself.
package witness

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
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

// Proofs draws one witness of each kind of anomaly that was found: those that it is about in their order, then the
// others, the gravest kind first. It chooses anomalies of the actors of earlier witnesses, if there are any, with the
// fewest actors, and of these the most visible ones.
func Proofs(j judge.Judgement, about ...finding.Kind) []finding.Witness {
	h, found := &history{History: j.History}, j.Incidents
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

// Gather makes the pictures of one experiment tell one story, the most important one first:
//
//   - an anomaly that happens to the actors of an earlier picture, while it lasts, shares it;
//   - buyers who came in a crowd are numbered in the order of their lanes;
//   - an actor has the same letter and colour in all pictures.
func Gather(all []finding.Witness) []finding.Witness {
	var kept []finding.Witness
	for _, w := range all {
		i := slices.IndexFunc(kept, func(k finding.Witness) bool { return w.Kind != "" && shows(k, w) })
		if i >= 0 {
			kept[i].Also = append(slices.Clip(kept[i].Also), finding.Aside{Kind: w.Kind, Summary: w.Summary})
			continue
		}
		kept = append(kept, w)
	}
	cast := cast{}
	var actors []string
	for i := range kept {
		for _, lane := range kept[i].Lanes {
			if lane.Role == finding.Actor {
				if name := cast.rename(lane.Name); !slices.Contains(actors, name) {
					actors = append(actors, name)
				}
			}
		}
	}
	for i := range kept {
		kept[i] = cast.witness(kept[i])
		kept[i].Actors = actors
	}
	return kept
}

// shows reports whether a picture has the actors of another one, and most of its time.
func shows(picture, other finding.Witness) bool {
	actors := func(w finding.Witness) (names []string) {
		for _, lane := range w.Lanes {
			if lane.Role == finding.Actor {
				names = append(names, lane.Name)
			}
		}
		return names
	}
	mine := actors(picture)
	for _, name := range actors(other) {
		if !slices.Contains(mine, name) {
			return false
		}
	}
	from, to := extent(picture)
	otherFrom, otherTo := extent(other)
	common := min(to, otherTo) - max(from, otherFrom)
	return 2*common >= otherTo-otherFrom
}

// extent is the time from the first to the last thing that is drawn.
func extent(w finding.Witness) (from, to float64) {
	from = 1e18
	for _, lane := range w.Lanes {
		for _, s := range lane.Spans {
			from, to = min(from, s.From), max(to, s.To)
		}
		for _, m := range lane.Marks {
			from, to = min(from, m.At), max(to, m.At)
		}
	}
	return from, to
}

// cast maps the numbers of a crowd's buyers to the numbers that the pictures give them. A crowd's buyers are served by
// API processes. The scenario itself names all other actors.
type cast map[string]int

var (
	inCrowd   = regexp.MustCompile(`^buyer (\d+) \(api-\d+\)`)
	mentioned = regexp.MustCompile(`\b([Bb]uyer|[Uu]ser) (\d+)\b`)
)

// rename returns a lane's name with the buyer's new number. The first lane of a buyer determines it.
func (c cast) rename(lane string) string {
	if m := inCrowd.FindStringSubmatch(lane); m != nil && c[m[1]] == 0 {
		c[m[1]] = len(c) + 1
	}
	return c.text(lane)
}

// text replaces the numbers in a text. A buyer without a lane becomes "another buyer".
func (c cast) text(s string) string {
	if len(c) == 0 {
		return s
	}
	return mentioned.ReplaceAllStringFunc(s, func(found string) string {
		who, number, _ := strings.Cut(found, " ")
		if n := c[number]; n > 0 {
			return who + " " + strconv.Itoa(n)
		}
		if strings.ToLower(who) == who {
			return "another " + who
		}
		return "Another " + strings.ToLower(who)
	})
}

// told replaces the names in a text.
func (c cast) told(t i18n.Text) i18n.Text {
	if len(c) == 0 {
		return t
	}
	return t.Rename(func(n i18n.Name) i18n.Name { return i18n.Name(c.text(string(n))) })
}

func (c cast) witness(w finding.Witness) finding.Witness {
	w.Summary = c.told(w.Summary)
	w.Also = slices.Clone(w.Also)
	for i := range w.Also {
		w.Also[i].Summary = c.told(w.Also[i].Summary)
	}
	w.Lanes = slices.Clone(w.Lanes)
	for i := range w.Lanes {
		lane := &w.Lanes[i]
		lane.Name, lane.Spans, lane.Marks = c.text(lane.Name), slices.Clone(lane.Spans), slices.Clone(lane.Marks)
		for j := range lane.Spans {
			s := &lane.Spans[j]
			s.Who, s.Label = c.text(s.Who), c.told(s.Label)
		}
		for j := range lane.Marks {
			m := &lane.Marks[j]
			m.Who, m.Of, m.Label = c.text(m.Who), c.text(m.Of), c.told(m.Label)
		}
	}
	return w
}
