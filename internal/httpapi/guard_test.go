package httpapi_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/httpapi"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// guardRoute adds POST /guarded/:id for users.
func guardRoute(t testing.TB, r *fixture, g httpapi.Guard, work func(context.Context) error) {
	t.Helper()
	g.Key, g.Lock = cmp.Or(g.Key, "g:#id"), "reentrant"
	fail.NowIf(t, r.api.AddGuarded("POST", "/guarded/:id", true, func(ctx context.Context, _ func() ([]byte, error)) error { return work(ctx) }, &g))
}

func (r *fixture) guarded(ctx context.Context) *httptest.ResponseRecorder {
	return r.serve(ctx, "POST", "/guarded/7", "X-User-ID: 42")
}

// What becomes of a request that waits for its lock, cannot have it, or loses it. If it was lost, the handler's answer
// is not sent, whatever it is. A lock that only saves work (best effort) prevents none; after a wait that timed out,
// which does not show the reason, its server is asked. Whatever ends a request, a panic or its client, no lease stays
// behind.
func TestGuard(t *testing.T) {
	type guard = httpapi.Guard
	lose := func(l *fakeLocker) { l.last().Lose(lock.ErrLost) }
	never := func(ctx context.Context, _ *fakeLocker) error { <-ctx.Done(); return ctx.Err() }
	releasing := func(err error) func(context.Context, *fakeLocker) error {
		return func(_ context.Context, l *fakeLocker) error { l.releasing = err; return nil }
	}
	const lost, without = `lost the lock on \"g:7\"`, "carried out without its lock"
	away, timedOut := fmt.Errorf("%w: dial", lock.ErrUnavailable), &lock.NotAcquiredError{Key: "g:7"}
	for _, c := range []struct {
		name        string
		guard       guard
		held, after time.Duration // how long another request holds the key; when the request is answered
		refuse      error         // of the lock
		server      *inspectable  // the lock's server, if it can be asked
		work        func(ctx context.Context, l *fakeLocker) error
		status      int // 200: the handler's own answer
		code, log   string
	}{
		{"its turn comes", guard{Wait: 2e9}, 1e9, 1e9, nil, nil, nil, 200, "", ""},
		{"its turn does not come", guard{Wait: 2e9}, 5e9, 2e9, nil, nil, nil, 409, "busy", ""},
		{"it does not wait", guard{}, 1e9, 0, nil, nil, nil, 409, "busy", ""},
		{"its client leaves the wait", guard{Wait: 10e9}, 9e9, 8e9, nil, nil, nil, 499, "client_gone", ""},
		{"its client leaves", guard{}, 0, 8e9, nil, nil, never, 499, "client_gone", ""},
		{"it panics", guard{}, 0, 0, nil, nil, func(context.Context, *fakeLocker) error { panic("oops") }, 500, "internal", ""},
		{"told, and stops", guard{}, 0, 0, nil, nil, func(ctx context.Context, l *fakeLocker) error { lose(l); return never(ctx, l) }, 503, "unavailable", lost},
		{"told, and succeeds", guard{}, 0, 0, nil, nil, func(_ context.Context, l *fakeLocker) error { lose(l); return nil }, 503, "unavailable", lost},
		{"told, and refuses", guard{}, 0, 0, nil, nil, func(_ context.Context, l *fakeLocker) error { lose(l); return order.ErrAlreadyOrdered }, 503, "unavailable", lost},
		{"found out at the release: lost", guard{}, 0, 0, nil, nil, releasing(lock.ErrLost), 503, "unavailable", lost},
		{"found out at the release: expired", guard{}, 0, 0, nil, nil, releasing(lock.ErrExpired), 503, "unavailable", lost},
		{"by the clock only", guard{}, 0, 0, nil, nil, func(_ context.Context, l *fakeLocker) error { l.last().Renewed(time.Now().Add(-1)); return nil }, 503, "unavailable", lost},
		{"held, the release has no outcome", guard{}, 0, 0, nil, nil, releasing(lock.ErrUnavailable), 200, "", ""},
		{"held", guard{}, 0, 0, nil, nil, func(context.Context, *fakeLocker) error { return order.ErrAlreadyOrdered }, 409, "already_ordered", ""},
		{"server away", guard{}, 0, 0, away, nil, nil, 503, "unavailable", ""},
		{"deadline", guard{}, 0, 0, context.DeadlineExceeded, nil, nil, 503, "unavailable", ""},
		{"broken", guard{}, 0, 0, errors.New("dial secret-host"), nil, nil, 500, "internal", ""},
		{"held, best effort", guard{BestEffort: true}, 0, 0, nil, nil, releasing(nil), 200, "", ""},
		{"lost, best effort", guard{BestEffort: true}, 0, 0, nil, nil, func(ctx context.Context, l *fakeLocker) error { lose(l); return ctx.Err() }, 200, "", ""},
		{"server away, best effort", guard{BestEffort: true}, 0, 0, away, nil, nil, 200, "", without},
		{"busy, best effort", guard{BestEffort: true}, 0, 0, timedOut, nil, nil, 409, "busy", ""},
		{"broken, best effort", guard{BestEffort: true}, 0, 0, lock.ErrWrongKind, nil, nil, 500, "internal", ""},
		{"timed out, the server answers", guard{BestEffort: true}, 0, 0, timedOut, &inspectable{state: lock.State{Owner: "other", Count: 1}}, nil, 409, "busy", ""},
		{"timed out, the key is free by now", guard{BestEffort: true}, 0, 0, timedOut, &inspectable{}, nil, 409, "busy", ""},
		{"timed out, the server hangs", guard{BestEffort: true}, 0, 500e6, timedOut, &inspectable{hangs: true}, nil, 200, "", without},
		{"timed out, the server is away", guard{BestEffort: true}, 0, 0, timedOut, &inspectable{err: away}, nil, 200, "", without},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newFixture(t, lab)
			l := r.locks["reentrant"].(*fakeLocker)
			if l.refuse = c.refuse; c.server != nil {
				c.server.fakeLocker = l
				r.locks["reentrant"] = c.server
			}
			if c.held > 0 {
				other, err := l.Acquire(t.Context(), "g:7", lock.Options{})
				fail.NowIf(t, err)
				time.AfterFunc(c.held, func() { fail.If(t, other.Release(t.Context())) })
			}
			ran := false
			guardRoute(t, r, c.guard, func(ctx context.Context) error {
				if ran = true; c.work == nil {
					return nil
				}
				return c.work(ctx, l)
			})
			ctx, hangUp := context.WithCancel(t.Context())
			defer time.AfterFunc(8*time.Second, hangUp).Stop()
			begun := time.Now()
			rec := r.guarded(ctx)
			fail.Unequal(t, time.Since(begun), c.after, "%s: answered after", c.name)
			if c.status != http.StatusOK {
				wantProblem(t, rec, c.status, c.code)
			}
			simulate.Sleep(c.held + 1)
			synctest.Wait()
			if want := c.work != nil || c.status == http.StatusOK; rec.Code != c.status || ran != want || l.held() != 0 {
				t.Errorf("%s: %d; the handler ran: %v, want %v; %d leases left behind", c.name, rec.Code, ran, want, l.held())
			}
			for _, line := range []string{lost, without} {
				fail.Unequal(t, strings.Contains(r.log.String(), line), line == c.log, "%s: the log says %q", c.name, line)
			}
		})
	}
}

// The audit has a guard. A request that fails authentication locks nothing. Each request is an owner of its own.
func TestAuditIsGuarded(t *testing.T) {
	strict := newFixture(t)
	wantProblem(t, get(strict.handler, "/api/v1/vouchers/1/audit"), http.StatusUnauthorized, "unauthenticated")
	fail.Unequal(t, len(strict.locks["reentrant"].(*fakeLocker).keys), 0, "locked by a stranger")
	r := newFixture(t, lab)
	l := r.locks["reentrant"].(*fakeLocker)
	for _, method := range []string{"GET", "HEAD"} {
		r.want(t, call{method, "/api/v1/vouchers/1/audit", "", nil}, http.StatusOK)
	}
	if got := strings.Join(l.keys, " "); got != "audit:1 audit:1" || l.held() != 0 || l.leases[0].Owner() == l.last().Owner() {
		t.Errorf("locked %s, %d left behind; owner %s", got, l.held(), l.last().Owner())
	}
	fail.Unequal(t, l.opts[0], (lock.Options{Wait: 2 * time.Second}), "asked for")
	l.refuse = lock.ErrUnavailable
	r.want(t, call{"GET", "/api/v1/vouchers/1/audit", "", nil}, http.StatusOK)
}

// The keys of two requests are equal only if all their values are. The work runs as the owner of the lease.
func TestGuardKey(t *testing.T) {
	for _, c := range [][3]string{ // the declaration, the path, the key; "": refused
		{"report", "/7", "report"},
		{"audit:#id", "/7", "audit:7"},
		{"order:#user:#id", "/a:b%7B%00%FF", "order:42:a%3Ab%7B%00%FF"},
		{"o:#id", "/" + strings.Repeat("x", 254), "o:" + strings.Repeat("x", 254)},
		{"o:#id", "/" + strings.Repeat(":", 100), ""},
	} {
		r := newFixture(t, lab)
		var inside lock.Owner
		l := r.locks["reentrant"].(*fakeLocker)
		guardRoute(t, r, httpapi.Guard{Key: c[0]}, func(ctx context.Context) error { inside, _ = lock.OwnerFrom(ctx); return nil })
		rec := r.serve(t.Context(), "POST", "/guarded"+c[1], "X-User-ID: 42")
		if c[2] == "" {
			wantProblem(t, rec, http.StatusBadRequest, "invalid_request")
		} else if rec.Code != http.StatusOK || inside == "" || inside != l.last().Owner() {
			t.Errorf("%d %s, inside %q", rec.Code, rec.Body, inside)
		}
		fail.Unequal(t, strings.Join(l.keys, " "), c[2], "%s of %s", c[0], c[1])
	}
}

// A wrong declaration keeps the service from starting.
func TestGuardsAreChecked(t *testing.T) {
	for want, g := range map[string]httpapi.Guard{
		"unknown mechanism":           {Key: "k", Lock: "padlock"},
		"the wait limit is negative":  {Key: "k", Lock: "reentrant", Wait: -1},
		"the wait limit is 1h0m0s":    {Key: "k", Lock: "reentrant", Wait: time.Hour},
		`has no #name; it has ["id"]`: {Key: "o:#name", Lock: "reentrant"},
		`"#user": the route has no`:   {Key: "#user", Lock: "reentrant"},
		"the key is empty":            {Lock: "reentrant"},
	} {
		err := newFixture(t).api.AddGuarded("POST", "/x/:id", false, nil, &g)
		if err == nil || !strings.Contains(err.Error(), "httpapi: guard of POST /x/:id: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	_, err := httpapi.New(httpapi.Config{}, newFixture(t).deps(fakeLocks{"lua": newFakeLocker()}))
	if err == nil || !strings.Contains(err.Error(), "guard of GET /api/v1/vouchers/:id/audit") {
		t.Errorf("an API without the mechanism of a guard: %v", err)
	}
}
