package gctune

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

const mb = 1 << 20

func TestPercentFor(t *testing.T) {
	for _, c := range []struct {
		live, roots uint64
		want        int
	}{
		{0, 0, maxPercent},
		{1 * mb, 0, maxPercent},
		{8 * mb, 0, 1400}, // to 120 MB
		{8 * mb, 2 * mb, 1120},
		{20 * mb, 0, 500},
		{20 * mb, 80 * mb, 100},
		{20 * mb, 300 * mb, 31}, // its stacks count: 100 MB more are 31 % of all
		{largeHeap - 1, 0, 400},
		{largeHeap, 0, minPercent},
		{120 * mb, 0, minPercent},
		{math.MaxUint64, math.MaxUint64, minPercent},
	} {
		if got := percentFor(c.live, c.roots); got != c.want {
			t.Errorf("%d MB live, %d MB of roots: %d %%, want %d %%", c.live/mb, c.roots/mb, got, c.want)
		}
	}
}

// After a collection the percentage is that of the heap it left, whether the heap grew or shrank.
func TestPercentFollowsTheHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetGCPercent(100)
	limit := debug.SetMemoryLimit(-1)
	t.Cleanup(func() {
		debug.SetGCPercent(before)
		debug.SetMemoryLimit(limit)
	})
	Apply()
	if got := percent(); got != startPercent {
		t.Fatalf("at first %d %%, want %d %%", got, startPercent)
	}
	becomes := func(what string, low, high int) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; runtime.Gosched() {
			runtime.GC() // the finalizer runs after it
			if got := percent(); low <= got && got <= high {
				return
			} else if time.Now().After(end) {
				t.Fatalf("%s: %d %%", what, got)
			}
		}
	}
	becomes("a small heap may grow by much", 1000, maxPercent)
	large := make([]byte, 150*mb)
	becomes("a large heap may grow by little", minPercent, minPercent)
	runtime.KeepAlive(large)
	becomes("a small heap again", 1000, maxPercent)
}

// percent is GOGC as it is set now.
func percent() int {
	now := debug.SetGCPercent(100)
	debug.SetGCPercent(now)
	return now
}
