package voucher

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a [Cache].
const (
	// DefaultCacheTTL is how far behind a cached stock may be. Window, price and
	// policy never change; only the stock does, and what is sold is decided by
	// the store. So the worst a stale entry can do is to send a buyer on to the
	// store in vain, or to keep one away for this long after stock came back.
	//
	// While the store is down an entry stays as it was: what then needs the store
	// fails by itself, and admission, which does not, goes on.
	DefaultCacheTTL = 100 * time.Millisecond
	maxCached       = 4096
	loadTimeout     = 3 * time.Second
)

// Cache answers most requests of a rush without asking the store: who comes
// before the sale, after it, or after the stock is gone is turned away from
// memory.
type Cache struct {
	store Store
	ttl   time.Duration
	now   func() time.Time

	// hot is the entry that was asked for last: a rush is about one voucher, and finds it
	// without a lock.
	hot     atomic.Pointer[entry]
	mu      sync.RWMutex
	entries map[int64]*entry
}

// entry is one voucher's slot. A new one has never been loaded.
type entry struct {
	id   int64
	seen atomic.Pointer[snapshot]

	mu      sync.Mutex
	loading chan struct{} // closed when the load under way ends; nil when none is
}

// snapshot is what the store said at a time: a voucher, or that there is none.
type snapshot struct {
	voucher *Voucher // nil: not found
	at      time.Time
	err     error // a failed load; never served to those who come later
}

// NewCache returns a cache over store. A ttl of 0 is [DefaultCacheTTL].
func NewCache(store Store, ttl time.Duration, now func() time.Time) *Cache {
	if ttl <= 0 {
		ttl = DefaultCacheTTL
	}
	return &Cache{store: store, ttl: ttl, now: now, entries: make(map[int64]*entry)}
}

// Voucher returns a voucher whose stock is at most the cache's TTL behind, plus
// the time of one load while that is under way, or as it was when the store last
// answered; or [ErrNotFound]. The caller must not change it.
func (c *Cache) Voucher(ctx context.Context, id int64) (*Voucher, error) {
	e := c.entry(id)
	seen := e.seen.Load()
	if seen != nil && c.now().Sub(seen.at) < c.ttl {
		return seen.result()
	}
	done, mine := e.claim()
	switch {
	case mine:
		c.load(ctx, id, e, done)
	case seen == nil || seen.err != nil:
		// Nothing to serve meanwhile: wait for whoever is loading.
		select {
		case <-done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return e.seen.Load().result()
}

// SoldOut tells that the store was just seen to have nothing left.
func (c *Cache) SoldOut(id int64) {
	e := c.entry(id)
	seen := e.seen.Load()
	if seen == nil || seen.voucher == nil || seen.voucher.Stock == 0 {
		return
	}
	v := *seen.voucher
	v.Stock = 0
	// If a load got in between, what it saw is at least as new.
	e.seen.CompareAndSwap(seen, &snapshot{voucher: &v, at: c.now()})
}

// load asks the store on behalf of everybody who waits, so a caller that goes
// away in the middle does not take the answer with it.
func (c *Cache) load(ctx context.Context, id int64, e *entry, done chan struct{}) {
	defer e.release(done)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	defer cancel()
	at := c.now() // before the question: the answer is at least this new
	v, err := c.store.Voucher(ctx, id)
	switch {
	case err == nil:
		e.seen.Store(&snapshot{voucher: v, at: at})
	case errors.Is(err, ErrNotFound):
		e.seen.Store(&snapshot{at: at})
	default:
		if seen := e.seen.Load(); seen != nil && seen.voucher != nil {
			e.seen.Store(&snapshot{voucher: seen.voucher, at: c.now()})
			return
		}
		e.seen.Store(&snapshot{err: err}) // at is zero: the next caller loads again
	}
}

// entry finds or makes the slot of an id. When the cache is full some other slot
// goes: under a flood of ids that do not exist the hot voucher may be loaded a
// few times more, and memory stays bounded.
func (c *Cache) entry(id int64) *entry {
	if e := c.hot.Load(); e != nil && e.id == id {
		return e
	}
	c.mu.RLock()
	e := c.entries[id]
	c.mu.RUnlock()
	if e == nil {
		e = c.add(id)
	}
	c.hot.Store(e)
	return e
}

func (c *Cache) add(id int64) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[id]; e != nil {
		return e
	}
	if len(c.entries) >= maxCached {
		for other := range c.entries {
			delete(c.entries, other)
			break
		}
	}
	e := &entry{id: id}
	c.entries[id] = e
	return e
}

// claim makes the caller the one who loads, or gives it the load to wait for.
func (e *entry) claim() (done chan struct{}, mine bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.loading != nil {
		return e.loading, false
	}
	e.loading = make(chan struct{})
	return e.loading, true
}

func (e *entry) release(done chan struct{}) {
	e.mu.Lock()
	e.loading = nil
	e.mu.Unlock()
	close(done)
}

func (s *snapshot) result() (*Voucher, error) {
	switch {
	case s.err != nil:
		return nil, s.err
	case s.voucher == nil:
		return nil, ErrNotFound
	}
	return s.voucher, nil
}
