package admission

import "sync/atomic"

// InFlight bounds how many requests are in progress at a time. Beyond the bound it refuses at once: a queue that only
// grows serves nobody in time.
type InFlight struct {
	limit int64
	n     atomic.Int64
}

// NewInFlight returns a bound of limit requests.
func NewInFlight(limit int64) *InFlight { return &InFlight{limit: limit} }

// Enter reports whether there is room. If there is, call Leave at the end.
func (f *InFlight) Enter() bool {
	if f.n.Add(1) > f.limit {
		f.n.Add(-1)
		return false
	}
	return true
}

// Leave makes room again.
func (f *InFlight) Leave() { f.n.Add(-1) }

// Len returns how many requests are in progress.
func (f *InFlight) Len() int64 { return f.n.Load() }
