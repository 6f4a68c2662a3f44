package steps

import (
	"slices"
	"strings"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

// kind says what a change is.
type kind int

const (
	other    kind = iota // told by its text
	asks                 // for the lock
	granted              // the lock
	takenFor             // a store has the key
	loses                // the lock, and does not know it
	expired              // a lease
	releases             // begins to release
	deletes              // a release deletes a key
	commits              // the database
	refuses              // the database
	rejected             // an acquisition
	killed
	told
	stops
	wakes
	renews
)

// Ranks: of several traces of one cause the highest is told.
const (
	follows = iota // from what happens at the same time, and is seldom told
	trace
	cause
)

// change is something that changes in one lane.
type change struct {
	at, until float64
	rank      int
	kind      kind
	who, of   string // actors, as their lanes are named
	where     string // a store
	text      i18n.Text
	wrong     bool
	cause     bool
	deleted   bool       // a key goes with it
	source    string     // the same for all traces of one cause; "": it has one
	moves     []*float64 // the times in the picture that are this moment
}

// teller finds the changes in a picture, and tells them.
type teller struct {
	w     finding.Witness
	short map[string]i18n.Name
	wrote string // whose write was told last
}

// name is what an actor is called in a sentence.
func (t *teller) name(who string) i18n.Name {
	if short, ok := t.short[who]; ok {
		return short
	}
	return i18n.Name(who)
}

func (t *teller) changes() (all []*change) {
	for i := range t.w.Lanes {
		lane := &t.w.Lanes[i]
		for j := range lane.Spans {
			if c := t.begin(lane, j); c != nil {
				c.at, c.moves = lane.Spans[j].From, append(c.moves, &lane.Spans[j].From)
				all = append(all, c)
			}
		}
		for j := range lane.Marks {
			m := &lane.Marks[j]
			c := t.mark(lane, m)
			c.at, c.moves, c.wrong, c.cause = m.At, []*float64{&m.At}, m.Wrong, m.Cause
			t.ending(c, lane)
			all = append(all, c)
		}
	}
	return all
}

// ending takes what ends with a mark. A hold ends a little before the event that says so.
func (t *teller) ending(c *change, lane *finding.Lane) {
	for j := range lane.Spans {
		s := &lane.Spans[j]
		if lane.Role == finding.LockStore && s.To == c.at { // a key ends where it is seen no more
			c.moves = append(c.moves, &s.To)
		}
		if c.kind != releases && c.kind != told && c.kind != killed {
			continue
		}
		if s.Kind != finding.Paused && s.Kind != finding.Down && !s.Open && s.To <= c.at && c.at-s.To <= sameCause {
			c.moves = append(c.moves, &s.To)
		}
	}
}

// begin is the change that a span begins with; nil if another one tells it.
func (t *teller) begin(lane *finding.Lane, i int) *change {
	s := &lane.Spans[i]
	switch s.Kind {
	case finding.Waits:
		if !s.Label.IsZero() {
			return &change{rank: follows, text: i18n.F("%s: %s", t.name(lane.Name), s.Label)}
		}
		return &change{rank: trace, kind: asks, who: lane.Name}
	case finding.Held, finding.Reads:
		c := &change{rank: cause, kind: granted, who: lane.Name, source: "grant " + lane.Name, wrong: s.Wrong}
		for j := range lane.Spans { // its wait ends with it
			if wait := &lane.Spans[j]; wait.Kind == finding.Waits && wait.To == s.From {
				c.moves = append(c.moves, &wait.To)
			}
		}
		if !s.Label.IsZero() {
			c.text = i18n.F("%s comes in", t.name(lane.Name))
		}
		return c
	case finding.Believes:
		for j := range lane.Spans {
			if before := &lane.Spans[j]; before.To == s.From && (before.Kind == finding.Held || before.Kind == finding.Reads) {
				return &change{rank: follows, kind: loses, who: lane.Name, moves: []*float64{&before.To}}
			}
		}
		return &change{rank: cause, kind: granted, who: lane.Name, source: "grant " + lane.Name, wrong: s.Wrong}
	case finding.Stored:
		return &change{rank: trace, kind: takenFor, who: s.Who, where: lane.Name, text: t.valueOf(*s), source: "grant " + s.Who}
	case finding.Transacts:
		return &change{rank: trace, text: i18n.F("%s begins its transaction", t.name(lane.Name))}
	case finding.Paused:
		if lane.Role == finding.Actor {
			return &change{rank: trace, kind: stops, who: lane.Name}
		}
		return &change{rank: follows, text: s.Label}
	case finding.Down:
		if lane.Role == finding.Actor || s.Open && s.Label.IsZero() {
			return &change{rank: follows, text: i18n.F("%s is cut off", t.name(lane.Name))}
		}
		return &change{rank: follows, text: s.Label}
	}
	return nil
}

// mark is the change that a mark is.
func (t *teller) mark(lane *finding.Lane, m *finding.Mark) *change {
	c := &change{rank: cause, who: m.Who, of: m.Of}
	switch lane.Role {
	case finding.Actor:
		c.who = lane.Name
		t.deed(c, m)
	case finding.LockStore:
		c.where = lane.Name
		t.removal(c, m)
	case finding.Database:
		c.where, c.text = lane.Name, m.Label
		switch {
		case m.Who == "":
			c.text = i18n.F("%s: %s", i18n.Name(lane.Name), m.Label)
		case m.Kind == finding.Refuses:
			c.kind = refuses
		default:
			c.kind = commits
		}
	case finding.Fault:
		c.text = m.Label
		if m.Kind == finding.Killed {
			c.rank = follows
		}
	}
	return c
}

// deed is what an actor does, or what happens to it.
func (t *teller) deed(c *change, m *finding.Mark) {
	who := t.name(c.who)
	switch m.Kind {
	case finding.Releases:
		c.kind, c.source = releases, "release "+c.who
	case finding.Refuses:
		c.kind, c.text = rejected, m.Label
		if label := m.Label.String(); label != "refused" && label != "gives up" {
			c.kind, c.text = other, i18n.F("%s: %s", who, m.Label)
		}
	case finding.Killed:
		c.kind, c.text = killed, m.Label
	case finding.Told:
		c.kind = told
	case finding.Wakes:
		c.kind = wakes
	case finding.ReadsStock, finding.WritesStock:
		c.text = i18n.F("%s %s", who, m.Label)
	case finding.Notes, finding.Expires, finding.Deletes, finding.Renews:
		if c.text = i18n.F("%s: %s", who, m.Label); slices.Contains(deeds(), m.Label.String()) {
			c.text = i18n.F("%s %s", who, m.Label)
		}
		for _, s := range t.spansOf(c.who) { // a note on a grant: "on 2 of 3 nodes"
			if s.From == m.At && (s.Kind == finding.Held || s.Kind == finding.Believes) {
				c.rank = follows
			}
		}
	}
}

// deeds are notes that say what their actor does.
func deeds() []string { return []string{"leaves", "orders", "finds no order", "finds an order"} }

func (t *teller) spansOf(who string) []finding.Span {
	for _, lane := range t.w.Lanes {
		if lane.Name == who {
			return lane.Spans
		}
	}
	return nil
}

// removal is how a key leaves a store.
func (t *teller) removal(c *change, m *finding.Mark) {
	c.text = i18n.F("%s: %s", i18n.Name(c.where), m.Label)
	switch {
	case m.Label.String() == "gone":
		c.text = i18n.F("the key is gone from %s", i18n.Name(c.where))
	case m.Kind == finding.Renews && m.Who != "":
		c.kind = renews
	case m.Kind == finding.Expires && m.Who != "":
		c.kind, c.source = expired, "lease "+m.Who
	case m.Kind == finding.Deletes && m.Who != "":
		c.kind, c.rank, c.deleted, c.source = deletes, trace, true, "release "+m.Who
		if m.Of != "" {
			c.rank = cause
		}
	}
}

// says tells a step in a sentence. before is what was so.
func (t *teller) says(c *change, before State) i18n.Text {
	who, where := t.name(c.who), i18n.Name(c.where)
	switch c.kind {
	case asks:
		return i18n.F("%s asks for the lock", who)
	case granted:
		return t.saysGrant(c, before)
	case takenFor:
		return i18n.F("%s has the key of %s", where, c.text)
	case loses:
		return i18n.F("%s holds the lock no longer, and does not know it", who)
	case expired:
		return i18n.F("the lease of %s is over, and %s lets its key go", who, where)
	case renews:
		return i18n.F("%s renews the lease of %s", where, who)
	case releases:
		switch of := t.ownerOf(c.who, before); {
		case t.early(c):
			return i18n.F("%s begins to release the lock", who)
		case c.of != "":
			return i18n.F("the release of %s deletes the lock of %s", who, t.name(c.of))
		case of != "" && !c.deleted:
			return i18n.F("%s releases, and the lock of %s stays", who, t.name(of))
		}
		return i18n.F("%s releases the lock", who)
	case deletes:
		if c.of != "" {
			return i18n.F("the release of %s deletes the lock of %s", who, t.name(c.of))
		}
		return i18n.F("the key of %s is gone from %s", who, where)
	case commits:
		last := t.wrote
		if t.wrote = c.who; c.wrong && last != "" && last != c.who && strings.Contains(c.text.String(), "→") { // the whole stock, and not less one
			return i18n.F("%s commits what %s wrote, over what %s wrote: %s", where, who, t.name(last), c.text)
		}
		return i18n.F("%s commits what %s wrote: %s", where, who, c.text)
	case refuses:
		return i18n.F("%s refuses what %s wrote", where, who)
	case rejected:
		if c.text.String() == "gives up" {
			return i18n.F("%s gives up", who)
		}
		return i18n.F("%s is refused the lock", who)
	case killed:
		if c.text.String() == "gone" {
			return i18n.F("%s is gone without a release", who)
		}
		return i18n.F("%s is killed", who)
	case told:
		return i18n.F("%s is told that it holds the lock no longer", who)
	case stops:
		return i18n.F("the process of %s stands still", who)
	case wakes:
		return i18n.F("the process of %s goes on", who)
	case other:
	}
	return c.text
}

// saysGrant tells who gets the lock, and who believes to have it.
func (t *teller) saysGrant(c *change, before State) i18n.Text {
	who := t.name(c.who)
	switch {
	case !c.text.IsZero():
		return c.text
	case t.other(c.who, finding.Believes, before) != "":
		return i18n.F("%s gets the lock; %s believes that it has it, too", who, t.name(t.other(c.who, finding.Believes, before)))
	case t.other(c.who, finding.Held, before) != "":
		return i18n.F("%s gets the lock beside %s", who, t.name(t.other(c.who, finding.Held, before)))
	}
	return i18n.F("%s gets the lock", who)
}

// early reports whether a release only begins: the key that it deletes is another's later.
func (t *teller) early(c *change) bool {
	if c.kind != releases || c.deleted {
		return false
	}
	for _, lane := range t.w.Lanes {
		for _, m := range lane.Marks {
			if lane.Role == finding.LockStore && m.Kind == finding.Deletes && m.Who == c.who && !slices.Contains(c.moves, &m.At) && m.Of == c.of {
				return c.of != ""
			}
		}
	}
	return false
}

// other is another actor in a state; "" if there is none.
func (t *teller) other(who string, does finding.SpanKind, s State) string {
	i := 0
	for _, lane := range t.w.Lanes {
		if lane.Role != finding.Actor {
			continue
		}
		if lane.Name != who && s.Actors[i].Does == does {
			return lane.Name
		}
		i++
	}
	return ""
}

// ownerOf is another actor whose key every store has that has one; "" if there is none.
func (t *teller) ownerOf(who string, s State) (owner string) {
	for _, k := range s.Keys {
		switch {
		case k.Text.IsZero():
		case k.Who == "" || k.Who == who || owner != "" && owner != k.Who:
			return ""
		default:
			owner = k.Who
		}
	}
	return owner
}
