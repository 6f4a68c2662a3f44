package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// logged returns how many lines the log has for each outcome, and how many they say are missing.
func (r *fixture) logged(t *testing.T) (lines, suppressed map[string]int) {
	t.Helper()
	lines, suppressed = map[string]int{}, map[string]int{}
	for text := range strings.Lines(r.log.String()) {
		var line struct {
			Outcome    string
			Suppressed int
		}
		fail.NowIf(t, json.Unmarshal([]byte(text), &line), "%s", text)
		lines[line.Outcome]++
		suppressed[line.Outcome] += line.Suppressed
	}
	return lines, suppressed
}

// Refusals that anybody can cause are logged 10 times a second for each code, and the others are counted. Failures are
// all logged.
func TestRefusalsAreLoggedWithinABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, lab)
		fail.NowIf(t, r.api.AddRoute(http.MethodGet, "/broken", false, func(context.Context, func() ([]byte, error)) error {
			return errors.New("it broke")
		}))
		const clients, each = 10, 20
		flood := func() {
			var asking sync.WaitGroup
			for range clients {
				asking.Go(func() {
					for range each {
						r.serve(t.Context(), http.MethodGet, "/nowhere")
						r.serve(t.Context(), http.MethodDelete, "/api/v1/orders")
						r.serve(t.Context(), http.MethodGet, "/broken")
					}
				})
			}
			asking.Wait()
		}
		for second := range 3 {
			flood()
			lines, suppressed := r.logged(t)
			for _, code := range []string{"not_found", "method_not_allowed"} {
				wantLines, wantSuppressed := 10*(second+1), (clients*each-10)*second
				if lines[code] != wantLines || suppressed[code] != wantSuppressed {
					t.Errorf("second %d, %s: %d lines, %d suppressed; want %d and %d", second, code, lines[code], suppressed[code], wantLines, wantSuppressed)
				}
			}
			if want := clients * each * (second + 1); lines["internal"] != want {
				t.Errorf("%d lines of %d failures", lines["internal"], want)
			}
			simulate.Sleep(time.Second)
		}
		r.serve(t.Context(), http.MethodGet, "/nowhere")
		if lines, suppressed := r.logged(t); lines["not_found"]+suppressed["not_found"] != 3*clients*each+1 {
			t.Errorf("%d lines and %d suppressed of %d requests", lines["not_found"], suppressed["not_found"], 3*clients*each+1)
		}
	})
}

// A user who repeats what has taken effect, an order under its key or the request for a payment, fills no log either.
// Orders are all logged: the stock bounds them.
func TestRepetitionsAreLoggedWithinABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, lab)
		r.lifecycle.payment = order.Payment{ID: "pay_1", URL: "http://pay.example/pay_1", OrderID: 7}
		const each = 200
		for n := range each {
			r.serve(t.Context(), http.MethodPost, "/api/v1/vouchers/1/orders", "X-User-ID: 42", "Idempotency-Key: again")
			r.serve(t.Context(), http.MethodPost, "/api/v1/orders/7/payment", "X-User-ID: 42")
			r.serve(t.Context(), http.MethodPost, "/api/v1/vouchers/1/orders", fmt.Sprint("X-User-ID: ", 100+n))
		}
		lines, _ := r.logged(t)
		if lines["replayed"] != 10 || lines["ok"] != 10 || lines["confirmed"] != each+1 {
			t.Errorf("lines of %d repetitions, payments and orders: %v", each, lines)
		}
		simulate.Sleep(time.Second)
		r.serve(t.Context(), http.MethodPost, "/api/v1/orders/7/payment", "X-User-ID: 42")
		if _, suppressed := r.logged(t); suppressed["ok"] != each-10 {
			t.Errorf("%d lines are said to be missing, want %d", suppressed["ok"], each-10)
		}
	})
}
