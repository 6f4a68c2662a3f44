package locktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/lock"
)

// Subject is one mechanism on one store.
type Subject struct {
	// Process starts a further process: a locker on the same store, with
	// connections and bookkeeping of its own. What it opens is closed with tb.
	// A locker that is Remote dials through line where that is not nil.
	Process func(tb testing.TB, line *Line) lock.Locker
	// Remote says that lockers reach their store over connections.
	Remote bool
	// Renewed is the lease that a watchdog renews here for an acquisition
	// without a TTL; 0 where the mechanism has no watchdog. Half a second to a
	// second keeps the suite both fast and steady.
	Renewed time.Duration
	// Store is how to look into the store and disturb it.
	Store Store

	// Name is the mechanism's name in reports; the name of the folder where empty.
	Name string
	// Place is how long a waiter that has died keeps its place in a queue. 0 is
	// taken as a second.
	Place time.Duration
	// Votes says that a try may fail because others tried at the same time,
	// although none of them won: as when each has a part of the votes.
	Votes bool
	// Alone makes another subject, on a server that nobody else uses, for
	// behaviours that disturb a whole server. Its Process and Store take the place
	// of this subject's. May be nil.
	Alone Factory
	// Shared starts a further process of a read-write lock for [RunShared]; where
	// it is nil, what Process starts must be a [ReadWriter].
	Shared func(tb testing.TB, line *Line) ReadWriter

	promises Promises // what was claimed; of use where one promise is a part of another
}

// ReadWriter is one process's read-write lock: two lockers on the same keys. An
// owner (see [lock.WithOwner]) is the same one to both.
type ReadWriter interface {
	Reader() lock.Locker
	Writer() lock.Locker
}

// Store looks into what a mechanism keeps, and disturbs it. What a store does not
// have is nil; behaviours that need it are then not applicable.
type Store struct {
	// TTL is how long the store still grants key: 0 when it is free,
	// [lock.NoExpiry] when there is no end.
	TTL func(ctx context.Context, key string) (time.Duration, error)
	// Shorten lets the lease on key end after ttl, as if the rest of it had
	// passed. It does nothing to a lease without an end.
	Shorten func(ctx context.Context, key string, ttl time.Duration) error
	// Remove takes key from its holder, as its running out or a DEL by hand does.
	Remove func(ctx context.Context, key string) error
	// Spoil puts something in key's place that this mechanism never puts there.
	Spoil func(ctx context.Context, key string) error
	// Waiting is how many wait for key.
	Waiting func(ctx context.Context, key string) (int, error)
	// Left lists everything that the store still has of the mechanism.
	Left func(ctx context.Context) ([]string, error)
	// Connections counts the connections on which this subject's processes listen
	// for messages.
	Connections func(ctx context.Context) (int, error)
	// Pause lets the server answer nobody for d, and returns at once.
	Pause func(ctx context.Context, d time.Duration) error
}

// Factory makes a subject on a store, or a part of one, that nobody else uses. It
// is called once for each behaviour and owns what it starts through tb.
type Factory func(tb testing.TB) Subject

// Promises is what a mechanism claims about each behaviour.
type Promises map[Behaviour]Claim

// Claim is what a mechanism says about one behaviour.
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

// Holds claims that the behaviour can be relied on.
func Holds() Claim { return Claim{kind: holds} }

// Breaks claims that the behaviour fails, always and visibly, and says why.
func Breaks(why string) Claim { return Claim{kind: breaks, reason: why} }

// NotApplicable claims that the question makes no sense here, and says why.
func NotApplicable(why string) Claim { return Claim{kind: notApplicable, reason: why} }

// Run proves every claim of a mechanism, and logs what was seen of each behaviour.
// Where the environment has LOCKTEST_REPORT, the name of a file, a line is added to
// it that the command locktest/report makes a table of.
func Run(t *testing.T, factory Factory, promises Promises) {
	t.Helper()
	run(t, factory, promises, behaviours())
}

// RunShared is Run for what a read-write lock does beyond being a lock: promises
// are about [SharedBehaviours].
func RunShared(t *testing.T, factory Factory, promises Promises) {
	t.Helper()
	run(t, factory, promises, sharedBehaviours())
}

func run(t *testing.T, factory Factory, promises Promises, table []behaviour) {
	t.Helper()
	if err := promises.complete(table); err != nil {
		t.Fatal(err)
	}
	seen := &findings{behaviours: table, promises: promises, seen: make(map[Behaviour]error)}
	t.Cleanup(func() { // the trials run in parallel; this is after the last
		t.Log(seen.table() + "\n" + seen.count().String())
		if err := seen.count().report(); err != nil {
			t.Error(err)
		}
	})
	for _, b := range table {
		claim := promises[b.name]
		if claim.kind == notApplicable {
			continue
		}
		t.Run(string(b.name), func(t *testing.T) {
			if !b.name.heavy() {
				t.Parallel()
			}
			subject := factory(t)
			subject.promises = promises
			found := b.try(t, subject)
			seen.add(b.name, subject.Name, found)
			if err := claim.judge(found); err != nil {
				t.Errorf("%s: %v", b.says, err)
			}
		})
	}
}

// Only returns promises about the behaviours named alone: nothing else is asked.
func Only(promises Promises, asked ...Behaviour) Promises {
	only := make(Promises, len(promises))
	for name, claim := range promises {
		if claim.kind != notApplicable && !slices.Contains(asked, name) {
			claim = NotApplicable("not asked here")
		}
		only[name] = claim
	}
	return only
}

// complete says which behaviours have no claim, and which claims have no reason.
func (p Promises) complete(table []behaviour) error {
	var wrong []error
	known := make(map[Behaviour]bool)
	for _, b := range table {
		known[b.name] = true
		switch claim := p[b.name]; {
		case claim.kind == "":
			wrong = append(wrong, fmt.Errorf("locktest: nothing is claimed about %s (%s)", b.name, b.says))
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

// judge compares a claim with what a trial showed. Only a [*violationError] breaks a
// behaviour: a trial that could not be held proves nothing either way.
func (c Claim) judge(seen error) error {
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

// findings collects what the trials showed.
type findings struct {
	behaviours []behaviour
	promises   Promises

	mu        sync.Mutex
	mechanism string
	seen      map[Behaviour]error
}

func (f *findings) add(name Behaviour, mechanism string, found error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mechanism = mechanism
	f.seen[name] = found
}

// table has one line for each behaviour: the claim, and what proves it.
func (f *findings) table() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var s strings.Builder
	for _, b := range f.behaviours {
		claim := f.promises[b.name]
		fmt.Fprintf(&s, "\n%-32s %-6s", b.name, claim.kind)
		found, tried := f.seen[b.name]
		s.WriteString("  " + cmp.Or(claim.reason, b.says))
		switch {
		case tried && claim.judge(found) != nil:
			s.WriteString("  [DISPROVEN]")
		case tried && found != nil:
			fmt.Fprintf(&s, "  [seen: %v]", found)
		}
	}
	return s.String()
}
