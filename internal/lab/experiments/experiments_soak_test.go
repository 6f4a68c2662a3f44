package experiments

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/testkit"
)

// score counts the runs of an experiment that came out as they were to.
type score struct {
	mu     sync.Mutex
	runs   int
	right  int
	missed []string
}

// add counts a run. One that missed its verdict on a machine that was late says so in its measures.
func (s *score) add(name string, r finding.Result, right bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs++; right {
		s.right++
		return
	}
	s.missed = append(s.missed, fmt.Sprintf("%s: observed %q, failed %q, %v; %v", name, r.Observed, r.Failed, r.Anomalies, r.Measures))
}

// tell prints the figure. All of them are to come out right.
func (s *score) tell(t *testing.T, what string) {
	t.Helper()
	t.Logf("%s: %d of %d came out as they were to (promised: all)", what, s.right, s.runs)
	if s.right < s.runs {
		t.Errorf("%s:\n%s", what, strings.Join(s.missed, "\n"))
	}
}

// TestSoakExperiments plays every experiment with its own setup, which is to come out as expected, and with its
// partner's, which is to come to the opposite.
func TestSoakExperiments(t *testing.T) {
	testkit.Soak(t)
	set, bench := laboratory(t)
	var own, swapped score
	t.Run("each", func(t *testing.T) {
		for i := range set {
			e := &set[i]
			t.Run(e.ID, func(t *testing.T) {
				parallelIfQuiet(t, e)
				r := bench.Run(t.Context(), e)
				skip(t, r)
				own.add(e.ID, r, r.AsExpected && (e.Expect == finding.Holds || r.Witness != nil && r.Witness.Kind == e.About[0]))
				show(t, r)
				r = bench.Swap(t.Context(), e)
				skip(t, r)
				swapped.add(e.ID, r, !r.AsExpected && r.Observed == e.Expect.Opposite())
				show(t, r)
			})
		}
	})
	own.tell(t, "experiments")
	swapped.tell(t, "experiments with the setup of their partners")
}

// A changed number is played, and not only printed: it turns the verdict, or does not, for the reason that the
// experiment is about.
func TestSoakChangedNumbers(t *testing.T) {
	testkit.Soak(t)
	set, bench := laboratory(t)
	var s score
	t.Run("each", func(t *testing.T) {
		for line := range strings.SplitSeq(strings.TrimSpace(changedNumbers), "\n") {
			left, want, _ := strings.Cut(line, ": ")
			id, values, _ := strings.Cut(left, " ")
			t.Run(left, func(t *testing.T) {
				e := changed(t, set, id, values)
				parallelIfQuiet(t, e)
				r := bench.Run(t.Context(), e)
				skip(t, r)
				s.add(left, r, r.Observed == finding.Verdict(want) && r.Turned == (r.Observed != e.Expect))
				show(t, r)
			})
		}
	})
	s.tell(t, "experiments with changed numbers")
}

const changedNumbers = `
no-lock lock=lua: holds
no-lock stock-mode=conditional: holds
no-lock buyers=20 stock=5: breaks
reentrant-lock lock=lua lease=20ms work=200ms buyers=10: breaks
local-two-processes instances=1: holds
local-one-process instances=2: breaks
no-unique-index buyers=5: breaks
try-once wait=20s: holds
wait-and-be-woken wait=0s: breaks
polling-costs lock=reentrant: holds
naive-wrong-release lease=5s: holds
naive-wrong-release pause=1ms work=100ms: holds
naive-wrong-release lock=lua: holds
thread-id-two-processes lease=5s: holds
uuid-between-compare-and-delete pause=1ms: holds
lua-lease-too-short lease=4s: holds
lua-lease-too-short work=10ms: holds
watchdog-keeps-long-holder lock=naive lease=300ms: holds
given-lease-no-watchdog lease=300ms: breaks
paused-holder lease=5s pause=100ms: holds
paused-holder lock=fenced stock-mode=fenced: holds
paused-holder stock-mode=version stock=1: holds
naive-holder-killed lease=1500ms: holds
watchdog-holder-killed work=1s: holds
setnx-expire-killed-between lease=1s: breaks
nested-without-reentry lock=reentrant: holds
watchdog-too-short-for-network lease=3s: holds
lost-reply-key-stays lease=1s: holds
row-survives-connection-loss lease=800ms: holds
unfair-order lock=fair buyers=6: holds
readers-take-turns buyers=2: breaks
acquire-inside-try buyers=3: breaks
red-minority-down down=2: breaks
compensation-repeated buyers=7: breaks
latest-event-wins buyers=20: breaks
expiry-by-query buyers=20: holds`

// A setup that keeps a lock longer or shorter than its hypothesis says makes an experiment break that holds, and the
// other way round.
func TestSoakOtherSetups(t *testing.T) {
	testkit.Soak(t)
	const tooLong = 1600 * time.Millisecond
	keptFor := func(s *lab.Setup) { s.Policy.LockTTLMS = tooLong.Milliseconds() }
	renewedFor := func(s *lab.Setup) { s.Watchdog = tooLong }
	// A key that expires with its lease is neither free at once nor there forever.
	leased := func(s *lab.Setup) {
		s.Policy.Lock, s.Policy.LockTTLMS, s.Deferred = "lua", (600 * time.Millisecond).Milliseconds(), false
	}
	for id, c := range map[string]struct {
		change func(*lab.Setup)
		want   finding.Verdict
	}{
		"naive-holder-killed": {keptFor, finding.Breaks}, "watchdog-holder-killed": {renewedFor, finding.Breaks},
		"mysql-row-expiry-holder-killed": {renewedFor, finding.Breaks},
		"panic-deferred-release":         {leased, finding.Breaks}, "panic-skips-release": {leased, finding.Holds},
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			r := playedWith(t, id, c.change)
			stuck := r.Anomalies[finding.StuckKeys] == 1 && r.Witness != nil && r.Witness.Kind == finding.StuckKeys
			if r.Observed != c.want || stuck != (c.want == finding.Breaks) {
				t.Errorf("observed %s: %v; witness %v", r.Observed, r.Anomalies, r.Witness)
			}
		})
	}
	t.Run("holders of two keys hold both to the end", func(t *testing.T) {
		t.Parallel()
		r := playedWith(t, "key-with-voucher", func(*lab.Setup) {})
		if r.Witness == nil {
			t.Fatalf("no picture: %+v", r)
		}
		for _, lane := range r.Witness.Lanes {
			if slices.ContainsFunc(lane.Spans, func(s finding.Span) bool { return s.Kind == finding.Believes }) {
				t.Errorf("%s only believes: %+v", lane.Name, lane.Spans)
			}
		}
	})
}
