package fulfil

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// The database refuses all orders, or all of voucher 2, for reasons of its own: until it has said so several times. No
// order is rejected, and all are confirmed when the database takes orders again. Those of voucher 1 do not wait for
// those of voucher 2. What the database answers for how long makes no difference in virtual time: TestOutagesComeAndGo
// and TestFailedReadHoldsUpNoOther.
func TestDatabaseRefuses(t *testing.T) {
	for name, start := range refusing {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t)
			s := openRefusing(t, server)
			for _, refusal := range testkit.Refusals(server, s.where) {
				t.Run(refusal.Name, func(t *testing.T) { s.refuse(t, refusal, false) })
			}
			perVoucher := append(testkit.VoucherRefusals(server, s.where, 2), testkit.MissingVoucher(server, s.where, 2), testkit.LockedVoucher(server, s.where, 2))
			for n, refusal := range perVoucher {
				s.perEntry = []int{1, 64}[n%2]
				t.Run(refusal.Name, func(t *testing.T) { s.refuse(t, refusal, true) })
			}
		})
	}
}

// The disk of MariaDB is really full. MySQL aborts because of one, also a while after there is space again, so that one
// only gives the error.
var refusing = map[string]func(testkit.TB) *testkit.SQLServer{
	"mariadb": func(t testkit.TB) *testkit.SQLServer { return testkit.NewMariaDB(t, testkit.SmallTablespace()...) },
	"mysql":   func(t testkit.TB) *testkit.SQLServer { return testkit.NewMySQL(t) },
}

// refusingEnv is an env on a server that can be made to refuse orders.
type refusingEnv struct {
	*env
	where testkit.Database
	store *errorCounter
}

func openRefusing(t *testing.T, server *testkit.SQLServer) *refusingEnv {
	where := server.Account(t, server.Database(t))
	s := &refusingEnv{openReal(t, clientOf(t, testkit.Redis(t).Addr()), where, sale{vouchers: 2, stock: 100_000}), where, nil}
	s.store = &errorCounter{AdmissionStore: s.db.AdmissionStore(), count: map[uint16]int{}, written: map[int64]int{}}
	s.run(func(c *Config) { c.Store, c.BatchSize = s.store, 100 })
	return s
}

// refuse sells both vouchers during a refusal, until the server has answered with its error.
func (s *refusingEnv) refuse(t *testing.T, refusal testkit.Refusal, ofVoucher2 bool) {
	s.t = t // whoever fails now
	sell := func(n int) {
		s.accept(1, n)
		s.accept(2, n)
	}
	sell(1)
	s.waitUntilEmpty() // the streams are read from now on, whether or not the database has the vouchers
	_, before := s.store.seen(refusal.Number, 1)
	end, err := refusal.Begin(t.Context())
	s.must(err)
	sell(50)
	often := 3
	if refusal.Number == 1205 { // each time it waits for the row
		often = 1
	}
	testkit.Until(t, fmt.Sprintf("the server answers %d times with error %d", often, refusal.Number), func() bool {
		refused, _ := s.store.seen(refusal.Number, 1)
		return refused >= often
	})
	if ofVoucher2 {
		s.accept(1, 50)
		testkit.Until(t, "the orders of the other voucher are persisted", func() bool {
			_, written := s.store.seen(refusal.Number, 1)
			return written >= before+100
		})
	}
	s.must(end(t.Context()))
	sell(1)
	s.waitUntilEmpty()
	for _, id := range s.vouchers {
		audit, err := s.db.Orders().Audit(t.Context(), id)
		s.must(err)
		rejected, err := s.db.Orders().Rejected(t.Context(), id)
		s.must(err)
		if !audit.Balanced() || audit.Stock != s.stock-audit.Orders || rejected != 0 {
			t.Errorf("voucher %d: %+v, %d rejected", id, audit, rejected)
		}
		accepted := int64(0)
		for _, a := range s.accepted {
			if a.VoucherID == id {
				accepted++
			}
		}
		fail.Unequal(t, audit.Orders, accepted, "voucher %d: of %d accepted orders are confirmed", id, accepted)
	}
}

// errorCounter is a store that counts the server's errors by number, and the orders that it wrote, by voucher. That the
// server does not have a voucher has the number 0.
type errorCounter struct {
	contract.AdmissionStore
	mu      sync.Mutex
	count   map[uint16]int
	written map[int64]int
}

func (n *errorCounter) seen(number uint16, voucherID int64) (errs, written int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.count[number], n.written[voucherID]
}

func (n *errorCounter) Persist(ctx context.Context, batch []contract.Accepted) ([]order.Status, error) {
	statuses, err := n.AdmissionStore.Persist(ctx, batch)
	n.mu.Lock()
	defer n.mu.Unlock()
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		n.count[e.Number]++
	} else if errors.Is(err, order.ErrVoucherMissing) {
		n.count[0]++
	}
	for i := range statuses {
		n.written[batch[i].VoucherID]++
	}
	return statuses, err
}
