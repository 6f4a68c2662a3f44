package trace_test

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/local"
	"seckill/internal/lock/redis/naive"
	"seckill/internal/lock/redis/rw"
	"seckill/internal/testkit"
	"seckill/internal/trace"
)

// fake is a mechanism that does what a test says.
type fake struct {
	mu      sync.Mutex
	grant   lock.Grant
	err     error
	last    *lock.Held
	state   lock.State
	inspect func(context.Context) error
}

func (f *fake) Acquire(ctx context.Context, key string, _ lock.Options) (lock.Lease, error) {
	if f.err != nil {
		return nil, f.err
	}
	g := f.grant
	g.Key = key
	if g.Release == nil {
		g.Release = func(context.Context) error { return nil }
	}
	f.last = lock.NewHeld(ctx, g)
	return f.last, nil
}

func (f *fake) Inspect(ctx context.Context, _ string) (lock.State, error) {
	if f.inspect != nil {
		if err := f.inspect(ctx); err != nil {
			return lock.State{}, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state, nil
}

func (f *fake) ForceRelease(context.Context, string) (bool, error) { return true, nil }

// kinds lists what happened.
func kinds(events []trace.Event) []trace.Kind {
	var list []trace.Kind
	for _, e := range events {
		list = append(list, e.Kind)
	}
	return list
}

func wantKinds(t *testing.T, events []trace.Event, want ...trace.Kind) {
	t.Helper()
	if got := kinds(events); !reflect.DeepEqual(got, want) {
		t.Fatalf("recorded %v, want %v", got, want)
	}
}

func TestLeaseIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, w := recording(t)
		f := &fake{
			grant: lock.Grant{Owner: "p:1", Token: 5, Until: time.Now().Add(time.Second)},
			state: lock.State{Owner: "q:9", Token: 6, TTL: 1500 * time.Microsecond},
		}
		l := trace.Locker("fenced", f, rec)
		ctx := trace.WithWho(t.Context(), "buyer 17")
		held, err := l.Acquire(ctx, "seat", lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		acquired := time.Now()
		time.Sleep(1200 * time.Millisecond)
		releasing := time.Now()
		for range 2 { // the second has nothing to give, and changes nothing
			_ = held.Release(ctx)
		}
		held.Abandon()

		events := w.events(t)
		wantKinds(t, events, trace.Asked, trace.Acquired, trace.Releasing, trace.Released)
		for _, e := range events {
			if e.Who != "buyer 17" || e.Process != "api-1" || e.Mechanism != "fenced" || e.Key != "seat" || e.Error != "" {
				t.Errorf("%+v", e)
			}
		}
		for _, e := range events[1:] {
			if e.Owner != "p:1" || e.Token != 5 {
				t.Errorf("%s is of %q with token %d", e.Kind, e.Owner, e.Token)
			}
		}
		if e := events[1]; e.At != acquired.UnixNano() || e.Asked != events[0].At || *e.LeftMS != 1000 || e.Stored != nil {
			t.Errorf("acquired: %+v", e)
		}
		want := trace.Stored{Owner: "q:9", Token: 6, TTLMS: new(1.5)}
		if e := events[2]; e.At != releasing.UnixNano() || *e.LeftMS != -200 || e.Stored == nil || !reflect.DeepEqual(*e.Stored, want) {
			t.Errorf("releasing: %+v, stored %+v", e, e.Stored)
		}
		if e := events[3]; e.Asked != events[2].At {
			t.Errorf("released: %+v", e)
		}
	})
}

func TestOwnerOfTheContextIsKnownFromTheBeginning(t *testing.T) {
	rec, w := recording(t)
	l := trace.Locker("local", local.New(), rec)
	ctx := lock.WithOwner(t.Context(), "me")
	held, err := l.Acquire(ctx, "seat", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := held.Release(ctx); err != nil {
		t.Fatal(err)
	}
	for _, e := range w.events(t) {
		if e.Owner != "me" || e.LeftMS != nil {
			t.Errorf("%+v", e)
		}
	}
}

func TestRefusalSaysWhoHolds(t *testing.T) {
	rec, w := recording(t)
	for _, err := range []error{
		&lock.NotAcquiredError{Key: "seat", Holder: "q:9", TTL: time.Second},
		&lock.NotAcquiredError{Key: "seat", Holder: "q:9", TTL: lock.NoExpiry},
		&lock.NotAcquiredError{Key: "seat"},
		lock.ErrUnavailable,
	} {
		l := trace.Locker("lua", &fake{err: err}, rec)
		if _, got := l.Acquire(t.Context(), "seat", lock.Options{}); !errors.Is(got, err) {
			t.Errorf("Acquire = %v, want %v", got, err)
		}
		events := w.events(t)
		if e := events[len(events)-1]; e.Kind != trace.Refused || e.Error != err.Error() || e.Asked != events[len(events)-2].At {
			t.Errorf("%+v", e)
		}
	}
	var stored []*trace.Stored
	for _, e := range w.events(t) {
		if e.Kind == trace.Refused {
			stored = append(stored, e.Stored)
		}
	}
	want := []*trace.Stored{{Owner: "q:9", TTLMS: new(1000.0)}, {Owner: "q:9"}, nil, nil}
	if !reflect.DeepEqual(stored, want) {
		t.Errorf("stored %v, want %v", stored, want)
	}
}

// The holder is told at once, also where the request it was asked for has ended; and
// a release is no loss.
func TestLossIsRecordedOnce(t *testing.T) {
	for _, c := range []struct {
		name           string
		cancelled      bool
		lose, released bool
		want           []trace.Kind
	}{
		{"lost", false, true, false, []trace.Kind{trace.Lost}},
		{"lost after the request", true, true, false, []trace.Kind{trace.Lost}},
		{"released", false, false, true, []trace.Kind{trace.Releasing, trace.Released}},
		{"released after the request", true, false, true, []trace.Kind{trace.Releasing, trace.Released}},
		{"lost, then released", false, true, true, []trace.Kind{trace.Lost, trace.Releasing, trace.Released}},
		{"neither", true, false, false, nil}, // and nothing is left running
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec, w := recording(t)
				f := &fake{grant: lock.Grant{Owner: "p:1"}}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				held, err := trace.Locker("reentrant", f, rec).Acquire(ctx, "seat", lock.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if c.cancelled {
					cancel()
					synctest.Wait()
				}
				if c.lose {
					f.last.Lose(lock.ErrLost)
					synctest.Wait()
				}
				if c.released {
					_ = held.Release(context.WithoutCancel(ctx))
				}
				synctest.Wait()
				events := w.events(t)
				wantKinds(t, events, append([]trace.Kind{trace.Asked, trace.Acquired}, c.want...)...)
				want := lock.ErrLost.Error()
				if c.cancelled {
					want = "lost after the context of the acquisition had ended"
				}
				if c.lose && events[2].Error != want {
					t.Errorf("lost because of %q, want %q", events[2].Error, want)
				}
			})
		})
	}
}

// A release whose outcome is unknown can be made again, and both are recorded. One
// that panics ends, too.
func TestReleaseIsRecordedAsItWent(t *testing.T) {
	rec, w := recording(t)
	answers := []error{lock.ErrUnavailable, lock.ErrExpired}
	f := &fake{grant: lock.Grant{Owner: "p:1", Release: func(context.Context) error {
		if len(answers) == 0 {
			panic("in the release")
		}
		err := answers[0]
		answers = answers[1:]
		return err
	}}}
	l := trace.Locker("lua", f, rec)
	held, err := l.Acquire(t.Context(), "seat", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []error{lock.ErrUnavailable, lock.ErrExpired, lock.ErrNotHeld} {
		if err := held.Release(t.Context()); !errors.Is(err, want) {
			t.Errorf("Release = %v, want %v", err, want)
		}
	}
	panics, err := l.Acquire(t.Context(), "seat", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = panics.Release(t.Context())
	}()
	events := w.events(t)
	wantKinds(t, events, trace.Asked, trace.Acquired, trace.Releasing, trace.Released, trace.Releasing, trace.Released,
		trace.Asked, trace.Acquired, trace.Releasing, trace.Released)
	for i, want := range map[int]string{3: lock.ErrUnavailable.Error(), 5: lock.ErrExpired.Error(), 9: "panic"} {
		if events[i].Error != want {
			t.Errorf("event %d says %q, want %q", i, events[i].Error, want)
		}
	}
}

func TestAbandonedIsRecorded(t *testing.T) {
	rec, w := recording(t)
	l := trace.Locker("setnx", &fake{grant: lock.Grant{Owner: "p:1"}}, rec)
	held, err := l.Acquire(t.Context(), "seat", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	held.Abandon()
	if err := held.Release(t.Context()); !errors.Is(err, lock.ErrNotHeld) {
		t.Errorf("Release = %v", err)
	}
	wantKinds(t, w.events(t), trace.Asked, trace.Acquired, trace.Abandoned)
}

// A store that hangs delays a release by no more than a moment.
func TestPeekIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, w := recording(t)
		f := &fake{grant: lock.Grant{Owner: "p:1"}, inspect: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		held, err := trace.Locker("lua", f, rec).Acquire(t.Context(), "seat", lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := held.Release(t.Context()); err != nil || time.Since(began) != 200*time.Millisecond {
			t.Errorf("Release = %v after %v", err, time.Since(began))
		}
		if e := w.events(t)[2]; e.Kind != trace.Releasing || e.Stored != nil || e.Asked != began.UnixNano() {
			t.Errorf("%+v", e)
		}
	})
}

func TestDecoratorPassesOnWhatOperatorsAsk(t *testing.T) {
	rec, _ := recording(t)
	l := trace.Locker("lua", &fake{state: lock.State{Owner: "p:1"}}, rec)
	if s, err := l.(lock.Inspector).Inspect(t.Context(), "seat"); err != nil || s.Owner != "p:1" {
		t.Errorf("Inspect = %+v, %v", s, err)
	}
	if freed, err := l.(lock.Breaker).ForceRelease(t.Context(), "seat"); err != nil || !freed {
		t.Errorf("ForceRelease = %v, %v", freed, err)
	}
	l = trace.Locker("local", local.New(), rec)
	if _, err := l.(lock.Inspector).Inspect(t.Context(), "seat"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Inspect = %v", err)
	}
	if _, err := l.(lock.Breaker).ForceRelease(t.Context(), "seat"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("ForceRelease = %v", err)
	}
	if _, ok := l.(interface{ Reader() lock.Locker }); ok {
		t.Error("a mechanism without readers got them")
	}
}

// What nobody waits for any more is given back, recorded as such.
func TestAsyncThroughTheDecorator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, w := recording(t)
		ctx, cancel := context.WithCancel(t.Context())
		results := lock.Async(ctx, trace.Locker("local", local.New(), rec), "seat", lock.Options{})
		synctest.Wait()
		cancel()
		synctest.Wait()
		if r := <-results; !errors.Is(r.Err, context.Canceled) {
			t.Errorf("%+v", r)
		}
		wantKinds(t, w.events(t), trace.Asked, trace.Acquired, trace.Releasing, trace.Released)
	})
}

func TestReadersAreRecordedAsReaders(t *testing.T) {
	rec, w := recording(t)
	locker, err := rw.New(testkit.Redis(t).Client(t), rw.Config{Prefix: testkit.KeyPrefix(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locker.Close() })
	l := trace.Locker("rw", locker, rec)
	reader := l.(interface{ Reader() lock.Locker }).Reader()
	for _, side := range []lock.Locker{reader, l} {
		held, err := side.Acquire(t.Context(), "seat", lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i, e := range w.events(t) {
		if e.Shared != (i < 4) {
			t.Errorf("event %d, %s, is shared: %v", i, e.Kind, e.Shared)
		}
		if e.Kind == trace.Releasing && (e.Stored == nil || e.Stored.Owner != e.Owner || e.Stored.TTLMS == nil) {
			t.Errorf("%+v, stored %+v", e, e.Stored)
		}
	}
}

// The naive lock's wrong release, as its victim's events prove it.
func TestRobbedHolderIsSeen(t *testing.T) {
	rec, w := recording(t)
	client := testkit.Redis(t).Client(t)
	locker, err := naive.New(client, naive.Config{Prefix: testkit.KeyPrefix(t)})
	if err != nil {
		t.Fatal(err)
	}
	l := trace.Locker("naive", locker, rec)
	late, err := l.Acquire(trace.WithWho(t.Context(), "buyer 1"), "seat", lock.Options{TTL: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	victim, err := l.Acquire(trace.WithWho(t.Context(), "buyer 2"), "seat", lock.Options{TTL: time.Minute, Wait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for _, lease := range []lock.Lease{late, victim} {
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range w.events(t) {
		if e.Kind != trace.Releasing {
			continue
		}
		switch e.Who {
		case "buyer 1":
			if *e.LeftMS >= 0 || e.Stored.Owner != string(victim.Owner()) || *e.Stored.TTLMS < 1 {
				t.Errorf("the late holder: %+v, stored %+v", e, e.Stored)
			}
		case "buyer 2":
			if *e.LeftMS <= 0 || e.Stored.Owner != "" || e.Stored.TTLMS != nil {
				t.Errorf("the victim: %+v, stored %+v", e, e.Stored)
			}
		}
	}
}
