package loadtest

import (
	"fmt"
	"math"
	"syscall"
	"testing"

	"github.com/prometheus/procfs"

	"seckill/internal/testkit/fail"
)

// A machine is quiet if bare gin is as fast after a row as it was before it, and everything else on the machine took
// little of it meanwhile.
const (
	quietDrift  = 0.10 // of bare gin's rate
	quietOthers = 0.10 // of the machine's processor time
)

// noise is how bare gin ran directly before and after a row, and the share of the machine's processor time that other
// programs, and other machines on the same host (steal), took during it.
type noise struct {
	before, after bare
	others        float64 // NaN where it is not known
}

// bare is a measurement of a bare gin handler.
type bare struct{ perSecond, micros float64 }

func (n noise) quiet() bool {
	drift := math.Abs(n.after.perSecond/n.before.perSecond - 1)
	return drift <= quietDrift && !(n.others > quietOthers)
}

func (n noise) String() string {
	others := "unknown"
	if !math.IsNaN(n.others) {
		others = fmt.Sprintf("%.0f %%", 100*n.others)
	}
	return fmt.Sprintf("%.0f/s at %.1f µs, %.0f/s at %.1f µs; %s",
		n.before.perSecond, n.before.micros, n.after.perSecond, n.after.micros, others)
}

// around runs a measurement between two of bare gin. One that follows another row directly has that row's end as its
// beginning.
func (s *benchService) around(b *testing.B, measure func(*testing.B) row) row {
	b.Helper()
	if s.lastBare == (bare{}) {
		s.measureBare(b) // it has run before it counts
		s.lastBare = s.measureBare(b)
	}
	n := noise{before: s.lastBare}
	begun := s.machine(b)
	r := measure(b)
	n.others = s.machine(b).othersSince(begun)
	s.lastBare = s.measureBare(b)
	n.after = s.lastBare
	r.noise = n
	return r
}

func (s *benchService) measureBare(b *testing.B) bare {
	b.Helper()
	done, spent := s.timed(b, s.bareRush(b, s.bare))
	return bare{done.perSecond, spent.each(float64(done.requests)).bare}
}

// machineTime is processor time in seconds: that passed, that was used by anything, and that was used by what belongs
// to this measurement.
type machineTime struct{ passed, used, ours float64 }

func (t machineTime) othersSince(begun machineTime) float64 {
	passed := t.passed - begun.passed
	return max(0, (t.used-begun.used)-(t.ours-begun.ours)) / passed
}

// machine reads the processor times. Interrupts count for nobody: most of them carry the load itself.
func (s *benchService) machine(b *testing.B) machineTime {
	b.Helper()
	unknown := machineTime{passed: math.NaN()}
	system, err := procfs.NewDefaultFS()
	if err != nil {
		return unknown
	}
	stat, err := system.Stat()
	if err != nil {
		return unknown
	}
	var children syscall.Rusage // wrk: the servers have not ended
	fail.NowIf(b, syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children))
	ended := float64(children.Utime.Nano()+children.Stime.Nano()) / 1e9
	t := stat.CPUTotal
	used := t.User + t.Nice + t.System + t.Steal
	return machineTime{passed: used + t.Idle + t.Iowait + t.IRQ + t.SoftIRQ, used: used, ours: s.busy(b).sum() + ended}
}

// The machine is noisy if bare gin changed, in either direction, or if others took much of it.
func TestNoise(t *testing.T) {
	for _, tt := range []struct {
		before, after, others float64
		quiet                 bool
	}{
		{80_000, 78_000, 0.02, true},
		{80_000, 78_000, math.NaN(), true},
		{80_000, 78_000, 0.20, false},
		{80_000, 60_000, 0.02, false},
		{60_000, 80_000, math.NaN(), false},
	} {
		n := noise{before: bare{perSecond: tt.before}, after: bare{perSecond: tt.after}, others: tt.others}
		fail.Unequal(t, n.quiet(), tt.quiet, "%s: quiet", n)
	}
	if others := (machineTime{10, 8, 5}).othersSince(machineTime{0, 0, 0}); others != 0.3 {
		t.Errorf("others took %v of the machine, want 0.3", others)
	}
}
