package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/idempotency"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

func (s *memoryStore) Reopen(_ context.Context, key idempotency.Key, seen idempotency.Record, now time.Time) (idempotency.Record, bool, error) {
	if s.reopened != nil {
		if err := s.reopened(); err != nil {
			return idempotency.Record{}, false, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.records[key]
	if rec == nil || rec.Answer == nil || rec.ResourceID != seen.ResourceID || rec.Attempt != seen.Attempt {
		return idempotency.Record{}, false, nil
	}
	rec.Answer, rec.StartedAt = nil, now
	rec.Attempt++
	return *rec, true, nil
}

// accepting accepts orders, which exist until a test loses them.
func (r *fixture) accepting(_ context.Context, req order.Request) (order.Order, error) {
	o := order.Order{ID: req.ID, VoucherID: req.VoucherID, UserID: req.UserID, Status: order.Pending}
	r.orders.orders = []order.Order{o}
	return o, nil
}

// newLostOrder is a fixture in which the order under the key k was accepted and then lost.
func newLostOrder(t *testing.T) *fixture {
	t.Helper()
	r := newFixture(t, lab)
	r.orders.place = r.accepting
	if rec := r.do(t, keyed("k")); rec.Code != http.StatusAccepted {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	r.orders.orders = nil
	return r
}

// A client whose accepted order was lost gets the outcome of placing it again, under the same id.
func TestLostOrderIsPlacedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		status int
		code   string
	}{
		"accepted":        {nil, http.StatusAccepted, ""},
		"sold out":        {voucher.ErrSoldOut, http.StatusConflict, "sold_out"},
		"ended":           {voucher.ErrEnded, http.StatusConflict, "sale_ended"},
		"another was had": {order.ErrAlreadyOrdered, http.StatusConflict, "already_ordered"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLostOrder(t)
			if tc.err != nil {
				r.orders.place = failing(tc.err)
			}
			again := r.do(t, keyed("k"))
			if again.Code != tc.status || tc.code != "" && !strings.Contains(again.Body.String(), tc.code) {
				t.Fatalf("%d %s", again.Code, again.Body)
			}
			got := r.orders.requests()
			if len(got) != 2 || got[0].ID == 0 || got[1].ID != got[0].ID || !got[1].Resumed {
				t.Errorf("attempts %+v; want two with one id, the second resumed", got)
			}
			r.orders.place = failing(errors.New("this must not be asked"))
			sameAnswer(t, again, r.do(t, keyed("k")))
		})
	}
}

// If the order exists, the stored answer is repeated, whatever its state is now.
func TestStoredAnswerOfAnAcceptedOrderIsReplayed(t *testing.T) {
	for _, status := range []order.Status{order.Pending, order.Confirmed, order.Rejected} {
		r := newFixture(t, lab)
		r.orders.place = r.accepting
		first := r.do(t, keyed("k"))
		r.orders.orders[0].Status = status
		r.orders.place = failing(errors.New("this must not be asked"))
		sameAnswer(t, first, r.do(t, keyed("k")))
	}
}

// As long as the lookup of the order fails, nothing changes.
func TestAcceptedOrderWhoseLookupFails(t *testing.T) {
	for name, err := range map[string]error{
		"gate or database": order.ErrUnavailable, "deadline": context.DeadlineExceeded, "unheard of": errors.New("?"),
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, lab)
			r.orders.place = r.accepting
			first := r.do(t, keyed("k"))
			r.orders.err = err
			rec := r.do(t, keyed("k"))
			wantProblem(t, rec, http.StatusServiceUnavailable, "unavailable")
			if rec.Header().Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			r.orders.err = nil
			sameAnswer(t, first, r.do(t, keyed("k")))
		})
	}
	t.Run("nor can the key be taken over", func(t *testing.T) {
		r := newLostOrder(t)
		r.idem.reopened = func() error { return errors.New("no route to host") }
		wantProblem(t, r.do(t, keyed("k")), http.StatusServiceUnavailable, "unavailable")
		if n := len(r.orders.requests()); n != 1 {
			t.Errorf("carried out %d times without a reservation", n)
		}
	})
}

// All repetitions have looked up the order and found none before the first one takes over the key.
func TestLostOrderRepeatedByManyAtOnce(t *testing.T) {
	const clients = 20
	r := newLostOrder(t)
	var looked sync.WaitGroup
	looked.Add(clients)
	r.idem.reopened = func() error {
		looked.Done()
		looked.Wait()
		return nil
	}
	answers := make(chan *httptest.ResponseRecorder, clients)
	for range clients {
		go func() { answers <- r.do(t, keyed("k")) }()
	}
	placed := 0
	for range clients {
		rec := <-answers
		if rec.Code == http.StatusAccepted {
			placed++
			continue
		}
		wantProblem(t, rec, http.StatusConflict, "busy")
	}
	if got := r.orders.requests(); placed != 1 || len(got) != 2 || got[0].ID != got[1].ID {
		t.Errorf("%d were told of an order, attempts %+v", placed, got)
	}
}

// The refusal of a lost order is stored if the attempt that accepted it was the only one. Otherwise an
// earlier attempt may still run.
func TestRefusalOfALostOrder(t *testing.T) {
	const (
		answered = "answered"
		reserved = "reserved" // under the id it had, and without an answer
		free     = "free"
	)
	for name, tc := range map[string]struct {
		taken bool  // there was an attempt before the one that was answered
		twice bool  // and what it was asked again for is lost as well
		err   error // what the next one is told
		key   string
	}{
		"alone, final":         {false, false, voucher.ErrSoldOut, answered},
		"alone, in passing":    {false, false, order.ErrOverloaded, reserved},
		"alone, too early":     {false, false, voucher.ErrNotStarted, reserved},
		"alone, unknown":       {false, false, order.ErrUnavailable, reserved},
		"not alone, final":     {true, false, voucher.ErrSoldOut, reserved},
		"not alone, passing":   {true, false, order.ErrOverloaded, reserved},
		"not alone, accepted":  {true, false, nil, answered},
		"lost twice, final":    {false, true, voucher.ErrSoldOut, reserved},
		"lost twice, passing":  {false, true, order.ErrOverloaded, reserved},
		"lost twice, accepted": {false, true, nil, answered},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, lab)
			if tc.taken {
				r.orders.place = failing(order.ErrUnavailable)
				r.do(t, keyed("k"))
				r.clock.Advance(11 * time.Second)
			}
			r.orders.place = r.accepting
			accepted := 1
			if tc.twice {
				accepted = 2
			}
			for range accepted {
				if rec := r.do(t, keyed("k")); rec.Code != http.StatusAccepted || rec.Header().Get("Idempotency-Replayed") != "" {
					t.Fatalf("%d %s", rec.Code, rec.Body)
				}
				r.orders.orders = nil
			}
			lost := r.orders.requests()[0].ID
			if tc.err != nil {
				r.orders.place = failing(tc.err)
			}
			r.do(t, keyed("k"))
			got := free
			switch rec, there := r.idem.record(idempotency.Key{UserID: 42, Value: "k"}); {
			case there && rec.ResourceID != lost:
				t.Errorf("the id was %d and is %d", lost, rec.ResourceID)
			case there && rec.Answer == nil:
				got = reserved
			case there:
				got = answered
			}
			if got != tc.key {
				t.Errorf("the key is %s, want %s", got, tc.key)
			}
		})
	}
}

// The lost order turns up after a repetition was refused temporarily. The next repetition, which has the same
// id, returns it.
func TestLostOrderTurnsUpAfterARefusal(t *testing.T) {
	r := newLostOrder(t)
	r.orders.place = failing(order.ErrOverloaded)
	wantProblem(t, r.do(t, keyed("k")), http.StatusServiceUnavailable, "unavailable")
	wantProblem(t, r.do(t, keyed("k")), http.StatusConflict, "busy")
	r.clock.Advance(11 * time.Second)
	r.orders.place = func(ctx context.Context, req order.Request) (order.Order, error) {
		if !req.Resumed {
			return order.Order{}, order.ErrAlreadyOrdered // by the one that turned up
		}
		return r.accepting(ctx, req)
	}
	last := r.do(t, keyed("k"))
	got := r.orders.requests()
	if last.Code != http.StatusAccepted || len(got) != 3 || got[2].ID != got[0].ID {
		t.Errorf("%d %s, attempts %+v; want 202 under the first one's id", last.Code, last.Body, got)
	}
}
