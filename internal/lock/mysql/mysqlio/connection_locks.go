package mysqlio

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"seckill/internal/lock"
)

var (
	// ErrTaken is what an [Attempt] returns for a key that is held by another owner.
	ErrTaken = errors.New("taken")
	// ErrLocked is what an [Attempt] returns for a key that another session keeps from it without holding it, as it
	// does for a moment.
	ErrLocked = errors.New("locked by a session that does not hold it")
)

var errClosed = errors.New("the locker is closed")

// Attempt is one acquisition of one key, as the statements of a mechanism. Errors other
// than [ErrTaken] and [ErrLocked] are those of the statements.
type Attempt interface {
	// Try asks for the key once. It returns nil if the session has the key, and
	// [ErrTaken] if another owner has it; the session is then unchanged. After
	// [ErrLocked], ConnectionLocks tries again, on another session if Try has cut
	// a statement short.
	Try(ctx context.Context, s *Session) error
	// Wait is like Try, but lets the server wait for a bounded time.
	Wait(ctx context.Context, s *Session) error
	// Check returns nil if the session still has the key.
	Check(ctx context.Context, s *Session) error
	// Free releases the key. If it returns nil, the session can be used again.
	Free(ctx context.Context, s *Session) error
	// Holder returns, on any session, the holder of the key: the zero Holder if there
	// is none, and one without an owner if only the connection is known.
	Holder(ctx context.Context, s *Session) (Holder, error)
	// Clear removes, on any session, what an acquisition that was cut short may have
	// left behind.
	Clear(ctx context.Context, s *Session)
}

// Holder identifies the holder of a key.
type Holder struct {
	Owner      lock.Owner
	Connection uint64
}

// Config configures [ConnectionLocks]. Zero fields take their defaults.
type Config struct {
	// CheckEvery is how often a holder's connection is checked, and so how late the
	// holder may be told that it is gone. Default 1 s.
	CheckEvery time.Duration
	// Timeout bounds a check and every clean-up after a failed acquisition. It also
	// bounds how long an acquisition without a wait limit waits for a connection,
	// or for a key that another session keeps from it without holding it.
	// Default 1 s.
	Timeout time.Duration
}

// WithDefaults returns c with every zero field replaced by its default.
func (c Config) WithDefaults() Config {
	c.CheckEvery = cmp.Or(c.CheckEvery, time.Second)
	c.Timeout = cmp.Or(c.Timeout, time.Second)
	return c
}

// Validate returns [lock.ErrInvalid] for a configuration that cannot work.
func (c Config) Validate() error {
	if c.CheckEvery <= 0 || c.Timeout <= 0 {
		return fmt.Errorf("%w: CheckEvery is %v, Timeout is %v; both must be positive", lock.ErrInvalid,
			c.CheckEvery, c.Timeout)
	}
	return nil
}

// ConnectionLocks acquires and holds the locks of connections of a pool.
type ConnectionLocks struct {
	db     *sql.DB
	config Config
	queue  queue

	closing context.Context
	close   context.CancelFunc
	mu      sync.Mutex // guards running against Close
	running sync.WaitGroup

	holders sync.Map // from connection number (uint64) to lock.Owner, of this process
}

// NewConnectionLocks returns ConnectionLocks on the caller's pool. It returns
// [lock.ErrInvalid] if the pool is nil.
func NewConnectionLocks(db *sql.DB, config Config) (*ConnectionLocks, error) {
	if db == nil {
		return nil, fmt.Errorf("%w: there is no database", lock.ErrInvalid)
	}
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	cl := &ConnectionLocks{db: db, config: config}
	cl.closing, cl.close = context.WithCancel(context.Background())
	return cl, nil
}

// Close tells every holder that its lock is no longer watched, and closes the holders'
// connections, so that the server takes their locks back.
func (cl *ConnectionLocks) Close() error {
	cl.mu.Lock()
	cl.close()
	cl.mu.Unlock()
	cl.running.Wait()
	return nil
}

// Acquire acquires key for owner with the statements of attempt.
func (cl *ConnectionLocks) Acquire(ctx context.Context, key string, owner lock.Owner, opts lock.Options,
	attempt Attempt) (lock.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	limit, cancel := context.WithTimeout(ctx, cmp.Or(opts.Wait, cl.config.Timeout))
	defer cancel()
	stop := context.AfterFunc(cl.closing, cancel)
	defer stop()
	s, err := cl.acquireSession(limit, key, opts.Wait > 0, attempt)
	if err != nil {
		return nil, cl.acquisitionError(ctx, key, attempt, err)
	}
	l, err := cl.hold(ctx, s, key, owner, opts.TTL, attempt)
	if err != nil {
		return nil, err
	}
	return lock.Deliver(ctx, l)
}

// acquireSession returns a session that has the key.
func (cl *ConnectionLocks) acquireSession(ctx context.Context, key string, wait bool,
	attempt Attempt) (*Session, error) {
	if !wait || cl.queue.len(key) == 0 { // otherwise it only joins the queue
		s, err := cl.try(ctx, key, attempt)
		if err == nil || !wait || !errors.Is(err, lock.ErrNotAcquired) {
			return s, err
		}
	}
	leave, err := cl.queue.enter(ctx, key)
	if err != nil {
		return nil, ErrTaken
	}
	defer leave()
	s, err := open(ctx, cl.db)
	switch {
	case err != nil && ctx.Err() != nil: // the wait has ended, and the key was taken
		return nil, ErrTaken
	case err != nil:
		return nil, err
	}
	for {
		err := attempt.Wait(ctx, s)
		switch {
		case ctx.Err() != nil: // even if it was granted: the driver may have closed the connection
			err = ErrTaken
		case err == nil:
			return s, nil
		case errors.Is(err, ErrTaken) && !s.broken:
			continue
		}
		cl.discardSession(s, attempt)
		return nil, err
	}
}

// retryPause is the time between two tries of a key that is locked for a moment.
const retryPause = time.Millisecond

// try asks once. If the key is taken it also asks for the holder. If the key is locked for a moment, it asks again. If
// that lasts until ctx ends, the key counts as taken, whatever became of the last statement.
func (cl *ConnectionLocks) try(ctx context.Context, key string, attempt Attempt) (*Session, error) {
	var s *Session
	for locked := false; ; locked = true {
		var err error
		if s == nil {
			s, err = open(ctx, cl.db)
		}
		if err == nil {
			err = attempt.Try(ctx, s)
		}
		switch {
		case err == nil && ctx.Err() == nil:
			return s, nil
		case errors.Is(err, ErrTaken):
			holder, _ := cl.holderOn(ctx, s, attempt) // the error may lack the holder's name
			cl.returnSession(s)
			return nil, &lock.NotAcquiredError{Key: key, Holder: holder.Owner}
		case errors.Is(err, ErrLocked) && !s.broken:
			if ctx.Err() == nil {
				time.Sleep(retryPause)
				continue
			}
			cl.returnSession(s)
		case s != nil: // also after a grant that is too late: the driver may have closed the connection
			cl.discardSession(s, attempt)
			s = nil
		}
		switch {
		case ctx.Err() != nil && (locked || errors.Is(err, ErrLocked)):
			return nil, ErrTaken
		case err == nil:
			return nil, ctx.Err()
		case !errors.Is(err, ErrLocked):
			return nil, err
		}
	}
}

// acquisitionError returns why an acquisition failed: ctx has ended, the locker was
// closed, the key was taken until the end, or the server failed.
func (cl *ConnectionLocks) acquisitionError(ctx context.Context, key string, attempt Attempt, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case cl.closing.Err() != nil:
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, errClosed)
	case errors.Is(err, lock.ErrNotAcquired):
		return err
	case errors.Is(err, ErrTaken):
		ctx, cancel := context.WithTimeout(ctx, min(cl.config.Timeout, 100*time.Millisecond))
		defer cancel()
		holder, _ := cl.currentHolder(ctx, attempt) // the error may lack the holder's name
		return &lock.NotAcquiredError{Key: key, Holder: holder.Owner}
	}
	return Error(ctx, err)
}

// discardSession ends a session that may have the key or may still get it.
func (cl *ConnectionLocks) discardSession(s *Session, attempt Attempt) {
	ctx, cancel := cl.cleanupContext()
	defer cancel()
	if s.terminate(ctx) == nil {
		cl.clearLeftovers(ctx, attempt)
	}
}

func (cl *ConnectionLocks) clearLeftovers(ctx context.Context, attempt Attempt) {
	if s, err := open(ctx, cl.db); err == nil {
		attempt.Clear(ctx, s)
		s.returnToPool(ctx)
	}
}

func (cl *ConnectionLocks) returnSession(s *Session) {
	ctx, cancel := cl.cleanupContext()
	defer cancel()
	s.returnToPool(ctx)
}

// cleanupContext returns a context for clean-up, which does not depend on the caller.
func (cl *ConnectionLocks) cleanupContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), cl.config.Timeout)
}

// currentHolder asks for the holder of the key on a session of the pool.
func (cl *ConnectionLocks) currentHolder(ctx context.Context, attempt Attempt) (Holder, error) {
	s, err := open(ctx, cl.db)
	if err != nil {
		return Holder{}, err
	}
	defer cl.returnSession(s)
	return cl.holderOn(ctx, s, attempt)
}

// holderOn asks for the holder of the key on s. If the server does not know the owner, it
// is taken from this process's leases; otherwise the connection's number replaces it.
func (cl *ConnectionLocks) holderOn(ctx context.Context, s *Session, attempt Attempt) (Holder, error) {
	holder, err := attempt.Holder(ctx, s)
	if err != nil || holder.Connection == 0 {
		return Holder{}, err
	}
	if holder.Owner == "" {
		holder.Owner = lock.Owner(fmt.Sprintf("connection %d", holder.Connection))
		if owner, ok := cl.holders.Load(holder.Connection); ok {
			holder.Owner, _ = owner.(lock.Owner)
		}
	}
	return holder, nil
}

// Inspect returns what is known about a key. The lease is not known, because the holder's
// process keeps it. Only waiters of this process are counted.
func (cl *ConnectionLocks) Inspect(ctx context.Context, key string, attempt Attempt) (lock.State, error) {
	holder, err := cl.currentHolder(ctx, attempt)
	if err != nil {
		return lock.State{}, Error(ctx, err)
	}
	state := lock.State{Waiting: cl.queue.len(key)}
	if holder.Connection != 0 {
		state.Owner, state.Count, state.TTL = holder.Owner, 1, lock.NoExpiry
	}
	return state, nil
}

// ForceRelease ends the connection of the holder. It asks for the connection's number
// immediately before; the holder may still release in between.
func (cl *ConnectionLocks) ForceRelease(ctx context.Context, attempt Attempt) (bool, error) {
	s, err := open(ctx, cl.db)
	if err != nil {
		return false, Error(ctx, err)
	}
	defer cl.returnSession(s)
	holder, err := attempt.Holder(ctx, s)
	if err != nil || holder.Connection == 0 {
		return false, Error(ctx, err)
	}
	if err := killThread(ctx, s.conn, holder.Connection); err != nil {
		return false, Error(ctx, err)
	}
	attempt.Clear(ctx, s)
	return true, nil
}
