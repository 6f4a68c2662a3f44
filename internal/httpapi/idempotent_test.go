package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"seckill/internal/httpapi"
	"seckill/internal/idempotency"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// keyed returns an order request of user 42 with a key.
func keyed(key string) call {
	return call{"POST", "/api/v1/vouchers/1/orders", "", []string{"X-User-ID: 42", "Idempotency-Key: " + key}}
}

func failing(err error) func(context.Context, order.Request) (order.Order, error) {
	return func(context.Context, order.Request) (order.Order, error) { return order.Order{}, err }
}

func replayed(rec *httptest.ResponseRecorder) bool {
	return rec.Header().Get("Idempotency-Replayed") == "true"
}

// sameAnswer checks that the second answer is a replay of the first.
func sameAnswer(t *testing.T, first, second *httptest.ResponseRecorder) {
	t.Helper()
	if first.Code != second.Code || first.Body.String() != second.Body.String() {
		t.Errorf("first %d %s, then %d %s", first.Code, first.Body, second.Code, second.Body)
	}
	for _, h := range []string{"Content-Type", "Location"} {
		fail.Unequal(t, second.Header().Get(h), first.Header().Get(h), "%s of the repetition", h)
	}
	if replayed(first) || !replayed(second) {
		t.Errorf("the answers were replayed: %v, then %v", replayed(first), replayed(second))
	}
}

func TestFinalAnswersAreReplayed(t *testing.T) {
	for name, err := range map[string]error{
		"placed": nil, "sold out": voucher.ErrSoldOut, "ended": voucher.ErrEnded,
		"ordered": order.ErrAlreadyOrdered, "no such voucher": voucher.ErrNotFound,
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, lab)
			if err != nil {
				r.orders.place = failing(err)
			}
			first := r.do(t, keyed("k"))
			r.orders.place = failing(errors.New("this must not be asked"))
			sameAnswer(t, first, r.do(t, keyed("k")))
			fail.Unequal(t, len(r.orders.requests()), 1, "times that it was carried out")
		})
	}
}

// A refusal that may be different the next time leaves the key free. The next attempt has another id.
func TestTemporaryAnswersAreNotReplayed(t *testing.T) {
	for name, err := range map[string]error{
		"busy": order.ErrBusy, "conflict": order.ErrConflict, "too early": voucher.ErrNotStarted,
		"invalid": voucher.ErrInvalid, "overloaded": order.ErrOverloaded,
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, lab)
			r.orders.place = failing(err)
			if rec := r.do(t, keyed("k")); rec.Code < 400 {
				t.Fatalf("%d %s", rec.Code, rec.Body)
			}
			r.orders.place = nil
			if rec := r.do(t, keyed("k")); rec.Code != http.StatusCreated || rec.Header().Get("Idempotency-Replayed") != "" {
				t.Errorf("again: %d %s; want a fresh 201", rec.Code, rec.Body)
			}
			got := r.orders.requests()
			if got[0].ID == got[1].ID || got[1].Resumed {
				t.Errorf("attempts %+v; want two that know nothing of each other", got)
			}
		})
	}
}

// After an unknown outcome the key stays reserved until the attempt is stale. The next attempt then continues with the
// same id, also if memory would refuse it by then: the first one may have bought the last unit.
func TestUnknownOutcomeIsTakenOver(t *testing.T) {
	for name, err := range map[string]error{
		"unavailable": order.ErrUnavailable, "lock server gone": lock.ErrUnavailable, "deadline": context.DeadlineExceeded,
		"injected": lock.ErrInjected, "unheard of": errors.New("?"),
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, lab)
			r.orders.place = failing(err)
			if rec := r.do(t, keyed("k")); rec.Code < 500 {
				t.Fatalf("%d %s", rec.Code, rec.Body)
			}
			r.orders.place, r.orders.refusal = nil, voucher.ErrSoldOut
			rec := r.do(t, keyed("k"))
			wantProblem(t, rec, http.StatusConflict, "busy")
			if rec.Header().Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			r.now = r.now.Add(11 * time.Second)
			third := r.do(t, keyed("k"))
			fail.NowUnequal(t, third.Code, http.StatusCreated, "when stale: %s", third.Body)
			got := r.orders.requests()
			if len(got) != 2 || got[0].ID == 0 || got[0].ID != got[1].ID || got[0].Resumed || !got[1].Resumed {
				t.Errorf("attempts %+v; want two with one id, the second resumed", got)
			}
			sameAnswer(t, third, r.do(t, keyed("k")))
		})
	}
}

// An attempt that took over stores no refusal, because the earlier one may still run.
func TestResumedRefusalsKeepTheReservation(t *testing.T) {
	key := idempotency.Key{UserID: 42, Value: "k"}
	for name, err := range map[string]error{"busy": order.ErrBusy, "sold out": voucher.ErrSoldOut} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, lab)
			r.orders.place = failing(order.ErrUnavailable)
			r.do(t, keyed("k"))
			first, _ := r.idem.record(key)
			r.now = r.now.Add(11 * time.Second)
			r.orders.place = failing(err)
			r.do(t, keyed("k"))
			if rec, ok := r.idem.record(key); !ok || rec.Answer != nil || rec.ResourceID != first.ResourceID {
				t.Errorf("record %+v, %t; want the reservation of %d", rec, ok, first.ResourceID)
			}
		})
	}
}

// An attempt is paused just before it stores its refusal, for so long that another one takes over. When it continues,
// it changes nothing: the key and the answer belong to the other one.
func TestLateRefusalsChangeNothing(t *testing.T) {
	for name, err := range map[string]error{"busy": order.ErrBusy, "sold out": voucher.ErrSoldOut} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, lab)
			working, finish := make(chan struct{}), make(chan struct{})
			r.orders.place = func(_ context.Context, req order.Request) (order.Order, error) {
				if !req.Resumed {
					return order.Order{}, err
				}
				close(working)
				<-finish
				return order.Order{ID: req.ID, VoucherID: 1, UserID: 42, Status: order.Confirmed}, nil
			}
			second := make(chan *httptest.ResponseRecorder, 1)
			r.idem.beforeStore = sync.OnceFunc(func() {
				r.now = r.now.Add(11 * time.Second)
				go func() { second <- r.do(t, keyed("k")) }()
				<-working
			})
			r.do(t, keyed("k"))
			wantProblem(t, r.do(t, keyed("k")), http.StatusConflict, "busy") // the second is still at it
			close(finish)
			placed := <-second
			fail.NowUnequal(t, placed.Code, http.StatusCreated, "%s", placed.Body)
			sameAnswer(t, placed, r.do(t, keyed("k")))
			if got := r.orders.requests(); len(got) != 2 || got[0].ID != got[1].ID {
				t.Errorf("attempts %+v; want two under one id", got)
			}
		})
	}
}

func TestAnotherRequestUnderTheSameKey(t *testing.T) {
	r := newFixture(t, lab)
	r.do(t, keyed("k"))
	other := keyed("k")
	other.path = "/api/v1/vouchers/2/orders"
	wantProblem(t, r.do(t, other), http.StatusUnprocessableEntity, "idempotency_key_reused")

	create := call{"POST", "/api/v1/vouchers", voucherBody("", ""), []string{"Idempotency-Key: v"}}
	first := r.do(t, create)
	sameAnswer(t, first, r.do(t, create))
	create.body = voucherBody("stock", "101")
	wantProblem(t, r.do(t, create), http.StatusUnprocessableEntity, "idempotency_key_reused")
	fail.Unequal(t, len(r.vouchers.store.list), 1, "vouchers")

	// The same key of another user is another key; an empty object counts as no body.
	theirs := keyed("k")
	theirs.headers[0] = "X-User-ID: 43"
	theirs.body = "{}"
	if rec := r.do(t, theirs); rec.Code != http.StatusCreated || rec.Header().Get("Idempotency-Replayed") != "" {
		t.Errorf("another user: %d %s", rec.Code, rec.Body)
	}
	theirs.body = ""
	if rec := r.do(t, theirs); rec.Header().Get("Idempotency-Replayed") != "true" {
		t.Errorf("{} and nothing are two requests: %d %s", rec.Code, rec.Body)
	}
}

// A voucher whose creation got no answer is found, not created twice.
func TestVoucherIsCreatedOnce(t *testing.T) {
	r := newFixture(t, lab)
	create := call{"POST", "/api/v1/vouchers", voucherBody("", ""), []string{"Idempotency-Key: v"}}
	r.vouchers.store.lose = order.ErrUnavailable
	wantProblem(t, r.do(t, create), http.StatusServiceUnavailable, "unavailable")
	r.now = r.now.Add(11 * time.Second)
	r.want(t, create, http.StatusCreated)
	fail.Unequal(t, len(r.vouchers.store.list), 1, "vouchers")
}

// Without a reservation no work begins. An order that was accepted is answered, also if its answer cannot be kept.
func TestStoreFailures(t *testing.T) {
	noRoute := errors.New("no route to host")
	for name, c := range map[string]struct {
		fail   func(r *fixture)
		status int
		placed int
	}{
		"begin":    {func(r *fixture) { r.idem.begin = noRoute }, http.StatusServiceUnavailable, 0},
		"ids":      {func(r *fixture) { r.ids.err = errors.New("no machine id") }, http.StatusServiceUnavailable, 0},
		"complete": {func(r *fixture) { r.idem.complete = noRoute }, http.StatusCreated, 1},
	} {
		r := newFixture(t, lab)
		c.fail(r)
		if rec := r.do(t, keyed("k")); rec.Code != c.status || len(r.orders.requests()) != c.placed {
			t.Errorf("%s: %d %s, %d orders placed", name, rec.Code, rec.Body, len(r.orders.requests()))
		}
	}
}

// The answer is stored although the client hung up.
func TestAnswerIsKeptForAClientThatLeft(t *testing.T) {
	r := newFixture(t, lab)
	ctx, cancel := context.WithCancel(t.Context())
	r.orders.place = func(_ context.Context, req order.Request) (order.Order, error) {
		cancel()
		return order.Order{ID: req.ID, VoucherID: 1, UserID: 42, Status: order.Confirmed}, nil
	}
	r.serve(ctx, "POST", "/api/v1/vouchers/1/orders", "X-User-ID: 42", "Idempotency-Key: k")
	if rec := r.do(t, keyed("k")); rec.Code != http.StatusCreated || rec.Header().Get("Idempotency-Replayed") != "true" {
		t.Errorf("%d %s; want the answer that nobody waited for", rec.Code, rec.Body)
	}
}

func TestSameKeyAtOnce(t *testing.T) {
	const clients = 20
	r := newFixture(t, lab)
	begun, finish := make(chan struct{}), make(chan struct{})
	r.orders.place = func(_ context.Context, req order.Request) (order.Order, error) {
		close(begun) // a second time would panic, and fail the test with a 500
		<-finish
		return order.Order{ID: req.ID, VoucherID: 1, UserID: 42, Status: order.Confirmed}, nil
	}
	answers := make(chan *httptest.ResponseRecorder, clients)
	ready := make(chan struct{})
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			<-ready
			answers <- r.do(t, keyed("k"))
		})
	}
	close(ready)
	<-begun
	// All the others are told to wait while the one works.
	for range clients - 1 {
		wantProblem(t, <-answers, http.StatusConflict, "busy")
	}
	close(finish)
	wg.Wait()
	first := <-answers
	fail.Unequal(t, first.Code, http.StatusCreated, "%s", first.Body)
	sameAnswer(t, first, r.do(t, keyed("k")))
}

// The lock is lost after the work was carried out under an idempotency key. The client repeats the request and gets the
// outcome.
func TestLostLockAndIdempotency(t *testing.T) {
	r := newFixture(t, lab)
	l := r.locks["reentrant"].(*fakeLocker)
	fail.NowIf(t, r.api.GuardOrders("/guarded-orders/:id", httpapi.Guard{Key: "o:#id:#user", Lock: "reentrant"}))
	place := call{"POST", "/guarded-orders/7", "", []string{"X-User-ID: 42", "Idempotency-Key: k"}}
	l.releasing = lock.ErrLost
	wantProblem(t, r.do(t, place), http.StatusServiceUnavailable, "unavailable")
	if rec, ok := r.idem.record(idempotency.Key{UserID: 42, Value: "k"}); !ok || rec.Answer == nil {
		t.Fatalf("the answer was not kept: %+v", rec)
	}
	l.releasing = nil
	if rec := r.do(t, place); rec.Code != http.StatusCreated || rec.Header().Get("Idempotency-Replayed") != "true" {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	fail.Unequal(t, len(r.orders.requests()), 1, "times that it was carried out")
}
