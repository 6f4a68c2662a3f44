package voucher

import (
	"context"
	"sync"
	"time"
)

// Bounds of [lookups].
const (
	// A query asks for maxIDs ids at most, and the next one begins lookupPause after it has ended: at most 200
	// queries a second for 20,000 ids, however many are asked for.
	maxIDs      = 100
	lookupPause = 5 * time.Millisecond
	// maxLookups is how many may wait. One address or user has far fewer requests under way.
	maxLookups = 4096
)

// lookups reads vouchers by id. While a query runs, the ids that are asked for meanwhile wait in line, and the
// next query asks for all of them: clients who ask for any number of ids take no query away from others.
type lookups struct {
	store Store

	mu      sync.Mutex
	waiting []*lookup // some of them have given up
	alive   int       // those who have not
	running bool      // a query runs, or is about to
	ended   time.Time // the last query
}

// lookup is one id that somebody waits for.
type lookup struct {
	id    int64
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

// find returns the voucher, or nil if there is none. Its errors are the store's, the context's, and [ErrBusy] if
// too many wait.
func (l *lookups) find(ctx context.Context, id int64) (*Voucher, error) {
	mine, err := l.enqueue(ctx, id)
	if err != nil {
		return nil, err
	}
	select {
	case <-mine.done:
	case <-ctx.Done():
		l.giveUp(mine)
		return nil, ctx.Err()
	}
	if mine.err != nil {
		return nil, mine.err
	}
	return mine.found.Voucher, mine.found.Err
}

func (l *lookups) enqueue(ctx context.Context, id int64) (*lookup, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.alive >= maxLookups {
		return nil, ErrBusy
	}
	mine := &lookup{id: id, done: make(chan struct{})}
	l.waiting = append(l.waiting, mine)
	l.alive++
	if !l.running {
		l.start(context.WithoutCancel(ctx))
	}
	return mine, nil
}

func (l *lookups) giveUp(one *lookup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.state == inLine {
		one.state = givenUp
		l.alive--
	}
}

// start starts a query after the pause. The caller holds the mutex.
func (l *lookups) start(ctx context.Context) {
	l.running = true
	time.AfterFunc(time.Until(l.ended.Add(lookupPause)), func() {
		l.answer(ctx, l.next())
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ended, l.running = time.Now(), false
		if len(l.waiting) > 0 {
			l.start(ctx)
		}
	})
}

// next takes those who have waited longest.
func (l *lookups) next() (batch []*lookup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) > 0 && len(batch) < maxIDs {
		if first := l.waiting[0]; first.state == inLine {
			first.state = asked
			l.alive--
			batch = append(batch, first)
		}
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
	}
	return batch
}

func (l *lookups) answer(ctx context.Context, batch []*lookup) {
	if len(batch) == 0 { // nobody waits any more
		return
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
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
