package httpapi

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/httpserver"
)

// Limits bound concurrent requests and connections. 0 means no limit.
type Limits struct {
	// Orders are POST …/orders. Requests are all others: a flood of them leaves the orders' share free.
	Orders, OrdersPerUser     int
	Requests, RequestsPerUser int
	RequestsPerAddress        int // on routes that need no user
	Waits, WaitsPerUser       int // GET orders/{id}?wait=
	Connections               int
	ConnectionsPerAddress     int // except from loopback
}

// The limits on requests for /metrics that wait, or whose answers are not read. Each may hold a result until a write
// times out.
const (
	maxScrapes           = 256
	maxScrapesPerAddress = 16
)

// The limits on webhooks of the payment provider. An address may have half of them, so that one client does not keep
// the provider out.
const (
	maxEvents           = 64
	maxEventsPerAddress = maxEvents / 2
)

// limiters bound what is in progress.
type limiters struct {
	orders, requests     *httpserver.Limiter // by user
	addresses            *httpserver.Limiter // as requests, by address
	waits, events        *httpserver.Limiter
	connections, scrapes *httpserver.Limiter
}

func newLimiters(l Limits, reg prometheus.Registerer) (limiters, error) {
	shed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "seckill_http_shed_total", Help: "Requests and connections that were rejected because of a limit on concurrency, by the limit.",
	}, []string{"limit"})
	bound := func(all, ofClient int, limit, limitOfClient string) *httpserver.Limiter {
		return httpserver.NewLimiter(all, ofClient, shed.WithLabelValues(limit), shed.WithLabelValues(limitOfClient))
	}
	requests := bound(l.Requests, l.RequestsPerUser, "requests", "requests_per_user")
	return limiters{
		orders:    bound(l.Orders, l.OrdersPerUser, "orders", "orders_per_user"),
		requests:  requests,
		addresses: requests.ForClients(l.RequestsPerAddress, shed.WithLabelValues("requests_per_address")),
		waits:     bound(l.Waits, l.WaitsPerUser, "waits", "waits"),
		// No limit per address where all clients have that of a balancer.
		events:      bound(maxEvents, min(maxEventsPerAddress, l.RequestsPerAddress), "payment_events", "payment_events_per_address"),
		connections: bound(l.Connections, l.ConnectionsPerAddress, "connections", "connections_per_address"),
		scrapes:     bound(maxScrapes, maxScrapesPerAddress, "metrics", "metrics"),
	}, register(reg, shed)
}

// tooManyConnections answers a connection beyond the limits.
const tooManyConnections = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n" +
	"Content-Type: application/problem+json\r\nContent-Length: 127\r\n\r\n" +
	`{"type":"urn:seckill:problem:unavailable","title":"Too many connections are open; try again","status":503,"code":"unavailable"}`

// LimitConnections adds the limits on connections to the configuration of a server.
func (a *API) LimitConnections(c httpserver.Config) httpserver.Config {
	c.Connections, c.Refusal = a.limits.connections, tooManyConnections
	return c
}

// limited returns a handler that keeps a route's requests within the limits. It rejects the requests beyond them before
// they cost anything. A request that waits for an order does not count as a request meanwhile.
func (a *API) limited(rt route, h handler) handler {
	limit := a.limits.requests
	switch {
	case rt.path == paymentEventsRoute:
		limit = nil // receiveEvent looks at the header first
	case rt.method == http.MethodPost && rt.path == placeOrderRoute:
		limit = a.limits.orders
	case rt.who != user:
		limit = a.limits.addresses
	}
	return func(ctx context.Context, r *request) (reply, error) {
		r.client = uint64(r.user)
		if rt.who != user {
			r.client = httpserver.ClientAt(r.RemoteAddr)
		}
		if err := r.enter(limit); err != nil {
			return reply{}, err
		}
		defer r.release()
		return h(ctx, r)
	}
}

// enter counts the request in a limit, and no longer in the one before.
func (r *request) enter(limit *httpserver.Limiter) error {
	if err := limit.Enter(r.client); err != nil {
		return err
	}
	r.release()
	r.slot = limit
	return nil
}

// release makes the request count in no limit.
func (r *request) release() {
	r.slot.Leave(r.client)
	r.slot = nil
}
