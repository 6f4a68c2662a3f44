package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/auth"
	"seckill/internal/idempotency"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// Config says how the service presents itself.
type Config struct {
	// Lab accepts X-User-ID for a login, lets anyone do what an administrator
	// does, and hands out tokens.
	Lab bool
	// AdminToken is the administrator's bearer token. Empty: outside lab mode
	// nobody is an administrator.
	AdminToken string
	// DebugListener says that [API.Debug] is served on a listener of its own. The
	// public handler then has neither health checks nor metrics.
	DebugListener bool
}

// Deps is what the handlers work with. All of it is needed, except that there
// may be no checks, no lockers and no limit.
type Deps struct {
	Orders      Orders
	Vouchers    Vouchers
	Idempotency idempotency.Store
	// IDs mints the ids that are reserved under an idempotency key.
	IDs    IDs
	Tokens *auth.Tokens
	// Lockers has the mechanisms that the guards name, or New fails.
	Lockers Locks
	// Limit says whether a user may ask for an order now, and if not, in how long. nil:
	// there is no limit.
	Limit func(userID int64) (wait time.Duration, ok bool)
	// Ready is what has to answer for the service to be ready.
	Ready      []Check
	Log        *slog.Logger
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer
	Now        func() time.Time
}

// Orders places and shows orders; [order.Service] does.
type Orders interface {
	Place(ctx context.Context, req order.Request) (order.Order, error)
	Order(ctx context.Context, userID, id int64) (order.Order, error)
	OrdersOf(ctx context.Context, userID, before int64, limit int) ([]order.Order, error)
	// Await waits until a pending order is not so any more, at most until the limit.
	// Its error is the context's.
	Await(ctx context.Context, o order.Order, limit time.Duration) error
	Audit(ctx context.Context, voucherID int64) (order.Audit, error)
}

// Vouchers puts vouchers on sale and shows them; [voucher.Service] does.
type Vouchers interface {
	// Create is given the id that was reserved for the voucher, or 0. What an
	// earlier attempt created under the id it returns.
	Create(ctx context.Context, v voucher.Voucher) (*voucher.Voucher, error)
	Voucher(ctx context.Context, id int64) (*voucher.Voucher, error)
	Vouchers(ctx context.Context, after int64, limit int) ([]*voucher.Voucher, error)
}

// IDs mints ids: positive, never the same twice.
type IDs interface {
	NextID(ctx context.Context) (int64, error)
}

var (
	_ Orders   = (*order.Service)(nil)
	_ Vouchers = (*voucher.Service)(nil)
)

// API is the service's HTTP side. It starts no goroutines.
type API struct {
	cfg      Config
	deps     Deps
	problems *problems
	metrics  *metrics
	ids      *requestIDs
	owners   *lock.Owners
	health   *health
	adminKey []byte // digest of the admin token; nil where there is none
	// waits ends, with endWaits, the waits for orders: a stop has begun.
	waits    context.Context
	endWaits context.CancelFunc

	public *gin.Engine
	debug  http.Handler
}

// New wires the handlers and registers their metrics.
func New(cfg Config, deps Deps) (*API, error) {
	if deps.Orders == nil || deps.Vouchers == nil || deps.Idempotency == nil || deps.IDs == nil || deps.Tokens == nil ||
		deps.Lockers == nil || deps.Log == nil || deps.Registerer == nil || deps.Gatherer == nil || deps.Now == nil {
		return nil, errors.New("httpapi: a dependency is missing")
	}
	a := &API{
		cfg: cfg, deps: deps,
		problems: newProblems(),
		ids:      newRequestIDs(),
		owners:   lock.NewOwners(),
		health:   newHealth(deps.Ready, deps.Log),
		adminKey: digestOf(cfg.AdminToken),
	}
	a.waits, a.endWaits = context.WithCancel(context.Background())
	var err error
	if a.metrics, err = newMetrics(deps.Registerer, a.problems); err != nil {
		return nil, err
	}
	a.debug = a.newDebug()
	if a.public, err = a.newPublic(); err != nil {
		return nil, err
	}
	return a, nil
}

// Public is what everybody may reach.
func (a *API) Public() http.Handler { return a.public }

// Debug is for a listener that only operators reach: /livez, /readyz, /metrics
// and /debug/pprof/.
func (a *API) Debug() http.Handler { return a.debug }

// Drain makes /readyz say no from here on, so that a load balancer stops sending
// requests before the server stops taking them. Who waits for an order is answered.
func (a *API) Drain() {
	a.health.draining.Store(true)
	a.endWaits()
}

// route is a row of the table of routes.
type route struct {
	method, path string
	who          access
	handler      handler
	guards       []Guard // taken in this order
}

// routes is the table of routes.
func (a *API) routes() []route {
	const get, post, del = http.MethodGet, http.MethodPost, http.MethodDelete
	return []route{
		{post, "/api/v1/vouchers", admin, a.createVoucher, nil},
		{get, "/api/v1/vouchers", anyone, a.listVouchers, nil},
		{get, "/api/v1/vouchers/:id", anyone, a.showVoucher, nil},
		// It counts every order of a voucher on sale: one at a time. It is also what is
		// asked after an outage, so it does not depend on the lock's server.
		{get, "/api/v1/vouchers/:id/audit", admin, a.audit, []Guard{
			{Key: "audit:{path.id}", Lock: "reentrant", Wait: 2 * time.Second, BestEffort: true},
		}},
		{post, placeOrderRoute, user, a.placeOrder, nil},
		{get, "/api/v1/orders/:id", user, a.showOrder, nil},
		{get, "/api/v1/orders", user, a.listOrders, nil},
		{post, "/api/v1/tokens", anyone, a.mintToken, nil},
		{get, "/api/v1/locks/*key", admin, a.showLock, nil},
		{del, "/api/v1/locks/*key", admin, a.breakLock, nil},
	}
}

// params are the names of the parts of the address that vary.
func (rt route) params() (names []string) {
	for part := range strings.SplitSeq(rt.path, "/") {
		if strings.HasPrefix(part, ":") || strings.HasPrefix(part, "*") {
			names = append(names, part[1:])
		}
	}
	return names
}

// newPublic serves the table of routes.
func (a *API) newPublic() (*gin.Engine, error) {
	// The only way to keep gin from printing its routes is this process-wide
	// switch. It is atomic, and nothing in this process wants the printing.
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.HandleMethodNotAllowed = true
	e.RedirectTrailingSlash = false
	e.ForwardedByClientIP = false // no proxy is trusted with a client's address

	for _, rt := range a.routes() {
		if err := a.handle(e, rt); err != nil {
			return nil, err
		}
	}
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

// handle adds a route. What can be got can be asked for with HEAD too (RFC 9110
// §9.1); net/http leaves out the body.
func (a *API) handle(e *gin.Engine, rt route) error {
	h, err := a.guarded(rt)
	if err != nil {
		return err
	}
	e.Handle(rt.method, rt.path, a.adapt(a.metrics.route(rt.method, rt.path), rt.who, h))
	if rt.method == http.MethodGet {
		e.HEAD(rt.path, a.adapt(a.metrics.route(http.MethodHead, rt.path), rt.who, h))
	}
	return nil
}
