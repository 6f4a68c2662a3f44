package steps

import (
	"slices"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

// asks finds what a visitor is asked: what makes the anomaly possible, and then the first thing that should not be. Where
// it was prevented, that is asked for. What has no opposite is not asked for.
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
