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
	// lease is the watchdog's lease if a holder stops. It is long enough to be renewed
	// on a busy machine and short enough to wait for its end.
	lease = 1200 * time.Millisecond
	// longLease is a lease that does not end during a test.
	longLease = 20 * time.Second
	// renewEvery is the renewal interval if a test measures the time to a renewal. On a busy
	// machine a second holder gets in before it.
	renewEvery = 3 * time.Second
	// queueEntryTTL is how long a dead waiter keeps its position in a queue.
	queueEntryTTL = 1500 * time.Millisecond
	// slack is what a busy machine may add to the bounds of a mechanism. The table has
	// the measured times.
	slack = time.Second
	// patience bounds waits that end early unless something is wrong.
	patience = 30 * time.Second
)

// TestFaults injects one fault after the other. It logs a table of the outcomes.
func TestFaults(t *testing.T) {
	r := &report{}
	t.Cleanup(func() { t.Log("\n" + r.table()) })
	for _, f := range []struct {
		name string
		test func(t *testing.T, r *report)
	}{
		{"holder-stopped", holderStopped},
		{"replica-promoted-unreplicated", replicaPromotedUnreplicated},
		{"replica-promoted-by-sentinel", replicaPromotedBySentinel},
		{"server-restarted-empty", serverRestartedEmpty},
		{"clock-moved", clockMoved},
	} {
		t.Run(f.name, func(t *testing.T) { t.Parallel(); f.test(t, r) })
	}
}

// report collects the outcomes in any order.
type report struct {
	mu   sync.Mutex
	rows []row
}

type row struct {
	fault, mechanism, outcome string
	took                      time.Duration
}

// add adds a row. The table shows no time if took is 0.
func (r *report) add(fault, mechanism string, took time.Duration, outcome string, args ...any) {
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
	_ = w.Flush() // cannot fail on a strings.Builder
	return text.String()
}

// acquire takes a free key.
func acquire(t *testing.T, l lock.Locker, key string, opts lock.Options) lock.Lease {
	t.Helper()
	held, err := l.Acquire(t.Context(), key, opts)
	if err != nil {
		t.Fatalf("Acquire(%q): %v", key, err)
	}
	return held
}

// acquisition is an acquisition in the background.
type acquisition struct {
	held    lock.Lease
	err     error
	outages int           // how often the server was unavailable
	at      time.Time     // when it ended
	ended   chan struct{} // closed when it has ended
}

// acquireAsync acquires in the background. It tries again if the server is unavailable:
// a waiter gets that error, and trying again is up to the caller.
func acquireAsync(ctx context.Context, l lock.Locker, key string, opts lock.Options) *acquisition {
	a := &acquisition{ended: make(chan struct{})}
	go func() {
		defer close(a.ended)
		a.run(ctx, l, key, opts)
		a.at = time.Now()
	}()
	return a
}

func (a *acquisition) run(ctx context.Context, l lock.Locker, key string, opts lock.Options) {
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

// mustSucceed waits for the end of an acquisition, which must have succeeded.
func (a *acquisition) mustSucceed(t *testing.T) lock.Lease {
	t.Helper()
	select {
	case <-a.ended:
	case <-time.After(patience):
		t.Fatal("a waiter never got the lock")
	}
	if a.err != nil {
		t.Fatalf("a waiter got %v", a.err)
	}
	return a.held
}

// loss records when and why a holder is told that it lost its lock.
type loss struct {
	at    time.Time
	cause error
	told  chan struct{}
}

// awaitLoss records the loss of a lease in the background.
func awaitLoss(t *testing.T, held lock.Lease) *loss {
	l := &loss{told: make(chan struct{})}
	go func() {
		select {
		case <-held.Lost():
			l.at, l.cause = time.Now(), context.Cause(held.Context())
			close(l.told)
		case <-t.Context().Done():
		}
	}()
	return l
}

// mustBeTold waits until the holder was told one of the reasons.
func (l *loss) mustBeTold(t *testing.T, who string, reasons ...error) {
	t.Helper()
	select {
	case <-l.told:
	case <-time.After(patience):
		t.Fatalf("%s: the holder was never told", who)
	}
	for _, reason := range reasons {
		if errors.Is(l.cause, reason) {
			return
		}
	}
	t.Errorf("%s: the holder was told %v, want one of %v", who, l.cause, reasons)
}

// mustNotKnow fails the test if a holder already knows that it lost its lock.
func mustNotKnow(t *testing.T, held lock.Lease) {
	t.Helper()
	if err := context.Cause(held.Context()); err != nil || held.Remaining() <= 0 {
		t.Errorf("the holder of %q already knows that it lost the lock (%v, %v left), so there are not two holders",
			held.Key(), err, held.Remaining())
	}
}

// mustBeBetween checks a measured time.
func mustBeBetween(t *testing.T, what string, took, least, most time.Duration) {
	t.Helper()
	if took < least || took > most {
		t.Errorf("%s after %v, want %v to %v", what, took, least, most)
	}
}
