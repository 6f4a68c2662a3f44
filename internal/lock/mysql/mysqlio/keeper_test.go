package mysqlio_test

import (
	"context"
	"database/sql"
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

func TestMain(m *testing.M) { testkit.Main(m) }

// claim is a key that is always free. Its function is what a try does.
type claim func(ctx context.Context, s *mysqlio.Session) error

func (c claim) Try(ctx context.Context, s *mysqlio.Session) error { return c(ctx, s) }
func (claim) Wait(context.Context, *mysqlio.Session) error        { return mysqlio.ErrTaken }
func (claim) Check(context.Context, *mysqlio.Session) error       { return nil }
func (claim) Free(ctx context.Context, s *mysqlio.Session) error  { return s.Exec(ctx, "DO 1") }
func (claim) Clear(context.Context, *mysqlio.Session)             {}
func (claim) Holder(context.Context, *mysqlio.Session) (mysqlio.Holder, error) {
	return mysqlio.Holder{}, nil
}

func keeper(t *testing.T, db *sql.DB) *mysqlio.Keeper {
	t.Helper()
	k, err := mysqlio.NewKeeper(db, mysqlio.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	return k
}

// A statement whose context ended before it was sent does no harm to the connection,
// so that the next one would succeed, and with it a lock be won on a session that is
// given up already. The try is made again on another one.
func TestNothingIsWonAfterStatementWithoutAnswer(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		k := keeper(t, mysqlstore.Pool(t, engine(t), nil))
		var sessions []uint64
		try := claim(func(ctx context.Context, s *mysqlio.Session) error {
			sessions = append(sessions, s.ID())
			if len(sessions) > 1 {
				return s.Exec(ctx, "DO 1")
			}
			ended, cancel := context.WithCancel(ctx)
			cancel()
			if err := s.Exec(ended, "DO 1"); !errors.Is(err, context.Canceled) {
				t.Errorf("Exec under a context that has ended = %v", err)
			}
			if err := s.Exec(ctx, "DO 1"); err == nil {
				t.Error("Exec succeeded after a statement that had no answer")
				return nil
			}
			if err := s.Scan(ctx, []any{new(int)}, "SELECT 1"); err == nil {
				t.Error("Scan succeeded after a statement that had no answer")
			}
			return mysqlio.ErrTaken
		})
		lease, err := k.Acquire(t.Context(), "seat", "me", lock.Options{}, try)
		if err != nil {
			t.Fatal(err)
		}
		if len(sessions) != 2 || sessions[0] == sessions[1] {
			t.Errorf("the tries were made on the connections %v, want two", sessions)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
	})
}

// A grant that comes after the end of the wait is none: the driver may have closed the
// connection as the answer came.
func TestGrantAfterTheLimitIsGivenBack(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		db := mysqlstore.Pool(t, engine(t), nil)
		k := keeper(t, db)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var id uint64
		lease, err := k.Acquire(ctx, "seat", "me", lock.Options{}, claim(func(ctx context.Context, s *mysqlio.Session) error {
			id = s.ID()
			err := s.Exec(ctx, "DO 1")
			cancel()
			<-ctx.Done()
			return err
		}))
		if lease != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire = %v, %v; want context.Canceled", lease, err)
		}
		left, err := mysqlstore.Column(t.Context(), db, "SELECT id FROM information_schema.processlist WHERE id = ?", id)
		if err != nil || len(left) != 0 {
			t.Errorf("its connection is still there: %v, %v", left, err)
		}
	})
}

// crowded is a key that somebody else has. It counts who waits on the server.
type crowded struct {
	claim
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

// However many wait for a key, one of them has a connection for it.
func TestOneWaitsOnTheServer(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		k := keeper(t, mysqlstore.Pool(t, engine(t), nil))
		c := &crowded{claim: func(context.Context, *mysqlio.Session) error { return mysqlio.ErrTaken }}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				_, err := k.Acquire(t.Context(), "seat", "me", lock.Options{Wait: 200 * time.Millisecond}, c)
				if !errors.Is(err, lock.ErrNotAcquired) {
					t.Errorf("Acquire = %v, want ErrNotAcquired", err)
				}
			})
		}
		all.Wait()
		if most := c.most.Load(); most != 1 {
			t.Errorf("%d waited on the server at once, want 1", most)
		}
	})
}
