package voucher

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Bounds of [lookups].
const (
	// A query asks for maxIDs ids at most, and the next one begins lookupPause after it has ended: at most 200
	// queries a second for 20,000 ids, however many are asked for.
	maxIDs      = 100
	lookupPause = 5 * time.Millisecond
	// maxLookups is how many may wait. One address or user has far fewer requests under way, and a request that has
	// ended does not wait.
	maxLookups = 4096
)

// lookups reads vouchers by id. While a query runs, the ids that are asked for meanwhile wait in line, and the
// next query asks for all of them: clients who ask for any number of ids take no query away from others.
type lookups struct {
	store Store

	mu sync.Mutex
	// refreshes wait for vouchers that are known to exist; there is one at most for each cached voucher. Requests for
	// other ids wait apart, so that any number of them keeps no known voucher from being loaded.
	refreshes, waiting []*lookup // some of them have given up
	alive              int       // those in waiting who have not
	running            bool      // a query runs, or is about to
	ended              time.Time // the last query
}

// lookup is one id that somebody waits for.
type lookup struct {
	id    int64
	known bool
	state lookupState
	done  chan struct{} // closed when found and err are set
	found Found
	err   error
}

type lookupState int

const (
	inLine lookupState = iota
	asked
	givenUp
)

// find returns the voucher. Its errors are [ErrNotFound], the store's, the context's, and [ErrBusy] if too many wait
// for ids that are not known to exist.
func (l *lookups) find(ctx context.Context, id int64, known bool) (*Voucher, error) {
	mine, err := l.enqueue(id, known)
	if err != nil {
		return nil, err
	}
	select {
	case <-mine.done:
	case <-ctx.Done():
		l.giveUp(mine)
		return nil, ctx.Err()
	}
	switch {
	case mine.err != nil:
		return nil, mine.err
	case mine.found.Err != nil:
		return nil, mine.found.Err
	case mine.found.Voucher == nil:
		return nil, ErrNotFound
	}
	return mine.found.Voucher, nil
}

func (l *lookups) enqueue(id int64, known bool) (*lookup, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := &lookup{id: id, known: known, done: make(chan struct{})}
	switch {
	case known:
		l.refreshes = append(l.refreshes, mine)
	case l.alive >= maxLookups:
		return nil, ErrBusy
	default:
		l.waiting = append(l.waiting, mine)
		l.alive++
	}
	if !l.running {
		l.start()
	}
	return mine, nil
}

func (l *lookups) giveUp(one *lookup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.state != inLine {
		return
	}
	if one.state = givenUp; one.known {
		return
	}
	if l.alive--; len(l.waiting) > 2*maxLookups { // while a query hangs, nobody else removes those who have given up
		l.waiting = slices.DeleteFunc(l.waiting, func(other *lookup) bool { return other.state == givenUp })
	}
}

// start starts a query after the pause. The caller holds the mutex.
func (l *lookups) start() {
	l.running = true
	time.AfterFunc(time.Until(l.ended.Add(lookupPause)), func() {
		l.answer(l.next())
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ended, l.running = time.Now(), false
		if len(l.refreshes)+len(l.waiting) > 0 {
			l.start()
		}
	})
}

// next takes those who have waited longest: refreshes, and others for half of the query at least.
func (l *lookups) next() (batch []*lookup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	take := func(from []*lookup, most int) []*lookup {
		for len(from) > 0 && len(batch) < most {
			if first := from[0]; first.state == inLine {
				first.state = asked
				batch = append(batch, first)
			}
			from[0] = nil
			from = from[1:]
		}
		return from
	}
	l.refreshes = take(l.refreshes, maxIDs-min(l.alive, maxIDs/2))
	refreshed := len(batch)
	l.waiting = take(l.waiting, maxIDs)
	l.alive -= len(batch) - refreshed
	return batch
}

func (l *lookups) answer(batch []*lookup) {
	if len(batch) == 0 { // nobody waits any more
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), loadTimeout) // it is of many requests
	defer cancel()
	ids := make([]int64, len(batch))
	for i, one := range batch {
		ids[i] = one.id
	}
	found, err := l.store.VouchersByID(ctx, ids)
	for _, one := range batch {
		one.found, one.err = found[one.id], err
		close(one.done)
	}
}
