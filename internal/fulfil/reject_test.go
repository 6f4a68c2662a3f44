package fulfil

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit"
)

// add adds an entry with any fields to the stream of a voucher.
func (s *env) add(voucherID int64, values ...any) {
	s.t.Helper()
	s.must(s.client.XAdd(s.t.Context(), &redis.XAddArgs{Stream: s.keys(voucherID).Orders, Values: values}).Err())
}

// replaceEntry accepts an order and replaces its entry.
func (s *env) replaceEntry(voucherID int64, entry func(a order.Accepted) []any) order.Accepted {
	s.t.Helper()
	a := s.accept(voucherID, 1)[0]
	last, err := s.client.XRevRangeN(s.t.Context(), s.keys(voucherID).Orders, "+", "-", 1).Result()
	s.must(err)
	s.must(s.client.XDel(s.t.Context(), s.keys(voucherID).Orders, last[0].ID).Err())
	s.add(voucherID, entry(a)...)
	return a
}

// Malformed entries become dead letters, and their reservations are returned once. The other
// entries are persisted.
func TestMalformedEntries(t *testing.T) {
	t.Parallel()
	withServers(t, func(t *testing.T, s *env) {
		s.accept(1, 5)
		malformed := []order.Accepted{
			s.replaceEntry(1, func(a order.Accepted) []any { return []any{ledger.EntryOrder, a.OrderID} }),
			s.replaceEntry(1, func(a order.Accepted) []any { return []any{ledger.EntryUser, a.UserID, ledger.EntryOrder, "x"} }),
			s.replaceEntry(1, func(a order.Accepted) []any {
				return []any{ledger.EntryUser, a.UserID, ledger.EntryOrder, a.OrderID, ledger.EntryEpoch, "two"}
			}),
		}
		// These have no reservation.
		s.add(1, "garbage", "💥")
		s.add(1, ledger.EntryUser, -1, ledger.EntryOrder, "99999999999999999999")
		s.add(1, ledger.EntryUser, 777, ledger.EntryEpoch, 2)
		s.add(1, ledger.EntryOrder, 777)
		// This one is complete, without the optional fields.
		s.replaceEntry(1, func(a order.Accepted) []any {
			return []any{ledger.EntryUser, a.UserID, ledger.EntryOrder, a.OrderID, ledger.EntryEpoch, 2}
		})
		s.accept(1, 5)
		s.run(func(c *Config) { c.BatchSize = 3 })
		if n := s.checkFinalState(); n != len(malformed) {
			t.Errorf("%d rejected", n)
		}
		for _, a := range malformed {
			if o, err := s.db.Orders().Order(t.Context(), a.OrderID); err != nil || o.Status != order.Rejected {
				t.Errorf("%+v, %v", o, err)
			}
		}
		dead := s.deadLetters(1)
		if len(dead) != 7 {
			t.Errorf("%d dead letters", len(dead))
		}
		for _, l := range dead {
			if l.Values[ledger.DeadReason] != string(Malformed) || l.Values[ledger.DeadFrom] == "" || l.Values["detail"] == "" {
				t.Errorf("dead letter %+v", l)
			}
		}
	})
}

// A malformed copy of an entry whose order is confirmed does not change the order.
func TestMalformedCopyOfAConfirmedOrder(t *testing.T) {
	t.Parallel()
	s := newEnv(t, 1, 10)
	a := s.accept(1, 1)[0]
	s.run(nil)
	s.waitUntilEmpty()
	s.add(1, ledger.EntryUser, a.UserID)
	s.add(1, ledger.EntryOrder, a.OrderID)
	if n := s.checkFinalState(); n != 0 || len(s.deadLetters(1)) != 2 {
		t.Errorf("%d rejected, dead letters %v", n, s.deadLetters(1))
	}
}

// Orders that the database refuses are found in the middle of large batches.
func TestRefusedOrders(t *testing.T) {
	t.Parallel()
	withServers(t, func(t *testing.T, s *env) {
		s.vouchers = append(s.vouchers, 2)
		s.open(2)
		reasons := map[string]int{}
		for n := range 6 {
			s.accept(1, 7)
			if n%2 == 0 {
				s.accept(2, 1)
			}
		}
		s.makeEpochStale(2)
		s.run(func(c *Config) { c.BatchSize = 20 })
		if n := s.checkFinalState(); n != 3 {
			t.Errorf("%d rejected", n)
		}
		for _, l := range s.deadLetters(2) {
			reasons[l.Values[ledger.DeadReason].(string)]++
		}
		if fmt.Sprint(reasons) != fmt.Sprintf("map[%s:3]", StaleEpoch) {
			t.Errorf("reasons %v", reasons)
		}
	})
}

// Redis has accepted more orders than the database has stock for, as after an operator's
// mistake. The stock is used up, and the other orders are rejected.
func TestMoreAcceptedThanStock(t *testing.T) {
	t.Parallel()
	s := newEnv(t, 1, 10)
	s.acceptAnyway(1, 25)
	s.run(nil)
	s.waitUntilEmpty()
	audit, err := s.db.Orders().Audit(t.Context(), 1)
	s.must(err)
	if audit != (order.Audit{InitialStock: 10, Orders: 10, DistinctUsers: 10}) {
		t.Errorf("audit %+v", audit)
	}
	if n := s.checkFinalState(); n != 15 || len(s.deadLetters(1)) != 15 {
		t.Errorf("%d rejected", n)
	}
}

// A user has a second order, which Redis should have refused. The first one stays.
func TestSecondOrderOfAUser(t *testing.T) {
	t.Parallel()
	s := newEnv(t, 1, 10)
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
	dead := s.deadLetters(1)
	if len(dead) != 1 || dead[0].Values[ledger.DeadReason] != string(AlreadyOrdered) {
		t.Errorf("dead letters %v", dead)
	}
	if left := s.client.HGet(t.Context(), s.keys(1).Meta, ledger.FieldStock).Val(); left != "9" {
		t.Errorf("%s are left, after one confirmed of 10", left)
	}
	if back := s.client.HGet(t.Context(), s.keys(1).Meta, ledger.FieldReturned).Val(); back != "1" {
		t.Errorf("returned %s times", back)
	}
}

// The order id belongs to another order. No row can be written for it, so only the reservation
// is returned.
func TestIDOfAnotherOrder(t *testing.T) {
	t.Parallel()
	s := newEnv(t, 2, 10)
	theirs := s.accept(1, 1)[0]
	s.run(nil)
	s.waitUntilEmpty()
	mine := theirs
	mine.VoucherID, mine.UserID = 2, 777
	s.must(s.admit(mine))
	s.waitUntilEmpty()
	delete(s.accepted, theirs.OrderID)
	if dead := s.deadLetters(2); len(dead) != 1 || dead[0].Values[ledger.DeadReason] != string(IDTaken) {
		t.Errorf("dead letters %v", dead)
	}
	s.accepted[theirs.OrderID] = theirs
	s.checkFinalState()
}

// One order fails repeatedly with an unforeseen error while others are written. Only that one
// is rejected, after a bounded number of attempts.
func TestUnforeseenFailure(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"error", "panic", "a wrong answer"} {
		t.Run(how, func(t *testing.T) {
			s := newEnv(t, 1, 10_000)
			poison := s.accept(1, 10)[4].OrderID
			bad := &fakeStore{AdmissionStore: s.db.AdmissionStore()}
			bad.persist = func(ctx context.Context, batch []order.Accepted) ([]order.Status, error) {
				if slices.ContainsFunc(batch, func(a order.Accepted) bool { return a.OrderID == poison }) {
					switch how {
					case "error":
						return nil, errors.New("never seen before")
					case "panic":
						panic("never seen before")
					}
					return nil, nil
				}
				return bad.AdmissionStore.Persist(ctx, batch)
			}
			s.run(func(c *Config) { c.Store, c.Workers, c.MaxFailures = bad, 1, 3 })
			testkit.Until(t, "it is rejected", func() bool {
				s.accept(1, 1)
				return len(s.deadLetters(1)) > 0
			})
			if n := s.checkFinalState(); n != 1 {
				t.Errorf("%d rejected", n)
			}
			if l := s.deadLetters(1); len(l) != 1 || l[0].Values[ledger.DeadReason] != string(Failed) {
				t.Errorf("dead letters %v", l)
			}
		})
	}
}

// The database writes nothing at all, not even a rejection, and its errors are unknown. No
// order is rejected.
func TestEverythingFails(t *testing.T) {
	t.Parallel()
	s := newEnv(t, 1, 100)
	s.accept(1, 5)
	strange := errors.New("the table is gone")
	broken := make(chan struct{})
	bad := &fakeStore{AdmissionStore: s.db.AdmissionStore()}
	asked := make(chan struct{}, 100)
	bad.persist = func(ctx context.Context, batch []order.Accepted) ([]order.Status, error) {
		select {
		case <-broken:
			return bad.AdmissionStore.Persist(ctx, batch)
		case asked <- struct{}{}:
		default:
		}
		return nil, strange
	}
	s.run(func(c *Config) { c.Store, c.MaxFailures = bad, 2 })
	for range 50 {
		<-asked
	}
	close(broken)
	if n := s.checkFinalState(); n != 0 {
		t.Errorf("%d rejected", n)
	}
}

// An entry that crashes every process is tried alone, and then not any more.
func TestDeadlyEntry(t *testing.T) {
	t.Parallel()
	s := newEnv(t, 1, 100)
	s.perEntry = 1
	all := s.accept(1, 6)
	deadly, in := all[2].OrderID, newRedisStreams(s.client)
	st := newStream(s.prefix, 1, 0)
	s.must(in.ensureGroup(t.Context(), st))
	// Five processes received all entries and crashed.
	for n := range 5 {
		args := &redis.XReadGroupArgs{Group: ledger.Group, Consumer: "me-1", Streams: []string{s.keys(1).Orders, "0"}, Block: -1}
		if n == 0 {
			args.Streams[1] = ">"
		}
		s.must(s.client.XReadGroup(t.Context(), args).Err())
	}
	entries, err := in.readPending(t.Context(), "me-1", st, "0", 10)
	s.must(err)
	for _, e := range entries {
		if e.order.OrderID == deadly { // then it was tried alone, and two more processes crashed
			for n := range int64(2) {
				process := fmt.Sprintf("me:%d", n)
				for range 2 { // the call is repeated, as after a lost reply
					others, err := in.beginAttempt(t.Context(), e, process)
					if s.must(err); int64(len(others)) != n {
						t.Errorf("unfinished attempts of %v, want %d", others, n)
					}
				}
			}
			for range 2 { // a process that ended its attempt
				_, err := in.beginAttempt(t.Context(), e, "well")
				s.must(err)
				s.must(in.endAttempt(t.Context(), e, "well"))
				s.must(in.endAttempt(t.Context(), e, "well"))
			}
			// Attempts that a worker begins after the entry was deleted expire.
			if ttl, err := s.client.TTL(t.Context(), e.keys.Tries).Result(); err != nil || ttl <= 0 || ttl > 24*time.Hour {
				t.Errorf("the attempts expire in %v, %v", ttl, err)
			}
		}
	}
	var together, written int
	var latest time.Time // when the latest write began, if it succeeded
	bad := &fakeStore{AdmissionStore: s.db.AdmissionStore()}
	bad.persist = func(ctx context.Context, batch []order.Accepted) ([]order.Status, error) {
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
	if l := s.deadLetters(1); len(l) != 1 || l[0].Values[ledger.DeadReason] != string(Deadly) {
		t.Errorf("dead letters %v", l)
	}
}

// Another process confirms the order before it can be rejected.
func TestRejectionComesTooLate(t *testing.T) {
	t.Parallel()
	s := newEnv(t, 1, 100)
	a := s.accept(1, 1)[0]
	bad := &fakeStore{AdmissionStore: s.db.AdmissionStore(), persist: func(context.Context, []order.Accepted) ([]order.Status, error) {
		return nil, order.ErrStaleEpoch
	}}
	bad.reject = func(ctx context.Context, a order.Accepted) (order.Status, error) {
		if _, err := bad.AdmissionStore.Persist(ctx, []order.Accepted{a}); err != nil {
			return "", err
		}
		return bad.AdmissionStore.Reject(ctx, a)
	}
	f, _ := s.run(func(c *Config) { c.Store = bad })
	if err := f.Await(t.Context(), order.Order{ID: a.OrderID, VoucherID: 1}, 5*time.Second); err != nil {
		t.Error(err)
	}
	if n := s.checkFinalState(); n != 0 || len(s.deadLetters(1)) != 0 {
		t.Errorf("%d rejected, dead letters %v", n, s.deadLetters(1))
	}
}

// While Redis is being rebuilt the reservation is not returned.
func TestDeadLetterDuringARebuild(t *testing.T) {
	t.Parallel()
	client := clientOf(t, testkit.Redis(t).Addr())
	in, st := newRedisStreams(client), newStream(testkit.KeyPrefix(t), 1, 0)
	client.HSet(t.Context(), st.keys.Meta, ledger.FieldEpoch, 3)
	if err := in.ensureGroup(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	id := client.XAdd(t.Context(), &redis.XAddArgs{Stream: st.keys.Orders, Values: []any{"o", 1, "u", 2}}).Val()
	client.HSet(t.Context(), st.keys.Users, 2, 1)
	e := entry{stream: st, id: id, order: order.Accepted{OrderID: 1, UserID: 2, VoucherID: 1}}
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
