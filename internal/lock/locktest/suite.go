package locktest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
	"seckill/internal/testkit"
)

// Subject is one mechanism on one store.
type Subject struct {
	// Process starts another process: a locker on the same store with its own connections and state. tb closes what it
	// opens. A Remote locker dials through network if that is not nil.
	Process func(tb testing.TB, network *Network) lock.Locker
	// Remote reports whether lockers reach their store over connections.
	Remote bool
	// Renewed is the lease that the watchdog renews for an acquisition without a TTL; 0 if the mechanism has no
	// watchdog.
	Renewed time.Duration
	// Store reads the store and disturbs it.
	Store Store

	// Name is the mechanism's name in reports. Default: the name of the folder.
	Name string
	// DeadWaiterTimeout is how long a dead waiter keeps its position in the queue. Default 1 s.
	DeadWaiterTimeout time.Duration
	// SplitVote reports whether a try may fail because others tried at the same time, although none of them won: each
	// may have got a part of the votes.
	SplitVote bool
	// Dedicated makes another subject on a server that nobody else uses, for behaviours that disturb a whole server.
	// Its Process and Store replace those of this subject. May be nil.
	Dedicated Factory
	// Shared starts another process of a read-write lock, for the behaviours that only such a lock has. If it is nil,
	// the lockers that Process starts must be [ReadWriter]s.
	Shared func(tb testing.TB, network *Network) ReadWriter

	promises Promises // some checks depend on what else the mechanism promises
	pace
}

// ReadWriter is the read-write lock of one process: two lockers on the same keys. Both see the same owner (see
// [lock.WithOwner]).
type ReadWriter interface {
	Reader() lock.Locker
	Writer() lock.Locker
}

// Store reads what a mechanism keeps and changes it behind the mechanism's back. A function that a store cannot offer
// is nil; behaviours that need it are then not applicable.
type Store struct {
	// TTL returns how long the store still grants key: 0 if the key is free, [lock.NoExpiry] if the lease never ends.
	TTL func(ctx context.Context, key string) (time.Duration, error)
	// Shorten makes the lease on key end after ttl, as if the rest of it had passed. It does not change a lease that
	// never ends.
	Shorten func(ctx context.Context, key string, ttl time.Duration) error
	// Remove takes key from its holder, as an expiry or a manual DEL does.
	Remove func(ctx context.Context, key string) error
	// PutWrongKind stores a value under key that this mechanism never stores.
	PutWrongKind func(ctx context.Context, key string) error
	// Waiting counts the waiters for key.
	Waiting func(ctx context.Context, key string) (int, error)
	// Leftovers lists everything that the mechanism still has in the store.
	Leftovers func(ctx context.Context) ([]string, error)
	// Connections counts the connections on which this subject's processes listen for messages.
	Connections func(ctx context.Context) (int, error)
	// Pause stops the server from answering for d. It returns at once.
	Pause func(ctx context.Context, d time.Duration) error
}

// Factory makes a subject on a store, or on a part of one, that nobody else uses. Run calls it once for each trial. tb
// closes what the factory starts.
type Factory func(tb testing.TB) Subject

// Opened returns the locker that a mechanism's New returned and fails tb if err is not nil. A locker that implements
// io.Closer is closed with tb.
func Opened(tb testing.TB, locker lock.Locker, err error) lock.Locker {
	tb.Helper()
	if err != nil {
		tb.Fatalf("opening a locker: %v", err)
	}
	if c, ok := locker.(io.Closer); ok {
		tb.Cleanup(func() {
			if err := c.Close(); err != nil {
				tb.Errorf("closing a locker: %v", err)
			}
		})
	}
	return locker
}

// Virtual proves every claim of a mechanism in virtual time: each trial runs in a bubble of testing/synctest, in which
// the factory makes the subject. So everything that the subject needs, its server too, is in this process. What has a
// time limit must keep it to the millisecond.
func Virtual(t *testing.T, factory Factory, promises Promises) {
	t.Helper()
	run(t, promises, virtualPace(), func(t *testing.T, b behaviour, p pace) (subject Subject, found error) {
		synctest.Test(t, func(t *testing.T) {
			subject = factory(t).at(p, promises)
			found = b.try(t, subject)
		})
		return subject, found
	})
}

// Run proves on a real server what does not depend on how fast the machine is: all behaviours that are not timed. Use
// [Soak] for the rest, and [Virtual] for all of them where the store can be in this process.
func Run(t *testing.T, factory Factory, promises Promises) {
	t.Helper()
	testkit.Servers(t)
	run(t, promises, untimedPace(), func(t *testing.T, b behaviour, p pace) (Subject, error) {
		subject := factory(t).at(p, promises)
		return subject, b.try(t, subject)
	})
}

// Soak proves every claim on a real server, with real leases. A behaviour gets up to maxTrials trials, and the table
// says in how many of them it was seen. What is declared to break gets them to do so: some weaknesses are races, which
// the machine may decide the other way. What is promised gets another trial only if the machine stalled in the last
// one, so that nobody can say who was late. On a machine that keeps time, one violation disproves a promise.
func Soak(t *testing.T, factory Factory, promises Promises) {
	t.Helper()
	testkit.Soak(t)
	run(t, promises, realPace(), func(t *testing.T, b behaviour, p pace) (subject Subject, found error) {
		for trials := 1; ; trials++ {
			subject = factory(t).at(p, promises)
			began, watch := time.Now(), testkit.StartStopwatch()
			found = b.try(t, subject)
			stalled := time.Since(began) - watch.Stop()
			if trials == maxTrials || !promises[b.name].open(b.name, found, stalled) {
				t.Logf("%s: decided by trial %d", b.name, trials)
				return subject, found
			}
			t.Logf("%s: tried again; the machine stalled for %v in all, and the trial showed: %v", b.name, stalled, found)
			time.Sleep(rest)
		}
	})
}

const (
	maxTrials = 5
	// rest is the time between two trials in which the machine may calm down.
	rest = time.Second
	// stallLimit is how long in all a machine may not run a trial whose measurements count.
	stallLimit = 25 * time.Millisecond
)

// at returns s for trials at a pace.
func (s Subject) at(p pace, promises Promises) Subject {
	s.pace, s.promises = p, promises
	return s
}

// run has try prove each claim, and logs what was observed. If LOCKTEST_REPORT names a file, it appends a line to it,
// from which the command locktest/report makes a table.
func run(t *testing.T, promises Promises, p pace, try func(*testing.T, behaviour, pace) (Subject, error)) {
	t.Helper()
	table := promises.table()
	if err := promises.complete(table); err != nil {
		t.Fatal(err)
	}
	seen := &results{behaviours: table, promises: promises, seen: make(map[Behaviour]error)}
	t.Cleanup(func() { // runs after the last of the parallel trials
		t.Log(seen.table() + "\n" + seen.count().String())
		if err := seen.count().report(); err != nil {
			t.Error(err)
		}
	})
	for _, b := range table {
		claim := promises[b.name]
		if claim.kind == notApplicable || b.timed && !p.timed {
			continue
		}
		p := p
		if claim.kind == breaks {
			p = p.provingBreaks()
		}
		t.Run(string(b.name), func(t *testing.T) {
			if p.virtual || !b.name.heavy() {
				t.Parallel()
			}
			subject, found := try(t, b, p)
			seen.add(b.name, subject.Name, found)
			if err := claim.verify(found); err != nil {
				t.Errorf("%s: %v", b.description, err)
			}
		})
	}
}

// results collects what the trials observed.
type results struct {
	behaviours []behaviour
	promises   Promises

	mu        sync.Mutex
	mechanism string
	seen      map[Behaviour]error
}

func (f *results) add(name Behaviour, mechanism string, found error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mechanism = mechanism
	f.seen[name] = found
}

// table has one line for each behaviour: the claim and what proves it.
func (f *results) table() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var s strings.Builder
	for _, b := range f.behaviours {
		claim := f.promises[b.name]
		fmt.Fprintf(&s, "\n%-32s %-6s", b.name, claim.kind)
		found, tried := f.seen[b.name]
		s.WriteString("  " + cmp.Or(claim.reason, b.description))
		switch {
		case tried && claim.verify(found) != nil:
			s.WriteString("  [DISPROVEN]")
		case tried && found != nil:
			fmt.Fprintf(&s, "  [seen: %v]", found)
		}
	}
	return s.String()
}
