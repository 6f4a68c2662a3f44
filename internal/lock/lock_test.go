package lock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestCheck(t *testing.T) {
	right := []struct {
		key  string
		opts lock.Options
	}{
		{"seat", lock.Options{}},
		{strings.Repeat("k", lock.MaxKey), lock.Options{TTL: lock.MinTTL, Wait: time.Hour}},
		{"座位:1", lock.Options{TTL: lock.MaxTTL}},
	}
	for _, c := range right {
		fail.If(t, lock.Check(c.key, c.opts), "%q, %+v", c.key, c.opts)
	}
	wrong := map[string]struct {
		key  string
		opts lock.Options
	}{
		"an empty key":       {"", lock.Options{}},
		"an overlong key":    {strings.Repeat("k", lock.MaxKey+1), lock.Options{}},
		"an opening brace":   {"a{b", lock.Options{}},
		"a closing brace":    {"a}b", lock.Options{}},
		"a negative wait":    {"seat", lock.Options{Wait: -1}},
		"a negative lease":   {"seat", lock.Options{TTL: -time.Second}},
		"a lease below a ms": {"seat", lock.Options{TTL: lock.MinTTL - 1}},
		"a lease too long":   {"seat", lock.Options{TTL: lock.MaxTTL + 1}},
	}
	for what, c := range wrong {
		fail.Unless(t, lock.Check(c.key, c.opts), lock.ErrInvalid, "%s: Check", what)
	}
}

func TestNotAcquiredError(t *testing.T) {
	var err error = &lock.NotAcquiredError{Key: "seat", Holder: "them", TTL: 3 * time.Second}
	if !errors.Is(err, lock.ErrNotAcquired) || errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("%v: want ErrNotAcquired and no other error", err)
	}
	fail.Without(t, err.Error(), "seat", "them", "3s")
	if text := (&lock.NotAcquiredError{Key: "seat"}).Error(); strings.Contains(text, "held by") {
		t.Errorf("%q names an unknown holder", text)
	}
	if text := (&lock.NotAcquiredError{Key: "seat", TTL: lock.NoExpiry}).Error(); strings.Contains(text, "for another") {
		t.Errorf("%q gives an end to a lease that has none", text)
	}
}

func TestOwners(t *testing.T) {
	const goroutines, each = 8, 500
	one, other := lock.NewOwners(), lock.NewOwners()
	var mu sync.Mutex
	seen := make(map[lock.Owner]bool)
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range each {
				a, b := one.New(), other.New()
				mu.Lock()
				seen[a], seen[b] = true, true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(seen) != 2*goroutines*each || seen[""] {
		t.Errorf("%d different owners, want %d and none empty", len(seen), 2*goroutines*each)
	}
}

func TestOwnerInContext(t *testing.T) {
	owners := lock.NewOwners()
	if owner, ok := lock.OwnerFrom(t.Context()); ok {
		t.Errorf("a bare context has the owner %q", owner)
	}
	if one, other := owners.From(t.Context()), owners.From(t.Context()); one == other {
		t.Error("two acquisitions without an owner have the same")
	}
	mine := lock.WithOwner(t.Context(), "me")
	fail.Unequal(t, owners.From(mine), "me", "the owner in the context")
	fail.Unequal(t, owners.From(lock.WithOwner(mine, "somebody else")), "somebody else", "the inner owner hides the outer one")
	if _, ok := lock.OwnerFrom(lock.WithOwner(t.Context(), "")); ok {
		t.Error("an empty owner counts as one")
	}
}

func TestPollingUntilFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, free := time.Now(), time.Now().Add(time.Second)
		tries := 0
		var g grant
		polling := lock.Polling{Every: 10 * time.Millisecond}
		lease, err := polling.Acquire(t.Context(), 3*time.Second, func(ctx context.Context) (lock.Lease, error) {
			if tries++; time.Now().Before(free) {
				return nil, lock.ErrNotAcquired
			}
			return g.hold(ctx, time.Time{}), nil
		})
		if err != nil || lease == nil {
			t.Fatalf("Acquire = %v, %v", lease, err)
		}
		if late := time.Since(began) - time.Second; late < 0 || late > 15*time.Millisecond {
			t.Errorf("it acquired %v late, want 15 ms at most", late)
		}
		if tries < 67 || tries > 200 {
			t.Errorf("%d tries in a second, want about 100", tries)
		}
	})
}

func TestPollingEnds(t *testing.T) {
	broken := errors.New("broken")
	const soon = 300 * time.Millisecond
	cases := map[string]struct {
		wait, timeout time.Duration
		then          error // what a try gives after 100 ms
		want          error
		after         time.Duration
	}{
		"at once":           {timeout: time.Hour, want: lock.ErrNotAcquired},
		"at its limit":      {wait: soon, timeout: time.Hour, want: lock.ErrNotAcquired, after: soon},
		"with its context":  {wait: time.Hour, timeout: soon, want: context.DeadlineExceeded, after: soon},
		"at the first fail": {wait: time.Hour, timeout: time.Hour, then: broken, want: broken, after: 100 * time.Millisecond},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
				defer cancel()
				began := time.Now()
				_, err := lock.Polling{}.Acquire(ctx, c.wait, func(context.Context) (lock.Lease, error) {
					if c.then != nil && time.Since(began) >= 100*time.Millisecond {
						return nil, c.then
					}
					return nil, lock.ErrNotAcquired
				})
				fail.Unless(t, err, c.want, "Acquire")
				if took := time.Since(began); took < c.after || took > c.after+15*time.Millisecond {
					t.Errorf("it ended after %v, want %v", took, c.after)
				}
			})
		})
	}
}

func TestCatalogue(t *testing.T) {
	seen := make(map[string]bool)
	for _, m := range lock.Catalogue() {
		if seen[m.Name] {
			t.Errorf("%q is there twice", m.Name)
		}
		seen[m.Name] = true
		if found, err := lock.Lookup(m.Name); err != nil || found != m {
			t.Errorf("Lookup(%q) = %+v, %v", m.Name, found, err)
		}
	}
	for _, weak := range []string{
		"none", "local", "setnx", "setnx-expire", "naive", "thread-id", "uuid", "uuid-wrong-key", "mysql-row",
	} {
		if m, err := lock.Lookup(weak); err != nil || m.Safe {
			t.Errorf("%q counts as safe: %+v, %v", weak, m, err)
		}
	}
	if m, err := lock.Lookup("reentrant"); err != nil || !m.Safe {
		t.Errorf("Lookup(reentrant) = %+v, %v", m, err)
	}
	_, err := lock.Lookup("padlock")
	if !errors.Is(err, lock.ErrUnknown) || !strings.Contains(err.Error(), "reentrant") {
		t.Errorf("Lookup(padlock) = %v, want ErrUnknown and the known names", err)
	}
}

// nothing is a locker that grants nothing.
type nothing struct{ name string }

func (nothing) Acquire(context.Context, string, lock.Options) (lock.Lease, error) {
	return nil, lock.ErrNotAcquired
}

func TestRegistry(t *testing.T) {
	r, err := lock.NewRegistry(map[string]lock.Locker{"lua": nothing{"lua"}, "none": nothing{"none"}})
	fail.NowIf(t, err)
	if names := r.Names(); !slices.Equal(names, []string{"none", "lua"}) {
		t.Errorf("Names = %v, want the catalogue's order", names)
	}
	if l, err := r.Locker("lua"); err != nil || l != (nothing{"lua"}) {
		t.Errorf("Locker(lua) = %v, %v", l, err)
	}
	if _, err := r.Locker("fair"); !errors.Is(err, lock.ErrNotConfigured) || !strings.Contains(err.Error(), "none, lua") {
		t.Errorf("Locker(fair) = %v, want ErrNotConfigured and the configured names", err)
	}
	fail.Unless(t, fail.Of(r.Locker("padlock")), lock.ErrUnknown, "Locker(padlock)")
	fail.Unless(t, fail.Of(lock.NewRegistry(map[string]lock.Locker{"padlock": nothing{}})), lock.ErrUnknown, "NewRegistry with a padlock")
	fail.Unless(t, fail.Of(lock.NewRegistry(map[string]lock.Locker{"lua": nil})), lock.ErrInvalid, "NewRegistry with nothing")
}
