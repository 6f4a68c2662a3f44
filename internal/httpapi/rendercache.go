package httpapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
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

// bodyCache keeps the rendered body of a value. The same address means the same, unchanged value: the entry keeps the
// value alive, so that its address is not used again.
type bodyCache[K, I comparable] struct {
	limit int
	mu    sync.RWMutex
	made  map[K]cachedBody[I]
}

type cachedBody[I comparable] struct {
	of   I
	body *keptBody
}

// keptBody is a body that is sent many times.
type keptBody struct {
	text   []byte
	tag    func() string // of the text
	zipped func() []byte // nil if that is not smaller
}

func newKeptBody(text []byte) *keptBody {
	return &keptBody{
		text: text,
		tag: sync.OnceValue(func() string {
			sum := sha256.Sum256(text)
			return hex.EncodeToString(sum[:12])
		}),
		zipped: sync.OnceValue(func() []byte {
			var out bytes.Buffer
			w := gzip.NewWriter(&out)
			_, _ = w.Write(text) // writing to a bytes.Buffer cannot fail
			_ = w.Close()
			if out.Len() >= len(text) {
				return nil
			}
			return out.Bytes()
		}),
	}
}

func (rs *bodyCache[K, I]) find(key K, of I) (body *keptBody, ok bool) {
	rs.mu.RLock()
	defer rs.mu.RUnlock()
	r, ok := rs.made[key]
	return r.body, ok && r.of == of
}

func (rs *bodyCache[K, I]) keep(key K, of I, body *keptBody) {
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
		return reply{status: http.StatusOK, contentType: a.problems.json, body: body.text, kept: body, outcome: "ok"}, nil
	}
	out, err := a.render(http.StatusOK, view())
	if err == nil {
		out.kept = newKeptBody(out.body)
		rs.keep(key, of, out.kept)
	}
	return out, err
}

// revalidated makes a reply one that its client may keep, and asks for again with its ETag; compressed, if the client
// can read that. An open page asks for the same list every two seconds.
func (r *request) revalidated(out reply) reply {
	if out.kept == nil {
		return out
	}
	out.tag = `"` + out.kept.tag() + `"`
	if acceptsGzip(r.Header.Values("Accept-Encoding")) {
		if zipped := out.kept.zipped(); zipped != nil {
			out.body, out.zipped, out.tag = zipped, true, `"`+out.kept.tag()+`-gzip"`
		}
	}
	for tag := range strings.SplitSeq(strings.Join(r.Header.Values("If-None-Match"), ","), ",") {
		if tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/"); tag == out.tag || tag == "*" {
			out.status, out.body, out.zipped = http.StatusNotModified, nil, false
		}
	}
	return out
}

// acceptsGzip reads Accept-Encoding (RFC 9110 §12.5.3).
func acceptsGzip(headers []string) bool {
	for _, header := range headers {
		for coding := range strings.SplitSeq(header, ",") {
			name, parameter, _ := strings.Cut(coding, ";")
			if strings.TrimSpace(name) == "gzip" {
				_, quality, given := strings.Cut(parameter, "=")
				q, err := strconv.ParseFloat(strings.TrimSpace(quality), 64)
				return !given || err == nil && q > 0
			}
		}
	}
	return false
}
