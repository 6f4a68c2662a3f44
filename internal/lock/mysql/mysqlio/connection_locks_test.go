package mysqlio_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/mysql/mysqlio"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// attempt is an attempt for a key that is always free. The function is its Try.
type attempt func(ctx context.Context, s *mysqlio.Session) error

func (a attempt) Try(ctx context.Context, s *mysqlio.Session) error { return a(ctx, s) }
func (attempt) Wait(context.Context, *mysqlio.Session) error        { return mysqlio.ErrTaken }
func (attempt) Check(context.Context, *mysqlio.Session) error       { return nil }
func (attempt) Free(ctx context.Context, s *mysqlio.Session) error  { return s.Exec(ctx, "DO 1") }
func (attempt) Clear(context.Context, *mysqlio.Session)             {}
func (attempt) Holder(context.Context, *mysqlio.Session) (mysqlio.Holder, error) {
	return mysqlio.Holder{}, nil
}

func newLocks(t *testing.T, db *sql.DB) *mysqlio.ConnectionLocks {
	t.Helper()
	locks, err := mysqlio.NewConnectionLocks(db, mysqlio.Config{CheckEvery: time.Second, Timeout: 500 * time.Millisecond})
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = locks.Close() })
	return locks
}

// A statement whose context ended before it was sent leaves the connection usable. The next statement must not succeed
// on it, because it could win a lock on a session that has been given up. The try is repeated on another session.
func TestNothingIsWonAfterStatementWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, db := pool(t)
		cl := newLocks(t, db)
		var sessions []uint64
		try := attempt(func(ctx context.Context, s *mysqlio.Session) error {
			sessions = append(sessions, s.ID())
			if len(sessions) > 1 {
				return s.Exec(ctx, "DO 1")
			}
			ended, cancel := context.WithCancel(ctx)
			cancel()
			fail.Unless(t, s.Exec(ended, "DO 1"), context.Canceled, "Exec under a context that has ended")
			if err := s.Exec(ctx, "DO 1"); err == nil {
				t.Error("Exec succeeded after a statement without an answer")
				return nil
			}
			if err := s.Scan(ctx, []any{new(int)}, "SELECT CONNECTION_ID()"); err == nil {
				t.Error("Scan succeeded after a statement without an answer")
			}
			return mysqlio.ErrLocked
		})
		lease, err := cl.Acquire(t.Context(), "seat", "me", lock.Options{}, try)
		fail.NowIf(t, err)
		if len(sessions) != 2 || sessions[0] == sessions[1] {
			t.Errorf("the tries were made on the connections %v, want two", sessions)
		}
		fail.If(t, lease.Release(t.Context()), "Release")
	})
}

// A pool whose connections commit no statement by themselves is refused, and the connection is not kept.
func TestPoolWithoutAutocommitIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, db := pool(t)
		server.noAutocommit = true
		cl := newLocks(t, db)
		_, err := cl.Acquire(t.Context(), "seat", "me", lock.Options{}, attempt(func(context.Context, *mysqlio.Session) error { return nil }))
		fail.Unless(t, err, mysqlio.ErrNoAutocommit)
		fail.Unequal(t, db.Stats().InUse, 0, "connections in use")
	})
}

// A grant after the end of the wait does not count: the driver may have closed the connection when the answer came.
func TestGrantAfterTheLimitIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, db := pool(t)
		cl := newLocks(t, db)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var id uint64
		lease, err := cl.Acquire(ctx, "seat", "me", lock.Options{},
			attempt(func(ctx context.Context, s *mysqlio.Session) error {
				id = s.ID()
				err := s.Exec(ctx, "DO 1")
				cancel()
				<-ctx.Done()
				return err
			}))
		if lease != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire = %v, %v; want context.Canceled", lease, err)
		}
		if server.knows(id) {
			t.Error("its connection is still there")
		}
	})
}

// crowded is an attempt for a taken key. It counts the waiters on the server.
type crowded struct {
	attempt
	waiting, most atomic.Int32
}

func (c *crowded) Wait(ctx context.Context, _ *mysqlio.Session) error {
	c.most.Store(max(c.most.Load(), c.waiting.Add(1)))
	defer c.waiting.Add(-1)
	select {
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
	}
	return mysqlio.ErrTaken
}

// However many callers wait for a key, only one of them has a connection for it.
func TestOneWaitsOnTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, db := pool(t)
		cl := newLocks(t, db)
		c := &crowded{attempt: func(context.Context, *mysqlio.Session) error { return mysqlio.ErrTaken }}
		began := time.Now()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				_, err := cl.Acquire(t.Context(), "seat", "me", lock.Options{Wait: 2 * time.Second}, c)
				if took := time.Since(began); !errors.Is(err, lock.ErrNotAcquired) || took != 2*time.Second {
					t.Errorf("Acquire = %v after %v, want ErrNotAcquired after 2 s", err, took)
				}
			})
		}
		all.Wait()
		fail.Unequal(t, c.most.Load(), 1, "waited on the server at once")
	})
}
