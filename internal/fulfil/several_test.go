package fulfil

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit"
)

// One of the orders of an entry cannot be written. It alone is rejected or retried, whatever the database says about
// it, and the others are persisted.
func TestOneOfSeveralOrdersFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err      error
		lasts    int // how many transactions fail
		rejected int
	}{
		"for good":                     {order.ErrStaleEpoch, 1 << 30, 1},
		"again and again":              {errors.New("the database objects"), 1 << 30, 1},
		"for a while":                  {errors.New("the database objects"), 4, 0},
		"as if there were an outage":   {order.ErrUnavailable, 12, 0},
		"whenever others are with it":  {errors.New("the database objects"), 1, 0},
		"by a panic of the connection": {errPanic, 1 << 30, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newEnv(t, 1, 1000)
			s.perEntry = 20
			bad := s.accept(1, 20)[7].OrderID
			failing := &fakeStore{AdmissionStore: s.db.AdmissionStore()}
			failed := 0
			failing.persist = func(ctx context.Context, batch []order.Accepted) ([]order.Status, error) {
				for _, a := range batch {
					if a.OrderID != bad || failed >= test.lasts {
						continue
					}
					if failed++; errors.Is(test.err, errPanic) {
						panic("a bug")
					}
					return nil, test.err
				}
				return failing.AdmissionStore.Persist(ctx, batch)
			}
			// Others are written again and again, which proves that there is no outage.
			s.run(func(c *Config) { c.Store, c.Workers = failing, 1 })
			testkit.Until(t, "everything is decided", func() bool {
				s.accept(1, 1)
				return len(s.deadLetters(1)) == test.rejected && s.confirmed(bad) == (test.rejected == 0)
			})
			if n := s.checkFinalState(); n != test.rejected {
				t.Errorf("%d orders are rejected, want %d", n, test.rejected)
			}
		})
	}
}

func (s *env) confirmed(id int64) bool {
	o, err := s.db.Orders().Order(s.t.Context(), id)
	return err == nil && o.Status == order.Confirmed
}

// An entry that was delivered suspiciously often is split: the order that crashed its consumers is found among the
// others.
func TestSuspiciousEntryIsSplit(t *testing.T) {
	t.Parallel()
	s := newEnv(t, 1, 100)
	s.accept(1, 7)
	st := newStream(s.prefix, 1, 0)
	s.must(newRedisStreams(s.client).ensureGroup(t.Context(), st))
	for _, from := range []string{">", "0", "0", "0"} {
		s.must(s.client.XReadGroup(t.Context(), &redis.XReadGroupArgs{
			Group: ledger.Group, Consumer: "me-1", Streams: []string{st.keys.Orders, from}, Block: -1,
		}).Err())
	}
	reader := &countingSplits{streamReader: newRedisStreams(s.client)}
	f := newFulfiller(s.config(func(c *Config) { c.Name, c.Workers = "me", 1 }).withDefaults(), reader)
	stop := background(t, f)
	if n := s.checkFinalState(); n != 0 {
		t.Errorf("%d orders are rejected", n)
	}
	stop()
	if n := reader.splits.Load(); n != 1 {
		t.Errorf("%d entries were split", n)
	}
}

// countingSplits counts the entries that are split.
type countingSplits struct {
	streamReader
	splits atomic.Int64
}

func (r *countingSplits) split(ctx context.Context, e entry) error {
	r.splits.Add(1)
	return r.streamReader.split(ctx, e)
}
