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
	"seckill/internal/testkit/fail"
)

// late is a waiting acquisition whose first INSERT got no answer. Another holder has the row by now, and the server may
// still carry out the INSERT.
type late struct {
	*testing.T
	db     *sql.DB
	id     string // of the acquisition's first try
	cancel context.CancelFunc
	done   chan error // the error of Acquire
	lease  lock.Lease // set if Acquire succeeded
}

func lateInsert(t *testing.T, where testkit.Database) *late {
	t.Helper()
	network := locktest.NewNetwork()
	a := &late{T: t, db: mysqlstore.Pool(t, where, nil), done: make(chan error, 1)}
	mysqlstore.Migrate(t, a.db, "0004_lock_rows")
	pool := mysqlstore.Pool(t, where, network)
	l := start(t, pool, row.Config{Poll: lock.Polling{Every: 300 * time.Millisecond}})
	connect(t, pool)
	lost := make(chan struct{})
	network.LoseReply(1, locktest.Reset, func() {
		a.id = a.holder()
		a.exec("UPDATE lock_rows SET holder = 'another holder'")
		close(lost)
	})
	var ctx context.Context
	ctx, a.cancel = context.WithCancel(t.Context())
	t.Cleanup(a.cancel)
	network.Observe(nil)
	go func() {
		var err error
		a.lease, err = l.Acquire(ctx, "seat", lock.Options{Wait: time.Minute})
		a.done <- err
	}()
	<-lost
	// The try sends the INSERT, the INSERT again, and the SELECT that finds another holder.
	testkit.Until(t, "the end of the first try", func() bool { return network.Sent() >= 3 && network.Received() >= 3 })
	return a
}

// connect opens two connections: one to lose and one to continue with.
func connect(t *testing.T, pool *sql.DB) {
	t.Helper()
	for range 2 {
		conn, err := pool.Conn(t.Context())
		if err == nil {
			err = conn.PingContext(t.Context())
		}
		fail.NowIf(t, err)
		defer func() { _ = conn.Close() }()
	}
}

func (a *late) exec(statement string, args ...any) {
	if _, err := a.db.ExecContext(a.Context(), statement, args...); err != nil {
		a.Error(err)
	}
}

// holder returns the holder in the row, "" if there is no row.
func (a *late) holder() (holder string) {
	err := a.db.QueryRowContext(a.Context(), "SELECT holder FROM lock_rows").Scan(&holder)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		a.Error(err)
	}
	return holder
}

// A row from an earlier try is not a grant: its lease began earlier than the current try assumes.
func TestLateInsertIsNoGrant(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		a := lateInsert(t, engine(t))
		a.exec("UPDATE lock_rows SET holder = ?", a.id) // as if the late INSERT were carried out now
		fail.NowIf(t, <-a.done)
		if id := a.holder(); id == a.id {
			t.Error("the row of an earlier try was taken as a grant")
		}
		fail.If(t, a.lease.Release(t.Context()))
	})
}

// An acquisition that ends between two tries leaves nothing behind.
func TestLateInsertIsUndone(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		a := lateInsert(t, engine(t))
		a.cancel()
		a.exec("UPDATE lock_rows SET holder = ?", a.id)
		fail.Unless(t, <-a.done, context.Canceled, "Acquire")
		testkit.Until(t, "no row", func() bool { return a.holder() == "" })
	})
}

// An INSERT without an answer is repeated, and the repetition wins. The first INSERT is carried out after the release:
// no row is left.
func TestFirstInsertAfterReleaseIsUndone(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		where := engine(t)
		a := &late{T: t, db: mysqlstore.Pool(t, where, nil)}
		mysqlstore.Migrate(t, a.db, "0004_lock_rows")
		for mechanism, expiry := range map[string]bool{"row": false, "row-expiry": true} {
			// Each has a network of its own: the last reply to the first one may still be on its way.
			network := locktest.NewNetwork()
			pool := mysqlstore.Pool(t, where, network)
			l := start(t, pool, row.Config{Expiry: expiry})
			connect(t, pool)
			network.LoseReply(1, locktest.Reset, func() {
				a.id = a.holder()
				a.exec("DELETE FROM lock_rows") // as if the INSERT had not been carried out yet
			})
			lease, err := l.Acquire(t.Context(), "seat", lock.Options{})
			fail.NowIf(t, err)
			if id := a.holder(); id != a.id {
				t.Fatalf("%s: the row is of %q, want that the INSERT of %q was repeated", mechanism, id, a.id)
			}
			network.LoseReply(1, locktest.Deliver, func() { // the reply to the DELETE
				a.exec("INSERT INTO lock_rows (mechanism, name, holder, owner) VALUES (?, 'seat', ?, '')", mechanism, a.id)
			})
			fail.If(t, lease.Release(t.Context()))
			testkit.Until(t, mechanism+": no row of the first INSERT", func() bool { return a.holder() == "" })
		}
	})
}
