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
	// maxOwner is what the table's column takes, in bytes.
	maxOwner = 256
	// attempts bounds how often one try starts over because the row was swept
	// away, or the server undid the statement.
	attempts = 10
	// insertTimeout is how long a try that does not wait lets its INSERT wait:
	// only a holder that came in that very moment makes it.
	insertTimeout = 200 * time.Millisecond
)

// Config says how a [Locker] works. The zero value takes every default.
type Config struct {
	mysqlio.Config
}

// Locker is SELECT … FOR UPDATE on connections of its own.
type Locker struct {
	keeper *mysqlio.Keeper
	owners *lock.Owners
	ids    *lock.Owners // of acquisitions
}

var (
	_ lock.Locker    = (*Locker)(nil)
	_ lock.Inspector = (*Locker)(nil)
	_ lock.Breaker   = (*Locker)(nil)
)

// New returns a Locker on the caller's pool, which may not be nil
// ([lock.ErrInvalid]) and whose database has the table lock_for_update. Close ends
// what it does in the background.
func New(db *sql.DB, config Config) (*Locker, error) {
	keeper, err := mysqlio.NewKeeper(db, config.Config)
	if err != nil {
		return nil, err
	}
	return &Locker{keeper: keeper, owners: lock.NewOwners(), ids: lock.NewOwners()}, nil
}

// Close tells every holder, and closes its connection.
func (l *Locker) Close() error { return l.keeper.Close() }

// Acquire implements [lock.Locker]. A lease (opts.TTL) is kept by this process, not
// by the server; without one the lock has no end but that of its connection.
func (l *Locker) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	owner := l.owners.From(ctx)
	if len(owner) > maxOwner {
		return nil, fmt.Errorf("%w: the owner is %d bytes long; at most %d", lock.ErrInvalid, len(owner), maxOwner)
	}
	c := &claim{name: []byte(key), id: string(l.ids.New()), owner: owner}
	return l.keeper.Acquire(ctx, key, owner, opts, c)
}

// Inspect implements [lock.Inspector]: it reads what the holder has written and
// not committed.
func (l *Locker) Inspect(ctx context.Context, key string) (lock.State, error) {
	return l.keeper.Inspect(ctx, key, &claim{name: []byte(key)})
}

// ForceRelease implements [lock.Breaker]: it ends the holder's connection.
func (l *Locker) ForceRelease(ctx context.Context, key string) (bool, error) {
	return l.keeper.ForceRelease(ctx, &claim{name: []byte(key)})
}

// claim is one acquisition of a row.
type claim struct {
	name  []byte
	id    string
	owner lock.Owner
}

var _ mysqlio.Claim = (*claim)(nil)

// Try takes the row if nobody has it. A row that is locked and not signed is so for
// a moment only, by an INSERT or a sweep, which nobody shall take for a holder.
func (c *claim) Try(ctx context.Context, s *mysqlio.Session) error {
	for {
		err := c.tryOnce(ctx, s)
		if !errors.Is(err, mysqlio.ErrTaken) {
			return err
		}
		if holder, err := c.Holder(ctx, s); err != nil || holder.Connection != 0 {
			return mysqlio.ErrTaken
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return mysqlio.ErrTaken
		}
	}
}

// tryOnce cuts the INSERT short when it waits: there is a row by now, and somebody
// has it. The session is spent then, and the Keeper tries again on another one.
func (c *claim) tryOnce(ctx context.Context, s *mysqlio.Session) error {
	short, cancel := context.WithTimeout(ctx, insertTimeout)
	defer cancel()
	err := c.take(ctx, short, s, " NOWAIT")
	if err != nil && !mysqlio.Answered(err) && short.Err() != nil && ctx.Err() == nil {
		return mysqlio.ErrTaken
	}
	return err
}

// Wait lets the server wait for the row, as long as the connection's
// innodb_lock_wait_timeout allows.
func (c *claim) Wait(ctx context.Context, s *mysqlio.Session) error { return c.take(ctx, ctx, s, "") }

// take makes sure that there is a row, and locks it. Whoever has it then may have
// swept it away when the lock is granted: it starts over.
func (c *claim) take(ctx, insert context.Context, s *mysqlio.Session, wait string) error {
	for range attempts {
		err := c.makeRow(insert, s)
		if mysqlio.IsConflict(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err = c.lockRow(ctx, s, wait); err == nil {
			return nil
		}
		if mysqlio.Answered(err) || errors.Is(err, sql.ErrNoRows) {
			if e := s.Exec(ctx, "ROLLBACK"); e != nil {
				return e
			}
		}
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case mysqlio.IsLocked(err): // also a lock wait that took too long
			return mysqlio.ErrTaken
		case !mysqlio.IsConflict(err):
			return err
		}
	}
	return mysqlio.ErrTaken
}

// makeRow commits a row that nobody has, unless there is one. It looks first, since
// an INSERT would wait for the holder of the row that it finds.
func (c *claim) makeRow(ctx context.Context, s *mysqlio.Session) error {
	var one int
	err := s.Scan(ctx, []any{&one}, "SELECT 1 FROM lock_for_update WHERE name = ?", c.name)
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return s.Exec(ctx, "INSERT IGNORE INTO lock_for_update (name) VALUES (?)", c.name)
}

// lockRow begins the transaction that is the lock, and signs it for others to
// read. READ COMMITTED: a row that is not there must not lock the gap around it.
func (c *claim) lockRow(ctx context.Context, s *mysqlio.Session, wait string) error {
	for _, statement := range []string{"SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION"} {
		if err := s.Exec(ctx, statement); err != nil {
			return err
		}
	}
	var one int
	if err := s.Scan(ctx, []any{&one}, "SELECT 1 FROM lock_for_update WHERE name = ? FOR UPDATE"+wait, c.name); err != nil {
		return err
	}
	return s.Exec(ctx, "UPDATE lock_for_update SET holder = ?, owner = ?, connection = ? WHERE name = ?",
		c.id, []byte(c.owner), s.ID(), c.name)
}

// Check reads the signature within its transaction.
func (c *claim) Check(ctx context.Context, s *mysqlio.Session) error {
	var mine sql.NullBool
	err := s.Scan(ctx, []any{&mine}, "SELECT holder = ? FROM lock_for_update WHERE name = ?", c.id, c.name)
	switch {
	case errors.Is(err, sql.ErrNoRows) || err == nil && !mine.Bool:
		return lock.ErrExpired
	}
	return err
}

// Free ends the transaction, which hands the lock to the first waiter, and then
// sweeps the row away if nobody has it.
func (c *claim) Free(ctx context.Context, s *mysqlio.Session) error {
	if err := s.Exec(ctx, "ROLLBACK"); err != nil {
		return err
	}
	c.Clear(ctx, s)
	return nil
}

// Holder reads the signature of a transaction that is still open.
func (c *claim) Holder(ctx context.Context, s *mysqlio.Session) (mysqlio.Holder, error) {
	if err := s.Exec(ctx, "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED"); err != nil {
		return mysqlio.Holder{}, err
	}
	var owner []byte
	var connection sql.Null[uint64]
	err := s.Scan(ctx, []any{&owner, &connection}, "SELECT owner, connection FROM lock_for_update WHERE name = ?", c.name)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return mysqlio.Holder{}, err
	}
	return mysqlio.Holder{Owner: lock.Owner(owner), Connection: connection.V}, nil
}

// Clear deletes the row if nobody has it, in one statement, so that it is never in
// the way of who comes meanwhile. Where somebody has it, that holder will.
func (c *claim) Clear(ctx context.Context, s *mysqlio.Session) {
	// The join's order is what makes it skip: first the row if it is not locked,
	// then, only if there was one, the same row to delete. LIMIT keeps the two apart.
	_ = s.Exec(ctx, "DELETE r FROM (SELECT name FROM lock_for_update WHERE name = ? LIMIT 1 FOR UPDATE SKIP LOCKED) AS free"+
		" STRAIGHT_JOIN lock_for_update AS r ON r.name = free.name", c.name) // a connection that is broken is noticed by the session
}
