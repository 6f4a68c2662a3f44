package locktest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Promises is what a mechanism claims about each behaviour.
type Promises map[Behaviour]Claim

// Claim is what a mechanism declares about one behaviour.
type Claim struct {
	kind   claimKind
	reason string
}

type claimKind string

const (
	holds         claimKind = "holds"
	breaks        claimKind = "breaks"
	notApplicable claimKind = "n.a."
)

// Holds claims that users can rely on the behaviour.
func Holds() Claim { return Claim{kind: holds} }

// Breaks claims that the behaviour fails every time, and gives the reason.
func Breaks(why string) Claim { return Claim{kind: breaks, reason: why} }

// NotApplicable claims that the behaviour makes no sense here, and gives the reason.
func NotApplicable(why string) Claim { return Claim{kind: notApplicable, reason: why} }

// Except returns a copy of p in which the given behaviours have the given claim.
func (p Promises) Except(claim Claim, behaviours ...Behaviour) Promises {
	changed := maps.Clone(p)
	for _, name := range behaviours {
		changed[name] = claim
	}
	return changed
}

// A mechanism declares its promises as a difference from one of the tables below.
// Each of them differs from the one before it by a property that a family of locks
// has in common.

// AllHold promises every behaviour of [Behaviours].
func AllHold() Promises { return allHold(behaviours()) }

// AndShared adds the promise of every behaviour of a read-write lock.
func (p Promises) AndShared() Promises { return p.Except(Holds(), SharedBehaviours()...) }

func allHold(table []behaviour) Promises { return make(Promises).Except(Holds(), names(table)...) }

// table returns the behaviours that a mechanism must make claims about: those of a read-write lock if it claims to be one.
func (p Promises) table() []behaviour {
	if _, shared := p[ReadersShare]; shared {
		return slices.Concat(behaviours(), sharedBehaviours())
	}
	return behaviours()
}

// NoTokens is [AllHold] for a lock without fencing tokens.
func NoTokens() Promises {
	return AllHold().Except(Breaks("no tokens"), TokensGrow, TokenStaysOnReentry, TokensOutliveLock, LinearizableFenced)
}

// Polling is [NoTokens] for a lock without re-entry whose waiters poll.
func Polling() Promises {
	return NoTokens().
		Except(Breaks("an owner waits for itself"), Reenters, LinearizableReentrant).
		Except(NotApplicable("no re-entry"), ReentryKeepsLease, InnerDoesNotShorten).
		Except(Breaks("waiters poll"), WakesByMessage).
		Except(Breaks("there is no queue: the next caller gets the lock"), ServesInOrder, ServesInOrderAcrossProcesses,
			QueueSurvivesPause)
}

// FixedLease is [Polling] for a lock whose lease is fixed: nothing renews or extends
// it, nothing tells the holder that it has ended, and nobody else can end it.
func FixedLease() Promises {
	return Polling().
		Except(Breaks("the lease is fixed"), SurvivesLongHold).
		Except(Breaks("a lease cannot be extended"), ExtendsLease).
		Except(NotApplicable("no watchdog"), RenewalIsRetried, RenewalEndsWithRelease, RenewsOnlyOwn, ToldBeforeOthersGetIn).
		Except(Breaks("nothing tells the holder"), ToldWhenDeleted, ToldWhenStolen, ToldWhenExpired).
		Except(Breaks("there is no forced release"), CanBeForced)
}

// BlindDelete is [FixedLease] for a lock that is taken with SET NX and released with
// a DEL that does not compare the value.
func BlindDelete() Promises {
	return FixedLease().
		Except(Breaks("SET NX tells only that the key exists"), NamesHolder, RefusesWrongKind).
		Except(Breaks("the client repeats the command, and its own first one refuses it"), SurvivesLostGrantReply).
		Except(Breaks("the release is a DEL that does not compare the value"), ReleasesOnlyOwn, TellsExpiredFromLost,
			FollowsModel).
		Except(NotApplicable("the release compares nothing"), ReleasesAtomically)
}

// Only returns promises about the named behaviours. The others are not tested.
func Only(promises Promises, asked ...Behaviour) Promises {
	only := make(Promises, len(promises))
	for name, claim := range promises {
		if claim.kind != notApplicable && !slices.Contains(asked, name) {
			claim = NotApplicable("not tested here")
		}
		only[name] = claim
	}
	return only
}

// complete returns an error that names every behaviour without a claim and every
// claim without a reason.
func (p Promises) complete(table []behaviour) error {
	var wrong []error
	known := make(map[Behaviour]bool)
	for _, b := range table {
		known[b.name] = true
		switch claim := p[b.name]; {
		case claim.kind == "":
			wrong = append(wrong, fmt.Errorf("locktest: there is no claim about %s (%s)", b.name, b.description))
		case claim.kind != holds && claim.reason == "":
			wrong = append(wrong, fmt.Errorf("locktest: the claim about %s needs a reason", b.name))
		}
	}
	for name := range p {
		if !known[name] {
			wrong = append(wrong, fmt.Errorf("locktest: no behaviour is called %q", name))
		}
	}
	return errors.Join(wrong...)
}

// verify compares a claim with what a trial observed. Only a [*violationError] proves
// that a behaviour breaks: a trial that could not be run proves nothing.
func (c Claim) verify(seen error) error {
	violation, violated := errors.AsType[*violationError](seen)
	switch {
	case seen != nil && !violated:
		return fmt.Errorf("the trial failed: %w", seen)
	case c.kind == holds && violated:
		return fmt.Errorf("promised, but %w", violation)
	case c.kind == breaks && !violated:
		return fmt.Errorf("declared to break (%s), but it held", c.reason)
	}
	return nil
}

// open reports whether a trial in which the machine stalled for some time has decided nothing about a claim.
func (c Claim) open(name Behaviour, found error, stalled time.Duration) bool {
	_, violated := errors.AsType[*violationError](found)
	if c.kind == breaks {
		return !violated
	}
	_, late := errors.AsType[*lateServerError](found)
	return late || found != nil && stalled > stallLimit && (!violated || !name.timeless())
}
