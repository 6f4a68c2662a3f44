package order_test

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// fakeGate is an order.Gate that holds one voucher's orders.
type fakeGate struct {
	*stepLog
	orders        map[int64]order.Order
	refuse        error
	cachedRefusal error // of Refusal
	lookup        error
	onLookup      func()            // called by Lookup
	audits        []order.GateAudit // one for each call of Audit; the last one is repeated
	auditCalls    int
	awaited       time.Duration
}

func (g *fakeGate) Refusal(v *voucher.Voucher, userID int64) error {
	if v.ID != 7 || userID != 42 {
		g.add("refusal for user %d of voucher %d", userID, v.ID) // not the one that was asked for
	}
	return g.cachedRefusal
}

func (g *fakeGate) Admit(_ context.Context, v *voucher.Voucher, o order.Order) error {
	g.add("admit %d to %d as %s", o.UserID, v.ID, o.Status)
	if g.refuse == nil {
		g.orders[o.ID] = o
	}
	return g.refuse
}

func (g *fakeGate) Lookup(_ context.Context, userID, orderID int64) (order.Order, error) {
	g.add("look up")
	if g.onLookup != nil {
		g.onLookup()
	}
	if o, ok := g.orders[orderID]; ok && o.UserID == userID {
		return o, nil
	}
	if g.lookup != nil {
		return order.Order{}, g.lookup
	}
	return order.Order{}, order.ErrNotFound
}

func (g *fakeGate) OrderOf(_ context.Context, v *voucher.Voucher, userID int64) (order.Order, error) {
	g.add("look for the order of user %d", userID)
	for _, o := range g.orders {
		if o.UserID == userID && o.VoucherID == v.ID {
			return o, nil
		}
	}
	if g.lookup != nil {
		return order.Order{}, g.lookup
	}
	return order.Order{}, order.ErrNotFound
}

func (g *fakeGate) OrdersOf(_ context.Context, userID int64) (found []order.Order, err error) {
	for _, o := range g.orders {
		if o.UserID == userID {
			found = append(found, o)
		}
	}
	return found, g.lookup
}

func (g *fakeGate) Await(_ context.Context, _ order.Order, limit time.Duration) error {
	g.awaited = limit
	return nil
}

func (g *fakeGate) Audit(context.Context, int64) (order.GateAudit, error) {
	if g.lookup != nil {
		return order.GateAudit{}, g.lookup
	}
	at := min(g.auditCalls, len(g.audits)-1)
	g.auditCalls++
	return g.audits[at], nil
}

// admissionFixture is a service that sells by admission, through a fake gate.
type admissionFixture struct {
	*fixture
	gate *fakeGate
	ids  *counter
}

func newAdmissionFixture(t *testing.T) *admissionFixture {
	t.Helper()
	s := newFixture(t, func(p *voucher.Policy) { p.Flow = voucher.FlowAdmission })
	g, ids := &fakeGate{stepLog: s.steps, orders: map[int64]order.Order{}}, &counter{}
	s.configure(t, order.Config{IDs: ids, Gate: g})
	return &admissionFixture{s, g, ids}
}

func TestGateDecidesAdmission(t *testing.T) {
	s := newAdmissionFixture(t)
	o, err := s.order(t)
	want := order.Order{ID: 1, VoucherID: 7, UserID: 42, Status: order.Pending, CreatedAt: begin}
	if err != nil || o != want {
		t.Fatalf("Place = %+v, %v, want %+v", o, err, want)
	}
	for _, refused := range []error{
		voucher.ErrSoldOut, voucher.ErrNotStarted, voucher.ErrEnded, order.ErrAlreadyOrdered,
		order.ErrOverloaded, order.ErrUnavailable, context.Canceled,
	} {
		s.gate.refuse = refused
		if o, err := s.order(t); !errors.Is(err, refused) || o != (order.Order{}) {
			t.Errorf("Place = %+v, %v, want %v", o, err, refused)
		}
	}
	for _, step := range s.steps.all {
		fail.Unequal(t, step, "admit 42 to 7 as pending", "unexpected step")
	}
}

// A refusal that memory knows does not reach the gate. Close to the ends of the window the gate's clock decides.
func TestAdmissionRefusesFromMemory(t *testing.T) {
	const slack = time.Second
	for _, tc := range []struct {
		name string
		set  func(*admissionFixture)
		want error // nil: the gate decides
	}{
		{"long before the sale", func(s *admissionFixture) { s.now = begin.Add(-slack - 1) }, voucher.ErrNotStarted},
		{"just before the sale", func(s *admissionFixture) { s.now = begin.Add(-slack) }, nil},
		{"just after the sale", func(s *admissionFixture) { s.now = begin.Add(time.Hour + slack - 1) }, nil},
		{"long after the sale", func(s *admissionFixture) { s.now = begin.Add(time.Hour + slack) }, voucher.ErrEnded},
		{"no stock left in the database", func(s *admissionFixture) { s.vouchers.v.Stock = 0 }, voucher.ErrSoldOut},
		{"no such voucher", func(s *admissionFixture) { s.vouchers.v.ID = 8 }, voucher.ErrNotFound},
		{"the gate has a cached refusal", func(s *admissionFixture) { s.gate.cachedRefusal = voucher.ErrSoldOut }, voucher.ErrSoldOut},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newAdmissionFixture(t)
			tc.set(s)
			_, err := s.order(t)
			if !errors.Is(err, tc.want) || (len(s.steps.all) == 0) != (tc.want != nil) {
				t.Errorf("err = %v, steps %q; want %v", err, s.steps.all, tc.want)
			}
			if generated := s.ids.n.Load(); generated != 0 && tc.want != nil {
				t.Errorf("%d ids were generated for a refusal", generated)
			}
		})
	}
}

func TestAdmissionWithoutAGate(t *testing.T) {
	s := newFixture(t, func(p *voucher.Policy) { p.Flow = voucher.FlowAdmission })
	if _, err := s.order(t); !errors.Is(err, order.ErrUnavailable) || len(s.steps.all) != 0 {
		t.Errorf("err = %v, steps %q", err, s.steps.all)
	}
	fail.If(t, s.Await(t.Context(), order.Order{Status: order.Pending}, time.Hour))
}

func TestPendingOrderIsVisibleToItsUserOnly(t *testing.T) {
	s := newAdmissionFixture(t)
	o, err := s.order(t)
	fail.NowIf(t, err)
	if got, err := s.Order(t.Context(), 42, o.ID); err != nil || got != o {
		t.Errorf("Order = %+v, %v", got, err)
	}
	fail.Unless(t, fail.Of(s.Order(t.Context(), 43, o.ID)), order.ErrNotFound, "another user")
	if err := s.Await(t.Context(), o, time.Minute); err != nil || s.gate.awaited != time.Minute {
		t.Errorf("awaited %v, %v", s.gate.awaited, err)
	}
	final := o
	final.Status = order.Confirmed
	s.store.orders[o.ID], s.gate.awaited = final, 0 // the gate keeps its own
	if got, err := s.Order(t.Context(), 42, o.ID); err != nil || got != final {
		t.Errorf("Order = %+v, %v", got, err)
	}
	fail.Unless(t, fail.Of(s.Order(t.Context(), 43, o.ID)), order.ErrNotFound, "another user")
	if err := s.Await(t.Context(), final, time.Minute); err != nil || s.gate.awaited != 0 {
		t.Errorf("awaited %v for a final order, %v", s.gate.awaited, err)
	}
	s.gate.lookup = order.ErrUnavailable
	fail.Unless(t, fail.Of(s.Order(t.Context(), 42, 5)), order.ErrUnavailable, "while the gate is unavailable")
}

// An order is written to the database, and leaves the gate, between the first two queries. It is found also if the gate
// cannot tell what it has: that may be because of another voucher.
func TestOrderThatIsPersistedMeanwhile(t *testing.T) {
	for name, answer := range map[string]error{"the gate has it no more": nil, "the gate cannot tell": order.ErrUnavailable} {
		t.Run(name, func(t *testing.T) {
			s := newAdmissionFixture(t)
			o, err := s.order(t)
			fail.NowIf(t, err)
			final := o
			final.Status = order.Confirmed
			s.gate.onLookup = func() {
				delete(s.gate.orders, o.ID)
				s.store.orders[o.ID], s.gate.lookup = final, answer
			}
			if got, err := s.Order(t.Context(), 42, o.ID); err != nil || got != final {
				t.Errorf("Order = %+v, %v", got, err)
			}
		})
	}
}

// The gate lists the orders 9, 7, 5 and 3. The database has 7 and 3 of them, and 8 and 6.
func TestPendingOrdersAreMergedIntoThePage(t *testing.T) {
	s := newAdmissionFixture(t)
	pending := func(id int64) order.Order { return order.Order{ID: id, UserID: 42, Status: order.Pending} }
	stored := func(id int64) order.Order { return order.Order{ID: id, UserID: 42, Status: order.Confirmed} }
	for _, id := range []int64{9, 7, 5, 3} {
		s.gate.orders[id] = pending(id)
	}
	for _, id := range []int64{8, 7, 6, 3} {
		s.store.orders[id] = stored(id)
	}
	for _, tc := range []struct {
		before int64
		limit  int
		want   []order.Order
	}{
		{100, 10, []order.Order{pending(9), stored(8), stored(7), stored(6), pending(5), stored(3)}},
		{100, 2, []order.Order{pending(9), stored(8)}},
		{8, 2, []order.Order{stored(7), stored(6)}},
		{6, 2, []order.Order{pending(5), stored(3)}},
		{3, 2, []order.Order{}},
	} {
		got, err := s.OrdersOf(t.Context(), 42, tc.before, tc.limit)
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("before %d, %d: %+v, %v\nwant %+v", tc.before, tc.limit, got, err, tc.want)
		}
	}
	s.gate.lookup = order.ErrUnavailable
	fail.Unless(t, fail.Of(s.OrdersOf(t.Context(), 42, 100, 10)), order.ErrUnavailable)
}

func TestAuditOfAdmission(t *testing.T) {
	quiet := order.GateAudit{Stock: 15, Pending: 25, Epoch: 2, Seq: 85}
	busy := quiet
	busy.Stock, busy.Seq = 16, 84
	for _, tc := range []struct {
		name       string
		audits     []order.GateAudit
		auditCalls int
	}{
		{"unchanged", []order.GateAudit{quiet}, 2},
		{"changed once", []order.GateAudit{busy, quiet}, 3},
		{"changed at every call", []order.GateAudit{busy, quiet, busy, quiet}, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newAdmissionFixture(t)
			s.store.audit = order.Audit{InitialStock: 100, Stock: 40, Orders: 60, DistinctUsers: 60}
			s.gate.audits = tc.audits
			want := s.store.audit
			want.Gate = &quiet
			got, err := s.Audit(t.Context(), 7)
			if err != nil || !reflect.DeepEqual(got, want) || s.gate.auditCalls != tc.auditCalls || !got.Balanced() {
				t.Errorf("Audit = %+v with %+v, %v, after %d calls", got, got.Gate, err, s.gate.auditCalls)
			}
		})
	}
	s := newAdmissionFixture(t)
	s.gate.lookup = order.ErrUnavailable
	fail.Unless(t, fail.Of(s.Audit(t.Context(), 7)), order.ErrUnavailable)
	s.vouchers.v.Policy = voucher.DefaultPolicy() // under a lock there is no gate to ask
	fail.If(t, fail.Of(s.Audit(t.Context(), 7)))
}

// Under a key the gate finds the order of an earlier request, whose state the service looks up.
func TestRepetitionUnderAKey(t *testing.T) {
	req := order.Request{VoucherID: 7, UserID: 42, Key: 5}
	s := newAdmissionFixture(t)
	first, err := s.Place(t.Context(), req)
	if err != nil || first.Key != 5 || first.Status != order.Pending {
		t.Fatalf("Place = %+v, %v", first, err)
	}
	s.gate.refuse = &order.RepeatedError{ID: first.ID}
	first.Repeated = true
	if o, err := s.Place(t.Context(), req); err != nil || o != first {
		t.Errorf("pending: %+v, %v, want %+v", o, err, first)
	}
	confirmed := first
	confirmed.Status = order.Confirmed
	s.store.orders[first.ID] = confirmed
	if o, err := s.Place(t.Context(), req); err != nil || o != confirmed {
		t.Errorf("persisted: %+v, %v, want %+v", o, err, confirmed)
	}
	delete(s.store.orders, first.ID)
	delete(s.gate.orders, first.ID)
	fail.Unless(t, fail.Of(s.Place(t.Context(), req)), order.ErrUnavailable, "an order that is gone")
}

// A refusal that was not asked of Redis does not know the user's order. It is looked for at the gate, and then in the
// database, which has it when the gate has forgotten the voucher.
func TestRefusalUnderAKeyFindsTheOrder(t *testing.T) {
	req := order.Request{VoucherID: 7, UserID: 42, Key: 5}
	refuse := map[string]func(s *admissionFixture, refusal error){
		"before an id is generated": func(s *admissionFixture, refusal error) { s.gate.cachedRefusal = refusal },
		"by the gate":               func(s *admissionFixture, refusal error) { s.gate.refuse = refusal },
	}
	for name, refuse := range refuse {
		for _, refusal := range []error{voucher.ErrSoldOut, voucher.ErrEnded} {
			t.Run(name+" "+refusal.Error(), func(t *testing.T) {
				s := newAdmissionFixture(t)
				refuse(s, refusal)
				fail.Unless(t, fail.Of(s.Place(t.Context(), req)), refusal, "without an order")
				mine := order.Order{ID: 9, VoucherID: 7, UserID: 42, Status: order.Pending, Key: 5}
				s.gate.orders[9] = mine
				mine.Repeated = true
				if o, err := s.Place(t.Context(), req); err != nil || o != mine {
					t.Errorf("at the gate: %+v, %v", o, err)
				}
				for _, other := range []order.KeyHash{0, 6} {
					fail.Unless(t, fail.Of(s.Place(t.Context(), order.Request{VoucherID: 7, UserID: 42, Key: other})), refusal, "under key %d", other)
				}
				delete(s.gate.orders, 9)
				mine.Status = order.Confirmed
				s.store.orders[9] = mine
				if o, err := s.Place(t.Context(), req); err != nil || o != mine {
					t.Errorf("in the database: %+v, %v", o, err)
				}
				s.gate.lookup = order.ErrUnavailable
				fail.Unless(t, fail.Of(s.Place(t.Context(), req)), order.ErrUnavailable, "while the gate does not know")
			})
		}
	}
}

// Looking for an order is charged, once a request, and asked for before anything is looked for. Nothing is looked for
// under no key, nor if nobody can have an order yet.
func TestLookingUnderAKeyIsCharged(t *testing.T) {
	full := errors.New("quota")
	for _, tc := range []struct {
		cached, gate error
		key          order.KeyHash
		want         error
		charged      int
	}{
		{nil, nil, 5, full, 1},
		{nil, voucher.ErrSoldOut, 5, full, 1},
		{voucher.ErrSoldOut, nil, 5, full, 1},
		{voucher.ErrEnded, nil, 5, full, 1},
		{voucher.ErrNotStarted, nil, 5, voucher.ErrNotStarted, 0},
		{voucher.ErrSoldOut, nil, 0, voucher.ErrSoldOut, 0},
		{nil, nil, 0, nil, 0},
	} {
		for _, allowed := range []bool{false, true} {
			s, charged := newAdmissionFixture(t), 0
			s.gate.cachedRefusal, s.gate.refuse = tc.cached, tc.gate
			_, err := s.Place(t.Context(), order.Request{VoucherID: 7, UserID: 42, Key: tc.key, MayLook: func() error {
				if charged++; allowed {
					return nil
				}
				return full
			}})
			want := tc.want
			if allowed && errors.Is(want, full) {
				want = cmp.Or(tc.cached, tc.gate)
			}
			if charged != tc.charged || !errors.Is(err, want) || errors.Is(want, full) && (len(s.steps.all) > 0 || s.ids.n.Load() > 0) {
				t.Errorf("%+v, allowed %v: %v, charged %d; it continued with %q", tc, allowed, err, charged, s.steps.all)
			}
		}
	}
}

func TestWhoKeepsKeys(t *testing.T) {
	gated, locked := newAdmissionFixture(t).fixture, newFixture(t, nil)
	want := func(what string, s *fixture, voucherID int64, want bool, wantErr error) {
		t.Helper()
		if kept, err := s.KeepsKeys(t.Context(), voucherID); kept != want || !errors.Is(err, wantErr) {
			t.Errorf("%s: %v, %v", what, kept, err)
		}
	}
	want("admission", gated, 7, true, nil)
	want("locked", locked, 7, false, nil)
	locked.vouchers.v.Policy.Flow = voucher.FlowAdmission // on a server that does not sell by it
	want("admission without a gate", locked, 7, false, nil)
	fail.If(t, locked.Refusal(t.Context(), order.Request{VoucherID: 7}), "admission without a gate refuses from memory")
	gated.vouchers.v.Policy = voucher.DefaultPolicy()
	want("locked, beside a gate", gated, 7, false, nil)
	want("no voucher", gated, 99, false, nil)
	gated.vouchers.err = order.ErrUnavailable
	want("nobody knows", gated, 7, false, order.ErrUnavailable)
}

func TestHashKey(t *testing.T) {
	seen := map[order.KeyHash]string{}
	for _, key := range []string{"", "a", "b", "A", "a ", "0"} {
		h := order.HashKey(key)
		if other, twice := seen[h]; twice || h == 0 || h != order.HashKey(key) {
			t.Errorf("%q has the hash %d, like %q", key, h, other)
		}
		seen[h] = key
	}
}
