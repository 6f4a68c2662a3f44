package httpapi_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/httpapi"
	"seckill/internal/idempotency"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// guardRoute adds POST /guarded/:id for users and returns the locker of its guard.
func guardRoute(t testing.TB, r *fixture, g httpapi.Guard, work httpapi.Work) *fakeLocker {
	t.Helper()
	locker, _ := r.locks["reentrant"].(*fakeLocker)
	g.Key, g.Lock = cmp.Or(g.Key, "g:{path.id}"), "reentrant"
	fail.NowIf(t, r.api.AddRoute("POST", "/guarded/:id", true, work, g))
	return locker
}

func nothing(context.Context, func() ([]byte, error)) error { return nil }

func (r *fixture) guarded(ctx context.Context) *httptest.ResponseRecorder {
	return r.serve(ctx, "POST", "/guarded/7", "X-User-ID: 42")
}

func TestGuardWaits(t *testing.T) {
	for _, c := range []struct {
		name       string
		wait, work time.Duration // the second request's patience, the first one's work
		ttl        time.Duration // of the first one's lease, as the mechanism knows it
		retryAfter string        // "": the second request gets its turn
		after      time.Duration // when the second request is answered
	}{
		{"its turn comes", 2 * time.Second, time.Second, 0, "", 2 * time.Second},
		{"its turn does not come", 2 * time.Second, 5 * time.Second, 2500 * time.Millisecond, "3", 2 * time.Second},
		{"it does not wait", 0, time.Second, 0, "1", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFixture(t, lab)
				var working, most int
				var mu sync.Mutex
				count := func(by int) {
					mu.Lock()
					defer mu.Unlock()
					working += by
					most = max(most, working)
				}
				l := guardRoute(t, r, httpapi.Guard{Wait: c.wait, Lease: time.Minute}, func(context.Context, func() ([]byte, error)) error {
					count(+1)
					defer count(-1)
					simulate.Sleep(c.work)
					return nil
				})
				l.ttl = c.ttl
				var wg sync.WaitGroup
				wg.Go(func() {
					if rec := r.guarded(t.Context()); rec.Code != http.StatusOK {
						t.Errorf("first: %d %s", rec.Code, rec.Body)
					}
				})
				synctest.Wait()
				begun := time.Now()
				rec := r.guarded(t.Context())
				fail.Unequal(t, time.Since(begun), c.after, "answered after")
				if c.retryAfter == "" {
					if rec.Code != http.StatusOK {
						t.Errorf("second: %d %s", rec.Code, rec.Body)
					}
				} else {
					wantProblem(t, rec, http.StatusConflict, "busy")
				}
				fail.Unequal(t, rec.Header().Get("Retry-After"), c.retryAfter, "Retry-After")
				wg.Wait()
				if most != 1 || l.held() != 0 {
					t.Errorf("%d at a time, %d leases left behind", most, l.held())
				}
				if got := l.opts[0]; got.Wait != c.wait || got.TTL != time.Minute {
					t.Errorf("asked for %+v", got)
				}
			})
		})
	}
}

// A client that hangs up while it waits leaves no lock behind.
func TestGuardedClientHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, lab)
		worked := 0
		l := guardRoute(t, r, httpapi.Guard{Wait: time.Minute}, func(context.Context, func() ([]byte, error)) error {
			worked++
			return nil
		})
		other, err := l.Acquire(t.Context(), "g:7", lock.Options{})
		fail.NowIf(t, err)
		ctx, hangUp := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { r.guarded(ctx) })
		synctest.Wait()
		hangUp()
		wg.Wait()
		fail.NowIf(t, other.Release(t.Context()))
		if worked != 0 || l.held() != 0 {
			t.Errorf("worked %d times, %d leases left behind", worked, l.held())
		}
		fail.Unequal(t, r.metric(t, "seckill_http_problems_total", "client_gone"), 1, "clients counted as gone")
		if strings.Contains(r.log.String(), `"WARN"`) {
			t.Errorf("a client that goes is no warning: %s", r.log.String())
		}
	})
}

// The lease is released although the context of the request has ended, or the handler has panicked.
func TestGuardReleases(t *testing.T) {
	for name, work := range map[string]func(ctx context.Context, hangUp context.CancelFunc) error{
		"the client hangs up": func(ctx context.Context, hangUp context.CancelFunc) error { hangUp(); <-ctx.Done(); return ctx.Err() },
		"panic":               func(context.Context, context.CancelFunc) error { panic("oops") },
	} {
		r := newFixture(t, lab)
		ctx, hangUp := context.WithCancel(t.Context())
		l := guardRoute(t, r, httpapi.Guard{}, func(ctx context.Context, _ func() ([]byte, error)) error { return work(ctx, hangUp) })
		rec := r.guarded(ctx)
		if len(l.keys) != 1 || l.held() != 0 || strings.Contains(r.log.String(), "release failed") {
			t.Errorf("%s: locked %q, %d leases left behind: %s", name, l.keys, l.held(), r.log.String())
		}
		if name == "panic" {
			wantProblem(t, rec, http.StatusInternalServerError, "internal")
		}
		hangUp()
	}
}

// What becomes of a request whose lock cannot be had, or is lost. If it was lost, the handler's answer is not sent, whatever it
// is. A lock that only saves work (best effort) prevents none; after a wait that timed out, which does not show the reason, its
// server is asked.
func TestGuardWithoutItsLock(t *testing.T) {
	lose := func(l *fakeLocker) { l.last().Lose(lock.ErrLost) }
	releasing := func(err error) func(context.Context, *fakeLocker) error {
		return func(_ context.Context, l *fakeLocker) error { l.releasing = err; return nil }
	}
	const lost, without = `lost the lock on \"g:7\"`, "carried out without its lock"
	away, timedOut := fmt.Errorf("%w: dial", lock.ErrUnavailable), &lock.NotAcquiredError{Key: "g:7"}
	for _, c := range []struct {
		name       string
		bestEffort bool
		refuse     error        // of the lock
		server     *inspectable // the lock's server, if it can be asked
		work       func(ctx context.Context, l *fakeLocker) error
		status     int // 200: the handler's own answer
		code, log  string
	}{
		{"told, and stops", false, nil, nil, func(ctx context.Context, l *fakeLocker) error { lose(l); <-ctx.Done(); return ctx.Err() }, 503, "unavailable", lost},
		{"told, and succeeds", false, nil, nil, func(_ context.Context, l *fakeLocker) error { lose(l); return nil }, 503, "unavailable", lost},
		{"told, and refuses", false, nil, nil, func(_ context.Context, l *fakeLocker) error { lose(l); return order.ErrAlreadyOrdered }, 503, "unavailable", lost},
		{"found out at the release: lost", false, nil, nil, releasing(lock.ErrLost), 503, "unavailable", lost},
		{"found out at the release: expired", false, nil, nil, releasing(lock.ErrExpired), 503, "unavailable", lost},
		{"by the clock only", false, nil, nil, func(_ context.Context, l *fakeLocker) error { l.last().Renewed(time.Now().Add(-1)); return nil }, 503, "unavailable", lost},
		{"held, the release has no outcome", false, nil, nil, releasing(lock.ErrUnavailable), 200, "", ""},
		{"held", false, nil, nil, func(context.Context, *fakeLocker) error { return order.ErrAlreadyOrdered }, 409, "already_ordered", ""},
		{"server away", false, away, nil, nil, 503, "unavailable", ""},
		{"deadline", false, context.DeadlineExceeded, nil, nil, 503, "unavailable", ""},
		{"broken", false, errors.New("dial secret-host"), nil, nil, 500, "internal", ""},
		{"held, best effort", true, nil, nil, releasing(nil), 200, "", ""},
		{"lost, best effort", true, nil, nil, func(ctx context.Context, l *fakeLocker) error { lose(l); return ctx.Err() }, 200, "", ""},
		{"server away, best effort", true, away, nil, nil, 200, "", without},
		{"busy, best effort", true, timedOut, nil, nil, 409, "busy", ""},
		{"broken, best effort", true, lock.ErrWrongKind, nil, nil, 500, "internal", ""},
		{"timed out, the server answers", true, timedOut, &inspectable{state: lock.State{Owner: "other", Count: 1}}, nil, 409, "busy", ""},
		{"timed out, the key is free by now", true, timedOut, &inspectable{}, nil, 409, "busy", ""},
		{"timed out, the server hangs", true, timedOut, &inspectable{hangs: true}, nil, 200, "", without},
		{"timed out, the server is away", true, timedOut, &inspectable{err: away}, nil, 200, "", without},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFixture(t, lab)
				l := r.locks["reentrant"].(*fakeLocker)
				if l.refuse = c.refuse; c.server != nil {
					c.server.fakeLocker = l
					r.locks["reentrant"] = c.server
				}
				ran := false
				guardRoute(t, r, httpapi.Guard{BestEffort: c.bestEffort}, func(ctx context.Context, _ func() ([]byte, error)) error {
					if ran = true; c.work == nil {
						return nil
					}
					return c.work(ctx, l)
				})
				rec := r.guarded(t.Context())
				if c.status != http.StatusOK {
					wantProblem(t, rec, c.status, c.code)
				} else if rec.Code != c.status {
					t.Errorf("%d %s", rec.Code, rec.Body)
				}
				if want := c.refuse == nil || c.status == http.StatusOK; ran != want || l.held() != 0 {
					t.Errorf("the handler ran: %v, want %v; %d leases left behind", ran, want, l.held())
				}
				if log := r.log.String(); !strings.Contains(log, c.log) || c.log == "" && (strings.Contains(log, lost) || strings.Contains(log, without)) {
					t.Errorf("the log does not say %q alone: %s", c.log, log)
				}
			})
		})
	}
}

// The whole request has one owner, and the locks are acquired in the order of their declaration.
func TestGuardsShareTheOwner(t *testing.T) {
	r := newFixture(t, lab)
	l := r.locks["reentrant"].(*fakeLocker)
	var inside lock.Owner
	err := r.api.AddRoute("POST", "/guarded/:id", true, func(ctx context.Context, _ func() ([]byte, error)) error {
		inside, _ = lock.OwnerFrom(ctx)
		return nil
	}, httpapi.Guard{Key: "a:{path.id}", Lock: "reentrant"}, httpapi.Guard{Key: "b:{user}", Lock: "reentrant"})
	fail.NowIf(t, err)
	var owners []lock.Owner
	for range 2 {
		if rec := r.guarded(t.Context()); rec.Code != http.StatusOK {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
		if a, b := l.leases[0].Owner(), l.leases[1].Owner(); a != b || a != inside || a == "" {
			t.Errorf("owners %q and %q, inside %q", a, b, inside)
		}
		fail.Unequal(t, strings.Join(l.keys, " "), "a:7 b:42", "locked")
		owners = append(owners, inside)
		l.forget()
	}
	if owners[0] == owners[1] {
		t.Error("two requests are one owner")
	}
}

// The handler can read the body from which the key was made.
func TestGuardLeavesTheBody(t *testing.T) {
	r := newFixture(t, lab)
	var read []string
	l := guardRoute(t, r, httpapi.Guard{Key: "g:{json.n}"}, func(_ context.Context, body func() ([]byte, error)) error {
		b, err := body()
		read = append(read, string(b))
		return err
	})
	const body = ` {"n": 9007199254740993, "more": [1.50]} `
	r.want(t, call{"POST", "/guarded/7", body, []string{"X-User-ID: 42"}}, http.StatusOK)
	if len(read) != 1 || read[0] != body {
		t.Errorf("the handler read %q", read)
	}
	large := `{"n": 1, "pad": "` + strings.Repeat("x", 65<<10) + `"}`
	wantProblem(t, r.do(t, call{"POST", "/guarded/7", large, []string{"X-User-ID: 42"}}), http.StatusRequestEntityTooLarge, "payload_too_large")
	if len(read) != 1 || len(l.keys) != 1 {
		t.Errorf("too large a body was read by the handler or locked %q", l.keys)
	}
}

// The audit has a guard. A request that fails authentication locks nothing.
func TestAuditIsGuarded(t *testing.T) {
	strict := newFixture(t)
	wantProblem(t, get(strict.handler, "/api/v1/vouchers/1/audit"), http.StatusUnauthorized, "unauthenticated")
	if l := strict.locks["reentrant"].(*fakeLocker); len(l.keys) != 0 {
		t.Errorf("locked %q", l.keys)
	}
	r := newFixture(t, lab)
	l := r.locks["reentrant"].(*fakeLocker)
	for _, method := range []string{"GET", "HEAD"} {
		r.want(t, call{method, "/api/v1/vouchers/1/audit", "", nil}, http.StatusOK)
	}
	if got := strings.Join(l.keys, " "); got != "audit:1 audit:1" || l.held() != 0 {
		t.Errorf("locked %s, %d left behind", got, l.held())
	}
	fail.Unequal(t, l.opts[0], (lock.Options{Wait: 2 * time.Second}), "asked for")
	l.refuse = lock.ErrUnavailable
	r.want(t, call{"GET", "/api/v1/vouchers/1/audit", "", nil}, http.StatusOK)
}

func TestGuardsAreChecked(t *testing.T) {
	for name, g := range map[string]httpapi.Guard{
		"unknown mechanism": {Key: "k", Lock: "padlock"},
		"negative wait":     {Key: "k", Lock: "reentrant", Wait: -1},
		"endless wait":      {Key: "k", Lock: "reentrant", Wait: time.Hour},
		"lease too short":   {Key: "k", Lock: "reentrant", Lease: time.Microsecond},
		"lease too long":    {Key: "k", Lock: "reentrant", Lease: 2 * time.Hour},
	} {
		err := newFixture(t).api.AddRoute("POST", "/x", false, nothing, g)
		if err == nil || !strings.Contains(err.Error(), "httpapi: guard of POST /x: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := newFixture(t)
	_, err := httpapi.New(httpapi.Config{}, r.deps(fakeLocks{"lua": newFakeLocker()}))
	if err == nil || !strings.Contains(err.Error(), "guard of GET /api/v1/vouchers/:id/audit") {
		t.Errorf("an API without the mechanism of a guard: %v", err)
	}
}

// The lock is lost after the work was carried out under an idempotency key. The client repeats the request
// and gets the outcome.
func TestLostLockAndIdempotency(t *testing.T) {
	r := newFixture(t, lab)
	l := r.locks["reentrant"].(*fakeLocker)
	fail.NowIf(t, r.api.GuardOrders("/guarded-orders/:id", httpapi.Guard{Key: "o:{path.id}:{user}", Lock: "reentrant"}))
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
	if n := len(r.orders.requests()); n != 1 {
		t.Errorf("carried out %d times", n)
	}
}

func TestRetryAfter(t *testing.T) {
	for ttl, want := range map[time.Duration]string{
		0: "1", -time.Second: "1", time.Millisecond: "1", time.Second: "1", time.Second + 1: "2",
		4*time.Second + time.Millisecond: "5", 5 * time.Second: "5", 6 * time.Second: "5", time.Hour: "5", lock.NoExpiry: "5",
	} {
		r := newFixture(t, lab)
		r.orders.place = func(context.Context, order.Request) (order.Order, error) {
			return order.Order{}, fmt.Errorf("%w: %w", order.ErrBusy, &lock.NotAcquiredError{Key: "k", Holder: "h", TTL: ttl})
		}
		rec := r.do(t, call{"POST", "/api/v1/vouchers/1/orders", "", []string{"X-User-ID: 42"}})
		wantProblem(t, rec, http.StatusConflict, "busy")
		fail.Unequal(t, rec.Header().Get("Retry-After"), want, "the lease runs another %v: Retry-After", ttl)
	}
}
