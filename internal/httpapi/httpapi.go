package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/auth"
	"seckill/internal/httpserver"
	"seckill/internal/idempotency"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/readiness"
	"seckill/internal/samesite"
	"seckill/internal/voucher"
)

// Config configures the API.
type Config struct {
	// Lab accepts X-User-ID as authentication, needs no admin token, and enables the route that issues tokens.
	Lab bool
	// LabHosts are the host names of the service in lab mode, besides those of the loopback interface. A request with
	// another Host header is refused.
	LabHosts []string
	// AdminToken is the administrator's bearer token. If it is empty, admin routes work in lab mode only.
	AdminToken string
	// DebugListener says that [API.Debug] is served on a listener of its own. The public handler then has neither
	// health checks nor metrics.
	DebugListener bool
	// Limits bound concurrent requests and connections.
	Limits Limits
	// CommandLine is what /debug/pprof/cmdline shows: the command line of the process, without secrets.
	CommandLine []string
}

// Deps are the dependencies of the handlers. All but Rooms, Events, Handovers, Limit, Lookups, Keys, Cancels, Site and
// PaymentPages are required.
type Deps struct {
	Orders    Orders
	Lifecycle Lifecycle
	Vouchers  Vouchers
	// Rooms are the waiting rooms; nil if there are none.
	Rooms       Rooms
	Idempotency idempotency.Store
	// Events takes the webhooks of the payment provider; nil if there is none.
	Events PaymentEvents
	// IDs generates the ids that are reserved under an idempotency key.
	IDs    IDs
	Tokens *auth.Tokens
	// Lockers must have the mechanisms that the guards name; otherwise New fails.
	Lockers Locks
	// Handovers counts the leases that Lockers grant; nil if nobody counts them.
	Handovers *lock.Handovers
	// Limit reports whether a user may place an order now and, if not, after which wait. nil means no limit.
	Limit func(userID int64) (wait time.Duration, ok bool)
	// Lookups bounds how often a user may look up orders and idempotency keys, Keys how many idempotency keys a user
	// may store, Cancels how many orders a user may cancel. nil means no limit.
	Lookups, Keys, Cancels Quota
	// Site is the pages for browsers. nil means that there are none.
	Site Site
	// PaymentPages is the provider's pages, if they are served by this server: below the path /sandbox, at every
	// address at which that is reached. PaymentPagesURL is where the provider itself has them.
	PaymentPages    http.Handler
	PaymentPagesURL string
	Ready           *readiness.Readiness
	Log             *slog.Logger
	Registerer      prometheus.Registerer
	Gatherer        prometheus.Gatherer
	Now             func() time.Time
}

// Orders places and returns orders. [order.Service] implements it.
type Orders interface {
	// KeepsKeys reports whether Place is given a request's idempotency key, and finds the order that an earlier request
	// with that key has placed.
	KeepsKeys(ctx context.Context, voucherID int64) (bool, error)
	Place(ctx context.Context, req order.Request) (order.Order, error)
	// Refusal returns the error with which Place would refuse a new request, if memory is enough to know it. nil means
	// that only Place can tell.
	Refusal(ctx context.Context, req order.Request) error
	Order(ctx context.Context, userID, id int64) (order.Order, error)
	OrdersOf(ctx context.Context, userID, before int64, limit int) ([]order.Order, error)
	// OrdersOfVoucher lists what the database has, newest first.
	OrdersOfVoucher(ctx context.Context, voucherID, before int64, limit int) ([]order.Order, error)
	// Await waits until an order is no longer pending or the limit has passed. Its only error is the context's.
	Await(ctx context.Context, o order.Order, limit time.Duration) error
	Audit(ctx context.Context, voucherID int64) (order.Audit, error)
}

// Vouchers creates, changes and returns vouchers. [voucher.Service] implements it.
type Vouchers interface {
	// Create is given the id that was reserved for the voucher, or 0. If an earlier attempt has created a voucher with
	// that id, it returns that one.
	Create(ctx context.Context, v voucher.Voucher) (*voucher.Voucher, error)
	Voucher(ctx context.Context, id int64) (*voucher.Voucher, error)
	Vouchers(ctx context.Context, list voucher.List, limit int) ([]*voucher.Voucher, error)
	// Change and Delete return nil once nothing is sold any more that the change forbids.
	Change(ctx context.Context, id int64, c voucher.Change) (*voucher.Voucher, error)
	Delete(ctx context.Context, id int64, c voucher.Change) error
	Changes(ctx context.Context, id, before int64, limit int) ([]voucher.Record, error)
}

// Quota bounds how often each user may do something. admission.Limiter implements it.
type Quota interface {
	// Allow reports whether the user may do it now and, if not, after which wait.
	Allow(userID int64) (wait time.Duration, ok bool)
	// Return takes back one Allow whose action was not done.
	Return(userID int64)
}

// Site is the pages for browsers and their files. [web.Site] implements it.
type Site interface {
	// Paths returns the paths of the pages.
	Paths() []string
	// Serves reports whether there is a page or a file at a URL. An encoded slash separates nothing.
	Serves(u *url.URL) bool
	// ServeHTTP answers GET and HEAD for a URL that is served.
	http.Handler
}

// Locks finds mechanisms by name. [lock.Registry] implements it.
type Locks interface {
	// Locker fails with [lock.ErrUnknown] or [lock.ErrNotConfigured].
	Locker(name string) (lock.Locker, error)
	Names() []string
}

// IDs generates ids: positive, and never the same one twice.
type IDs interface {
	NextID(ctx context.Context) (int64, error)
}

var (
	_ Orders   = (*order.Service)(nil)
	_ Vouchers = (*voucher.Service)(nil)
	_ Locks    = (*lock.Registry)(nil)
)

// API is the HTTP interface of the service. It starts no goroutines.
type API struct {
	cfg      Config
	deps     Deps
	problems *problems
	metrics  *metrics
	ids      *httpserver.RequestIDs
	adminKey []byte // digest of the admin token; nil if there is none
	site     *samesite.Guard
	rendered *renderCache
	limits   limiters
	live     *live
	rushing  atomic.Bool
	// waits ends when the service stops, by endWaits. It ends the waits for orders.
	waits    context.Context
	endWaits context.CancelFunc

	public *gin.Engine
	debug  http.Handler
}

// New wires the handlers and registers their metrics.
func New(cfg Config, deps Deps) (*API, error) {
	if deps.Orders == nil || deps.Lifecycle == nil || deps.Vouchers == nil || deps.Idempotency == nil || deps.IDs == nil || deps.Tokens == nil ||
		deps.Lockers == nil || deps.Ready == nil || deps.Log == nil || deps.Registerer == nil || deps.Gatherer == nil || deps.Now == nil {
		return nil, errors.New("httpapi: a dependency is missing")
	}
	a := &API{
		cfg: cfg, deps: deps,
		problems: newProblems(),
		ids:      httpserver.NewRequestIDs(),
		rendered: newRenderCache(),
		live:     newLive(),
		adminKey: digestOf(cfg.AdminToken),
		site:     samesite.New(cfg.LabHosts...),
	}
	a.waits, a.endWaits = context.WithCancel(context.Background())
	var err error
	if a.metrics, err = newMetrics(deps.Registerer, a.problems); err != nil {
		return nil, err
	}
	if err := register(deps.Registerer, deps.Ready.Metrics()); err != nil {
		return nil, err
	}
	if a.limits, err = newLimiters(cfg.Limits, deps.Registerer); err != nil {
		return nil, err
	}
	a.debug = httpserver.WatchClient(a.sameSite(a.checkSite, a.newDebug()))
	if a.public, err = a.newPublic(); err != nil {
		return nil, err
	}
	return a, nil
}

// Public returns the handler for clients.
func (a *API) Public() http.Handler { return a.public }

// Debug returns the handler for a listener that only operators reach: /livez, /readyz, /metrics and /debug/pprof/.
func (a *API) Debug() http.Handler { return a.debug }

// Drain makes /readyz fail, so that a load balancer stops sending requests before the server stops accepting them.
func (a *API) Drain() { a.deps.Ready.Drain() }

// EndWaits ends the wait of every request that waits for an order, and every stream, now and from then on.
func (a *API) EndWaits() {
	a.endWaits()
	a.live.end()
}

// route is a row of the route table.
type route struct {
	method, path string
	who          access
	handler      handler
	guard        *Guard
}

// routes returns the route table.
func (a *API) routes() []route {
	const get, post, patch, del = http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete
	return []route{
		{post, "/api/v1/vouchers", admin, a.createVoucher, nil},
		{get, "/api/v1/vouchers", anyone, a.listVouchers, nil},
		{get, "/api/v1/vouchers/:id", anyone, a.showVoucher, nil},
		{patch, "/api/v1/vouchers/:id", admin, a.changeVoucher, nil},
		{del, "/api/v1/vouchers/:id", admin, a.deleteVoucher, nil},
		{get, "/api/v1/vouchers/:id/changes", admin, a.listChanges, nil},
		// The audit counts every order of a voucher, so only one runs at a time. It must also work after an outage, so
		// it does not depend on the lock's server.
		{get, "/api/v1/vouchers/:id/audit", admin, a.audit, &Guard{
			Key: "audit:#id", Lock: "reentrant", Wait: 2 * time.Second, BestEffort: true,
		}},
		{get, "/api/v1/vouchers/:id/live", admin, a.watchSale, nil},
		{post, "/api/v1/vouchers/:id/rush", admin, a.rush, nil},
		// There is no index for this order: it would cost each buyer. So a sale is read as the audit reads it, once at
		// a time.
		{get, placeOrderRoute, admin, a.listVoucherOrders, &Guard{
			Key: "orders:#id", Lock: "reentrant", Wait: 2 * time.Second, BestEffort: true,
		}},
		{post, "/api/v1/vouchers/:id/room", user, a.enterRoom, nil},
		{get, "/api/v1/vouchers/:id/room", anyone, a.showRoom, nil},
		{post, placeOrderRoute, user, a.placeOrder, nil},
		{get, "/api/v1/orders/:id", user, a.showOrder, nil},
		{post, "/api/v1/orders/:id/payment", user, a.payOrder, nil},
		{post, "/api/v1/orders/:id/cancel", user, a.cancelOrder, nil},
		{post, "/api/v1/orders/:id/refund", admin, a.refundOrder, nil},
		{get, "/api/v1/orders", user, a.listOrders, nil},
		{post, paymentEventsRoute, anyone, a.receiveEvent, nil},
		{post, "/api/v1/tokens", anyone, a.mintToken, nil},
		{get, "/api/v1/locks/*key", admin, a.showLock, nil},
		{del, "/api/v1/locks/*key", admin, a.breakLock, nil},
		{get, "/openapi.json", anyone, a.showOpenAPI, nil},
	}
}

// params returns the names of the path parameters.
func (rt route) params() (names []string) {
	for part := range strings.SplitSeq(rt.path, "/") {
		if strings.HasPrefix(part, ":") || strings.HasPrefix(part, "*") {
			names = append(names, part[1:])
		}
	}
	return names
}

// newPublic returns a handler for the route table.
func (a *API) newPublic() (*gin.Engine, error) {
	// This process-wide switch is the only way to keep gin from printing its routes. It is atomic, and nothing in this
	// process needs that output.
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.HandleMethodNotAllowed = true
	e.RedirectTrailingSlash = false
	e.ForwardedByClientIP = false // no proxy is trusted to report a client's address

	for _, rt := range a.routes() {
		if err := a.handle(e, rt); err != nil {
			return nil, err
		}
	}
	a.addSite(e)
	a.addPaymentPages(e)
	if !a.cfg.DebugListener {
		for _, path := range []string{"/livez", "/readyz", "/metrics"} {
			e.GET(path, gin.WrapH(a.debug))
			e.HEAD(path, gin.WrapH(a.debug))
		}
	}
	e.NoRoute(a.adapt(a.metrics.route("any", "none"), anyone, func(context.Context, *request) (reply, error) {
		return reply{}, errNoRoute
	}))
	e.NoMethod(a.adapt(a.metrics.route("any", "none"), anyone, func(context.Context, *request) (reply, error) {
		return reply{}, errMethod // gin has set Allow
	}))
	return e, nil
}

// handle adds a route. GET routes support HEAD too (RFC 9110 §9.1); net/http leaves out the body.
func (a *API) handle(e *gin.Engine, rt route) error {
	h, err := a.guarded(rt)
	if err != nil {
		return err
	}
	h = rt.inSegments(a.limited(rt, h))
	e.Handle(rt.method, rt.path, a.adapt(a.metrics.route(rt.method, rt.path), rt.who, h))
	if rt.method == http.MethodGet {
		e.HEAD(rt.path, a.adapt(a.metrics.route(http.MethodHead, rt.path), rt.who, h))
	}
	return nil
}
