package httpapi_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/httpapi"
	"seckill/internal/voucher"
)

// sink is a response writer that costs nothing, so that only the handler is measured.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }

func benchRequest(b *testing.B, h http.Handler, req *http.Request, want int) {
	b.Helper()
	w := &sink{header: make(http.Header)}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		h.ServeHTTP(w, req)
		if w.status != want {
			b.Fatalf("status %d", w.status)
		}
	}
}

// BenchmarkLook compares reads of vouchers with bare gin, which sends the same bytes. The stock is refreshed
// as often as in the service. It runs the handlers alone. Over a socket both also pay for net/http and the kernel, several
// times the cost shown here; there BenchmarkFastPath compares the orders.
func BenchmarkLook(b *testing.B) {
	r := newFixture(b, lab)
	r.vouchers.Now, r.vouchers.Cache = time.Now, voucher.NewCache(r.vouchers.store, 0, time.Now)
	for range 100 {
		if rec := r.do(b, call{"POST", "/api/v1/vouchers", voucherBody("", ""), nil}); rec.Code != http.StatusCreated {
			b.Fatal(rec.Body)
		}
	}
	reg := prometheus.NewRegistry()
	deps := r.deps(r.locks)
	deps.Log, deps.Registerer, deps.Gatherer = slog.New(slog.DiscardHandler), reg, reg
	api, err := httpapi.New(httpapi.Config{Lab: true, LabHosts: []string{"example.com"}}, deps)
	if err != nil {
		b.Fatal(err)
	}
	for name, path := range map[string]string{"voucher": "/api/v1/vouchers/1001", "list": "/api/v1/vouchers?limit=100"} {
		body := r.do(b, call{"GET", path, "", nil}).Body.Bytes()
		bare := gin.New()
		bare.GET("/api/v1/vouchers/:id", func(c *gin.Context) { c.Data(http.StatusOK, "application/json", body) })
		bare.GET("/api/v1/vouchers", func(c *gin.Context) { c.Data(http.StatusOK, "application/json", body) })
		for who, h := range map[string]http.Handler{"bare gin": bare, "service": api.Public()} {
			b.Run(name+"/"+who, func(b *testing.B) {
				benchRequest(b, h, httptest.NewRequest(http.MethodGet, path, nil), http.StatusOK)
			})
		}
	}
}
