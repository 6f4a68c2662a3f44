package locktest

import "time"

// stallLimit is how late a timer may be on a machine whose measurements count: well below
// every lease and tolerance of the suite.
const stallLimit = 25 * time.Millisecond

// stallWatch measures how late the machine wakes this process.
type stallWatch struct {
	stop  chan struct{}
	worst chan time.Duration
}

func watchStalls() *stallWatch {
	w := &stallWatch{stop: make(chan struct{}), worst: make(chan time.Duration, 1)}
	go func() {
		const every = 5 * time.Millisecond
		var worst time.Duration
		for !closed(w.stop) {
			began := time.Now()
			time.Sleep(every)
			worst = max(worst, time.Since(began)-every)
		}
		w.worst <- worst
	}()
	return w
}

// end ends the watch and returns the longest delay.
func (w *stallWatch) end() time.Duration {
	close(w.stop)
	return <-w.worst
}

// timeless reports whether a violation cannot come from a machine that was late: two
// holders at a time, or a result that no order of the operations explains.
func (b Behaviour) timeless() bool {
	switch b {
	case ExcludesGoroutines, ExcludesProcesses, KeepsKeysApart, ReleasesOnlyOwn, TokensGrow, WritersExclude,
		LinearizableMutex, LinearizableReentrant, LinearizableFenced, FollowsModel:
		return true
	}
	return false
}
