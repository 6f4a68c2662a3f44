package failures_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"seckill/internal/lock"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		os.Exit(child(text))
	}
	testkit.Main(m)
}

const (
	// lease is the watchdog's timeout where a holder dies or stops: long enough for
	// a busy machine to renew it, short enough to wait for it.
	lease = 1200 * time.Millisecond
	// place is how long a dead waiter's place in a queue lasts.
	place = 1500 * time.Millisecond
	// slack is what a busy machine may add to a bound that the mechanism gives. The
	// table has what was really measured.
	slack = time.Second
	// patience bounds what is only waited for: spent when something is wrong.
	patience = 30 * time.Second
)

// TestFaults brings about one fault after the other, and ends with a table of what
// was seen.
func TestFaults(t *testing.T) {
	r := &report{}
	t.Cleanup(func() { t.Log("\n" + r.table()) })
	for _, f := range []struct {
		name  string
		alone bool // it counts goroutines
		prove func(t *testing.T, r *report)
	}{
		{"waiters-cancelled", true, waitersCancelled},
		{"holder-stopped", false, holderStopped},
		{"holder-killed", false, holderKilled},
		{"waiters-killed", false, waitersKilled},
		{"replica-promoted-unreplicated", false, replicaPromotedUnreplicated},
		{"replica-promoted-by-sentinel", false, replicaPromotedBySentinel},
		{"server-restarted-empty", false, serverRestartedEmpty},
		{"clock-moved", false, clockMoved},
	} {
		t.Run(f.name, func(t *testing.T) {
			if !f.alone {
				t.Parallel()
			}
			f.prove(t, r)
		})
	}
}

// report is what was seen, whichever test saw it first.
type report struct {
	mu   sync.Mutex
	rows []row
}

type row struct {
	fault, mechanism, outcome string
	took                      time.Duration
}

// saw adds a row. took 0 is not printed.
func (r *report) saw(fault, mechanism string, took time.Duration, outcome string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, row{fault, mechanism, fmt.Sprintf(outcome, args...), took})
}

func (r *report) table() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortStableFunc(r.rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.fault, b.fault), cmp.Compare(a.mechanism, b.mechanism))
	})
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\tmechanism\toutcome\ttime")
	for _, row := range r.rows {
		took := "-"
		if row.took > 0 {
			took = row.took.Round(time.Millisecond).String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", row.fault, row.mechanism, row.outcome, took)
	}
	_ = w.Flush() // a strings.Builder takes everything
	return text.String()
}

// until waits for a condition.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// acquire takes a key that is free.
func acquire(t *testing.T, l lock.Locker, key string) lock.Lease {
	t.Helper()
	held, err := l.Acquire(t.Context(), key, lock.Options{})
	if err != nil {
		t.Fatalf("Acquire(%q): %v", key, err)
	}
	return held
}

// attempt is an acquisition under way.
type attempt struct {
	held    lock.Lease
	err     error
	outages int           // how often the server was not to be had
	at      time.Time     // when it ended
	ended   chan struct{} // closed then
}

// begin acquires in the background, and again where the server was not to be had:
// a waiter is told of that, and it is for the caller to ask again.
func begin(ctx context.Context, l lock.Locker, key string, opts lock.Options) *attempt {
	a := &attempt{ended: make(chan struct{})}
	go func() {
		defer close(a.ended)
		a.insist(ctx, l, key, opts)
		a.at = time.Now()
	}()
	return a
}

func (a *attempt) insist(ctx context.Context, l lock.Locker, key string, opts lock.Options) {
	for {
		a.held, a.err = l.Acquire(ctx, key, opts)
		if !errors.Is(a.err, lock.ErrUnavailable) {
			return
		}
		a.outages++
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// got waits for the end of an attempt, which must have succeeded.
func (a *attempt) got(t *testing.T) lock.Lease {
	t.Helper()
	select {
	case <-a.ended:
	case <-time.After(patience):
		t.Fatal("a waiter never got in")
	}
	if a.err != nil {
		t.Fatalf("a waiter was told %v", a.err)
	}
	return a.held
}

// unaware fails the test where a holder knows already that it is none any more.
func unaware(t *testing.T, held lock.Lease) {
	t.Helper()
	if err := context.Cause(held.Context()); err != nil || held.Remaining() <= 0 {
		t.Errorf("the holder of %q knows already (%v, %v left): this shows nothing", held.Key(), err, held.Remaining())
	}
}

// between checks a measured time.
func between(t *testing.T, what string, took, least, most time.Duration) {
	t.Helper()
	if took < least || took > most {
		t.Errorf("%s after %v, want %v to %v", what, took, least, most)
	}
}
