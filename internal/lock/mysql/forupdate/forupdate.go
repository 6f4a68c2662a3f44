package forupdate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/mysql/mysqlio"
)

const (
	// maxOwner is the size of the table's column, in bytes.
	maxOwner = 256
	// attempts bounds how often one try starts again because the row was deleted or the server rolled back the
	// statement.
	attempts = 10
	// insertTimeout is how long a try lets its INSERT wait. It waits only if a holder locked the row at that very
	// moment.
	insertTimeout = 200 * time.Millisecond
)

// Config configures a [Locker]. Zero fields take their defaults.
type Config struct {
	mysqlio.Config
}

// Locker acquires SELECT … FOR UPDATE, each lease on its own connection.
type Locker struct {
	locks  *mysqlio.ConnectionLocks
	owners *lock.Owners
	ids    *lock.Owners // of acquisitions
}

var (
	_ lock.Locker        = (*Locker)(nil)
	_ lock.Inspector     = (*Locker)(nil)
	_ lock.ForceReleaser = (*Locker)(nil)
)

// New returns a Locker on the caller's pool, whose database must have the table lock_for_update. It returns
// [lock.ErrInvalid] if the pool is nil. Close ends its background work.
func New(db *sql.DB, config Config) (*Locker, error) {
	locks, err := mysqlio.NewConnectionLocks(db, config.Config)
	if err != nil {
		return nil, err
	}
	return &Locker{locks: locks, owners: lock.NewOwners(), ids: lock.NewOwners()}, nil
}

// Close tells every holder that its lock is lost and closes its connection.
func (l *Locker) Close() error { return l.locks.Close() }

// Acquire implements [lock.Locker]. This process keeps the fixed lease (opts.TTL), not the server. Without one the lock
// ends only with its connection.
func (l *Locker) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	owner := l.owners.From(ctx)
	if len(owner) > maxOwner {
		return nil, fmt.Errorf("%w: the owner is %d bytes long; at most %d", lock.ErrInvalid, len(owner), maxOwner)
	}
	a := &attempt{name: []byte(key), id: string(l.ids.New()), owner: owner}
	return l.locks.Acquire(ctx, key, owner, opts, a)
}

// Inspect implements [lock.Inspector]. It reads the name that the holder has written but not committed.
func (l *Locker) Inspect(ctx context.Context, key string) (lock.State, error) {
	return l.locks.Inspect(ctx, key, &attempt{name: []byte(key)})
}

// ForceRelease implements [lock.ForceReleaser] by ending the holder's connection.
func (l *Locker) ForceRelease(ctx context.Context, key string) (bool, error) {
	return l.locks.ForceRelease(ctx, &attempt{name: []byte(key)})
}

// attempt is one acquisition of a row.
type attempt struct {
	name  []byte
	id    string
	owner lock.Owner
}

var _ mysqlio.Attempt = (*attempt)(nil)

// Try locks the row if nobody holds it. A row that is locked but names no holder is locked for a moment by an INSERT or
// a DELETE. Try does not mistake these for a holder.
func (a *attempt) Try(ctx context.Context, s *mysqlio.Session) error {
	err := a.take(ctx, s, insertTimeout, " NOWAIT")
	if !errors.Is(err, mysqlio.ErrTaken) {
		return err
	}
	if holder, err := a.Holder(ctx, s); err != nil || holder.Connection == 0 {
		return mysqlio.ErrLocked
	}
	return mysqlio.ErrTaken
}

// Wait lets the server wait for the row for the connection's innodb_lock_wait_timeout.
func (a *attempt) Wait(ctx context.Context, s *mysqlio.Session) error {
	return a.take(ctx, s, 0, "")
}

// take makes sure that the row exists, and locks it. The previous holder may have deleted the row before the lock is
// granted; take then starts again.
func (a *attempt) take(ctx context.Context, s *mysqlio.Session, insertLimit time.Duration, wait string) error {
	for range attempts {
		err := a.makeRow(ctx, s, insertLimit)
		if mysqlio.IsConflict(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err = a.lockRow(ctx, s, wait); err == nil {
			return nil
		}
		if mysqlio.Answered(err) || errors.Is(err, sql.ErrNoRows) {
			if e := s.Exec(ctx, "ROLLBACK"); e != nil {
				return e
			}
		}
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case mysqlio.IsLocked(err): // also after a lock wait timeout
			return mysqlio.ErrTaken
		case !mysqlio.IsConflict(err):
			return err
		}
	}
	return mysqlio.ErrTaken
}

// makeRow commits the row unless it exists. It reads first, because an INSERT would wait for the holder of an existing
// row. An INSERT that waits until the limit (0: none) or ctx ends is cut short, because somebody has locked the row.
// The session cannot be used any more then, and ConnectionLocks tries again on another one.
func (a *attempt) makeRow(ctx context.Context, s *mysqlio.Session, limit time.Duration) error {
	var one int
	err := s.Scan(ctx, []any{&one}, "SELECT 1 FROM lock_for_update WHERE name = ?", a.name)
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	err = s.Exec(ctx, "INSERT IGNORE INTO lock_for_update (name) VALUES (?)", a.name)
	if err != nil && !mysqlio.Answered(err) && ctx.Err() != nil {
		return mysqlio.ErrLocked
	}
	return err
}

// lockRow begins the transaction that holds the lock, and writes the holder's name for others to read. READ COMMITTED
// keeps a missing row from locking the gap around it.
func (a *attempt) lockRow(ctx context.Context, s *mysqlio.Session, wait string) error {
	for _, statement := range []string{"SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION"} {
		if err := s.Exec(ctx, statement); err != nil {
			return err
		}
	}
	var one int
	if err := s.Scan(ctx, []any{&one}, "SELECT 1 FROM lock_for_update WHERE name = ? FOR UPDATE"+wait,
		a.name); err != nil {
		return err
	}
	return s.Exec(ctx, "UPDATE lock_for_update SET holder = ?, owner = ?, connection = ? WHERE name = ?",
		a.id, []byte(a.owner), s.ID(), a.name)
}

// Check reads the holder's name within its transaction.
func (a *attempt) Check(ctx context.Context, s *mysqlio.Session) error {
	var mine sql.NullBool
	err := s.Scan(ctx, []any{&mine}, "SELECT holder = ? FROM lock_for_update WHERE name = ?", a.id, a.name)
	switch {
	case errors.Is(err, sql.ErrNoRows) || err == nil && !mine.Bool:
		return lock.ErrExpired
	}
	return err
}

// Free ends the transaction, which gives the lock to the first waiter. Then it deletes the row if nobody has locked it.
func (a *attempt) Free(ctx context.Context, s *mysqlio.Session) error {
	if err := s.Exec(ctx, "ROLLBACK"); err != nil {
		return err
	}
	a.Clear(ctx, s)
	return nil
}

// Holder reads the holder's name, which the open transaction has written.
func (a *attempt) Holder(ctx context.Context, s *mysqlio.Session) (mysqlio.Holder, error) {
	if err := s.Exec(ctx, "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED"); err != nil {
		return mysqlio.Holder{}, err
	}
	var owner []byte
	var connection sql.Null[uint64]
	err := s.Scan(ctx, []any{&owner, &connection}, "SELECT owner, connection FROM lock_for_update WHERE name = ?", a.name)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return mysqlio.Holder{}, err
	}
	return mysqlio.Holder{Owner: lock.Owner(owner), Connection: connection.V}, nil
}

// Clear deletes the row if nobody has locked it. One statement does both, so that it never blocks another caller. If
// there is a holder, its Free deletes the row.
func (a *attempt) Clear(ctx context.Context, s *mysqlio.Session) {
	// The order of the join makes the statement skip locked rows: it first selects the row if it is not locked, and
	// only then deletes that row. LIMIT keeps the optimiser from merging the two.
	_ = s.Exec(ctx, "DELETE r FROM (SELECT name FROM lock_for_update WHERE name = ? LIMIT 1 FOR UPDATE SKIP LOCKED) AS free"+
		" STRAIGHT_JOIN lock_for_update AS r ON r.name = free.name", a.name) // the session notices a broken connection
}
