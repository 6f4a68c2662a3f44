package httpapi_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/httpapi"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// The benchmarks compare with a gin handler that answers at once. They run the handlers alone. Over a socket
// both also pay for net/http and the kernel, several times the cost shown here.

// sink is a response writer that costs nothing, so that only the handler is measured.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }

func benchOrders(b *testing.B, h http.Handler, want int, headers ...string) {
	b.Helper()
	benchRequest(b, h, httptest.NewRequest(http.MethodPost, "/api/v1/vouchers/1/orders", nil), want, headers...)
}

func benchRequest(b *testing.B, h http.Handler, req *http.Request, want int, headers ...string) {
	b.Helper()
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
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

// placing returns an API that refuses every order, unless place is nil, and logs to out, from a level on.
func placing(b *testing.B, level slog.Level, out io.Writer, place error) (*fixture, http.Handler) {
	b.Helper()
	r := newFixture(b, lab)
	r.orders = &fakeOrders{}
	reg := prometheus.NewRegistry()
	api, err := httpapi.New(httpapi.Config{Lab: true, LabHosts: []string{"example.com"}, Limits: benchLimits()}, httpapi.Deps{
		Orders: refusingOrders{r.orders, place}, Vouchers: r.vouchers, Idempotency: r.idem, IDs: r.ids, Tokens: r.tokens, Lockers: r.locks,
		Log:        slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level})),
		Registerer: reg, Gatherer: reg, Now: r.clock.Now,
	})
	if err != nil {
		b.Fatal(err)
	}
	return r, api.Public()
}

// refusingOrders refuses every order and records nothing.
type refusingOrders struct {
	*fakeOrders
	err error
}

func (o refusingOrders) Place(context.Context, order.Request) (order.Order, error) {
	return order.Order{ID: 7, Status: order.Confirmed}, o.err
}

func BenchmarkBareGin(b *testing.B) {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.POST("/api/v1/vouchers/:id/orders", func(c *gin.Context) { c.JSON(http.StatusConflict, gin.H{"code": "sold_out"}) })
	benchOrders(b, e, http.StatusConflict)
}

func BenchmarkOrder(b *testing.B) {
	for name, c := range map[string]struct {
		level  slog.Level
		out    io.Writer
		refuse error
		jwt    bool
		want   int
	}{
		"sold out":         {slog.LevelInfo, io.Discard, voucher.ErrSoldOut, false, http.StatusConflict},
		"sold out, JWT":    {slog.LevelInfo, io.Discard, voucher.ErrSoldOut, true, http.StatusConflict},
		"sold out, logged": {slog.LevelDebug, io.Discard, voucher.ErrSoldOut, false, http.StatusConflict},
		"placed":           {slog.LevelInfo, io.Discard, nil, false, http.StatusCreated},
	} {
		b.Run(name, func(b *testing.B) {
			r, h := placing(b, c.level, c.out, c.refuse)
			headers := []string{"X-User-ID", "42"}
			if c.jwt {
				headers = []string{"Authorization", r.bearer(b, 42)}
			}
			benchOrders(b, h, c.want, headers...)
		})
	}
}

// BenchmarkLook compares reads of vouchers with bare gin, which sends the same bytes. The stock is refreshed
// as often as in the service.
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

// benchLimits are the service's defaults.
func benchLimits() httpapi.Limits {
	return httpapi.Limits{Orders: 10_000, OrdersPerUser: 64, Requests: 2_000, RequestsPerUser: 64, RequestsPerAddress: 512}
}
