package locktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
func Run(t *testing.T, factory Factory, promises Promises) {
	t.Helper()
	if err := promises.complete(); err != nil {
		t.Fatal(err)
	}
	seen := &findings{promises: promises, seen: make(map[Behaviour]error)}
	t.Cleanup(func() { t.Log(seen.table()) }) // the trials run in parallel; this is after the last
	for _, b := range behaviours() {
		claim := promises[b.name]
		if claim.kind == notApplicable {
			continue
		}
		t.Run(string(b.name), func(t *testing.T) {
			t.Parallel()
			found := b.try(t, factory(t))
			seen.add(b.name, found)
			if err := claim.judge(found); err != nil {
				t.Errorf("%s: %v", b.says, err)
			}
		})
	}
}

// complete says which behaviours have no claim, and which claims have no reason.
func (p Promises) complete() error {
	var wrong []error
	known := make(map[Behaviour]bool)
	for _, b := range behaviours() {
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
	promises Promises

	mu   sync.Mutex
	seen map[Behaviour]error
}

func (f *findings) add(name Behaviour, found error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[name] = found
}

// table has one line for each behaviour: the claim, and what proves it.
func (f *findings) table() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var s strings.Builder
	for _, b := range behaviours() {
		claim := f.promises[b.name]
		fmt.Fprintf(&s, "\n%-28s %-6s", b.name, claim.kind)
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
