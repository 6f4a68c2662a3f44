package fulfil

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/admkey"
	"seckill/internal/order"
	"seckill/internal/testkit"
)

// add puts an entry into the stream of a voucher as it is.
func (s *shop) add(voucherID int64, values ...any) {
	s.t.Helper()
	s.must(s.client.XAdd(s.t.Context(), &redis.XAddArgs{Stream: s.keys(voucherID).Orders, Values: values}).Err())
}

// spoil accepts an order, and puts an entry in place of its own.
func (s *shop) spoil(voucherID int64, entry func(a order.Accepted) []any) order.Accepted {
	s.t.Helper()
	a := s.accept(voucherID, 1)[0]
	last, err := s.client.XRevRangeN(s.t.Context(), s.keys(voucherID).Orders, "+", "-", 1).Result()
	s.must(err)
	s.must(s.client.XDel(s.t.Context(), s.keys(voucherID).Orders, last[0].ID).Err())
	s.add(voucherID, entry(a)...)
	return a
}

// Entries that are no orders, or not whole ones, go to the dead letters. What was
// reserved for them is given back once; the others go on.
func TestMalformedEntries(t *testing.T) {
	places(t, func(t *testing.T, s *shop) {
		s.accept(1, 5)
		spoilt := []order.Accepted{
			s.spoil(1, func(a order.Accepted) []any { return []any{admkey.EntryOrder, a.OrderID} }),
			s.spoil(1, func(a order.Accepted) []any { return []any{admkey.EntryUser, a.UserID, admkey.EntryOrder, "x"} }),
			s.spoil(1, func(a order.Accepted) []any {
				return []any{admkey.EntryUser, a.UserID, admkey.EntryOrder, a.OrderID, admkey.EntryEpoch, "two"}
			}),
		}
		// Nothing belongs to these.
		s.add(1, "garbage", "💥")
		s.add(1, admkey.EntryUser, -1, admkey.EntryOrder, "99999999999999999999")
		s.add(1, admkey.EntryUser, 777, admkey.EntryEpoch, 2)
		s.add(1, admkey.EntryOrder, 777)
		// This is a whole order, with less than usual.
		s.spoil(1, func(a order.Accepted) []any {
			return []any{admkey.EntryUser, a.UserID, admkey.EntryOrder, a.OrderID, admkey.EntryEpoch, 2}
		})
		s.accept(1, 5)
		s.run(func(c *Config) { c.BatchSize = 3 })
		if n := s.atRest(); n != len(spoilt) {
			t.Errorf("%d rejected", n)
		}
		for _, a := range spoilt {
			if o, err := s.db.Orders().Order(t.Context(), a.OrderID); err != nil || o.Status != order.Rejected {
				t.Errorf("%+v, %v", o, err)
			}
		}
		letters := s.letters(1)
		if len(letters) != 7 {
			t.Errorf("%d letters", len(letters))
		}
		for _, l := range letters {
			if l.Values[admkey.DeadReason] != string(Malformed) || l.Values[admkey.DeadFrom] == "" || l.Values["detail"] == "" {
				t.Errorf("letter %+v", l)
			}
		}
	})
}

// A spoilt copy of an entry whose order is confirmed takes nothing away from it.
func TestSpoiltCopyOfAConfirmedOrder(t *testing.T) {
	s := newShop(t, 1, 10)
	a := s.accept(1, 1)[0]
	s.run(nil)
	s.drained()
	s.add(1, admkey.EntryUser, a.UserID)
	s.add(1, admkey.EntryOrder, a.OrderID)
	if n := s.atRest(); n != 0 || len(s.letters(1)) != 2 {
		t.Errorf("%d rejected, letters %v", n, s.letters(1))
	}
}

// What the database refuses is found in the middle of large batches, whatever else is
// in them.
func TestRefusedOrders(t *testing.T) {
	places(t, func(t *testing.T, s *shop) {
		s.vouchers = append(s.vouchers, 2)
		s.open(2)
		reasons := map[string]int{}
		for n := range 6 {
			s.accept(1, 7)
			if n%2 == 0 {
				s.accept(2, 1)
			}
		}
		s.outdate(2)
		s.run(func(c *Config) { c.BatchSize = 20 })
		if n := s.atRest(); n != 3 {
			t.Errorf("%d rejected", n)
		}
		for _, l := range s.letters(2) {
			reasons[l.Values[admkey.DeadReason].(string)]++
		}
		if fmt.Sprint(reasons) != fmt.Sprintf("map[%s:3]", StaleEpoch) {
			t.Errorf("reasons %v", reasons)
		}
	})
}

// Redis has accepted more than the database has, as after an operator's mistake: as much
// is confirmed as there is, and the rest is rejected.
func TestMoreAcceptedThanThereIs(t *testing.T) {
	s := newShop(t, 1, 10)
	s.accept(1, 25)
	s.run(nil)
	s.drained()
	audit, err := s.db.Orders().Audit(t.Context(), 1)
	s.must(err)
	if audit != (order.Audit{InitialStock: 10, Orders: 10, DistinctUsers: 10}) {
		t.Errorf("audit %+v", audit)
	}
	if n := s.atRest(); n != 15 || len(s.letters(1)) != 15 {
		t.Errorf("%d rejected", n)
	}
}

// A user's second order, of which Redis should have known: the first one stays.
func TestSecondOrderOfAUser(t *testing.T) {
	s := newShop(t, 1, 10)
	first := s.accept(1, 1)[0]
	second := first
	second.OrderID = 5000
	s.run(nil)
	s.drained()
	s.must(s.admit(second)) // overwrites the reservation
	s.drained()
	o, err := s.db.Orders().Order(t.Context(), 5000)
	if err != nil || o.Status != order.Rejected {
		t.Errorf("%+v, %v", o, err)
	}
	letters := s.letters(1)
	if len(letters) != 1 || letters[0].Values[admkey.DeadReason] != string(AlreadyOrdered) {
		t.Errorf("letters %v", letters)
	}
	if left := s.client.HGet(t.Context(), s.keys(1).Meta, admkey.Stock).Val(); left != "9" {
		t.Errorf("%s are left, after one confirmed of 10", left)
	}
	if back := s.client.HGet(t.Context(), s.keys(1).Meta, admkey.Back).Val(); back != "1" {
		t.Errorf("given back %s times", back)
	}
}

// The entry's order id is that of somebody else's order: nobody can write a row for it,
// so it is only given back.
func TestIDOfAnotherOrder(t *testing.T) {
	s := newShop(t, 2, 10)
	theirs := s.accept(1, 1)[0]
	s.run(nil)
	s.drained()
	mine := theirs
	mine.VoucherID, mine.UserID = 2, 777
	s.must(s.admit(mine))
	s.drained()
	delete(s.accepted, theirs.OrderID)
	if letters := s.letters(2); len(letters) != 1 || letters[0].Values[admkey.DeadReason] != string(IDTaken) {
		t.Errorf("letters %v", letters)
	}
	s.accepted[theirs.OrderID] = theirs
	s.atRest()
}

// Something that is not foreseen hits one order, again and again: it alone is rejected,
// after a bounded number of attempts.
func TestUnforeseenFailure(t *testing.T) {
	for _, how := range []string{"error", "panic", "a wrong answer"} {
		t.Run(how, func(t *testing.T) {
			s := newShop(t, 1, 100)
			poison := s.accept(1, 10)[4].OrderID
			bad := &shelf{Shelf: s.db.Shelf()}
			alone := 0
			bad.persist = func(ctx context.Context, batch []order.Accepted) ([]order.Status, error) {
				for _, a := range batch {
					if a.OrderID != poison {
						continue
					}
					if len(batch) == 1 {
						alone++
					}
					switch how {
					case "error":
						return nil, errors.New("never seen before")
					case "panic":
						panic("never seen before")
					}
					return nil, nil
				}
				return bad.Shelf.Persist(ctx, batch)
			}
			s.run(func(c *Config) { c.Shelf, c.Workers, c.MaxAttempts = bad, 1, 3 })
			s.accept(1, 10)
			if n := s.atRest(); n != 1 || alone != 3 {
				t.Errorf("%d rejected, %d attempts alone", n, alone)
			}
			if l := s.letters(1); len(l) != 1 || l[0].Values[admkey.DeadReason] != string(Failed) {
				t.Errorf("letters %v", l)
			}
		})
	}
}

// The database writes nothing at all, not even a rejection, and says nothing that is
// understood. No order is to be lost over that.
func TestEverythingFails(t *testing.T) {
	s := newShop(t, 1, 100)
	s.accept(1, 5)
	strange := errors.New("the table is gone")
	broken := make(chan struct{})
	bad := &shelf{Shelf: s.db.Shelf()}
	rejections := make(chan struct{}, 100)
	bad.persist = func(ctx context.Context, batch []order.Accepted) ([]order.Status, error) {
		select {
		case <-broken:
			return bad.Shelf.Persist(ctx, batch)
		default:
			return nil, strange
		}
	}
	bad.reject = func(ctx context.Context, a order.Accepted) (order.Status, error) {
		select {
		case <-broken:
			return bad.Shelf.Reject(ctx, a)
		case rejections <- struct{}{}:
		default:
		}
		return "", strange
	}
	s.run(func(c *Config) { c.Shelf, c.MaxAttempts = bad, 2 })
	for range 10 {
		<-rejections
	}
	close(broken)
	s.drained()
	// Attempts were used up meanwhile: what counts is that each has its answer.
	t.Logf("%d rejected", s.atRest())
}

// An entry that ends every process that tries it is tried alone, and then not any more.
func TestDeadlyEntry(t *testing.T) {
	s := newShop(t, 1, 100)
	all := s.accept(1, 6)
	deadly, in := all[2].OrderID, newStreams(s.client)
	st := newStream(s.prefix, 1, 0)
	s.must(in.prepare(t.Context(), st))
	// Five processes had all of them, and died.
	for n := range 5 {
		args := &redis.XReadGroupArgs{Group: admkey.Group, Consumer: "me-1", Streams: []string{s.keys(1).Orders, "0"}, Block: -1}
		if n == 0 {
			args.Streams[1] = ">"
		}
		s.must(s.client.XReadGroup(t.Context(), args).Err())
	}
	entries, err := in.held(t.Context(), "me-1", st, "0", 10)
	s.must(err)
	for _, e := range entries {
		if e.order.OrderID == deadly { // and it was the only one tried, when two more died
			for range 2 {
				_, err := in.attempt(t.Context(), e, 1)
				s.must(err)
			}
		}
	}
	var together int
	bad := &shelf{Shelf: s.db.Shelf()}
	bad.persist = func(ctx context.Context, batch []order.Accepted) ([]order.Status, error) {
		together = max(together, len(batch))
		if batch[0].OrderID == deadly {
			t.Error("it was tried once more")
		}
		return bad.Shelf.Persist(ctx, batch)
	}
	s.run(func(c *Config) { c.Shelf, c.Name, c.Workers, c.MaxAttempts = bad, "me", 1, 2 })
	if n := s.atRest(); n != 1 || together != 1 {
		t.Errorf("%d rejected; %d were tried together", n, together)
	}
	if l := s.letters(1); len(l) != 1 || l[0].Values[admkey.DeadReason] != string(Deadly) {
		t.Errorf("letters %v", l)
	}
}

// The order was confirmed by somebody else before it could be rejected.
func TestRejectionComesTooLate(t *testing.T) {
	s := newShop(t, 1, 100)
	a := s.accept(1, 1)[0]
	bad := &shelf{Shelf: s.db.Shelf(), persist: func(context.Context, []order.Accepted) ([]order.Status, error) {
		return nil, errors.New("never seen before")
	}}
	bad.reject = func(ctx context.Context, a order.Accepted) (order.Status, error) {
		if _, err := bad.Shelf.Persist(ctx, []order.Accepted{a}); err != nil {
			return "", err
		}
		return bad.Shelf.Reject(ctx, a)
	}
	f, _ := s.run(func(c *Config) { c.Shelf, c.MaxAttempts = bad, 1 })
	if err := f.Await(t.Context(), order.Order{ID: a.OrderID, VoucherID: 1}, 5*time.Second); err != nil {
		t.Error(err)
	}
	if n := s.atRest(); n != 0 || len(s.letters(1)) != 0 {
		t.Errorf("%d rejected, letters %v", n, s.letters(1))
	}
}

// While Redis is being rebuilt there is nothing to give back to.
func TestBuriedWhileRebuilt(t *testing.T) {
	client := clientOf(t, testkit.Redis(t).Addr())
	in, st := newStreams(client), newStream(testkit.KeyPrefix(t), 1, 0)
	if err := in.prepare(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	id := client.XAdd(t.Context(), &redis.XAddArgs{Stream: st.keys.Orders, Values: []any{"o", 1, "u", 2}}).Val()
	client.HSet(t.Context(), st.keys.Users, 2, 1)
	client.HSet(t.Context(), st.keys.Meta, admkey.Epoch, 3)
	e := entry{stream: st, id: id, order: order.Accepted{OrderID: 1, UserID: 2, VoucherID: 1}}
	for n := range 2 {
		buried, err := in.bury(t.Context(), e, true, SoldOut, "")
		if err != nil || buried != (n == 0) {
			t.Errorf("%v, %v", buried, err)
		}
	}
	if client.HExists(t.Context(), st.keys.Meta, admkey.Stock).Val() || client.XLen(t.Context(), st.keys.Dead).Val() != 1 {
		t.Error("something was given back to a voucher that is not there, or buried twice")
	}
}
