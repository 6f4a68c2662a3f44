package row_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/mysqlstore"
	"seckill/internal/lock/mysql/row"
	"seckill/internal/testkit"
)

// late is an acquisition that waits, and whose first INSERT has had no answer: the row
// is somebody else's by now, and the INSERT may yet be carried out.
type late struct {
	*testing.T
	db     *sql.DB
	id     string // of the acquisition's first try
	cancel context.CancelFunc
	done   chan error // what it came to
	lease  lock.Lease // if it succeeded
}

func lateInsert(t *testing.T, where testkit.Database) *late {
	t.Helper()
	line := locktest.NewLine()
	a := &late{T: t, db: mysqlstore.Pool(t, where, nil), done: make(chan error, 1)}
	mysqlstore.Migrate(t, a.db, "0004_lock_rows")
	pool := mysqlstore.Pool(t, where, line)
	l := start(t, pool, row.Config{Poll: lock.Polling{Every: 300 * time.Millisecond}})
	var conns []*sql.Conn // two that are open: one to lose, and one to go on with
	for range 2 {
		conn, err := pool.Conn(t.Context())
		if err == nil {
			err = conn.PingContext(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	lost := make(chan struct{})
	line.LoseReply(1, locktest.Reset, func() {
		a.id = a.holder()
		a.exec("UPDATE lock_rows SET holder = 'somebody else'")
		close(lost)
	})
	var ctx context.Context
	ctx, a.cancel = context.WithCancel(t.Context())
	t.Cleanup(a.cancel)
	line.Watch(nil)
	go func() {
		var err error
		a.lease, err = l.Acquire(ctx, "seat", lock.Options{Wait: time.Minute})
		a.done <- err
	}()
	<-lost
	// The try is the INSERT, the INSERT again, and the SELECT that finds somebody else.
	for end := time.Now().Add(10 * time.Second); line.Sent() < 3 || line.Received() < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the first try did not end")
		}
	}
	return a
}

func (a *late) exec(statement string, args ...any) {
	if _, err := a.db.ExecContext(a.Context(), statement, args...); err != nil {
		a.Error(err)
	}
}

// holder is who has the row; "" where there is none.
func (a *late) holder() (holder string) {
	err := a.db.QueryRowContext(a.Context(), "SELECT holder FROM lock_rows").Scan(&holder)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		a.Error(err)
	}
	return holder
}

// A row that comes from an earlier try is no grant: who recognised it as one would
// count its lease from too late.
func TestLateInsertIsNoGrant(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		a := lateInsert(t, engine(t))
		a.exec("UPDATE lock_rows SET holder = ?", a.id) // as if it came now
		if err := <-a.done; err != nil {
			t.Fatal(err)
		}
		if id := a.holder(); id == a.id {
			t.Error("it was granted what an earlier try had asked for")
		}
		if err := a.lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// An acquisition that ends between two tries leaves nothing behind either.
func TestLateInsertIsUndone(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		a := lateInsert(t, engine(t))
		a.cancel()
		a.exec("UPDATE lock_rows SET holder = ?", a.id)
		if err := <-a.done; !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire = %v, want context.Canceled", err)
		}
		for end := time.Now().Add(10 * time.Second); a.holder() != ""; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("its row is still there")
			}
		}
	})
}
