// Package steps tells a picture step by step: what happens, in one sentence each, and what the lock's store, the stock
// and the actors are after it.
//
// The steps are read from the picture itself, so every picture has them: that of a run, of a bench, of a schedule. What
// one cause does in two lanes is one step: a release, and the key that it deletes.
package steps

import (
	"cmp"
	"slices"
	"strings"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

// Walkthrough is a picture, told step by step.
type Walkthrough struct {
	Actors []string    // as their lanes are named
	Names  []i18n.Name // of the actors, as short as tells them apart
	Stores []string    // what may have the lock's key
	Steps  []Step      // in the order of time
	Asks   []Ask
	// ByStep is the picture with the numbers of the steps in place of times: every step has the same width.
	ByStep finding.Witness
}

// Step is something that happens.
type Step struct {
	At    float64 // ms, as the picture has it
	Says  i18n.Text
	Wrong bool // it should not happen
	Cause bool // it makes possible what should not
	After State
}

// State is what is so after a step.
type State struct {
	Keys   []Key // by store
	Stock  *int64
	Actors []Actor // by actor
}

// Key is what a store has under the lock's key: nothing if Text is empty.
type Key struct {
	Text i18n.Text
	Who  string // its owner, as the lane is named; "" if that is not in the picture
}

// Actor is what an actor is in. Does is "" if it has nothing to do with the lock.
type Actor struct {
	Does    finding.SpanKind // Waits, Held, Reads, Believes, or Down: it is dead
	Label   i18n.Text        // what it does where that is not what the kind means otherwise
	Stopped bool
}

// Ask is a question before a step: what happens next?
type Ask struct {
	Step  int       // that is asked for
	Other i18n.Text // what might have happened instead
}

// sameCause is the longest time between two lanes' traces of one cause, in ms: the observer sees a key later than its
// holder is told.
const sameCause = 20.0

// New reads the steps of a picture.
func New(w finding.Witness) Walkthrough {
	t := &teller{w: copyOf(w), short: shortNames(w)}
	h := Walkthrough{}
	for _, lane := range w.Lanes {
		switch lane.Role {
		case finding.Actor:
			h.Actors, h.Names = append(h.Actors, lane.Name), append(h.Names, t.name(lane.Name))
		case finding.LockStore:
			h.Stores = append(h.Stores, lane.Name)
		case finding.Database, finding.Fault:
		}
	}
	changes := t.group(t.changes())
	t.renumber(changes)
	h.ByStep = t.w
	for i, s := range changes {
		h.Steps = append(h.Steps, Step{At: s.at, Wrong: s.wrong, Cause: s.cause, After: t.state(i)})
	}
	for i, s := range changes {
		h.Steps[i].Says = i18n.Sentence(t.says(s, h.before(i)))
		h.Steps[i].Wrong = s.wrong && !t.early(s)
	}
	h.Asks = t.asks(w.Kind, changes, h.Steps)
	return h
}

// before is what is so before a step.
func (h Walkthrough) before(step int) State {
	if step == 0 {
		return State{Keys: make([]Key, len(h.Stores)), Actors: make([]Actor, len(h.Actors))}
	}
	return h.Steps[step-1].After
}

// copyOf is a picture whose times may be changed.
func copyOf(w finding.Witness) finding.Witness {
	w.Lanes = slices.Clone(w.Lanes)
	for i := range w.Lanes {
		w.Lanes[i].Spans, w.Lanes[i].Marks = slices.Clone(w.Lanes[i].Spans), slices.Clone(w.Lanes[i].Marks)
	}
	w.From, w.Until = new(-1.0), 0
	return w
}

// shortNames are the actors' names without their processes, where that leaves them apart.
func shortNames(w finding.Witness) map[string]i18n.Name {
	short, n := map[string]i18n.Name{}, map[string]int{}
	cut := func(name string) string {
		s, _, _ := strings.Cut(name, " (")
		return s
	}
	for _, lane := range w.Lanes {
		n[cut(lane.Name)]++
	}
	for _, lane := range w.Lanes {
		if short[lane.Name] = i18n.Name(lane.Name); n[cut(lane.Name)] == 1 {
			short[lane.Name] = i18n.Name(cut(lane.Name))
		}
	}
	return short
}

// group makes steps of changes: what one cause does in several lanes is one.
func (t *teller) group(changes []*change) (steps []*change) {
	slices.SortStableFunc(changes, func(a, b *change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.rank, a.rank)) })
	for _, c := range changes {
		i := slices.IndexFunc(steps, func(s *change) bool {
			return c.source != "" && c.source == s.source && c.at-s.at <= sameCause || c.rank == follows && c.at == s.until
		})
		if n := len(steps); n > 0 && c.kind == renews && steps[n-1].kind == renews && steps[n-1].who == c.who {
			i = n - 1
		}
		// What happens between two traces keeps the first one apart, unless that is the cause: a trace may be seen
		// late.
		if i >= 0 && (i == len(steps)-1 || steps[i].rank >= c.rank) {
			steps[i].join(c)
			continue
		}
		c.until = c.at
		steps = append(steps, c)
	}
	return steps
}

// join adds what the same cause does elsewhere. The step is told as the one that says most.
func (c *change) join(o *change) {
	c.moves = append(c.moves, o.moves...)
	c.until, c.deleted = o.at, c.deleted || o.deleted
	if o.rank > c.rank {
		c.rank, c.kind, c.who, c.of, c.where, c.text = o.rank, o.kind, o.who, o.of, o.where, o.text
	}
	c.wrong, c.cause = c.wrong || o.wrong, c.cause || o.cause
}

// renumber puts the steps' numbers in place of the times.
func (t *teller) renumber(steps []*change) {
	done := map[*float64]bool{}
	for i, s := range steps {
		for _, at := range s.moves {
			*at, done[at] = float64(i), true
		}
	}
	for i := range t.w.Lanes {
		lane := &t.w.Lanes[i]
		for j := range lane.Spans {
			s := &lane.Spans[j]
			n := slices.IndexFunc(steps, func(step *change) bool { return step.at >= s.To })
			switch {
			case s.Open || n < 0 && !done[&s.To]:
				s.To = float64(len(steps))
			case !done[&s.To]: // no step tells its end: it is seen until the next one
				s.To = float64(n)
			}
		}
	}
	t.w.Until = float64(len(steps))
}

// state is what is so after a step. The picture has the steps' numbers by now.
func (t *teller) state(step int) State {
	now := float64(step)
	var s State
	for _, lane := range t.w.Lanes {
		switch lane.Role {
		case finding.Actor:
			s.Actors = append(s.Actors, actorAt(lane, now))
		case finding.LockStore:
			s.Keys = append(s.Keys, t.keyAt(lane, now))
		case finding.Database:
			s.Stock = lane.Stock
			for _, m := range lane.Marks {
				if m.At <= now && m.Stock != nil {
					s.Stock = m.Stock
				}
			}
		case finding.Fault:
		}
	}
	return s
}

func actorAt(lane finding.Lane, now float64) (a Actor) {
	for _, span := range lane.Spans {
		if span.From > now || span.To <= now {
			continue
		}
		switch span.Kind {
		case finding.Waits, finding.Held, finding.Reads, finding.Believes:
			a.Does, a.Label = span.Kind, span.Label
		case finding.Paused, finding.Down:
			a.Stopped = true
		case finding.Stored, finding.Transacts:
		}
	}
	for _, m := range lane.Marks {
		if m.Kind == finding.Killed && m.At <= now {
			a = Actor{Does: finding.Down}
		}
	}
	return a
}

func (t *teller) keyAt(lane finding.Lane, now float64) (k Key) {
	for _, span := range lane.Spans {
		if span.Kind == finding.Stored && span.From <= now && span.To > now {
			k = Key{Text: t.valueOf(span), Who: span.Who}
		}
	}
	return k
}

// valueOf is what a store has under a key.
func (t *teller) valueOf(span finding.Span) i18n.Text {
	if span.Label.IsZero() {
		return i18n.Of(t.name(span.Who))
	}
	return span.Label
}

// asks finds what a visitor is asked: what makes the anomaly possible, and then the first thing that should not be.
// Where it was prevented, that is asked for. What has no opposite is not asked for.
func (t *teller) asks(about finding.Kind, changes []*change, steps []Step) (all []Ask) {
	ask := func(i int) bool {
		if i < 1 || len(all) > 0 && i <= all[len(all)-1].Step {
			return false
		}
		other := t.opposite(changes[i], steps[i-1].After)
		if other.IsZero() {
			return false
		}
		all = append(all, Ask{i, i18n.Sentence(other)})
		return true
	}
	first := func(is func(c *change) bool) {
		for i, c := range changes {
			if is(c) && ask(i) {
				return
			}
		}
	}
	if about == "" {
		first(func(c *change) bool { return slices.Contains([]kind{refuses, told, releases}, c.kind) })
		return all
	}
	first(func(c *change) bool { return c.cause })
	if about == finding.StuckKeys {
		first(func(c *change) bool { return c.kind == rejected })
		return all
	}
	first(func(c *change) bool { return c.wrong })
	return all
}

// opposite is what might have happened instead of a change; empty if there is nothing to say.
func (t *teller) opposite(c *change, before State) i18n.Text {
	who, where := t.name(c.who), i18n.Name(c.where)
	switch c.kind {
	case granted:
		for _, does := range []finding.SpanKind{finding.Believes, finding.Held} {
			if other := t.other(c.who, does, before); other != "" {
				return i18n.F("%s has to wait: %s has the lock", who, t.name(other))
			}
		}
	case expired:
		return i18n.F("%s keeps the lock until it releases it", who)
	case releases, deletes:
		switch of := t.ownerOf(c.who, before); {
		case t.early(c):
		case c.of != "":
			return i18n.F("%s finds that the lock is not its own, and leaves it to %s", who, t.name(c.of))
		case of != "" && !c.deleted:
			return i18n.F("the release of %s deletes the lock of %s", who, t.name(of))
		}
	case commits:
		return i18n.F("%s refuses what %s wrote", where, who)
	case refuses:
		return i18n.F("%s commits what %s wrote", where, who)
	case rejected:
		return i18n.F("%s gets the lock", who)
	case told:
		return i18n.F("%s goes on, and believes that it holds the lock", who)
	case other, asks, takenFor, loses, killed, stops, wakes, renews:
	}
	return i18n.Text{}
}
