package httpapi

import (
	"net/http"
	"sync"

	"seckill/internal/voucher"
)

// Bounds of the cache: about 2 MB and 5 MB.
const (
	maxCachedVouchers = 4096
	maxCachedLists    = 128
)

// renderCache keeps the rendered vouchers and lists, so that most readers get the same bytes.
type renderCache struct {
	vouchers bodyCache[int64, *voucher.Voucher]
	// A list is unchanged as long as it begins with the same element of the same slice; see [voucher.Cache].
	lists bodyCache[voucherPage, **voucher.Voucher]
}

func newRenderCache() *renderCache {
	s := &renderCache{}
	s.vouchers.limit, s.lists.limit = maxCachedVouchers, maxCachedLists
	return s
}

// bodyCache keeps the rendered body of a value. The same address means the same, unchanged
// value: the entry keeps the value alive, so that its address is not used again.
type bodyCache[K, I comparable] struct {
	limit int
	mu    sync.RWMutex
	made  map[K]cachedBody[I]
}

type cachedBody[I comparable] struct {
	of   I
	body []byte
}

func (rs *bodyCache[K, I]) find(key K, of I) (body []byte, ok bool) {
	rs.mu.RLock()
	defer rs.mu.RUnlock()
	r, ok := rs.made[key]
	return r.body, ok && r.of == of
}

func (rs *bodyCache[K, I]) keep(key K, of I, body []byte) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if _, there := rs.made[key]; rs.made == nil || !there && len(rs.made) >= rs.limit {
		rs.made = make(map[K]cachedBody[I]) // rare, and rendering again is cheap
	}
	rs.made[key] = cachedBody[I]{of: of, body: body}
}

// cachedReply returns a reply with the rendered value, from the cache if possible. Its body must not be changed.
func cachedReply[K, I comparable](a *API, rs *bodyCache[K, I], key K, of I, view func() any) (reply, error) {
	if body, ok := rs.find(key, of); ok {
		return reply{status: http.StatusOK, contentType: a.problems.json, body: body, outcome: "ok"}, nil
	}
	out, err := a.render(http.StatusOK, view())
	if err == nil {
		rs.keep(key, of, out.body)
	}
	return out, err
}
