//go:build unix

package httpapi_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"seckill/internal/httpapi"
	"seckill/internal/order"
	"seckill/internal/room"
	"seckill/internal/room/ledger"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// roomStore is what a room needs of a database and a sale.
type roomStore struct{ voucher *voucher.Voucher }

func (s roomStore) Voucher(context.Context, int64) (*voucher.Voucher, error) { return s.voucher, nil }

func (roomStore) Room(context.Context, int64) (room.Record, error) {
	return room.Record{Secret: make([]byte, room.SecretSize), Drawn: 0}, nil
}
func (roomStore) Reserve(context.Context, int64, int64) error                    { return nil }
func (roomStore) Draw(_ context.Context, _, n int64) (int64, error)              { return n, nil }
func (roomStore) Serve(context.Context, int64, int64) error                      { return nil }
func (roomStore) Left(context.Context, *voucher.Voucher) (int64, error)          { return 1, nil }
func (roomStore) Ordered(context.Context, *voucher.Voucher, int64) (bool, error) { return false, nil }

// A poll of a visitor who waits, beside an order that is refused, and beside a bare gin handler with the same answer.
// None of them asks a server.
func BenchmarkPoll(b *testing.B) {
	rooms := room.New(room.Config{
		Store: roomStore{openVoucher()}, Vouchers: roomStore{openVoucher()}, Sales: roomStore{}, Log: slog.New(slog.DiscardHandler),
		Redis: ledger.New(simulate.NewRedis(b).Client(b), "t:", 16),
	})
	b.Cleanup(rooms.Close)
	r := newFixture(b, func(_ *httpapi.Config, r *fixture) { r.rooms, r.level = rooms, slog.LevelWarn })
	r.orders.place = func(context.Context, order.Request) (order.Order, error) { return order.Order{}, voucher.ErrSoldOut }
	var ticket string
	for user := range int64(200) { // of whom the first ones are called, and the last one is not for long
		a, err := rooms.Enter(b.Context(), room.Entry{VoucherID: 1, UserID: user + 1})
		fail.NowIf(b, err)
		ticket = a.Ticket
	}
	token := r.bearer(b, 200)
	run := func(name string, handler http.Handler, method, path string, header http.Header, status int) (body string) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				req := httptest.NewRequestWithContext(b.Context(), method, path, http.NoBody)
				req.Header = header
				rec := httptest.NewRecorder()
				handler.ServeHTTP(rec, req)
				if body = rec.Body.String(); rec.Code != status {
					b.Fatalf("%d %s", rec.Code, body)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op") // whatever else the machine does
		})
		return body
	}
	poll := run("poll", r.handler, http.MethodGet, "/api/v1/vouchers/1/room", http.Header{"Authorization": {token}, "Room-Ticket": {ticket}}, http.StatusOK)
	run("refusal", r.handler, http.MethodPost, "/api/v1/vouchers/1/orders", http.Header{"Authorization": {token}}, http.StatusConflict)
	gin.SetMode(gin.ReleaseMode)
	bare := gin.New()
	bare.GET("/api/v1/vouchers/:id/room", func(c *gin.Context) { c.Data(http.StatusOK, "application/json", []byte(poll)) })
	run("bare gin", bare, http.MethodGet, "/api/v1/vouchers/1/room", http.Header{}, http.StatusOK)
}

// cpuTime is the CPU time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	fail.NowIf(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func openVoucher() *voucher.Voucher {
	v := &voucher.Voucher{ID: 1, BeginAt: time.Now().Add(-time.Hour), EndAt: time.Now().Add(time.Hour), Policy: voucher.DefaultPolicy()}
	v.Policy.Room = &voucher.Room{Rate: 1, DrawS: 0, PassS: 3600}
	return v
}
