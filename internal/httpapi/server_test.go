package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/httpserver"
	"seckill/internal/httpserver/servertest"
	"seckill/internal/order"
)

// listen starts a server that is stopped when the test ends.
func (r *fixture) listen(t *testing.T) *servertest.Server {
	t.Helper()
	return servertest.Serve(t, r.api.LimitConnections(httpserver.Config{AnswerTimeout: time.Second}), r.handler)
}

// What is not a whole request of a bounded size is answered or cut off, and not waited for longer than 10 s.
func TestServerLimits(t *testing.T) {
	create := servertest.Header("POST", "/api/v1/vouchers", "Content-Type: application/json")
	for name, c := range map[string]struct {
		raw, want string // want "": the connection is closed without an answer
		after     time.Duration
	}{
		"a header that never ends":           {servertest.Header("GET", "/"), "", 10 * time.Second},
		"a body that never comes":            {create + "Content-Length: 10\r\n\r\n{", "400 Bad Request", 10 * time.Second},
		"a body cut into bad chunks":         {create + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "400 Bad Request", 0},
		"a body without a length, too large": {create + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", 70_000, strings.Repeat(" ", 70_000)), "413 Request Entity Too Large", 0},
		"a body that says it is too large":   {create + "Content-Length: 9999999999\r\n\r\n", "413 Request Entity Too Large", 0},
		"a header too large":                 {servertest.Header("GET", "/", "X-Large: "+strings.Repeat("x", 64<<10)) + "\r\n", "431 Request Header Fields Too Large", 0},
		"not HTTP":                           {"HELO x\r\n\r\n", "400 Bad Request", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, began := newFixture(t, lab).listen(t).Client(), time.Now()
				go func() { _, _ = io.WriteString(client, c.raw) }()
				line, _ := client.Answers.ReadString('\n') // the end of the connection is an empty one
				if got := strings.TrimPrefix(strings.TrimSpace(line), "HTTP/1.1 "); got != c.want || time.Since(began) != c.after {
					t.Errorf("%q after %v; want %q after %v", got, time.Since(began), c.want, c.after)
				}
			})
		})
	}
}

// A request that a stop has cut off is answered as one that may be repeated.
func TestStopCutsOff(t *testing.T) {
	r := newFixture(t, lab)
	ctx, cutOff := context.WithCancelCause(t.Context())
	r.orders.place = func(ctx context.Context, _ order.Request) (order.Order, error) {
		cutOff(httpserver.ErrStopping)
		return order.Order{}, ctx.Err()
	}
	wantProblem(t, r.serve(ctx, "POST", "/api/v1/vouchers/1/orders", "X-User-ID: 42"), http.StatusServiceUnavailable, "unavailable")
}
