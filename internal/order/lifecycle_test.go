package order_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// lifecycleStore has one order in a state that a test sets.
type lifecycleStore struct {
	order.LifecycleStore
	mu      sync.Mutex
	state   order.Status
	payment order.Payment
	due     []int
	expiry  error
	reads   atomic.Int64

	notPayable bool // the order asks for no payment
}

func (s *lifecycleStore) change(to func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to()
}

func (s *lifecycleStore) StatesOf(_ context.Context, ids []int64) (map[int64]order.Status, error) {
	s.reads.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[int64]order.Status)
	for _, id := range ids {
		all[id] = s.state
	}
	return all, nil
}

func (s *lifecycleStore) PaymentOf(context.Context, int64) (order.Payment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.notPayable {
		return order.Payment{}, &order.StateError{Err: order.ErrNotPayable, Status: s.state}
	}
	return s.payment, nil
}

func (s *lifecycleStore) KeepPayment(_ context.Context, p order.Payment) (order.Payment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.payment.ID == "" {
		s.payment = p
	}
	return s.payment, nil
}

func (s *lifecycleStore) ExpireDue(_ context.Context, limit int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expiry != nil || len(s.due) == 0 {
		return 0, s.expiry
	}
	n := min(limit, s.due[0])
	if s.due[0] -= n; s.due[0] == 0 {
		s.due = s.due[1:]
	}
	return n, nil
}

// provider creates payments by key.
type provider struct {
	order.PaymentProvider
	mu      sync.Mutex
	created map[string]order.PaymentRequest
	err     error
}

func (p *provider) Create(_ context.Context, r order.PaymentRequest) (order.Payment, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return order.Payment{}, p.err
	}
	p.created[r.Key] = r
	return order.Payment{ID: "pay_" + r.Key, URL: "http://pay.example/" + r.Key}, nil
}

// newLifecycle returns a Lifecycle over fakes, with the order 1 of user 42.
func newLifecycle(t *testing.T, store *lifecycleStore, pay order.PaymentProvider) *order.Lifecycle {
	t.Helper()
	s := newFixture(t, nil)
	s.store.orders[1] = order.Order{ID: 1, VoucherID: 7, UserID: 42, Status: store.state}
	lifecycle, err := order.NewLifecycle(order.LifecycleConfig{Store: store, Orders: s.Service, Provider: pay, Log: slog.New(slog.DiscardHandler)})
	fail.NowIf(t, err)
	return lifecycle
}

func TestPlaceAsksForPayment(t *testing.T) {
	s := newFixture(t, nil)
	s.vouchers.v.PayWithin, s.vouchers.v.PriceCents = time.Minute, 800
	o, err := s.order(t)
	if err != nil || o.Status != order.Unpaid || !o.PayBy.Equal(begin.Add(time.Minute)) || o.AmountCents != 800 {
		t.Errorf("%+v, %v", o, err)
	}
	fail.Unequal(t, s.store.orders[o.ID], o, "stored")
}

// The wait for the lock is none of the time to pay.
func TestTimeToPayBeginsUnderTheLock(t *testing.T) {
	for name, set := range map[string]func(*fixture){
		"the lock around the transaction": func(*fixture) {},
		"the lock inside the transaction": func(s *fixture) { s.vouchers.v.Policy.Placement = voucher.InsideTx },
		"a transaction that is repeated":  func(s *fixture) { s.store.collisions = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, nil)
			s.vouchers.v.PayWithin, s.vouchers.v.PriceCents = 30*time.Second, 800
			set(s)
			placed := begin.Add(40 * time.Second)
			s.lock.wait = func() { s.now, s.lock.wait = placed, nil }
			o, err := s.order(t)
			if want := placed.Add(30 * time.Second); err != nil || !o.PayBy.Equal(want) || !o.CreatedAt.Equal(begin) {
				t.Errorf("created at %v, to be paid by %v, %v; want %v and %v", o.CreatedAt, o.PayBy, err, begin, want)
			}
			fail.Unequal(t, s.store.orders[o.ID], o, "stored")
		})
	}
}

func TestPay(t *testing.T) {
	until := begin.Add(time.Minute)
	store := &lifecycleStore{state: order.Unpaid, payment: order.Payment{OrderID: 1, AmountCents: 800, PayBy: until}}
	pay := &provider{created: map[string]order.PaymentRequest{}, err: order.ErrPaymentUnavailable}
	lifecycle := newLifecycle(t, store, pay)
	fail.Unless(t, fail.Of(lifecycle.Pay(t.Context(), 42, 1, "")), order.ErrPaymentUnavailable, "a provider that does not answer")
	pay.err = nil
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			p, err := lifecycle.Pay(t.Context(), 42, 1, "")
			if want := (order.Payment{ID: "pay_order-1", URL: "http://pay.example/order-1", OrderID: 1, AmountCents: 800, PayBy: until}); err != nil || p != want {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
	all.Wait()
	if want := (order.PaymentRequest{Key: "order-1", OrderID: 1, AmountCents: 800, PayBy: until}); len(pay.created) != 1 || pay.created["order-1"] != want {
		t.Errorf("created %+v", pay.created)
	}
	pay.err = order.ErrPaymentUnavailable // not needed any more
	if p, err := lifecycle.Pay(t.Context(), 42, 1, ""); err != nil || p.ID != "pay_order-1" {
		t.Errorf("the payment again: %+v, %v", p, err)
	}
	for name, call := range map[string]func(user int64) error{
		"pay":    func(user int64) error { _, err := lifecycle.Pay(t.Context(), user, 1, ""); return err },
		"cancel": func(user int64) error { _, err := lifecycle.Cancel(t.Context(), user, 1); return err },
	} {
		fail.Unless(t, call(43), order.ErrNotFound, "%s another user's order", name)
	}
}

func TestPayNeedsAProvider(t *testing.T) {
	lifecycle := newLifecycle(t, &lifecycleStore{state: order.Unpaid}, nil)
	fail.Unless(t, fail.Of(lifecycle.Pay(t.Context(), 42, 1, "")), order.ErrUnavailable, "without a provider")
	// What the order's state forbids is no matter of the provider.
	confirmed := &lifecycleStore{state: order.Confirmed, notPayable: true}
	fail.Unless(t, fail.Of(newLifecycle(t, confirmed, nil).Pay(t.Context(), 42, 1, "")), order.ErrNotPayable, "a confirmed order")
}

// An order that is not in the database yet can neither be paid nor cancelled there.
func TestPendingOrdersHaveNoLifecycle(t *testing.T) {
	lifecycle := newLifecycle(t, &lifecycleStore{state: order.Pending}, nil)
	_, pay := lifecycle.Pay(t.Context(), 42, 1, "")
	_, cancel := lifecycle.Cancel(t.Context(), 42, 1)
	for err, want := range map[error]error{pay: order.ErrNotPayable, cancel: order.ErrNotCancellable} {
		if state, ok := errors.AsType[*order.StateError](err); !errors.Is(err, want) || !ok || state.Status != order.Pending {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

// MarkPaid settles with the outcome that the receipt names.
func (s *lifecycleStore) MarkPaid(_ context.Context, r order.Receipt) (order.Settlement, error) {
	return order.Settlement{Outcome: order.Outcome(r.PaymentID), Repeated: r.OrderID == 2}, nil
}

// Money that paid for nothing is logged, once.
func TestMoneyForNothingIsLogged(t *testing.T) {
	var log strings.Builder
	lifecycle, err := order.NewLifecycle(order.LifecycleConfig{Store: &lifecycleStore{}, Orders: newFixture(t, nil).Service, Log: slog.New(slog.NewTextHandler(&log, nil))})
	fail.NowIf(t, err)
	for outcome, want := range map[order.Outcome]bool{
		order.SettledPaid: false, order.SettledLate: false, order.LateUndecided: false,
		order.RefundWrongAmount: true, order.RefundNoStock: true, order.RefundOtherOrder: true, order.RefundNotPayable: true, order.Unmatched: true,
	} {
		for id := range int64(2) {
			log.Reset()
			fail.NowIf(t, fail.Of(lifecycle.Settle(t.Context(), order.Receipt{PaymentID: string(outcome), OrderID: id + 1})))
			if logged := strings.Contains(log.String(), "paid for nothing"); logged != (want && id == 0) {
				t.Errorf("%s, repeated %v: logged %v", outcome, id == 1, logged)
			}
		}
	}
}

// Many who wait share one query, and all are told.
func TestAwaitPayment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lifecycleStore{state: order.Unpaid}
		lifecycle := newLifecycle(t, store, nil)
		begun := time.Now()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				fail.If(t, lifecycle.Await(t.Context(), order.Order{ID: 1, Status: order.Unpaid}, time.Minute))
				if took := time.Since(begun); took < 10*time.Second || took > 11*time.Second { // within one look
					t.Errorf("told after %v", took)
				}
			})
		}
		simulate.Sleep(10 * time.Second)
		store.change(func() { store.state = order.Paid })
		all.Wait()
		if n := store.reads.Load(); n > 60 {
			t.Errorf("%d queries in 10 s", n)
		}
		begun = time.Now()
		if err := lifecycle.Await(t.Context(), order.Order{ID: 1, Status: order.Paid}, time.Minute); err != nil || time.Since(begun) > 0 {
			t.Errorf("waited %v for an order that waits for nothing: %v", time.Since(begun), err)
		}
		fail.If(t, lifecycle.Await(t.Context(), order.Order{ID: 1, Status: order.Unpaid}, 0))
	})
}

func TestRunExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lifecycleStore{state: order.Unpaid, due: []int{1700}}
		lifecycle := newLifecycle(t, store, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { lifecycle.RunExpiry(ctx) })
		synctest.Wait()
		if len(store.due) != 0 { // a full batch is followed by the next one at once
			t.Errorf("%v are left", store.due)
		}
		store.change(func() { store.expiry, store.due = order.ErrUnavailable, []int{3} })
		simulate.Sleep(time.Minute)
		store.change(func() { store.expiry = nil })
		simulate.Sleep(time.Second)
		synctest.Wait()
		if len(store.due) != 0 {
			t.Errorf("%v are left a second after an outage", store.due)
		}
		cancel()
		running.Wait()
	})
}
