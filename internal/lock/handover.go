package lock

import (
	"sync"
	"sync/atomic"
)

// Handover says how a key came to the holder of a lease.
type Handover uint8

const (
	// FoundFree means that the holder asked and the key was free. So it always is where
	// [Mechanism].Passing is not [PassingTold].
	FoundFree Handover = iota
	// PassedInProcess means that the release of the previous holder, in this process, named this
	// holder. The waiter sent nothing.
	PassedInProcess
	// PassedByStore means that the store named this holder, because of a release in another process
	// or because it keeps the queue. It is a lower bound: a waiter that missed the store's
	// message asks, and counts as one that found the key free.
	PassedByStore
)

// Passing says how a released key finds its next holder.
type Passing string

const (
	// PassingNone leaves it free for the next caller that asks. Waiters ask again, or race.
	PassingNone Passing = "none"
	// PassingTold passes it on to one waiter, whose lease says so (see [HandoverOf]).
	PassingTold Passing = "told"
	// PassingUntold is a server that passes it on to one of the connections that wait, and
	// tells none of them whether it had to wait.
	PassingUntold Passing = "untold"
)

// HandoverOf returns how the key of a lease came to its holder.
func HandoverOf(l Lease) Handover {
	if h, ok := l.(interface{ Handover() Handover }); ok {
		return h.Handover()
	}
	return FoundFree
}

// Handovers counts how keys came to their holders in this process, for the keys that
// somebody watches. While nobody watches any, a lease costs one look at a number. The zero
// value is ready.
type Handovers struct {
	watches atomic.Int64

	mu   sync.RWMutex
	keys map[mechanismKey]*watchedKey
}

type mechanismKey struct{ mechanism, key string }

type watchedKey struct {
	watches int // guarded by Handovers.mu
	counts  [PassedByStore + 1]atomic.Int64
}

// HandoverCounts are the leases of a key, by how the key came to their holders.
type HandoverCounts struct{ FoundFree, InProcess, ByStore int64 }

// Watch counts the leases of a key until stop is called. counts returns those since the
// first of the watches that overlap with this one.
func (h *Handovers) Watch(mechanism, key string) (counts func() HandoverCounts, stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := mechanismKey{mechanism, key}
	w := h.keys[name]
	if w == nil {
		if h.keys == nil {
			h.keys = make(map[mechanismKey]*watchedKey)
		}
		w = &watchedKey{}
		h.keys[name] = w
	}
	w.watches++
	h.watches.Add(1)
	return w.read, sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.watches.Add(-1)
		if w.watches--; w.watches == 0 {
			delete(h.keys, name)
		}
	})
}

func (w *watchedKey) read() HandoverCounts {
	return HandoverCounts{
		FoundFree: w.counts[FoundFree].Load(),
		InProcess: w.counts[PassedInProcess].Load(), ByStore: w.counts[PassedByStore].Load(),
	}
}

// Of returns what an [Observer] of a mechanism calls for each lease.
func (h *Handovers) Of(mechanism string) func(Lease) {
	return func(l Lease) {
		if h.watches.Load() == 0 {
			return
		}
		h.mu.RLock()
		w := h.keys[mechanismKey{mechanism, l.Key()}]
		h.mu.RUnlock()
		if w != nil {
			w.counts[HandoverOf(l)].Add(1)
		}
	}
}
