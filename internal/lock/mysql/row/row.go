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
	// maxOwner is what the table's column takes, in bytes.
	maxOwner = 256
	// attempts bounds how often one try starts over because the row came or went
	// between two statements, or the server undid one.
	attempts = 10
)

// Locker is a row for each lock that is held.
type Locker struct {
	db        *sql.DB
	config    Config
	mechanism string // the part of the table that is its own
	owners    *lock.Owners
	ids       *lock.Owners              // of acquisitions
	watchdog  *watchdog.Watchdog[*hold] // nil without expiry

	closing  context.Context
	close    context.CancelFunc
	mu       sync.Mutex // guards settling against Close
	settling sync.WaitGroup
}

var (
	_ lock.Locker    = (*Locker)(nil)
	_ lock.Inspector = (*Locker)(nil)
	_ lock.Breaker   = (*Locker)(nil)
)

// New returns a Locker on the caller's pool, which may not be nil
// ([lock.ErrInvalid]) and whose database has the table lock_rows. Close ends what it
// does in the background.
func New(db *sql.DB, config Config) (*Locker, error) {
	if db == nil {
		return nil, fmt.Errorf("%w: there is no database", lock.ErrInvalid)
	}
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	l := &Locker{db: db, config: config, mechanism: "row", owners: lock.NewOwners(), ids: lock.NewOwners()}
	l.closing, l.close = context.WithCancel(context.Background())
	if config.Expiry {
		l.mechanism = "row-expiry"
		l.watchdog = watchdog.New(watchdog.Config{RenewEvery: config.RenewEvery, RetryEvery: config.RetryEvery}, l.renew, nil)
	}
	return l, nil
}

// Close stops the renewals and tells the holders. It gives nothing back.
func (l *Locker) Close() error {
	l.mu.Lock()
	l.close()
	l.mu.Unlock()
	l.settling.Wait()
	if l.watchdog != nil {
		l.watchdog.Close()
	}
	return nil
}

// hold is one acquisition.
type hold struct {
	key     string
	id      string
	owner   lock.Owner
	ttl     time.Duration // 0: no end
	renewed bool
	faults  *lock.Faults
	dog     watchdog.Lease[*hold]
	sent    bool // a statement that takes the row had no answer
	unknown bool // a release had no answer
}

// Acquire implements [lock.Locker]. Without expiry the lease (opts.TTL) is checked
// and otherwise ignored.
func (l *Locker) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	h := &hold{key: key, id: string(l.ids.New()), owner: l.owners.From(ctx), faults: opts.Faults}
	if len(h.owner) > maxOwner {
		return nil, fmt.Errorf("%w: the owner is %d bytes long; at most %d", lock.ErrInvalid, len(h.owner), maxOwner)
	}
	switch {
	case !l.config.Expiry:
		opts.TTL = 0
	case opts.TTL == 0:
		h.ttl, h.renewed = l.config.WatchdogTimeout, true
	default:
		h.ttl = opts.TTL
	}
	lease, err := l.config.Poll.Acquire(ctx, opts.Wait, func(ctx context.Context) (lock.Lease, error) {
		if h.sent { // what an earlier try may yet win is not this one's
			l.undo(ctx, h)
			h = &hold{key: h.key, id: string(l.ids.New()), owner: h.owner, ttl: h.ttl, renewed: h.renewed, faults: h.faults}
		}
		return l.try(ctx, h)
	})
	if err != nil {
		l.undo(ctx, h)
	}
	return lease, err
}

func (l *Locker) try(ctx context.Context, h *hold) (lock.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	began := time.Now()
	won, err := l.ask(ctx, h)
	switch {
	case won:
		h.sent = false // the row is the lease's
		return lock.Deliver(ctx, l.lease(ctx, h, began), h.faults)
	case errors.Is(err, lock.ErrNotAcquired):
		return nil, err
	}
	return nil, mysqlio.Error(ctx, err)
}

// ask inserts the row, or takes over one that has expired. A statement without an
// answer is sent once more: the row says by its id whether the first got through.
func (l *Locker) ask(ctx context.Context, h *hold) (won bool, err error) {
	resent := false
	for range attempts {
		err = l.insert(ctx, h)
		if mysqlio.IsDuplicate(err) {
			won, err = l.look(ctx, h)
		} else {
			won = err == nil
		}
		switch {
		case won || errors.Is(err, lock.ErrNotAcquired):
			return won, err
		case err == nil, mysqlio.IsConflict(err): // it came or went; again
		case mysqlio.Answered(err) || resent || ctx.Err() != nil:
			return false, err
		default:
			resent = true
		}
	}
	return false, &lock.NotAcquiredError{Key: h.key}
}

func (l *Locker) insert(ctx context.Context, h *hold) error {
	// NULL + INTERVAL is NULL: a row without an end.
	_, err := l.take(ctx, h, "INSERT INTO lock_rows (mechanism, name, holder, owner, expires_at)"+
		" VALUES (?, ?, ?, ?, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND)",
		l.mechanism, []byte(h.key), h.id, []byte(h.owner), h.micros())
	return err
}

// take runs a statement that may win the row, and notes if its outcome is unknown.
// That no connection was to be had is known.
func (l *Locker) take(ctx context.Context, h *hold, query string, args ...any) (bool, error) {
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	won, err := affects(conn.ExecContext(ctx, query, args...))
	h.sent = h.sent || err != nil && !mysqlio.Answered(err)
	return won, err
}

func (h *hold) micros() sql.Null[int64] {
	return sql.Null[int64]{V: h.ttl.Microseconds(), Valid: h.ttl > 0}
}

// look says what to make of a row that is there: the acquisition's own, somebody
// else's ([lock.ErrNotAcquired]), or one that has expired and is taken over.
func (l *Locker) look(ctx context.Context, h *hold) (won bool, err error) {
	found, err := l.find(ctx, h.key)
	switch {
	case err != nil || found.holder == "":
		return false, err
	case found.holder == h.id:
		return true, nil
	case found.left > 0:
		return false, &lock.NotAcquiredError{Key: h.key, Holder: found.owner, TTL: found.left}
	}
	// The id is new, so that a row that was found was also changed, whatever the
	// connection counts.
	return l.take(ctx, h, "UPDATE lock_rows"+
		" SET holder = ?, owner = ?, expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND"+
		" WHERE mechanism = ? AND name = ? AND expires_at <= UTC_TIMESTAMP(6)",
		h.id, []byte(h.owner), h.micros(), l.mechanism, []byte(h.key))
}

func affects(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// found is a row: no holder where there is none, left not positive where it has
// expired, [lock.NoExpiry] where it has no end.
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

// settleFor is how long a failed acquisition goes on deleting its row: what the
// server has read, it has carried out by then.
const settleFor = time.Second

// undo deletes the row of an acquisition that failed, if it may have one. The
// statement that had no answer may be carried out after the first DELETE, which is
// then repeated in the background.
func (l *Locker) undo(ctx context.Context, h *hold) {
	if !h.sent {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lock.ReleaseTimeout)
	defer cancel()
	if deleted, _ := l.delete(ctx, h, false); deleted { // what failed first is what the caller has to know
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing.Err() == nil {
		l.settling.Go(func() { l.settle(h) })
	}
}

func (l *Locker) settle(h *hold) {
	ctx, cancel := context.WithTimeout(l.closing, settleFor)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		if deleted, _ := l.delete(ctx, h, false); deleted {
			return
		}
	}
}

// delete deletes the acquisition's row, with live only if it has not expired.
func (l *Locker) delete(ctx context.Context, h *hold, live bool) (bool, error) {
	query := "DELETE FROM lock_rows WHERE mechanism = ? AND name = ? AND holder = ?"
	if live {
		query += " AND (expires_at IS NULL OR expires_at > UTC_TIMESTAMP(6))"
	}
	for range attempts {
		deleted, err := affects(l.db.ExecContext(ctx, query, l.mechanism, []byte(h.key), h.id))
		if !mysqlio.IsConflict(err) {
			return deleted, err
		}
	}
	return false, fmt.Errorf("%w: %d conflicts in a row", lock.ErrUnavailable, attempts)
}

// Inspect implements [lock.Inspector]. A row that has expired is nobody's.
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

// ForceRelease implements [lock.Breaker]: it deletes the row.
func (l *Locker) ForceRelease(ctx context.Context, key string) (bool, error) {
	deleted, err := affects(l.db.ExecContext(ctx,
		"DELETE FROM lock_rows WHERE mechanism = ? AND name = ?", l.mechanism, []byte(key)))
	return deleted, mysqlio.Error(ctx, err)
}
