package row

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/mysql/mysqlio"
	"seckill/internal/lock/watchdog"
)

const (
	// maxOwner is the size of the table's column, in bytes.
	maxOwner = 256
	// attempts bounds how often one try starts again because the row was created or
	// deleted between two statements, or because the server rolled one back.
	attempts = 10
)

// Locker keeps a row for each lock that is held.
type Locker struct {
	db        *sql.DB
	config    Config
	mechanism string // its part of the table
	owners    *lock.Owners
	ids       *lock.Owners                     // of acquisitions
	watchdog  *watchdog.Watchdog[*acquisition] // nil without expiry

	closing  context.Context
	close    context.CancelFunc
	mu       sync.Mutex // guards cleanups against Close
	cleanups sync.WaitGroup
	undoFor  time.Duration // tests on slow machines take longer than undoFor
}

var (
	_ lock.Locker        = (*Locker)(nil)
	_ lock.Inspector     = (*Locker)(nil)
	_ lock.ForceReleaser = (*Locker)(nil)
)

// New returns a Locker on the caller's pool, whose database must have the table
// lock_rows. It returns [lock.ErrInvalid] if the pool is nil. Close ends its background
// work.
func New(db *sql.DB, config Config) (*Locker, error) {
	if db == nil {
		return nil, fmt.Errorf("%w: there is no database", lock.ErrInvalid)
	}
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	l := &Locker{db: db, config: config, mechanism: "row", owners: lock.NewOwners(), ids: lock.NewOwners(), undoFor: undoFor}
	l.closing, l.close = context.WithCancel(context.Background())
	if config.Expiry {
		l.mechanism = "row-expiry"
		l.watchdog = watchdog.New(watchdog.Config{RenewEvery: config.RenewEvery, RetryEvery: config.RetryEvery}, l.renew, nil)
	}
	return l, nil
}

// Close stops the renewals and tells the holders. It releases nothing.
func (l *Locker) Close() error {
	l.mu.Lock()
	l.close()
	l.mu.Unlock()
	l.cleanups.Wait()
	if l.watchdog != nil {
		l.watchdog.Close()
	}
	return nil
}

// acquisition is one call of Acquire.
type acquisition struct {
	key     string
	id      string
	owner   lock.Owner
	ttl     time.Duration // 0: no end
	renewed bool
	watched watchdog.Entry[*acquisition]
	sent    bool // a statement that takes the row got no answer
	late    bool // such a statement was sent before the one that won
	unknown bool // a release got no answer
}

// Acquire implements [lock.Locker]. Without expiry it validates opts.TTL and otherwise
// ignores it.
func (l *Locker) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	a := &acquisition{key: key, id: string(l.ids.New()), owner: l.owners.From(ctx)}
	if len(a.owner) > maxOwner {
		return nil, fmt.Errorf("%w: the owner is %d bytes long; at most %d", lock.ErrInvalid, len(a.owner), maxOwner)
	}
	switch {
	case !l.config.Expiry:
		opts.TTL = 0
	case opts.TTL == 0:
		a.ttl, a.renewed = l.config.WatchdogTimeout, true
	default:
		a.ttl = opts.TTL
	}
	lease, err := l.config.Poll.Acquire(ctx, opts.Wait, func(ctx context.Context) (lock.Lease, error) {
		if a.sent { // a late grant to an earlier try must not count for this one
			l.undo(ctx, a)
			a = &acquisition{key: a.key, id: string(l.ids.New()), owner: a.owner, ttl: a.ttl, renewed: a.renewed}
		}
		return l.try(ctx, a)
	})
	if err != nil {
		l.undo(ctx, a)
	}
	return lease, err
}

func (l *Locker) try(ctx context.Context, a *acquisition) (lock.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	began := time.Now()
	won, err := l.insertOrTakeOver(ctx, a)
	switch {
	case won:
		a.late, a.sent = a.sent, false // from now on the lease deletes the row
		return lock.Deliver(ctx, l.lease(ctx, a, began))
	case errors.Is(err, lock.ErrNotAcquired):
		return nil, err
	}
	return nil, mysqlio.Error(ctx, err)
}

// insertOrTakeOver inserts the row or takes over an expired one. It repeats a statement
// without an answer once: the id in the row tells whether the first one was carried out.
func (l *Locker) insertOrTakeOver(ctx context.Context, a *acquisition) (won bool, err error) {
	resent := false
	for range attempts {
		err = l.insert(ctx, a)
		if mysqlio.IsDuplicate(err) {
			won, err = l.checkExisting(ctx, a)
		} else {
			won = err == nil
		}
		switch {
		case won || errors.Is(err, lock.ErrNotAcquired):
			return won, err
		case err == nil, mysqlio.IsConflict(err): // the row was created or deleted meanwhile: again
		case mysqlio.Answered(err) || resent || ctx.Err() != nil:
			return false, err
		default:
			resent = true
		}
	}
	return false, &lock.NotAcquiredError{Key: a.key}
}

// insert inserts the row. A connection that would not commit it inserts none: [mysqlio.ErrNoAutocommit].
func (l *Locker) insert(ctx context.Context, a *acquisition) error {
	// NULL + INTERVAL is NULL: a row without an expiry.
	inserted, err := l.take(ctx, a, "INSERT INTO lock_rows (mechanism, name, holder, owner, expires_at)"+
		" SELECT ?, ?, ?, ?, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND FROM DUAL WHERE @@autocommit",
		l.mechanism, []byte(a.key), a.id, []byte(a.owner), a.micros())
	if err == nil && !inserted {
		return mysqlio.ErrNoAutocommit
	}
	return err
}

// take runs a statement that may win the row and records whether its outcome is unknown.
// If there was no connection, the outcome is known: nothing was sent.
func (l *Locker) take(ctx context.Context, a *acquisition, query string, args ...any) (bool, error) {
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	won, err := affects(conn.ExecContext(ctx, query, args...))
	a.sent = a.sent || err != nil && !mysqlio.Answered(err)
	return won, err
}

func (a *acquisition) micros() sql.Null[int64] {
	return sql.Null[int64]{V: a.ttl.Microseconds(), Valid: a.ttl > 0}
}

// checkExisting handles an existing row: it recognises the acquisition's own row, refuses
// ([lock.ErrNotAcquired]) if it belongs to another holder, and takes over an expired one.
func (l *Locker) checkExisting(ctx context.Context, a *acquisition) (won bool, err error) {
	found, err := l.find(ctx, a.key)
	switch {
	case err != nil || found.holder == "":
		return false, err
	case found.holder == a.id:
		return true, nil
	case found.left > 0:
		return false, &lock.NotAcquiredError{Key: a.key, Holder: found.owner, TTL: found.left}
	}
	// The id is new, so a row that matches is also changed. The number of affected rows
	// is therefore the same with and without clientFoundRows.
	return l.take(ctx, a, "UPDATE lock_rows"+
		" SET holder = ?, owner = ?, expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND"+
		" WHERE mechanism = ? AND name = ? AND expires_at <= UTC_TIMESTAMP(6)",
		a.id, []byte(a.owner), a.micros(), l.mechanism, []byte(a.key))
}

func affects(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// found is the content of a row. holder is empty if there is no row. left is not positive
// if the row has expired, and [lock.NoExpiry] if it never does.
type found struct {
	holder string
	owner  lock.Owner
	left   time.Duration
}

func (l *Locker) find(ctx context.Context, key string) (found, error) {
	var f found
	var owner []byte
	var left sql.Null[int64]
	err := l.db.QueryRowContext(ctx, "SELECT holder, owner, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at)"+
		" FROM lock_rows WHERE mechanism = ? AND name = ?", l.mechanism, []byte(key)).Scan(&f.holder, &owner, &left)
	if errors.Is(err, sql.ErrNoRows) {
		return found{}, nil
	}
	f.owner, f.left = lock.Owner(owner), lock.NoExpiry
	if left.Valid {
		f.left = time.Duration(left.V) * time.Microsecond
	}
	return f, err
}

// undoFor is how long the deletion of an acquisition's row is repeated. By then the
// server has carried out every statement that it has received.
const undoFor = time.Second

// undo deletes the row of a failed acquisition, if there may be one.
func (l *Locker) undo(ctx context.Context, a *acquisition) {
	if !a.sent {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lock.ReleaseTimeout)
	defer cancel()
	if deleted, _ := l.delete(ctx, a, false); deleted { // the caller gets the first error
		return
	}
	l.startUndoLater(a)
}

// startUndoLater repeats the DELETE in the background: the server may carry out a statement
// without an answer after the DELETE of a failed acquisition, or after a release.
func (l *Locker) startUndoLater(a *acquisition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing.Err() == nil {
		l.cleanups.Go(func() { l.undoLater(a) })
	}
}

func (l *Locker) undoLater(a *acquisition) {
	ctx, cancel := context.WithTimeout(l.closing, l.undoFor)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		if deleted, _ := l.delete(ctx, a, false); deleted {
			return
		}
	}
}

// delete deletes the acquisition's row; with live, only if it has not expired.
func (l *Locker) delete(ctx context.Context, a *acquisition, live bool) (bool, error) {
	query := "DELETE FROM lock_rows WHERE mechanism = ? AND name = ? AND holder = ?"
	if live {
		query += " AND (expires_at IS NULL OR expires_at > UTC_TIMESTAMP(6))"
	}
	for range attempts {
		deleted, err := affects(l.db.ExecContext(ctx, query, l.mechanism, []byte(a.key), a.id))
		if !mysqlio.IsConflict(err) {
			return deleted, err
		}
	}
	return false, fmt.Errorf("%w: %d conflicts in a row", lock.ErrUnavailable, attempts)
}

// Inspect implements [lock.Inspector]. An expired row has no holder.
func (l *Locker) Inspect(ctx context.Context, key string) (lock.State, error) {
	state := lock.State{Waiting: lock.WaitingUnknown}
	f, err := l.find(ctx, key)
	if err != nil {
		return state, mysqlio.Error(ctx, err)
	}
	if f.holder != "" && f.left > 0 {
		state.Owner, state.Count, state.TTL = f.owner, 1, f.left
	}
	return state, nil
}

// ForceRelease implements [lock.ForceReleaser] by deleting the row.
func (l *Locker) ForceRelease(ctx context.Context, key string) (bool, error) {
	deleted, err := affects(l.db.ExecContext(ctx,
		"DELETE FROM lock_rows WHERE mechanism = ? AND name = ?", l.mechanism, []byte(key)))
	return deleted, mysqlio.Error(ctx, err)
}
