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
)

// guardRoute adds POST /guarded/:id for users and returns the locker of its guard.
func guardRoute(t testing.TB, r *fixture, g httpapi.Guard, work httpapi.Work) *fakeLocker {
	t.Helper()
	guard(t, r, g, work)
	return r.locks["reentrant"].(*fakeLocker)
}

func guard(t testing.TB, r *fixture, g httpapi.Guard, work httpapi.Work) {
	t.Helper()
	g.Key, g.Lock = cmp.Or(g.Key, "g:{path.id}"), "reentrant"
	if err := r.api.AddRoute("POST", "/guarded/:id", true, work, g); err != nil {
		t.Fatal(err)
	}
}

func nothing(context.Context, func() ([]byte, error)) error { return nil }

func (r *fixture) guarded(ctx context.Context) *httptest.ResponseRecorder {
	return r.serve(ctx, "POST", "/guarded/7", "X-User-ID", "42")
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
					time.Sleep(c.work)
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
				if took := time.Since(begun); took != c.after {
					t.Errorf("answered after %v, want %v", took, c.after)
				}
				if c.retryAfter == "" {
					if rec.Code != http.StatusOK {
						t.Errorf("second: %d %s", rec.Code, rec.Body)
					}
				} else {
					wantProblem(t, rec, http.StatusConflict, "busy")
				}
				if got := rec.Header().Get("Retry-After"); got != c.retryAfter {
					t.Errorf("Retry-After is %q, want %q", got, c.retryAfter)
				}
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
		if err != nil {
			t.Fatal(err)
		}
		ctx, hangUp := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { r.guarded(ctx) })
		synctest.Wait()
		hangUp()
		wg.Wait()
		if err := other.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if worked != 0 || l.held() != 0 {
			t.Errorf("worked %d times, %d leases left behind", worked, l.held())
		}
		if got := r.metric(t, "seckill_http_problems_total", "client_gone"); got != 1 {
			t.Errorf("%v clients counted as gone, want 1", got)
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
		if len(l.locked()) != 1 || l.held() != 0 || strings.Contains(r.log.String(), "release failed") {
			t.Errorf("%s: locked %q, %d leases left behind: %s", name, l.locked(), l.held(), r.log)
		}
		if name == "panic" {
			wantProblem(t, rec, http.StatusInternalServerError, "internal")
		}
		hangUp()
	}
}

// If the lock was lost, the handler's answer is not sent, whatever it is.
func TestGuardLosesLock(t *testing.T) {
	lose := func(l *fakeLocker) { l.last().Lose(lock.ErrLost) }
	for _, c := range []struct {
		name string
		work func(ctx context.Context, l *fakeLocker) error
		code string // "": the handler's own answer, 200
	}{
		{"told, and stops", func(ctx context.Context, l *fakeLocker) error {
			lose(l)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Minute):
				t.Error("the work was not told")
				return nil
			}
		}, "unavailable"},
		{"told, and succeeds", func(_ context.Context, l *fakeLocker) error { lose(l); return nil }, "unavailable"},
		{"told, and refuses", func(_ context.Context, l *fakeLocker) error { lose(l); return order.ErrAlreadyOrdered }, "unavailable"},
		{"found out at the release: lost", func(_ context.Context, l *fakeLocker) error { l.releasing = lock.ErrLost; return nil }, "unavailable"},
		{"found out at the release: expired", func(_ context.Context, l *fakeLocker) error { l.releasing = lock.ErrExpired; return nil }, "unavailable"},
		{"by the clock only", func(_ context.Context, l *fakeLocker) error {
			l.last().Renewed(time.Now().Add(-time.Second))
			return nil
		}, "unavailable"},
		{"still held, the release has no outcome", func(_ context.Context, l *fakeLocker) error { l.releasing = lock.ErrUnavailable; return nil }, ""},
		{"held", func(_ context.Context, l *fakeLocker) error { return order.ErrAlreadyOrdered }, "already_ordered"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newFixture(t, lab)
			var l *fakeLocker
			l = guardRoute(t, r, httpapi.Guard{}, func(ctx context.Context, _ func() ([]byte, error)) error { return c.work(ctx, l) })
			rec := r.guarded(t.Context())
			switch c.code {
			case "":
				if rec.Code != http.StatusOK {
					t.Errorf("%d %s", rec.Code, rec.Body)
				}
			case "unavailable":
				wantProblem(t, rec, http.StatusServiceUnavailable, c.code)
				if log := r.log.String(); !strings.Contains(log, `lost the lock on \"g:7\"`) {
					t.Errorf("the log does not say why: %s", log)
				}
			default:
				wantProblem(t, rec, http.StatusConflict, c.code)
			}
			if l.held() != 0 {
				t.Errorf("%d leases left behind", l.held())
			}
		})
	}
}

// An error of the mechanism is answered by the usual table, and the handler does not run.
func TestGuardCannotLock(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		code   string
	}{
		"unavailable": {fmt.Errorf("%w: dial", lock.ErrUnavailable), http.StatusServiceUnavailable, "unavailable"},
		"deadline":    {context.DeadlineExceeded, http.StatusServiceUnavailable, "unavailable"},
		"broken":      {errors.New("dial secret-host"), http.StatusInternalServerError, "internal"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, lab)
			l := guardRoute(t, r, httpapi.Guard{}, func(context.Context, func() ([]byte, error)) error {
				t.Error("the handler ran")
				return nil
			})
			l.refuse = c.err
			wantProblem(t, r.guarded(t.Context()), c.status, c.code)
		})
	}
}

// A lock that only saves work does not prevent work.
func TestBestEffort(t *testing.T) {
	for _, c := range []struct {
		name    string
		arrange func(l *fakeLocker)
		work    func(ctx context.Context, l *fakeLocker) error
		code    string // "": the handler ran, and its answer counts
	}{
		{"held", nil, nil, ""},
		{"server away", func(l *fakeLocker) { l.refuse = fmt.Errorf("%w: dial", lock.ErrUnavailable) }, nil, ""},
		{"lost at work", nil, func(ctx context.Context, l *fakeLocker) error { l.last().Lose(lock.ErrLost); return ctx.Err() }, ""},
		{"busy", func(l *fakeLocker) { l.refuse = &lock.NotAcquiredError{Key: "k"} }, nil, "busy"},
		{"broken", func(l *fakeLocker) { l.refuse = lock.ErrWrongKind }, nil, "internal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newFixture(t, lab)
			var l *fakeLocker
			ran := false
			l = guardRoute(t, r, httpapi.Guard{BestEffort: true}, func(ctx context.Context, _ func() ([]byte, error)) error {
				ran = true
				if c.work != nil {
					return c.work(ctx, l)
				}
				return nil
			})
			if c.arrange != nil {
				c.arrange(l)
			}
			rec := r.guarded(t.Context())
			if ran != (c.code == "") || ran != (rec.Code == http.StatusOK) || !strings.Contains(rec.Body.String(), c.code) {
				t.Errorf("ran: %t; %d %s", ran, rec.Code, rec.Body)
			}
			if l.held() != 0 {
				t.Errorf("%d leases left behind", l.held())
			}
			if away := strings.Contains(r.log.String(), "carried out without its lock"); away != (c.name == "server away") {
				t.Errorf("the log: %s", r.log)
			}
		})
	}
}

// A wait that timed out does not show the reason, so the guard checks whether the server answers.
func TestBestEffortWaitRunsOut(t *testing.T) {
	for _, c := range []struct {
		name   string
		server inspectable
		ran    bool
	}{
		{"the server answers", inspectable{state: lock.State{Owner: "other", Count: 1}}, false},
		{"the server answers, the key is free by now", inspectable{}, false},
		{"the server hangs", inspectable{hangs: true}, true},
		{"the server is away", inspectable{err: fmt.Errorf("%w: dial", lock.ErrUnavailable)}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFixture(t, lab)
				c.server.fakeLocker = r.locks["reentrant"].(*fakeLocker)
				c.server.refuse = &lock.NotAcquiredError{Key: "g:7"}
				r.locks["reentrant"] = &c.server
				ran := false
				guard(t, r, httpapi.Guard{BestEffort: true}, func(context.Context, func() ([]byte, error)) error {
					ran = true
					return nil
				})
				rec := r.guarded(t.Context())
				if ran != c.ran || ran != (rec.Code == http.StatusOK) {
					t.Errorf("ran: %t; %d %s", ran, rec.Code, rec.Body)
				}
				if !ran {
					wantProblem(t, rec, http.StatusConflict, "busy")
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
	if err != nil {
		t.Fatal(err)
	}
	var owners []lock.Owner
	for range 2 {
		if rec := r.guarded(t.Context()); rec.Code != http.StatusOK {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
		if a, b := l.leases[0].Owner(), l.leases[1].Owner(); a != b || a != inside || a == "" {
			t.Errorf("owners %q and %q, inside %q", a, b, inside)
		}
		if got := strings.Join(l.locked(), " "); got != "a:7 b:42" {
			t.Errorf("locked %s", got)
		}
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
	if rec := r.do(t, call{"POST", "/guarded/7", body, []string{"X-User-ID: 42"}}); rec.Code != http.StatusOK {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if len(read) != 1 || read[0] != body {
		t.Errorf("the handler read %q", read)
	}
	large := `{"n": 1, "pad": "` + strings.Repeat("x", 65<<10) + `"}`
	wantProblem(t, r.do(t, call{"POST", "/guarded/7", large, []string{"X-User-ID: 42"}}), http.StatusRequestEntityTooLarge, "payload_too_large")
	if len(read) != 1 || len(l.locked()) != 1 {
		t.Errorf("too large a body was read by the handler or locked %q", l.locked())
	}
}

// The audit has a guard. A request that fails authentication locks nothing.
func TestAuditIsGuarded(t *testing.T) {
	strict := newFixture(t)
	wantProblem(t, strict.do(t, call{"GET", "/api/v1/vouchers/1/audit", "", nil}), http.StatusUnauthorized, "unauthenticated")
	if l := strict.locks["reentrant"].(*fakeLocker); len(l.locked()) != 0 {
		t.Errorf("locked %q", l.locked())
	}
	r := newFixture(t, lab)
	l := r.locks["reentrant"].(*fakeLocker)
	for _, method := range []string{"GET", "HEAD"} {
		if rec := r.do(t, call{method, "/api/v1/vouchers/1/audit", "", nil}); rec.Code != http.StatusOK {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	}
	if got := strings.Join(l.locked(), " "); got != "audit:1 audit:1" || l.held() != 0 {
		t.Errorf("locked %s, %d left behind", got, l.held())
	}
	if got := l.opts[0]; got != (lock.Options{Wait: 2 * time.Second}) {
		t.Errorf("asked for %+v", got)
	}
	l.refuse = lock.ErrUnavailable
	if rec := r.do(t, call{"GET", "/api/v1/vouchers/1/audit", "", nil}); rec.Code != http.StatusOK {
		t.Errorf("without the lock's server: %d %s", rec.Code, rec.Body)
	}
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
	if err := r.api.GuardOrders("/guarded-orders/:id", httpapi.Guard{Key: "o:{path.id}:{user}", Lock: "reentrant"}); err != nil {
		t.Fatal(err)
	}
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
		if got := rec.Header().Get("Retry-After"); got != want {
			t.Errorf("the lease runs another %v: Retry-After %q, want %q", ttl, got, want)
		}
	}
}
