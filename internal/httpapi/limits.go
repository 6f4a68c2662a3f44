package httpapi

import (
	"context"
	"errors"
	"hash/maphash"
	"net/http"
	"net/netip"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
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

// The errors of a request beyond a limit.
var (
	errTooManyRequests = errors.New("httpapi: too many concurrent requests")
	errTooManyOfClient = errors.New("httpapi: too many concurrent requests of one client")
)

// limiter counts concurrent requests.
type limiter struct {
	orders, requests                    concurrency
	userOrders, userRequests, addresses *clientCounter
	waits                               concurrency
	userWaits                           *clientCounter
	events                              concurrency
	eventAddresses                      *clientCounter

	shed map[string]prometheus.Counter // by limit
}

// The limits' names in the metrics.
const (
	limitOrders      = "orders"
	limitRequests    = "requests"
	limitUserOrders  = "orders_per_user"
	limitUser        = "requests_per_user"
	limitAddress     = "requests_per_address"
	limitWaits       = "waits"
	limitConnections = "connections"
	limitAddressConn = "connections_per_address"
	limitScrapes     = "metrics" // requests for /metrics, see buffered
	limitEvents      = "payment_events"
	limitEventAddr   = "payment_events_per_address"
)

// The limits on webhooks of the payment provider. An address may have half of them, so that one client does not keep the
// provider out.
const (
	maxEvents           = 64
	maxEventsPerAddress = maxEvents / 2
)

func newLimiter(l Limits, reg prometheus.Registerer) (*limiter, error) {
	shed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "seckill_http_shed_total", Help: "Requests and connections that were rejected because of a limit on concurrency, by the limit.",
	}, []string{"limit"})
	lim := &limiter{
		orders: concurrency{limit: int64(l.Orders)}, requests: concurrency{limit: int64(l.Requests)}, waits: concurrency{limit: int64(l.Waits)},
		userOrders: newClientCounter(l.OrdersPerUser), userRequests: newClientCounter(l.RequestsPerUser), addresses: newClientCounter(l.RequestsPerAddress),
		userWaits: newClientCounter(l.WaitsPerUser), shed: make(map[string]prometheus.Counter),
		// No limit per address where all clients have that of a balancer.
		events: concurrency{limit: maxEvents}, eventAddresses: newClientCounter(min(maxEventsPerAddress, l.RequestsPerAddress)),
	}
	for _, name := range []string{limitOrders, limitRequests, limitUserOrders, limitUser, limitAddress, limitWaits, limitConnections, limitAddressConn, limitScrapes, limitEvents, limitEventAddr} {
		lim.shed[name] = shed.WithLabelValues(name)
	}
	return lim, reg.Register(shed)
}

// reject counts a rejected request and returns err.
func (l *limiter) reject(limit string, err error) error {
	l.shed[limit].Inc()
	return err
}

// limited returns a handler that keeps a route's requests within the limits. It rejects the requests beyond
// them before they cost anything. A request that waits for an order does not count as a request meanwhile.
func (a *API) limited(rt route, h handler) handler {
	l := a.limits
	if rt.method == http.MethodPost && rt.path == placeOrderRoute {
		return func(ctx context.Context, r *request) (reply, error) {
			if !l.orders.enter() {
				return reply{}, l.reject(limitOrders, errTooManyRequests)
			}
			defer l.orders.leave()
			if !l.userOrders.enter(uint64(r.user)) {
				return reply{}, l.reject(limitUserOrders, errTooManyOfClient)
			}
			defer l.userOrders.leave(uint64(r.user))
			return h(ctx, r)
		}
	}
	if rt.path == paymentEventsRoute {
		return h // has limits of its own, see receiveEvent
	}
	clients, limit := l.userRequests, limitUser
	client := func(r *request) uint64 { return uint64(r.user) }
	if rt.who != user {
		clients, limit = l.addresses, limitAddress
		client = func(r *request) uint64 { return addressKey(r.RemoteAddr) }
	}
	return func(ctx context.Context, r *request) (reply, error) {
		if !l.requests.enter() {
			return reply{}, l.reject(limitRequests, errTooManyRequests)
		}
		key := client(r)
		if !clients.enter(key) {
			l.requests.leave()
			return reply{}, l.reject(limit, errTooManyOfClient)
		}
		r.releaseSlot = func() { clients.leave(key); l.requests.leave() }
		defer r.release()
		return h(ctx, r)
	}
}

// release gives back the request's slot.
func (r *request) release() {
	if r.releaseSlot != nil {
		r.releaseSlot()
		r.releaseSlot = nil
	}
}

// enterWait reports whether the request may wait for an order. If so, it counts as a wait until done is
// called, and no longer as a request.
func (a *API) enterWait(r *request) (done func(), ok bool) {
	l := a.limits
	if !l.waits.enter() {
		l.shed[limitWaits].Inc()
		return nil, false
	}
	key := uint64(r.user)
	if !l.userWaits.enter(key) {
		l.waits.leave()
		l.shed[limitWaits].Inc()
		return nil, false
	}
	r.release()
	return func() { l.userWaits.leave(key); l.waits.leave() }, true
}

// enterEvent counts a webhook of the payment provider until leave is called, or returns why it is refused.
func (l *limiter) enterEvent(r *request) (leave func(), err error) {
	if !l.events.enter() {
		return nil, l.reject(limitEvents, errTooManyRequests)
	}
	key := addressKey(r.RemoteAddr)
	if !l.eventAddresses.enter(key) {
		l.events.leave()
		return nil, l.reject(limitEventAddr, errTooManyOfClient)
	}
	return func() { l.eventAddresses.leave(key); l.events.leave() }, nil
}

// concurrency counts the concurrent requests of the whole process.
type concurrency struct {
	limit int64 // 0: no limit
	n     atomic.Int64
}

func (p *concurrency) enter() bool {
	if n := p.n.Add(1); p.limit > 0 && n > p.limit {
		p.n.Add(-1)
		return false
	}
	return true
}

func (p *concurrency) leave() { p.n.Add(-1) }

// clientCounter counts the concurrent requests of each client in constant memory (a count-min sketch): each
// client has one counter in each of two rows, chosen by hashes that a client cannot predict. A counter that
// clients share is too high, never too low, so a limit always holds. A client is rejected because of
// others only if both of its counters are full of theirs: with 100 clients at their limits, one in 27,000.
type clientCounter struct {
	limit int32
	seeds [2]maphash.Seed
	rows  [2][clientCounters]atomic.Int32
}

const clientCounters = 1 << 14

// newClientCounter returns nil, which counts nothing, if the limit is 0.
func newClientCounter(limit int) *clientCounter {
	if limit == 0 {
		return nil
	}
	return &clientCounter{limit: int32(limit), seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

func (t *clientCounter) counters(key uint64) (a, b *atomic.Int32) {
	return &t.rows[0][maphash.Comparable(t.seeds[0], key)%clientCounters], &t.rows[1][maphash.Comparable(t.seeds[1], key)%clientCounters]
}

func (t *clientCounter) enter(key uint64) bool {
	if t == nil {
		return true
	}
	a, b := t.counters(key)
	if min(a.Add(1), b.Add(1)) > t.limit {
		a.Add(-1)
		b.Add(-1)
		return false
	}
	return true
}

func (t *clientCounter) leave(key uint64) {
	if t == nil {
		return
	}
	a, b := t.counters(key)
	a.Add(-1)
	b.Add(-1)
}

// addressSeed is the seed of addressKey.
var addressSeed = maphash.MakeSeed()

// addressKey is the hash of the client at an address; see clientOf.
func addressKey(remote string) uint64 {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return 0
	}
	return maphash.Comparable(addressSeed, clientOf(at.Addr()))
}

// clientOf returns an IPv4 address, or the /64 prefix of an IPv6 address: one client usually has a whole
// /64.
func clientOf(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if addr.Is6() {
		if net, err := addr.Prefix(64); err == nil {
			return net.Addr()
		}
	}
	return addr
}
