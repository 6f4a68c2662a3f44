package mysqlio_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest/mysqlstore"
	"seckill/internal/lock/mysql/mysqlio"
	"seckill/internal/testkit"
)

// watched is an attempt for a free key with the test's own check and clean-up.
type watched struct {
	attempt
	check func(ctx context.Context) error
	clear func()
	freed atomic.Int32
}

func (w *watched) Check(ctx context.Context, _ *mysqlio.Session) error { return w.check(ctx) }

func (w *watched) Clear(context.Context, *mysqlio.Session) {
	if w.clear != nil {
		w.clear()
	}
}

func (w *watched) Free(ctx context.Context, s *mysqlio.Session) error {
	w.freed.Add(1)
	return w.attempt.Free(ctx, s)
}

func free(ctx context.Context, s *mysqlio.Session) error { return s.Exec(ctx, "DO 1") }

func newFrequentLocks(t *testing.T, where testkit.Database) *mysqlio.ConnectionLocks {
	t.Helper()
	config := mysqlio.Config{CheckEvery: 50 * time.Millisecond, Timeout: 500 * time.Millisecond}
	locks, err := mysqlio.NewConnectionLocks(mysqlstore.Pool(t, where, nil), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close() })
	return locks
}

// When a holder's session ends, another owner can get the key. The holder must have been
// told before, with the reason as far as it is known.
func TestHolderIsToldBeforeItsSessionEnds(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		cl := newFrequentLocks(t, engine(t))
		for _, tc := range []struct {
			name  string
			check func(ctx context.Context) error
			want  error
		}{
			{"denied", func(context.Context) error { return lock.ErrExpired }, lock.ErrExpired},
			{"without an answer", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, lock.ErrUnavailable},
		} {
			start := make(chan lock.Lease, 1)
			var lease lock.Lease
			var told atomic.Bool
			w := &watched{attempt: free}
			w.check = func(ctx context.Context) error {
				if lease == nil {
					lease = <-start
				}
				return tc.check(ctx)
			}
			w.clear = func() { // the session has just ended
				select {
				case <-lease.Lost():
					told.Store(true)
				default:
					t.Errorf("%s: the session ended before the holder was told", tc.name)
				}
			}
			held, err := cl.Acquire(t.Context(), "seat", "me", lock.Options{}, w)
			if err != nil {
				t.Fatal(err)
			}
			start <- held
			select {
			case <-held.Lost():
			case <-time.After(time.Minute):
				t.Fatalf("%s: the holder was never told", tc.name)
			}
			if cause := context.Cause(held.Context()); !errors.Is(cause, tc.want) {
				t.Errorf("%s: the holder was told %v, want %v", tc.name, cause, tc.want)
			}
			if err := held.Release(t.Context()); !errors.Is(err, lock.ErrExpired) {
				t.Errorf("%s: Release = %v, want ErrExpired", tc.name, err)
			}
			if !told.Load() {
				t.Errorf("%s: the session did not end", tc.name)
			}
		}
	})
}

// A release that cannot wait for the end of a check is finished later.
func TestReleaseDuringCheckIsFinished(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		cl := newFrequentLocks(t, engine(t))
		checking, goOn := make(chan struct{}), make(chan struct{})
		w := &watched{attempt: free}
		begun := sync.OnceFunc(func() { close(checking) }) // a second check may have become due meanwhile
		w.check = func(context.Context) error {
			begun()
			<-goOn
			return nil
		}
		held, err := cl.Acquire(t.Context(), "seat", "me", lock.Options{}, w)
		if err != nil {
			t.Fatal(err)
		}
		<-checking
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := held.Release(ended); !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("a release that did not wait gave %v, want ErrUnavailable", err)
		}
		close(goOn)
		for limit := time.Now().Add(time.Minute); w.freed.Load() == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatal("the key was never freed")
			}
		}
		if err := held.Release(t.Context()); err != nil {
			t.Errorf("the repeated release = %v", err)
		}
		if n := w.freed.Load(); n != 1 {
			t.Errorf("the key was freed %d times", n)
		}
	})
}

// An extension does not keep a caller whose context has ended waiting, however long the check
// takes. The lock stays with its holder.
func TestExtendDuringCheckEndsWithItsContext(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		cl := newFrequentLocks(t, engine(t))
		checking, goOn := make(chan struct{}), make(chan struct{})
		letGo := sync.OnceFunc(func() { close(goOn) })
		defer letGo()
		w := &watched{attempt: free}
		begun := sync.OnceFunc(func() { close(checking) })
		w.check = func(context.Context) error {
			begun()
			<-goOn
			return nil
		}
		held, err := cl.Acquire(t.Context(), "seat", "me", lock.Options{TTL: time.Minute}, w)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		extended := make(chan error, 1)
		go func() { extended <- held.Extend(ctx, time.Hour) }()
		<-checking
		cancel()
		select {
		case err := <-extended:
			if !errors.Is(err, lock.ErrUnavailable) {
				t.Errorf("Extend = %v, want ErrUnavailable", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("Extend waits for the check although its context has ended")
		}
		letGo()
		if err := held.Extend(t.Context(), time.Minute); err != nil {
			t.Errorf("Extend after the check = %v", err)
		}
		if err := held.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
	})
}
