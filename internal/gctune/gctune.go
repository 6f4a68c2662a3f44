// Package gctune sets how the process collects garbage.
//
// The live heap of the service is some ten MB, and most of what a request allocates is garbage at once. With Go's
// default, GOGC=100, the collector runs many times a second in a rush, and each time it delays the requests that are
// under way. So a small heap grows to a size, not by a percentage. When more is live, as in a flood of connections,
// that could exceed the memory of the machine, so the heap then grows by little.
package gctune

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	heapGoal   = 120 << 20 // the size of the heap that begins a collection, in bytes,
	maxPercent = 1500      // unless it has grown by this much before, in per cent
	largeHeap  = 24 << 20  // a live heap from this size on, in bytes,
	minPercent = 60        // may grow by this much only
)

// memoryShare is the share of the control group's memory that the Go runtime may use. The rest is for what the runtime
// does not count.
const memoryShare = 0.9

// Apply sets the memory limit and the percentage, unless GOMEMLIMIT or GOGC do.
func Apply() {
	limitMemory(memlimit.FromCgroup)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(startPercent)
		afterCollection(&sentinel{percent: startPercent})
	}
}

func limitMemory(group memlimit.Provider) {
	if os.Getenv("GOMEMLIMIT") != "" { // Go itself has read it
		return
	}
	// memlimit.Set would take an empty GOMEMLIMIT for a limit, which Go does not. An error says that there is no
	// control group, or no limit in it: there is nothing to set then.
	if limit, err := memlimit.ApplyRatio(group, memoryShare)(); err == nil {
		debug.SetMemoryLimit(int64(min(limit, math.MaxInt64)))
	}
}

// startPercent is for the time before the first collection, when the live heap is not known. Go multiplies it with 4
// MB.
const startPercent = 400

// sentinel is garbage whose finalizer runs after each collection.
type sentinel struct{ percent int }

func afterCollection(s *sentinel) {
	runtime.SetFinalizer(s, func(s *sentinel) {
		// Setting the percentage stops the world, which a small difference is not worth.
		if percent := percentFor(scanned()); 8*abs(percent-s.percent) > s.percent {
			s.percent = percent
			debug.SetGCPercent(percent)
		}
		afterCollection(s)
	})
}

// percentFor returns by how much a heap of that many live bytes may grow, in per cent. Go grows the heap by that much
// of the stacks and the globals, too, which are the roots.
func percentFor(live, roots uint64) int {
	if live >= largeHeap {
		return minPercent
	}
	return int(min((heapGoal-live)*100/max(live+roots, 1), maxPercent))
}

func abs(n int) int { return max(n, -n) }

// scanned returns what the last collection found live in the heap, and the stacks and globals that it began with, in
// bytes.
func scanned() (live, roots uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(samples)
	var bytes [3]uint64
	for i, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			bytes[i] = s.Value.Uint64()
		}
	}
	return bytes[0], bytes[1] + bytes[2]
}
