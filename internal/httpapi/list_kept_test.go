package httpapi_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"seckill/internal/testkit/fail"
)

// A client that has a list is told that it is still the same; another one gets it compressed, if it can read that.
func TestListsAreRevalidated(t *testing.T) {
	r := newFixture(t, lab)
	for i := range 20 {
		fail.Unequal(t, r.do(t, call{"POST", "/api/v1/vouchers", fmt.Sprintf(
			`{"title":"v%d","stock":5,"begin_at":"2030-01-01T00:00:00Z","end_at":"2031-01-01T00:00:00Z"}`, i), nil}).Code, http.StatusCreated, "created")
	}
	const path = "/api/v1/vouchers?limit=100"
	r.undescribed = true // the description knows no compressed JSON
	plain := r.do(t, call{"GET", path, "", nil})
	zipped := r.do(t, call{"GET", path, "", []string{"Accept-Encoding: br;q=1.0, gzip;q=0.8"}})
	fail.Unequal(t, zipped.Header().Get("Content-Encoding"), "gzip", "Content-Encoding")
	size := zipped.Body.Len()
	unzipped, err := gzip.NewReader(zipped.Body)
	fail.NowIf(t, err)
	text, err := io.ReadAll(unzipped)
	fail.NowIf(t, err)
	fail.Unequal(t, string(text), plain.Body.String(), "the compressed list")
	if size > plain.Body.Len()/4 {
		t.Errorf("%d bytes, and %d compressed", plain.Body.Len(), size)
	}
	for _, no := range []string{"identity", "gzip;q=0", "gzip; q=0.0"} {
		fail.Unequal(t, r.do(t, call{"GET", path, "", []string{"Accept-Encoding: " + no}}).Header().Get("Content-Encoding"), "", "to %s: Content-Encoding", no)
	}
	tags := map[string]string{plain.Header().Get("Etag"): "identity", zipped.Header().Get("Etag"): "gzip"}
	fail.Unequal(t, len(tags), 2, "different ETags, of %v", tags)
	again := func(tag string) int {
		rec := r.do(t, call{"GET", path, "", []string{"Accept-Encoding: " + tags[tag], "If-None-Match: " + `"other", W/` + tag}})
		fail.Unequal(t, rec.Header().Get("Cache-Control"), "no-cache", "Cache-Control")
		if rec.Code == http.StatusNotModified && (rec.Body.Len() > 0 || rec.Header().Get("Etag") != tag) {
			t.Errorf("304 with %d bytes and ETag %s", rec.Body.Len(), rec.Header().Get("Etag"))
		}
		return rec.Code
	}
	for tag := range tags {
		fail.Unequal(t, again(tag), http.StatusNotModified, "to its own ETag")
	}
	r.do(t, call{"POST", "/api/v1/vouchers", `{"title":"new","stock":5,"begin_at":"2030-01-01T00:00:00Z","end_at":"2031-01-01T00:00:00Z"}`, nil})
	for tag := range tags {
		fail.Unequal(t, again(tag), http.StatusOK, "to the ETag of an earlier list")
	}
	if !strings.Contains(r.do(t, call{"GET", path, "", nil}).Body.String(), `"new"`) {
		t.Error("the new voucher is not listed")
	}
}
