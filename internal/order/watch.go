package order

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// watchEvery is how often the states of the orders that somebody waits for are read.
const watchEvery = 250 * time.Millisecond

// stateWatch waits for changes of state that may be made by any process. All waits of this process share one
// query, so many buyers who wait for their payments cost the database one statement in each interval.
type stateWatch struct {
	store LifecycleStore

	mu      sync.Mutex
	waiting map[int64]int // how many wait for an order
	// reading has room for the one waiter that reads for all.
	reading chan struct{}
	seen    map[int64]Status
	readAt  time.Time
}

func newStateWatch(store LifecycleStore) stateWatch {
	return stateWatch{store: store, waiting: make(map[int64]int), reading: make(chan struct{}, 1)}
}

func (w *stateWatch) await(ctx context.Context, o Order, limit time.Duration) error {
	end := time.NewTimer(limit)
	defer end.Stop()
	every := time.NewTicker(watchEvery)
	defer every.Stop()
	w.join(o.ID, 1)
	defer w.join(o.ID, -1)
	for {
		select {
		case <-every.C:
		case <-end.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		if w.changed(ctx, o) {
			return nil
		}
	}
}

func (w *stateWatch) join(id int64, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting[id] += n; w.waiting[id] == 0 {
		delete(w.waiting, id)
	}
}

// changed reports whether an order has another state by now. A read that fails is tried again.
func (w *stateWatch) changed(ctx context.Context, o Order) bool {
	select {
	case w.reading <- struct{}{}:
		w.read(ctx)
		<-w.reading
	default: // another waiter reads
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now, known := w.seen[o.ID]
	return known && now != o.Status
}

// maxStates is the most orders that are asked for in one query.
const maxStates = 1000

func (w *stateWatch) read(ctx context.Context) {
	w.mu.Lock()
	if time.Since(w.readAt) < watchEvery/2 {
		w.mu.Unlock()
		return
	}
	w.readAt = time.Now()
	ids := make([]int64, 0, len(w.waiting))
	for id := range w.waiting {
		ids = append(ids, id)
	}
	w.mu.Unlock()
	seen := make(map[int64]Status, len(ids))
	for some := range slices.Chunk(ids, maxStates) {
		states, err := w.store.StatesOf(ctx, some)
		if err != nil {
			return
		}
		maps.Copy(seen, states)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = seen
}
