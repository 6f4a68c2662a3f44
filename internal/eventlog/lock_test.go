package eventlog_test

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lock"
	"seckill/internal/lock/local"
	"seckill/internal/lock/redis/rw"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// fake is a mechanism whose results a test sets.
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

func wantKinds(t *testing.T, events []eventlog.Event, want ...eventlog.Kind) {
	t.Helper()
	var got []eventlog.Kind
	for _, e := range events {
		got = append(got, e.Kind)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("recorded %v, want %v", got, want)
	}
}

func TestLeaseIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, w := newRecorder(t)
		f := &fake{
			grant: lock.Grant{Owner: "p:1", Token: 5, Until: time.Now().Add(time.Second)},
			state: lock.State{Owner: "q:9", Token: 6, TTL: 1500 * time.Microsecond},
		}
		l := eventlog.Locker("fenced", f, rec)
		ctx := eventlog.WithWho(lock.WithOwner(t.Context(), "p:1"), "buyer 17")
		held, err := l.Acquire(ctx, "seat", lock.Options{})
		fail.NowIf(t, err)
		acquired := time.Now()
		simulate.Sleep(1200 * time.Millisecond)
		releasing := time.Now()
		for range 2 { // the second release has no effect
			_ = held.Release(ctx)
		}
		lock.Abandon(held)

		events := w.events(t)
		wantKinds(t, events, eventlog.Acquiring, eventlog.Acquired, eventlog.Releasing, eventlog.Released)
		for _, e := range events {
			if e.Who != "buyer 17" || e.Process != "api-1" || e.Mechanism != "fenced" || e.Key != "seat" || e.Error != "" {
				t.Errorf("%+v", e)
			}
		}
		for i, e := range events {
			if e.Owner != "p:1" || e.Token != 5 && i > 0 { // the owner of the context is known from the first event on
				t.Errorf("%s is of %q with token %d", e.Kind, e.Owner, e.Token)
			}
		}
		if e := events[1]; e.At != acquired.UnixNano() || e.Began != events[0].At || *e.LeftMS != 1000 || e.Stored != nil {
			t.Errorf("acquired: %+v", e)
		}
		want := eventlog.Stored{Owner: "q:9", Token: 6, TTLMS: new(1.5)}
		if e := events[2]; e.At != releasing.UnixNano() || *e.LeftMS != -200 || e.Stored == nil || !reflect.DeepEqual(*e.Stored, want) {
			t.Errorf("releasing: %+v, stored %+v", e, e.Stored)
		}
		fail.Unequal(t, events[3].Began, events[2].At, "the release began")
	})
}

func TestRefusalNamesTheHolder(t *testing.T) {
	rec, w := newRecorder(t)
	for _, err := range []error{
		&lock.NotAcquiredError{Key: "seat", Holder: "q:9", TTL: time.Second},
		&lock.NotAcquiredError{Key: "seat", Holder: "q:9", TTL: lock.NoExpiry},
		&lock.NotAcquiredError{Key: "seat"},
		lock.ErrUnavailable,
	} {
		l := eventlog.Locker("lua", &fake{err: err}, rec)
		fail.Unless(t, fail.Of(l.Acquire(t.Context(), "seat", lock.Options{})), err, "Acquire")
		events := w.events(t)
		if e := events[len(events)-1]; e.Kind != eventlog.Refused || e.Error != err.Error() || e.Began != events[len(events)-2].At {
			t.Errorf("%+v", e)
		}
	}
	var stored []*eventlog.Stored
	for _, e := range w.events(t) {
		if e.Kind == eventlog.Refused {
			stored = append(stored, e.Stored)
		}
	}
	want := []*eventlog.Stored{{Owner: "q:9", TTLMS: new(1000.0)}, {Owner: "q:9"}, nil, nil}
	if !reflect.DeepEqual(stored, want) {
		t.Errorf("stored %v, want %v", stored, want)
	}
}

// A loss is recorded exactly once, also after the context of the acquisition has ended. A release is not a loss.
func TestLossIsRecordedOnce(t *testing.T) {
	for _, c := range []struct {
		name           string
		cancelled      bool
		lose, released bool
		abandoned      bool
		want           []eventlog.Kind
	}{
		{"lost", false, true, false, false, []eventlog.Kind{eventlog.Lost}},
		{"lost after the request", true, true, false, false, []eventlog.Kind{eventlog.Lost}},
		{"released", false, false, true, false, []eventlog.Kind{eventlog.Releasing, eventlog.Released}},
		{"released after the request", true, false, true, false, []eventlog.Kind{eventlog.Releasing, eventlog.Released}},
		{"lost, then released", false, true, true, false, []eventlog.Kind{eventlog.Lost, eventlog.Releasing, eventlog.Released}},
		{"abandoned, then released", false, false, true, true, []eventlog.Kind{eventlog.Abandoned}},
		{"neither", true, false, false, false, nil}, // no goroutine is left either
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec, w := newRecorder(t)
				f := &fake{grant: lock.Grant{Owner: "p:1"}}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				held, err := eventlog.Locker("reentrant", f, rec).Acquire(ctx, "seat", lock.Options{})
				fail.NowIf(t, err)
				if c.cancelled {
					cancel()
					synctest.Wait()
				}
				if c.lose {
					f.last.Lose(lock.ErrLost)
					synctest.Wait()
				}
				if c.abandoned {
					lock.Abandon(held)
				}
				if c.released {
					_ = held.Release(context.WithoutCancel(ctx))
				}
				synctest.Wait()
				events := w.events(t)
				wantKinds(t, events, append([]eventlog.Kind{eventlog.Acquiring, eventlog.Acquired}, c.want...)...)
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

// A release whose outcome is unknown can be repeated, and both are recorded. The end of one that panics is recorded
// too.
func TestEachReleaseIsRecorded(t *testing.T) {
	rec, w := newRecorder(t)
	answers := []error{lock.ErrUnavailable, lock.ErrExpired}
	f := &fake{grant: lock.Grant{Owner: "p:1", Release: func(context.Context) error {
		if len(answers) == 0 {
			panic("in the release")
		}
		err := answers[0]
		answers = answers[1:]
		return err
	}}}
	l := eventlog.Locker("lua", f, rec)
	held, err := l.Acquire(t.Context(), "seat", lock.Options{})
	fail.NowIf(t, err)
	for _, want := range []error{lock.ErrUnavailable, lock.ErrExpired, lock.ErrNotHeld} {
		fail.Unless(t, held.Release(t.Context()), want, "Release")
	}
	panics, err := l.Acquire(t.Context(), "seat", lock.Options{})
	fail.NowIf(t, err)
	func() {
		defer func() { _ = recover() }()
		_ = panics.Release(t.Context())
	}()
	events := w.events(t)
	wantKinds(t, events, eventlog.Acquiring, eventlog.Acquired, eventlog.Releasing, eventlog.Released, eventlog.Releasing, eventlog.Released,
		eventlog.Acquiring, eventlog.Acquired, eventlog.Releasing, eventlog.Released)
	for i, want := range map[int]string{3: lock.ErrUnavailable.Error(), 5: lock.ErrExpired.Error(), 9: "panic"} {
		fail.Unequal(t, events[i].Error, want, "event %d has the error", i)
	}
}

// A store that hangs delays a release by 200 ms at most.
func TestInspectionBeforeReleaseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, w := newRecorder(t)
		f := &fake{grant: lock.Grant{Owner: "p:1"}, inspect: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		held, err := eventlog.Locker("lua", f, rec).Acquire(t.Context(), "seat", lock.Options{})
		fail.NowIf(t, err)
		began := time.Now()
		if err := held.Release(t.Context()); err != nil || time.Since(began) != 200*time.Millisecond {
			t.Errorf("Release = %v after %v", err, time.Since(began))
		}
		if e := w.events(t)[2]; e.Kind != eventlog.Releasing || e.Stored != nil || e.Began != began.UnixNano() {
			t.Errorf("%+v", e)
		}
	})
}

func TestInspectAndForceReleasePassThrough(t *testing.T) {
	rec, _ := newRecorder(t)
	l := eventlog.Locker("lua", &fake{state: lock.State{Owner: "p:1"}}, rec)
	if s, err := l.(lock.Inspector).Inspect(t.Context(), "seat"); err != nil || s.Owner != "p:1" {
		t.Errorf("Inspect = %+v, %v", s, err)
	}
	if freed, err := l.(lock.ForceReleaser).ForceRelease(t.Context(), "seat"); err != nil || !freed {
		t.Errorf("ForceRelease = %v, %v", freed, err)
	}
	l = eventlog.Locker("local", local.New(), rec)
	if _, ok := l.(lock.Inspector); ok {
		t.Error("a mechanism that cannot be inspected is an Inspector")
	}
	if _, ok := l.(interface{ Reader() lock.Locker }); ok {
		t.Error("a mechanism without readers has a method Reader")
	}
}

func TestReadersAreRecordedAsReaders(t *testing.T) {
	rec, w := newRecorder(t)
	locker, err := rw.New(simulate.NewRedis(t).Client(t), rw.Config{})
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = locker.Close() })
	l := eventlog.Locker("rw", locker, rec)
	reader := l.(interface{ Reader() lock.Locker }).Reader()
	for _, side := range []lock.Locker{reader, l} {
		held, err := side.Acquire(t.Context(), "seat", lock.Options{})
		fail.NowIf(t, err)
		fail.NowIf(t, held.Release(t.Context()))
	}
	for i, e := range w.events(t) {
		fail.Unequal(t, e.Shared, (i < 4), "event %d, %s: shared", i, e.Kind)
		if e.Kind == eventlog.Releasing && (e.Stored == nil || e.Stored.Owner != e.Owner || e.Stored.TTLMS == nil) {
			t.Errorf("%+v, stored %+v", e, e.Stored)
		}
	}
}
