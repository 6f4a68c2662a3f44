package locktest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/lock"
)

// Subject is one mechanism on one store.
type Subject struct {
	// Process starts another process: a locker on the same store with its own
	// connections and state. tb closes what it opens. A Remote locker dials through
	// network if that is not nil.
	Process func(tb testing.TB, network *Network) lock.Locker
	// Remote reports whether lockers reach their store over connections.
	Remote bool
	// Renewed is the lease that the watchdog renews for an acquisition without a
	// TTL; 0 if the mechanism has no watchdog. Half a second to a second keeps the
	// suite both fast and reliable.
	Renewed time.Duration
	// Store reads the store and disturbs it.
	Store Store

	// Name is the mechanism's name in reports. Default: the name of the folder.
	Name string
	// DeadWaiterTimeout is how long a dead waiter keeps its position in the queue.
	// Default 1 s.
	DeadWaiterTimeout time.Duration
	// SplitVote reports whether a try may fail because others tried at the same
	// time, although none of them won: each may have got a part of the votes.
	SplitVote bool
	// Dedicated makes another subject on a server that nobody else uses, for
	// behaviours that disturb a whole server. Its Process and Store replace those of
	// this subject. May be nil.
	Dedicated Factory
	// Shared starts another process of a read-write lock for [RunShared]. If it is
	// nil, the lockers that Process starts must be [ReadWriter]s.
	Shared func(tb testing.TB, network *Network) ReadWriter

	promises Promises // some checks depend on what else the mechanism promises
}

// ReadWriter is the read-write lock of one process: two lockers on the same keys.
// Both see the same owner (see [lock.WithOwner]).
type ReadWriter interface {
	Reader() lock.Locker
	Writer() lock.Locker
}

// Store reads what a mechanism keeps and changes it behind the mechanism's back. A
// function that a store cannot offer is nil; behaviours that need it are then not
// applicable.
type Store struct {
	// TTL returns how long the store still grants key: 0 if the key is free,
	// [lock.NoExpiry] if the lease never ends.
	TTL func(ctx context.Context, key string) (time.Duration, error)
	// Shorten makes the lease on key end after ttl, as if the rest of it had passed.
	// It does not change a lease that never ends.
	Shorten func(ctx context.Context, key string, ttl time.Duration) error
	// Remove takes key from its holder, as an expiry or a manual DEL does.
	Remove func(ctx context.Context, key string) error
	// PutWrongKind stores a value under key that this mechanism never stores.
	PutWrongKind func(ctx context.Context, key string) error
	// Waiting counts the waiters for key.
	Waiting func(ctx context.Context, key string) (int, error)
	// Leftovers lists everything that the mechanism still has in the store.
	Leftovers func(ctx context.Context) ([]string, error)
	// Connections counts the connections on which this subject's processes listen
	// for messages.
	Connections func(ctx context.Context) (int, error)
	// Pause stops the server from answering for d. It returns at once.
	Pause func(ctx context.Context, d time.Duration) error
}

// Factory makes a subject on a store, or on a part of one, that nobody else uses. Run
// calls it once for each trial. tb closes what the factory starts.
type Factory func(tb testing.TB) Subject

// Opened returns the locker that a mechanism's New returned and fails tb if err is not nil.
// A locker that implements io.Closer is closed with tb.
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

// Run proves every claim of a mechanism and logs what each trial observed. If
// LOCKTEST_REPORT names a file, Run appends a line to it, from which the command
// locktest/report makes a table.
func Run(t *testing.T, factory Factory, promises Promises) {
	t.Helper()
	run(t, factory, promises, behaviours())
}

// RunShared is Run for what a read-write lock does beyond being a lock. Its promises
// are about [SharedBehaviours].
func RunShared(t *testing.T, factory Factory, promises Promises) {
	t.Helper()
	run(t, factory, promises, sharedBehaviours())
}

// maxTrials is how many trials a behaviour gets. One that is declared to break gets them to do
// so: some weaknesses are races, which a busy machine may decide the other way. One that is
// promised gets another trial only if the machine stalled in the last one, so that it cannot
// be told who was late, and only if lateness can explain what was found: a trial that could not
// be run, since a server did not answer in time, or a violation that is about time. A lease that
// was granted too late to count shows by itself that the machine was late, and so does a key that
// the server took long to remove. On a machine that keeps time, one violation disproves a promise.
const maxTrials = 5

// rest is the time between two such trials, for the machine to calm down.
const rest = time.Second

func run(t *testing.T, factory Factory, promises Promises, table []behaviour) {
	t.Helper()
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
		if claim.kind == notApplicable {
			continue
		}
		t.Run(string(b.name), func(t *testing.T) {
			if !b.name.heavy() {
				t.Parallel()
			}
			var subject Subject
			var found error
			for trials := 1; ; trials++ {
				subject = factory(t)
				subject.promises = promises
				watch := watchStalls()
				found = b.try(t, subject)
				stall := watch.end()
				if trials == maxTrials || !claim.open(b.name, found, stall) {
					break
				}
				if claim.kind == holds {
					t.Logf("%s: tried again, since the machine stalled for %v when this was found: %v", b.name, stall, found)
					time.Sleep(rest)
				}
			}
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
