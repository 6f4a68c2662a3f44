package admission_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// The promises of an order's lifecycle hold for random interleavings of everything that can happen.
func TestLifecycleUnderRandomInterleavings(t *testing.T) {
	t.Parallel()
	for _, engine := range []struct {
		name  string
		where func(testkit.TB) testkit.Database
		steps int
	}{{"sqlite", testkit.SQLite, 80}, {"mariadb", testkit.MariaDB, 100}} {
		t.Run(engine.name, func(t *testing.T) {
			s := newShop(t, engine.where(t))
			interleave(s, engine.steps)
		})
	}
}

// orders are the orders that were placed.
type orders struct {
	mu  sync.Mutex
	ids []int64
}

func (o *orders) add(id int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ids = append(o.ids, id)
}

// pick returns one of the orders, more often one of the latest, and sometimes one that does not exist.
func (o *orders) pick(random *rand.Rand) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(o.ids)
	switch {
	case n == 0 || random.IntN(20) == 0:
		return 1 + random.Int64N(100)
	case random.IntN(4) == 0:
		return o.ids[random.IntN(n)]
	}
	return o.ids[n-1-random.IntN(min(n, 8))]
}

// money is what the provider has received, by payment.
type money struct {
	mu       sync.Mutex
	payments map[string]order.Receipt
}

func interleave(s *shop, steps int) {
	t, ctx := s.t, s.t.Context()
	vouchers := []*voucher.Voucher{s.create(lockedVoucher, 5, 0), s.create(admittedVoucher, 5, 2)}
	received := &money{payments: map[string]order.Receipt{}}
	placed := &orders{}
	var counts [9]atomic.Int64
	const workers, users = 4, 9
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), uint64(steps)))
			for range steps {
				id := placed.pick(random)
				var err error
				what := []int{0, 0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 8}[random.IntN(12)]
				switch what {
				case 0, 1:
					v := vouchers[random.IntN(2)]
					var made int64
					if made, err = s.place(ctx, v, 1+random.Int64N(users)); err == nil {
						placed.add(made)
					}
				case 2, 3: // money, often twice, sometimes for nobody, sometimes too little
					r := order.Receipt{PaymentID: fmt.Sprintf("pay-%d-%d", id, random.IntN(2)), OrderID: id, AmountCents: cents, At: time.Now()}
					if random.IntN(10) == 0 {
						r.PaymentID, r.AmountCents = fmt.Sprintf("less-%d", id), cents-1
					}
					received.mu.Lock()
					received.payments[r.PaymentID] = r
					received.mu.Unlock()
					_, err = s.lifecycle.MarkPaid(ctx, r)
				case 4:
					_, err = s.lifecycle.Cancel(ctx, id)
				case 5:
					err = s.expireSome(ctx, id)
				case 6:
					if _, err = s.lifecycle.BeginRefund(ctx, id); err == nil && random.IntN(2) == 0 {
						err = s.refundAll(ctx)
					}
				case 7:
					switch random.IntN(6) {
					case 0: // the voucher is rebuilt
						_, err = s.db.AdmissionStore().Close(ctx, admittedVoucher)
						s.gate.Check(ctx)
					default:
						_, err = s.returns.Round(ctx)
					}
				case 8:
					err = s.late.Round(ctx)
				}
				if err == nil {
					counts[what].Add(1)
				} else if !expected(err) {
					t.Errorf("step %d: %v", what, err)
				}
			}
		})
	}
	all.Wait()
	s.settleDown(vouchers[1])
	for _, v := range vouchers {
		s.balanced(v)
	}
	s.accounts(received, placed)
	var done [len(counts)]int64
	for i := range counts {
		done[i] = counts[i].Load()
	}
	t.Logf("%d orders placed, %d payments, done by kind: %v", s.ids.Load()-1000, len(received.payments), done)
}

// expected reports whether an error is one that the domain answers with.
func expected(err error) bool {
	for _, e := range []error{
		voucher.ErrSoldOut, order.ErrAlreadyOrdered, order.ErrNotFound, order.ErrNotCancellable, order.ErrNotRefundable,
		order.ErrUnavailable,                             // while the voucher is being rebuilt, or a transaction collides too often
		os.ErrDeadlineExceeded, context.DeadlineExceeded, // a return that Redis did not answer in time, on a busy machine
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// expireSome expires an order whose time to pay has just ended.
func (s *shop) expireSome(ctx context.Context, id int64) error {
	if err := s.endTimeToPay(ctx, id); err != nil {
		return err
	}
	_, err := s.lifecycle.ExpireDue(ctx, 10)
	return err
}

// endTimeToPay makes an order due. No code of the program changes the time to pay, so the test does it by hand.
func (s *shop) endTimeToPay(ctx context.Context, id int64) error {
	pool := "readers" // of a server: its writers are always in a transaction
	if s.db.Engine() == "sqlite" {
		pool = "writers"
	}
	const query = "UPDATE order_payments SET pay_by = ? WHERE order_id = ?"
	_, err := s.db.Pools()[pool].ExecContext(ctx, query, time.Now().UTC().Add(-time.Minute), id)
	return err
}

// refundAll carries out what is due at the provider, each refund twice.
func (s *shop) refundAll(ctx context.Context) error {
	due, err := s.lifecycle.DueRefunds(ctx, "", 100)
	if err != nil {
		return err
	}
	for _, r := range due {
		if err := errors.Join(s.lifecycle.MarkRefunded(ctx, r.PaymentID), s.lifecycle.MarkRefunded(ctx, r.PaymentID)); err != nil {
			return err
		}
	}
	return nil
}

// settleDown waits until everything that is under way has ended.
func (s *shop) settleDown(v *voucher.Voucher) {
	s.t.Helper()
	// An opening that was under way when the voucher was closed may have found it open. The next check of the gate
	// finds that out.
	testkit.Until(s.t, "the voucher is open, and no order is pending", func() bool {
		s.gate.Check(s.t.Context())
		fail.NowIf(s.t, s.gate.Open(s.t.Context(), v))
		st, err := s.db.AdmissionStore().EpochState(s.t.Context(), v.ID)
		fail.NowIf(s.t, err)
		a, err := s.gate.Audit(s.t.Context(), v.ID)
		return err == nil && a.Epoch == st.Epoch && a.Pending == 0
	})
	s.returned()
	s.decided(v)
	fail.NowIf(s.t, s.refundAll(s.t.Context()))
}

// decided waits until all late money is decided, and no order is pending.
func (s *shop) decided(v *voucher.Voucher) {
	s.t.Helper()
	testkit.Until(s.t, "all late money is decided", func() bool {
		failed := s.late.Round(s.t.Context())
		left, err := s.db.AdmissionStore().LateMoney(s.t.Context(), "", 10)
		fail.NowIf(s.t, err)
		a, err := s.gate.Audit(s.t.Context(), v.ID)
		return failed == nil && len(left) == 0 && err == nil && a.Pending == 0
	})
}

// accounts checks that every payment has bought a voucher or goes back, that a voucher was paid for once, and that no
// order that is paid has given its unit back.
func (s *shop) accounts(received *money, placed *orders) {
	t := s.t
	bought, outcomes := map[int64]int{}, map[string]int{}
	for id, r := range received.payments {
		settled, err := s.lifecycle.MarkPaid(t.Context(), r)
		if err != nil || !settled.Repeated {
			t.Errorf("payment %s was forgotten: %+v, %v", id, settled, err)
		}
		if settled.Outcome == order.LateUndecided {
			t.Errorf("payment %s is undecided", id)
		}
		o, err := s.db.Orders().Order(t.Context(), r.OrderID)
		if err != nil && !errors.Is(err, order.ErrNotFound) {
			t.Fatal(err)
		}
		outcomes[map[int64]string{lockedVoucher: "locked ", admittedVoucher: "admission "}[o.VoucherID]+string(settled.Outcome)]++
		if settled.Outcome.Bought() {
			bought[r.OrderID]++
		}
	}
	if due, err := s.lifecycle.DueRefunds(t.Context(), "", 10); err != nil || len(due) > 0 {
		t.Errorf("%d refunds are due, %v", len(due), err)
	}
	for _, id := range placed.ids {
		o, err := s.db.Orders().Order(t.Context(), id)
		fail.NowIf(t, err)
		d, err := s.lifecycle.Details(t.Context(), o)
		fail.NowIf(t, err)
		wasPaid := o.Status == order.Paid || o.Status == order.Refunding || o.Status == order.Refunded
		if bought[id] > 1 || wasPaid != (bought[id] == 1) {
			t.Errorf("order %d is %s, and %d payments have paid for it", id, o.Status, bought[id])
		}
		for _, p := range d.Payments {
			back := !p.RefundedAt.IsZero()
			if kept := p.Outcome.Bought() && o.Status == order.Paid; kept == back {
				t.Errorf("order %d is %s, its payment %+v", id, o.Status, p)
			}
		}
	}
	t.Logf("%v", outcomes)
}
