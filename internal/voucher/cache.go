package voucher

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a [Cache].
const (
	// DefaultCacheTTL is how old a cached stock may be before it is loaded again. Price and policy never change.
	// The stock does, and what an administrator changes; the store decides what is sold. So a stale entry can at worst send
	// a buyer to the store in vain, or refuse one for this long after stock came back, or the sale was resumed or extended.
	//
	// While the store is down, vouchers stay as they are: operations that need the store fail by themselves,
	// and admission, which does not need it, continues. That there is no voucher is not said for longer.
	DefaultCacheTTL = 100 * time.Millisecond

	maxVouchers = 4096 // existing vouchers
	maxAbsent   = 1024 // ids without a voucher
	maxPages    = 64
	// PageSize is the most vouchers that a page of the list has.
	PageSize = 101

	// Clients decide which pages are loaded, so these loads are bounded; those of vouchers are by [lookups].
	// Beyond the bound a cached page is answered from the cache, and any other page with [ErrBusy], but a list's first page
	// is always answered; that of the list of all does not count. Each load reads 101 rows, and hundreds of loads a second
	// delay the orders under a lock.
	pageRefreshesPerSecond = 50  // of cached pages
	pageMissesPerSecond    = 100 // of pages that are not cached
	// maxPageAge is the age from which a cached page is loaded also beyond the bound: maxPages times a second at most.
	maxPageAge = time.Second
)

// Cache answers most requests of a rush without asking the store: reads, and orders before the sale, after
// it, or after the stock is gone.
type Cache struct {
	store Store
	ttl   time.Duration
	now   func() time.Time

	// hot is the entry that was used last: a rush is about one voucher, and finds it without a lock.
	hot atomic.Pointer[entry]

	mu sync.RWMutex
	// Ids without a voucher are kept apart, so that requests for them evict no voucher.
	vouchers, absent map[int64]*entry
	pages            map[List]*slot[[]*Voucher]

	lookups                   lookups
	pageRefreshes, pageMisses budget
}

// entry is the slot of one voucher.
type entry struct {
	id int64
	slot[*Voucher]
}

// NewCache returns a cache over store. A ttl of 0 is [DefaultCacheTTL].
func NewCache(store Store, ttl time.Duration, now func() time.Time) *Cache {
	if ttl <= 0 {
		ttl = DefaultCacheTTL
	}
	return &Cache{
		store: store, ttl: ttl, now: now,
		vouchers: make(map[int64]*entry), absent: make(map[int64]*entry), pages: make(map[List]*slot[[]*Voucher]),
		lookups:       lookups{store: store},
		pageRefreshes: budget{perSecond: pageRefreshesPerSecond},
		pageMisses:    budget{perSecond: pageMissesPerSecond},
	}
}

// Voucher returns a voucher for an order, which the store decides on. So an order does not wait for the load of
// another caller if the cached stock is younger than [serveStale]. It returns [ErrNotFound] if there is no such
// voucher, and [ErrBusy] if too many requests wait for ids that are not cached. The caller must not change the voucher.
func (c *Cache) Voucher(ctx context.Context, id int64) (*Voucher, error) {
	return c.voucher(ctx, id, serveStale)
}

// Read is like [Cache.Voucher], for a stock that is shown. It is loaded again when it is older than the TTL; if the store
// does not answer within [loadPatience], it is the last that is known.
func (c *Cache) Read(ctx context.Context, id int64) (*Voucher, error) {
	return c.voucher(ctx, id, 0)
}

func (c *Cache) voucher(ctx context.Context, id int64, stale time.Duration) (*Voucher, error) {
	e := c.entry(id)
	if e == nil {
		e = c.add(id)
	}
	seen := e.seen.Load()
	if !seen.fresh(c.now(), c.ttl) {
		var err error
		seen, err = e.latest(ctx, stale, source[*Voucher]{
			now: c.now, abandon: true, load: func(ctx context.Context) (*Voucher, error) { return c.load(ctx, e) },
		})
		if err != nil {
			return nil, err
		}
	}
	return seen.value, seen.err
}

// load asks the store for a voucher.
func (c *Cache) load(ctx context.Context, e *entry) (*Voucher, error) {
	v, err := c.lookups.find(ctx, e.id, c.has(e))
	if err == nil {
		c.keep(e)
	}
	return v, err
}

// has reports whether an entry is known to be that of a voucher.
func (c *Cache) has(e *entry) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.vouchers[e.id] == e
}

// Vouchers returns up to limit vouchers of a list. They are as old as the answer of [Cache.Read]; pages other than the first
// one of all vouchers are up to maxPageAge old while many are asked for. The caller must change neither the slice nor its
// vouchers. Vouchers returns the same slice as long as nothing was loaded.
func (c *Cache) Vouchers(ctx context.Context, list List, limit int) ([]*Voucher, error) {
	now := c.now()
	if limit > PageSize {
		return c.store.Vouchers(ctx, list, now, limit)
	}
	p := c.page(list)
	if p == nil {
		if !list.fromStart() && !c.pageMisses.take(now) {
			return nil, ErrBusy
		}
		p = c.addPage(list)
	}
	seen := p.seen.Load()
	if !seen.fresh(now, c.ttl) {
		var err error
		seen, err = p.latest(ctx, 0, source[[]*Voucher]{
			now:     c.now,
			load:    func(ctx context.Context) ([]*Voucher, error) { return c.store.Vouchers(ctx, list, c.now(), PageSize) },
			mayLoad: func() bool { return list == List{} || c.mayRefresh(seen, now) },
		})
		if err != nil {
			return nil, err
		}
	}
	if seen.err != nil {
		return nil, seen.err
	}
	return seen.value[:min(limit, len(seen.value))], nil
}

// mayRefresh reports whether a cached page may be loaded again.
func (c *Cache) mayRefresh(seen *snapshot[[]*Voucher], now time.Time) bool {
	if seen.fresh(now, maxPageAge) {
		return c.pageRefreshes.take(now)
	}
	if seen != nil { // a page that was never loaded counts as a miss
		c.pageRefreshes.spend(now)
	}
	return true
}

// Stored adds a voucher that was just created or changed. Every later call returns it.
func (c *Cache) Stored(v *Voucher) {
	stored := *v
	e := c.entry(v.ID)
	if e == nil {
		e = c.add(v.ID)
	}
	e.put(&snapshot[*Voucher]{value: &stored, at: c.now()})
	c.keep(e)
	c.dropPages()
}

// Deleted removes a voucher that was just deleted.
func (c *Cache) Deleted(id int64) {
	if e := c.entry(id); e != nil {
		e.put(&snapshot[*Voucher]{err: ErrNotFound, at: c.now()})
	}
	c.dropPages()
}

// dropPages has all pages loaded again. A load that is still running stores its result in a slot that is no longer used.
func (c *Cache) dropPages() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pages = make(map[List]*slot[[]*Voucher])
}

// Newer returns a voucher that the store has just been seen with another revision of. If the store does not answer with
// another one in time, the error is [ErrBusy].
func (c *Cache) Newer(ctx context.Context, old *Voucher) (*Voucher, error) {
	for range 2 { // a load that runs may have begun before the change
		if e := c.entry(old.ID); e != nil {
			if seen := e.seen.Load(); seen.hasValue() && seen.value.Revision == old.Revision {
				e.seen.CompareAndSwap(seen, &snapshot[*Voucher]{value: seen.value})
			}
		}
		if v, err := c.Read(ctx, old.ID); err != nil || v.Revision != old.Revision {
			return v, err
		}
	}
	return nil, ErrBusy
}

// SoldOut records that the store has just been seen without stock.
func (c *Cache) SoldOut(id int64) {
	e := c.entry(id)
	if e == nil {
		return
	}
	seen := e.seen.Load()
	if !seen.hasValue() || seen.value.Stock == 0 {
		return
	}
	v := *seen.value
	v.Stock = 0
	// If a load was faster, its result is at least as new.
	e.seen.CompareAndSwap(seen, &snapshot[*Voucher]{value: &v, at: c.now()})
}

// entry returns the slot of an id; nil if there is none.
func (c *Cache) entry(id int64) *entry {
	if e := c.hot.Load(); e != nil && e.id == id {
		return e
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	e := c.vouchers[id]
	if e == nil {
		e = c.absent[id]
	}
	if e != nil {
		c.hot.Store(e) // under the lock, so that keep can replace it
	}
	return e
}

// add adds a slot for an id that is not cached yet.
func (c *Cache) add(id int64) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.vouchers[id]; e != nil {
		return e
	}
	if e := c.absent[id]; e != nil {
		return e
	}
	e := &entry{id: id}
	put(c.absent, id, e, maxAbsent, keepNone)
	return e
}

// keep records that a voucher with this id exists.
func (c *Cache) keep(e *entry) {
	if c.has(e) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.absent, e.id)
	put(c.vouchers, e.id, e, maxVouchers, keepNone)
	if hot := c.hot.Load(); hot != nil && hot.id == e.id {
		c.hot.Store(e) // another entry of this id had been forgotten, and was in use
	}
}

func (c *Cache) page(list List) *slot[[]*Voucher] {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.pages[list]
}

func (c *Cache) addPage(list List) *slot[[]*Voucher] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pages[list]; p != nil {
		return p
	}
	p := &slot[[]*Voucher]{}
	put(c.pages, list, p, maxPages, List.fromStart)
	return p
}

// put adds to a map that may have limit keys. It evicts any keys but those to keep, which are fewer.
func put[K comparable, V any](m map[K]V, key K, value V, limit int, keep func(K) bool) {
	for other := range m {
		if len(m) < limit {
			break
		}
		if !keep(other) {
			delete(m, other)
		}
	}
	m[key] = value
}

func keepNone(int64) bool { return false }
