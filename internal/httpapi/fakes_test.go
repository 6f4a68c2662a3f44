package httpapi_test

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/auth"
	"seckill/internal/httpapi"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/readiness"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

const (
	jwtSecret  = "0123456789abcdef0123456789abcdef"
	adminToken = "the-administrator-s-own-token"
)

// start is the initial time of the tests' clock.
func start() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC) }

// fixture is an API over fakes.
type fixture struct {
	api       *httpapi.API
	handler   http.Handler
	orders    *fakeOrders
	lifecycle *fakeLifecycle
	events    httpapi.PaymentEvents
	vouchers  *fakeVouchers
	rooms     httpapi.Rooms
	idem      *memoryStore
	ids       *sequence
	now       time.Time // is what the API takes for now
	tokens    *auth.Tokens
	registry  *prometheus.Registry
	log       strings.Builder
	level     slog.Level // of the log
	locks     fakeLocks
	handovers *lock.Handovers
	limit     func(userID int64) (time.Duration, bool)
	lookups   httpapi.Quota
	keys      httpapi.Quota
	cancels   httpapi.Quota
	site      httpapi.Site
	pages     http.Handler

	undescribed bool // its answers are made up: they are not compared with api/openapi.json
}

type option func(*httpapi.Config, *fixture)

// lab switches on lab mode, with the host name of httptest's requests.
func lab(c *httpapi.Config, _ *fixture) { c.Lab, c.LabHosts = true, []string{"example.com"} }

func newFixture(t testing.TB, options ...option) *fixture {
	t.Helper()
	r := &fixture{
		orders: &fakeOrders{}, lifecycle: &fakeLifecycle{}, idem: &memoryStore{}, ids: &sequence{}, now: start(),
		locks: fakeLocks{"reentrant": newFakeLocker()}, level: slog.LevelDebug,
	}
	r.vouchers = newFakeVouchers(r.ids, r.clock)
	var err error
	if r.tokens, err = auth.NewTokens([]byte(jwtSecret), r.clock); err != nil {
		t.Fatal(err)
	}
	cfg := httpapi.Config{AdminToken: adminToken}
	for _, o := range options {
		o(&cfg, r)
	}
	r.vouchers.Lab = cfg.Lab
	r.api, err = httpapi.New(cfg, r.deps(r.locks))
	fail.NowIf(t, err)
	r.handler = r.api.Public()
	return r
}

func (r *fixture) clock() time.Time { return r.now }

// deps returns the dependencies of an API. Each API has metrics of its own.
func (r *fixture) deps(locks fakeLocks) httpapi.Deps {
	r.registry = prometheus.NewRegistry()
	log := slog.New(slog.NewJSONHandler(&r.log, &slog.HandlerOptions{Level: r.level}))
	d := httpapi.Deps{
		Orders: r.orders, Lifecycle: r.lifecycle, Events: r.events, Vouchers: r.vouchers, Rooms: r.rooms, Idempotency: r.idem, IDs: r.ids, Tokens: r.tokens,
		Limit: r.limit, Lookups: r.lookups, Keys: r.keys, Cancels: r.cancels, Site: r.site, PaymentPages: r.pages, PaymentPagesURL: "http://127.0.0.1:4711",
		Handovers:  r.handovers,
		Ready:      readiness.New(readiness.Config{}, log),
		Log:        log,
		Registerer: r.registry, Gatherer: r.registry, Now: r.clock,
	}
	if locks != nil {
		d.Lockers = locks
	}
	return d
}

func (r *fixture) bearer(t testing.TB, userID int64) string {
	t.Helper()
	token, err := r.tokens.Mint(userID, time.Hour)
	fail.NowIf(t, err)
	return "Bearer " + token
}

// fakeOrders returns what a test sets.
type fakeOrders struct {
	place   func(ctx context.Context, req order.Request) (order.Order, error)
	orders  []order.Order
	audit   order.Audit
	audited int64 // the voucher that has the audit; 0 is 1
	err     error // of everything but Place
	refusal error // of Refusal
	await   func(ctx context.Context, o order.Order, limit time.Duration) error
	hold    func()                          // runs before a list is answered
	look    func(ctx context.Context) error // runs before an audit is answered, unless it is nil

	keepsKeys bool
	keysErr   error // of KeepsKeys

	mu     sync.Mutex
	placed []order.Request
}

func (f *fakeOrders) Place(ctx context.Context, req order.Request) (order.Order, error) {
	f.mu.Lock()
	f.placed = append(f.placed, req)
	f.mu.Unlock()
	if f.place != nil {
		return f.place(ctx, req)
	}
	id := cmp.Or(req.ID, 7)
	return order.Order{ID: id, VoucherID: req.VoucherID, UserID: req.UserID, Status: order.Confirmed, CreatedAt: start()}, nil
}

func (f *fakeOrders) KeepsKeys(context.Context, int64) (bool, error) { return f.keepsKeys, f.keysErr }

func (f *fakeOrders) Refusal(context.Context, order.Request) error { return f.refusal }

func (f *fakeOrders) requests() []order.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.placed)
}

func (f *fakeOrders) Order(_ context.Context, userID, id int64) (order.Order, error) {
	for _, o := range f.orders {
		if o.ID == id && o.UserID == userID {
			return o, f.err
		}
	}
	return order.Order{}, cmp.Or(f.err, order.ErrNotFound)
}

func (f *fakeOrders) OrdersOf(_ context.Context, userID, before int64, limit int) ([]order.Order, error) {
	return f.list(func(o order.Order) bool { return o.UserID == userID && o.ID < before }, limit)
}

func (f *fakeOrders) OrdersOfVoucher(_ context.Context, voucherID, before int64, limit int) ([]order.Order, error) {
	return f.list(func(o order.Order) bool { return o.VoucherID == voucherID && o.ID < before }, limit)
}

func (f *fakeOrders) list(wanted func(order.Order) bool, limit int) (found []order.Order, err error) {
	if f.hold != nil {
		f.hold()
	}
	for _, o := range f.orders {
		if wanted(o) && len(found) < limit {
			found = append(found, o)
		}
	}
	return found, f.err
}

func (f *fakeOrders) Await(ctx context.Context, o order.Order, limit time.Duration) error {
	return f.await(ctx, o, limit)
}

func (f *fakeOrders) Audit(ctx context.Context, voucherID int64) (order.Audit, error) {
	if voucherID != cmp.Or(f.audited, 1) {
		return order.Audit{}, voucher.ErrNotFound
	}
	if f.look != nil {
		if err := f.look(ctx); err != nil {
			return order.Audit{}, err
		}
	}
	return f.audit, f.err
}

// fakeVouchers is the real service over a store in memory.
type fakeVouchers struct {
	voucher.Service
	store *voucherStore
}

func newFakeVouchers(ids voucher.IDs, now func() time.Time) *fakeVouchers {
	store, lockers := &voucherStore{}, fakeLocks{"reentrant": nil, "naive": nil}
	return &fakeVouchers{Service: voucher.Service{Store: store, IDs: ids, Lockers: lockers, Now: now}, store: store}
}

type voucherStore struct {
	voucher.Changer
	list   []*voucher.Voucher
	listed voucher.List // that was asked for last
	// lose makes the next creation succeed and return an error, and the query for it fail as well.
	lose, lost error
}

func (s *voucherStore) CreateVoucher(_ context.Context, v *voucher.Voucher) error {
	kept := *v
	s.list = append(s.list, &kept)
	s.lost, s.lose = s.lose, nil
	return s.lost
}

func (s *voucherStore) DurableVoucher(ctx context.Context, id int64) (*voucher.Voucher, error) {
	return s.Voucher(ctx, id)
}

func (s *voucherStore) Voucher(_ context.Context, id int64) (*voucher.Voucher, error) {
	if err := s.lost; err != nil {
		s.lost = nil
		return nil, err
	}
	for _, v := range s.list {
		if v.ID == id {
			return v, nil
		}
	}
	return nil, voucher.ErrNotFound
}

func (s *voucherStore) VouchersByID(ctx context.Context, ids []int64) (map[int64]voucher.Found, error) {
	found := map[int64]voucher.Found{}
	for _, id := range ids {
		if v, err := s.Voucher(ctx, id); err == nil {
			found[id] = voucher.Found{Voucher: v}
		}
	}
	return found, nil
}

func (s *voucherStore) Vouchers(_ context.Context, list voucher.List, _ time.Time, limit int) ([]*voucher.Voucher, error) {
	s.listed = list
	var found []*voucher.Voucher
	for _, v := range s.list {
		if v.ID > list.After.ID && len(found) < limit {
			found = append(found, v)
		}
	}
	return found, nil
}

// sequence generates the ids 1001, 1002, …
type sequence struct {
	n   atomic.Int64
	err error
}

func (s *sequence) NextID(context.Context) (int64, error) { return 1000 + s.n.Add(1), s.err }
