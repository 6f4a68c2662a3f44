package httpapi_test

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/order"
	"seckill/internal/telemetry"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// metric sums a metric over the series that have all of the label values.
func (r *fixture) metric(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	families, err := r.registry.Gather()
	fail.NowIf(t, err)
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			lacks := func(want string) bool { return !slices.Contains(values, want) }
			if f.GetName() == name && !slices.ContainsFunc(labels, lacks) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

func TestMetrics(t *testing.T) {
	r := newFixture(t, lab)
	place := call{"POST", "/api/v1/vouchers/1/orders", "", []string{"X-User-ID: 42"}}
	r.do(t, place)
	keyed := place
	keyed.headers = append([]string{"Idempotency-Key: k"}, place.headers...)
	r.do(t, keyed)
	r.do(t, keyed)
	r.orders.place = failing(voucher.ErrSoldOut)
	r.do(t, place)
	r.do(t, place)
	r.do(t, call{"GET", "/api/v1/vouchers/99", "", nil})
	r.do(t, call{"TRACE", "/some/where/else", "", nil})

	for _, c := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"seckill_orders_total", []string{"confirmed"}, 2},
		{"seckill_orders_total", []string{"replayed"}, 1},
		{"seckill_orders_total", []string{"sold_out"}, 2},
		{"seckill_orders_total", nil, 5},
		{"seckill_http_problems_total", []string{"sold_out"}, 2},
		{"seckill_http_problems_total", []string{"voucher_not_found"}, 1},
		{"seckill_http_problems_total", nil, 4},
		{"seckill_http_requests_total", []string{"POST", "/api/v1/vouchers/:id/orders", "2xx"}, 3},
		{"seckill_http_requests_total", []string{"POST", "/api/v1/vouchers/:id/orders", "4xx"}, 2},
		{"seckill_http_requests_total", []string{"GET", "/api/v1/vouchers/:id", "4xx"}, 1},
		{"seckill_http_requests_total", []string{"any", "none", "4xx"}, 1},
		{"seckill_http_requests_total", nil, 7},
		{"seckill_http_request_duration_seconds", nil, 7},
		{"seckill_http_requests_in_flight", nil, 0},
	} {
		fail.Unequal(t, r.metric(t, c.name, c.labels...), c.want, "%s%q", c.name, c.labels)
	}
}

func TestAccessLog(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		call call
		want string // the level
	}{
		{"a sale", nil, call{"POST", "/api/v1/vouchers/1/orders", "", []string{"X-User-ID: 42"}}, "INFO"},
		{"sold out", voucher.ErrSoldOut, call{"POST", "/api/v1/vouchers/1/orders", "", []string{"X-User-ID: 42"}}, "DEBUG"},
		{"unavailable", order.ErrUnavailable, call{"POST", "/api/v1/vouchers/1/orders", "", []string{"X-User-ID: 42"}}, "WARN"},
		{"internal", http.ErrBodyNotAllowed, call{"POST", "/api/v1/vouchers/1/orders", "", []string{"X-User-ID: 42"}}, "ERROR"},
		{"a look", nil, call{"GET", "/api/v1/vouchers", "", nil}, "DEBUG"},
		{"a refusal", nil, call{"GET", "/api/v1/orders", "", nil}, "INFO"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newFixture(t, lab)
			if c.err != nil {
				r.orders.place = failing(c.err)
			}
			id := r.do(t, c.call).Header().Get("X-Request-ID")
			line := r.log.String()
			if strings.Count(line, "\n") != 1 || !strings.Contains(line, `"level":"`+c.want+`"`) || !strings.Contains(line, `"request_id":"`+id+`"`) {
				t.Errorf("want one line at %s with id %s: %s", c.want, id, line)
			}
		})
	}
}

// What a client sends does not fill the log, nor a label.
func TestLongRequestLineIsNotLoggedWhole(t *testing.T) {
	r := newFixture(t, lab)
	r.do(t, call{strings.Repeat("M", 7_000), "/api/v1/vouchers/" + strings.Repeat("v", 7_000), "", nil})
	metrics := r.do(t, call{"GET", "/metrics", "", nil}).Body.String()
	if !strings.Contains(r.log.String(), `"method":"M`) || len(metrics) == 0 {
		t.Fatalf("log %.200q, metrics %.200q", r.log.String(), metrics)
	}
	for where, text := range map[string]string{"log": r.log.String(), "metrics": metrics} {
		if strings.Contains(text, strings.Repeat("M", 100)) || strings.Contains(text, strings.Repeat("v", 100)) {
			t.Errorf("the %s has more than 100 bytes in a row of what the client sent", where)
		}
	}
}

// Every request's work has a deadline: that of an order after the longest wait for a lock and 10 s more, that of a read
// after 10 s.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, lab)
		var left []time.Duration
		see := func(ctx context.Context) error {
			until, _ := ctx.Deadline()
			left = append(left, time.Until(until))
			return nil
		}
		r.orders.place = func(ctx context.Context, _ order.Request) (order.Order, error) {
			return order.Order{}, cmp.Or(see(ctx), voucher.ErrSoldOut)
		}
		r.orders.look = see
		r.do(t, call{"POST", "/api/v1/vouchers/1/orders", "", []string{"X-User-ID: 42"}})
		r.do(t, call{"GET", "/api/v1/vouchers/1/audit", "", nil})
		if want := []time.Duration{voucher.MaxLockWait + 10*time.Second, 10 * time.Second}; !slices.Equal(left, want) {
			t.Errorf("the deadlines are %v, want %v", left, want)
		}
	})
}

// The span of a request is named after its route, whichever it is.
func TestTracesHaveEveryRoute(t *testing.T) {
	for _, operation := range newFixture(t).api.Operations() {
		_, route, _ := strings.Cut(operation, " ")
		if !strings.HasPrefix(route, "/api/v1/") { // requests to others have no span
			continue
		}
		path := strings.NewReplacer(":id", "7", "*key", "order:1:2").Replace(route)
		fail.Unequal(t, telemetry.Route(path), route, "%s", path)
	}
}
