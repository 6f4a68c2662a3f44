package httpapi_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/httpapi"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// The measure is a gin handler that answers at once. These run the handlers
// alone; over a socket both pay the same for net/http and the kernel on top,
// several times what is seen here.

// sink is a response writer that costs nothing, so that the handler's own cost
// shows.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }

func drive(b *testing.B, h http.Handler, want int, headers ...string) {
	b.Helper()
	req := httptest.NewRequest(http.MethodPost, "/api/v1/vouchers/1/orders", nil)
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

// soldOut is an API whose log goes where level and up are kept.
func soldOut(b *testing.B, level slog.Level, out io.Writer, place error) (*rig, http.Handler) {
	b.Helper()
	r := newRig(b, lab)
	r.orders = &fakeOrders{}
	reg := prometheus.NewRegistry()
	api, err := httpapi.New(httpapi.Config{Lab: true}, httpapi.Deps{
		Orders: refusingOrders{r.orders, place}, Vouchers: r.vouchers, Idempotency: r.idem, IDs: r.ids, Tokens: r.tokens,
		Log:        slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level})),
		Registerer: reg, Gatherer: reg, Now: r.clock.Now,
	})
	if err != nil {
		b.Fatal(err)
	}
	return r, api.Public()
}

// refusingOrders refuses without keeping count.
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
	drive(b, e, http.StatusConflict)
}

func BenchmarkSoldOut(b *testing.B) {
	_, h := soldOut(b, slog.LevelInfo, io.Discard, voucher.ErrSoldOut)
	drive(b, h, http.StatusConflict, "X-User-ID", "42")
}

func BenchmarkSoldOutJWT(b *testing.B) {
	r, h := soldOut(b, slog.LevelInfo, io.Discard, voucher.ErrSoldOut)
	drive(b, h, http.StatusConflict, "Authorization", r.bearer(b, 42))
}

func BenchmarkSoldOutLogged(b *testing.B) {
	_, h := soldOut(b, slog.LevelDebug, httpapi.NewLogWriter(io.Discard), voucher.ErrSoldOut)
	drive(b, h, http.StatusConflict, "X-User-ID", "42")
}

func BenchmarkPlaced(b *testing.B) {
	_, h := soldOut(b, slog.LevelInfo, httpapi.NewLogWriter(io.Discard), nil)
	drive(b, h, http.StatusCreated, "X-User-ID", "42")
}
