package httpapi

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/order"
)

// metrics are the metrics of HTTP. Label values come from closed lists: the routes of the table, their methods, classes
// of status, the codes of [table].
type metrics struct {
	inFlight atomic.Int64
	panics   prometheus.Counter
	requests *prometheus.CounterVec   // method, route, class
	duration *prometheus.HistogramVec // method, route

	// Resolved in newMetrics and only read after that.
	problems map[string]prometheus.Counter // by code
	orders   map[string]prometheus.Counter // by outcome
}

// placeOrderRoute is the route that, with POST, places orders: their outcomes are counted.
const placeOrderRoute = "/api/v1/vouchers/:id/orders"

func newMetrics(reg prometheus.Registerer, ps *problems) (*metrics, error) {
	m := &metrics{
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "seckill_http_panics_total", Help: "Requests whose handler panicked.",
		}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "seckill_http_requests_total", Help: "Requests answered, by route template and class of status.",
		}, []string{"method", "route", "class"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "seckill_http_request_duration_seconds", Help: "Time from a request's header to its answer.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"method", "route"}),
		problems: make(map[string]prometheus.Counter),
		orders:   make(map[string]prometheus.Counter),
	}
	problems := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "seckill_http_problems_total", Help: "Requests answered with a problem, by its code.",
	}, []string{"code"})
	orders := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "seckill_orders_total", Help: "Orders asked for, by what became of them.",
	}, []string{"outcome"})
	for _, p := range ps.rows {
		m.problems[p.code] = problems.WithLabelValues(p.code)
		m.orders[p.code] = orders.WithLabelValues(p.code)
	}
	for _, status := range order.Statuses() { // a resumed request may find its order in any of them
		m.orders[string(status)] = orders.WithLabelValues(string(status))
	}
	m.orders["replayed"] = orders.WithLabelValues("replayed")
	inFlight := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "seckill_http_requests_in_flight", Help: "Requests being answered now.",
	}, func() float64 { return float64(m.inFlight.Load()) })
	return m, register(reg, inFlight, m.panics, m.requests, m.duration, problems, orders)
}

func register(reg prometheus.Registerer, own ...prometheus.Collector) error {
	for _, c := range own {
		if err := reg.Register(c); err != nil {
			return fmt.Errorf("httpapi: register metrics: %w", err)
		}
	}
	return nil
}

// routeMetrics are the metrics of one route and method.
type routeMetrics struct {
	method, route string
	duration      prometheus.Observer
	classes       [6]atomic.Pointer[prometheus.Counter] // by the status's first digit, on first use
	orders        bool
}

func (m *metrics) route(method, route string) *routeMetrics {
	return &routeMetrics{
		method: method, route: route, duration: m.duration.WithLabelValues(method, route),
		orders: method == http.MethodPost && route == placeOrderRoute,
	}
}

func (m *metrics) observe(rt *routeMetrics, out reply, took time.Duration) {
	rt.duration.Observe(took.Seconds())
	m.class(rt, out.status).Inc()
	if out.problem != nil {
		m.problems[out.outcome].Inc()
	}
	if rt.orders {
		m.orders[out.outcome].Inc()
	}
}

func (m *metrics) class(rt *routeMetrics, status int) prometheus.Counter {
	slot := &rt.classes[status/100]
	if c := slot.Load(); c != nil {
		return *c
	}
	c := m.requests.WithLabelValues(rt.method, rt.route, statusClass(status))
	slot.Store(&c)
	return c
}
