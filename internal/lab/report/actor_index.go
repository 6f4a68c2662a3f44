package report

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

// actorIndex gives every actor of a witness a number, which is its colour and letter.
type actorIndex map[string]int

// newActorIndex numbers the actors from 1, in the order of their lanes; those that only
// the stores name come last.
// Those of the other pictures of the experiment count as well.
func newActorIndex(wit finding.Witness) actorIndex {
	c, lanes := actorIndex{}, wit.Lanes
	add := func(name string) {
		if name != "" && c[name] == 0 {
			c[name] = len(c) + 1
		}
	}
	for _, name := range wit.Actors {
		add(name)
	}
	for _, lane := range lanes {
		if lane.Role == finding.Actor {
			add(lane.Name)
		}
	}
	for _, lane := range lanes {
		for _, s := range lane.Spans {
			add(s.Who)
		}
		for _, m := range lane.Marks {
			add(m.Who)
		}
	}
	return c
}

// owner is the number of the one whom something in a lane concerns; 0: nobody.
func (c actorIndex) owner(lane finding.Lane, who string) int {
	if who == "" && lane.Role == finding.Actor {
		who = lane.Name
	}
	return c[who]
}

// ownerColours is the number of colours. After that they repeat, and the letters go on.
const ownerColours = 7

func colourNumber(owner int) int {
	if owner <= 0 {
		return 0
	}
	return (owner-1)%ownerColours + 1
}

// letter is what an owner is called where a name has no room.
func letter(owner int) string {
	if owner <= 0 {
		return ""
	}
	if owner > 26 {
		return strconv.Itoa(owner)
	}
	return string(rune('A' + owner - 1))
}

// shortName is a lane's name without the process in brackets.
func shortName(name string) string {
	short, _, _ := strings.Cut(name, " (")
	return short
}

// arranged returns the lanes as they are drawn: actors, the lock's store, the
// database, and what was done to them.
func arranged(lanes []finding.Lane) []finding.Lane {
	rank := []finding.Role{finding.Actor, finding.LockStore, finding.Database, finding.Fault}
	sorted := slices.Clone(lanes)
	slices.SortStableFunc(sorted, func(a, b finding.Lane) int {
		return slices.Index(rank, a.Role) - slices.Index(rank, b.Role)
	})
	return sorted
}

// period is what the picture shows, in ms: from its beginning to the last thing
// that happens. It is extended to begin at the moment earliest, if there is one, and to end at latest.
func period(lanes []finding.Lane, earliest *float64, latest float64) (from, to float64) {
	from, to = (&finding.Witness{Lanes: lanes}).Period()
	if earliest != nil {
		from = min(from, *earliest)
	}
	if to = max(to, latest); to == from {
		to = from + 1
	}
	if lead := (to - from) / 20; from < 4*lead {
		return min(from, 0), to // it begins with the run
	}
	return from - (to-from)/40, to
}

// ticks are round times in a period, about so many.
func ticks(from, to float64, about int) []float64 {
	step, factors := 1e-3, [...]float64{2, 2.5, 2} // 1, 2, 5, 10, …
	for i := 0; (to-from)/step > float64(about); i++ {
		step *= factors[i%len(factors)]
	}
	var at []float64
	for n := math.Ceil(from / step); n*step <= to+step/1e6; n++ {
		at = append(at, n*step)
	}
	return at
}

// spanText is what stands in a bar, and whether it must be told: a holder that
// holds is plain from its lane, whose a store's key is is not.
func spanText(s finding.Span, role finding.Role) (text i18n.Text, must bool) {
	switch {
	case !s.Label.IsZero():
		return s.Label, true
	case role != finding.Actor && s.Who != "":
		return i18n.Of(i18n.Name(shortName(s.Who))), true
	}
	return spanKindOf(s.Kind).word, s.Kind == finding.Transacts
}

// text is what stands beside a mark. In the lane of a store the actor's letter comes first.
func (c actorIndex) text(lane finding.Lane, m finding.Mark) i18n.Text {
	owner, of := letter(c.owner(lane, m.Who)), letter(c[m.Of])
	switch {
	case m.Kind == finding.Renews && m.Label.IsZero(): // like the ones before it
		return i18n.Text{}
	case of != "" && lane.Role == finding.Actor:
		return i18n.F("deletes %s’s lock", of)
	case of != "" && owner != "":
		return i18n.F("%s’s release deletes %s’s lock", owner, of)
	case owner != "" && lane.Role != finding.Actor && m.Label.String() == "lease over":
		return i18n.F("%s’s %s", owner, markText(m))
	case owner != "" && lane.Role != finding.Actor:
		return i18n.Join(i18n.Plain(owner+": "), markText(m))
	}
	return markText(m)
}

func markText(m finding.Mark) i18n.Text {
	if !m.Label.IsZero() {
		return m.Label
	}
	return markKindOf(m.Kind).word
}

// num writes a number with as many digits as tell something.
func num(v float64) string {
	switch {
	case v >= 100 || v == float64(int64(v)):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// unit is what times on an axis are written in.
type unit struct {
	name string
	ms   float64
}

// unitOf returns seconds for an axis that goes as far as ten of them.
func unitOf(last float64) unit {
	const second = 1000
	if last >= 10*second {
		return unit{"s", second}
	}
	return unit{"ms", 1}
}

func (u unit) of(ms float64) string { return num(ms / u.ms) }

// short is a time to the tenth of a millisecond below ten of them, or to the hundredth of a second.
func (u unit) short(ms float64) string {
	digits := 0
	switch {
	case u.ms > 1:
		digits = 2
	case ms < 10:
		digits = 1
	}
	return strconv.FormatFloat(ms/u.ms, 'f', digits, 64)
}
