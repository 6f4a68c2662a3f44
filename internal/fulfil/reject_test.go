package fulfil

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// add adds an entry with any fields to the stream of voucher 1.
func (s *env) add(values ...any) {
	s.t.Helper()
	s.must(s.client.XAdd(s.t.Context(), &redis.XAddArgs{Stream: s.keys(1).Orders, Values: values}).Err())
}

// Malformed entries become dead letters, and their reservations are returned once. The other entries are persisted.
func malformedEntries(t *testing.T, s *env) {
	confirmed := s.accept(1, 5)[0]
	malformed := []contract.Accepted{
		s.replaceEntry(0, func(a contract.Accepted) []any { return []any{ledger.EntryOrder, a.OrderID} }),
		s.replaceEntry(0, func(a contract.Accepted) []any { return []any{ledger.EntryUser, a.UserID, ledger.EntryOrder, "x"} }),
		s.replaceEntry(0, func(a contract.Accepted) []any {
			return []any{ledger.EntryUser, a.UserID, ledger.EntryOrder, a.OrderID, ledger.EntryEpoch, "two"}
		}),
	}
	// These have no reservation.
	s.add("garbage", "💥")
	s.add(ledger.EntryUser, -1, ledger.EntryOrder, "99999999999999999999")
	s.add(ledger.EntryUser, 777, ledger.EntryEpoch, 2)
	s.add(ledger.EntryOrder, 777)
	// This one is complete, without the optional fields.
	s.replaceEntry(0, func(a contract.Accepted) []any {
		return []any{ledger.EntryUser, a.UserID, ledger.EntryOrder, a.OrderID, ledger.EntryEpoch, 2}
	})
	s.accept(1, 5)
	s.run(func(c *Config) { c.BatchSize = 3 })
	s.wantFinalState(len(malformed))
	for _, a := range malformed {
		if o, err := s.db.Orders().Order(t.Context(), a.OrderID); err != nil || o.Status != order.Rejected {
			t.Errorf("%+v, %v", o, err)
		}
	}
	dead := s.deadLetters(1)
	fail.Unequal(t, len(dead), 7, "dead letters")
	for _, l := range dead {
		if l.Values[ledger.DeadReason] != string(Malformed) || l.Values[ledger.DeadFrom] == "" || l.Values["detail"] == "" {
			t.Errorf("dead letter %+v", l)
		}
	}
	// A malformed copy of an entry whose order is confirmed does not change the order.
	s.add(ledger.EntryUser, confirmed.UserID)
	s.add(ledger.EntryOrder, confirmed.OrderID)
	if n := s.checkFinalState(); n != len(malformed) || len(s.deadLetters(1)) != 9 {
		t.Errorf("%d rejected, dead letters %v", n, s.deadLetters(1))
	}
}

// Somebody has written an entry by hand, with an epoch that neither the database nor Redis has. It is rejected, and the
// orders beside it are persisted.
func epochStillToCome(t *testing.T, s *env) {
	s.accept(1, 5)
	s.replaceEntry(0, func(a contract.Accepted) []any {
		return []any{ledger.EntryUser, a.UserID, ledger.EntryOrder, ledger.Reserved(a.OrderID, a.Key), ledger.EntryEpoch, 6, ledger.EntrySeq, 9}
	})
	s.accept(1, 5)
	s.run(nil)
	s.wantFinalState(1)
	s.wantDeadLetters(1, FutureEpoch)
}

// The database was restored to a time before the voucher was rebuilt. The orders that Redis has accepted since then are
// persisted.
func databaseIsAnEpochBehind(t *testing.T, s *env) {
	s.accept(1, 20)
	stream := s.keys(1).Orders
	for _, e := range s.client.XRange(t.Context(), stream, "-", "+").Val() {
		e.Values[ledger.EntryEpoch] = "4"
		s.must(s.client.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: e.Values}).Err())
		s.must(s.client.XDel(t.Context(), stream, e.ID).Err())
	}
	s.must(s.client.HSet(t.Context(), s.keys(1).Meta, ledger.FieldEpoch, 4).Err())
	s.run(nil)
	s.wantFinalState(0)
}

// Redis has accepted more orders than the database has stock for, as after an operator's mistake. The stock is used up,
// and the other orders are rejected.
func moreAcceptedThanStock(t *testing.T, s *env) {
	s.acceptEach(1, 25)
	s.run(nil)
	if n := s.checkFinalState(); n != 15 || len(s.deadLetters(1)) != 15 {
		t.Errorf("%d rejected", n)
	}
}

// A user has a second order, which Redis should have refused. The first one stays.
func secondOrderOfAUser(t *testing.T, s *env) {
	first := s.accept(1, 1)[0]
	second := first
	second.OrderID = 5000
	s.run(nil)
	s.waitUntilEmpty()
	s.must(s.admit(second)) // overwrites the reservation
	s.waitUntilEmpty()
	o, err := s.db.Orders().Order(t.Context(), 5000)
	if err != nil || o.Status != order.Rejected {
		t.Errorf("%+v, %v", o, err)
	}
	s.wantDeadLetters(1, AlreadyOrdered)
	meta := s.client.HGetAll(t.Context(), s.keys(1).Meta).Val()
	if meta[ledger.FieldStock] != "9" || meta[ledger.FieldReturned] != "1" {
		t.Errorf("after one confirmed order of 10, and one rejected: %v", meta)
	}
}

// The order id belongs to another order. No row can be written for it, so only the reservation is returned.
func idOfAnotherOrder(t *testing.T, s *env) {
	theirs := s.accept(1, 1)[0]
	s.run(nil)
	s.waitUntilEmpty()
	mine := theirs
	mine.VoucherID, mine.UserID = 2, 777
	s.must(s.admit(mine))
	s.waitUntilEmpty()
	s.wantDeadLetters(2, IDTaken)
	s.accepted[theirs.OrderID] = theirs
	s.checkFinalState()
}

// One of the orders of an entry cannot be written. It alone is rejected or retried, whatever the database says about
// it, and the others are persisted.
func TestOneOfSeveralOrdersFails(t *testing.T) {
	t.Parallel()
	objects := errors.New("the database objects")
	for name, test := range map[string]struct {
		err      error
		lasts    int // how many transactions fail
		rejected []Reason
	}{
		"for good":                     {order.ErrStaleEpoch, 1 << 30, []Reason{StaleEpoch}},
		"again and again":              {objects, 1 << 30, []Reason{Failed}},
		"for a while":                  {objects, 4, nil},
		"as if there were an outage":   {order.ErrUnavailable, 12, nil},
		"whenever others are with it":  {objects, 1, nil},
		"by a panic of the connection": {errPanic, 1 << 30, []Reason{Failed}},
		"with a wrong answer":          {nil, 1 << 30, []Reason{Failed}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, sale{stock: 10_000}, func(t *testing.T, s *env) {
				s.perEntry = 20
				bad := s.accept(1, 20)[7].OrderID
				failing := &fakeStore{AdmissionStore: s.db.AdmissionStore()}
				failed := 0
				failing.persist = func(ctx context.Context, batch []contract.Accepted) ([]order.Status, error) {
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
				s.run(func(c *Config) { c.Store, c.Workers, c.MaxFailures = failing, 1, 5 })
				s.until("everything is decided", func() bool {
					s.accept(1, 1)
					o, err := s.db.Orders().Order(t.Context(), bad)
					confirmed := err == nil && o.Status == order.Confirmed
					return len(s.deadLetters(1)) == len(test.rejected) && confirmed == (test.rejected == nil)
				})
				s.wantFinalState(len(test.rejected))
				s.wantDeadLetters(1, test.rejected...)
			})
		})
	}
}

// An entry that was delivered suspiciously often is split: the order that crashed its consumers is found among the
// others.
func suspiciousEntryIsSplit(t *testing.T, s *env) {
	s.accept(1, 7)
	s.pendingAt(newStream(s.prefix, 1, 0), "me-1", 10, 4)
	reader := &countingSplits{streamReader: newRedisStreams(s.client)}
	f := newFulfiller(s.config(func(c *Config) { c.Name, c.Workers = "me", 1 }).withDefaults(), reader)
	stop := background(t, f)
	s.wantFinalState(0)
	stop()
	fail.Unequal(t, reader.splits.Load(), 1, "entries were split")
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

// An entry that crashes every process is tried alone, and then not any more.
func deadlyEntry(t *testing.T, s *env) {
	s.perEntry = 1
	deadly, in := s.accept(1, 6)[2].OrderID, newRedisStreams(s.client)
	st := newStream(s.prefix, 1, 0)
	s.pendingAt(st, "me-1", 10, 5) // five processes received all entries and crashed
	entries, err := in.readPending(t.Context(), "me-1", st, "0", 10)
	s.must(err)
	for _, e := range entries {
		if e.order.OrderID == deadly { // then it was tried alone, and two more processes crashed
			s.crashTwo(in, e)
		}
	}
	var together, written int
	var latest time.Time // when the latest write began, if it succeeded
	bad := &fakeStore{AdmissionStore: s.db.AdmissionStore()}
	bad.persist = func(ctx context.Context, batch []contract.Accepted) ([]order.Status, error) {
		together = max(together, len(batch))
		if batch[0].OrderID == deadly && written == 0 {
			return nil, order.ErrUnavailable // proves nothing until another order is written
		}
		if batch[0].OrderID == deadly {
			if time.Since(latest) < outageAfter-100*time.Millisecond {
				t.Error("the entry was tried again") // as it may be only while the database takes no others
			}
			latest = time.Time{}
			return nil, order.ErrUnavailable
		}
		latest = time.Now()
		written++
		return bad.AdmissionStore.Persist(ctx, batch)
	}
	s.run(func(c *Config) { c.Store, c.Name, c.Workers, c.MaxAttempts = bad, "me", 1, 2 })
	if n := s.checkFinalState(); n != 1 || together != 1 {
		t.Errorf("%d rejected; %d were tried together", n, together)
	}
	s.wantDeadLetters(1, Deadly)
}

// crashTwo records two attempts of processes that crashed, and those of one that ended them.
func (s *env) crashTwo(in *redisStreams, e entry) {
	s.t.Helper()
	for n := range int64(2) {
		process := fmt.Sprintf("me:%d", n)
		for range 2 { // the call is repeated, as after a lost reply
			others, err := in.beginAttempt(s.t.Context(), e, process)
			if s.must(err); int64(len(others)) != n {
				s.t.Errorf("unfinished attempts of %v, want %d", others, n)
			}
		}
	}
	for range 2 {
		_, err := in.beginAttempt(s.t.Context(), e, "well")
		s.must(err)
		s.must(in.endAttempt(s.t.Context(), e, "well"))
		s.must(in.endAttempt(s.t.Context(), e, "well"))
	}
	// Attempts that a worker begins after the entry was deleted expire.
	if ttl, err := s.client.TTL(s.t.Context(), e.stream.keys.Tries).Result(); err != nil || ttl <= 0 || ttl > 24*time.Hour {
		s.t.Errorf("the attempts expire in %v, %v", ttl, err)
	}
}

// Another process confirms the order before it can be rejected.
func rejectionComesTooLate(t *testing.T, s *env) {
	a := s.accept(1, 1)[0]
	bad := &fakeStore{AdmissionStore: s.db.AdmissionStore(), persist: func(context.Context, []contract.Accepted) ([]order.Status, error) {
		return nil, order.ErrStaleEpoch
	}}
	bad.reject = func(ctx context.Context, a contract.Accepted) (order.Status, error) {
		if _, err := bad.AdmissionStore.Persist(ctx, []contract.Accepted{a}); err != nil {
			return "", err
		}
		return bad.AdmissionStore.Reject(ctx, a)
	}
	f, _ := s.run(func(c *Config) { c.Store = bad })
	s.await(f, a)
	if n := s.checkFinalState(); n != 0 || len(s.deadLetters(1)) != 0 {
		t.Errorf("%d rejected, dead letters %v", n, s.deadLetters(1))
	}
}

// While Redis is being rebuilt the reservation is not returned.
func TestDeadLetterDuringARebuild(t *testing.T) {
	t.Parallel()
	client := simulate.NewRedis(t).Client(t)
	in, st := newRedisStreams(client), newStream("", 1, 0)
	client.HSet(t.Context(), st.keys.Meta, ledger.FieldEpoch, 3)
	fail.NowIf(t, in.ensureGroup(t.Context(), st))
	id := client.XAdd(t.Context(), &redis.XAddArgs{Stream: st.keys.Orders, Values: []any{"o", 1, "u", 2}}).Val()
	client.HSet(t.Context(), st.keys.Users, 2, 1)
	e := entry{stream: st, id: id, order: contract.Accepted{OrderID: 1, UserID: 2, VoucherID: 1}}
	for n := range 2 {
		moved, err := in.deadLetter(t.Context(), e, true, SoldOut, "")
		if err != nil || moved != (n == 0) {
			t.Errorf("%v, %v", moved, err)
		}
	}
	if client.HExists(t.Context(), st.keys.Meta, ledger.FieldStock).Val() || client.XLen(t.Context(), st.keys.Dead).Val() != 1 {
		t.Error("the reservation was returned, or there are two dead letters")
	}
}

// While the database and Redis do not belong together, the workers read nothing. Afterwards they persist everything.
func storesDoNotBelongTogether(t *testing.T, s *env) {
	var broken atomic.Bool
	broken.Store(true)
	generation := func() (int64, error) {
		if broken.Load() {
			return 0, order.ErrUnavailable
		}
		return 0, nil
	}
	accepted := s.accept(1, 10)
	s.run(func(c *Config) { c.Generation = generation })
	s.sleep(time.Second)
	if left := s.left(); left == 0 {
		t.Error("the workers have taken the entries")
	}
	fail.Unless(t, fail.Of(s.db.Orders().Order(t.Context(), accepted[0].OrderID)), order.ErrNotFound, "the order in the database")
	broken.Store(false)
	s.wantFinalState(0)
}
