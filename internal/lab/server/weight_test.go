package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"seckill/internal/lab"
	"seckill/internal/lab/experiments"
	"seckill/internal/lab/server"
	"seckill/internal/lab/testbed"
	"seckill/internal/testkit/fail"
)

// firstView is the most that a visitor's browser fetches before the page can be used, without the list of the
// experiments, in bytes over the wire.
const firstView = 40_000

// What plays an experiment is not fetched before one is opened.
func TestFirstView(t *testing.T) {
	all, err := experiments.All()
	fail.NowIf(t, err)
	s, err := server.New(t.Context(), server.Config{Experiments: all, Options: testbed.Defaults(), Open: testbed.Open,
		RefersTo: func(*lab.Experiment) *lab.Experiment { return nil }})
	fail.NowIf(t, err)
	get := func(path string, zipped bool) string {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1"+path, nil)
		if zipped {
			req.Header.Set("Accept-Encoding", "gzip")
		}
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, req)
		body, err := io.ReadAll(rec.Result().Body)
		fail.NowIf(t, err)
		return string(body)
	}
	sum := len(get("/", true))
	asked := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?:href|src)="(/static/[^"]+)"`).FindAllStringSubmatch(get("/", false), -1) {
		if !asked[m[1]] {
			asked[m[1]] = true
			sum += len(get(m[1], true))
		}
	}
	if len(asked) < 10 || sum > firstView {
		t.Errorf("the first view has %d bytes in %d files; %d are the most", sum, len(asked)+1, firstView)
	}
}
