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

// ErrTaken is a [Claim]'s word for a key that somebody else has.
var ErrTaken = errors.New("taken")

var errClosed = errors.New("the locker is closed")

// Claim is one acquisition of one key: a mechanism's statements. Errors other than
// [ErrTaken] are those of the statements.
type Claim interface {
	// Try asks for the key once: nil when the session has it, and [ErrTaken] when
	// somebody else does; the session is then as it was. ErrTaken after a statement
	// that Try cut short lets the Keeper try again on another session.
	Try(ctx context.Context, s *Session) error
	// Wait lets the server wait for a bounded time, and is else like Try.
	Wait(ctx context.Context, s *Session) error
	// Check says whether the session still has the key: nil if so.
	Check(ctx context.Context, s *Session) error
	// Free gives the key back: nil when it did, and the session is clean again.
	Free(ctx context.Context, s *Session) error
	// Holder asks, on any session, who has the key; the zero Holder when nobody
	// does, and one without an owner where only the connection is known.
	Holder(ctx context.Context, s *Session) (Holder, error)
	// Clear removes, on any session, what an acquisition that was cut short may
	// have left.
	Clear(ctx context.Context, s *Session)
}

// Holder is who has a key.
type Holder struct {
	Owner      lock.Owner
	Connection uint64
}

// Config says how a [Keeper] works. The zero value takes every default.
type Config struct {
	// CheckEvery is how often a holder's connection is looked after, and so how
	// late the holder may learn that it is gone. Default 1 s.
	CheckEvery time.Duration
	// Timeout bounds a check, and every clean-up after an acquisition that
	// failed. It also bounds how long an acquisition that does not wait may take
	// to get a connection. Default 1 s.
	Timeout time.Duration
}

// WithDefaults returns c with every zero replaced.
func (c Config) WithDefaults() Config {
	c.CheckEvery = cmp.Or(c.CheckEvery, time.Second)
	c.Timeout = cmp.Or(c.Timeout, time.Second)
	return c
}

// Validate says with [lock.ErrInvalid] what cannot work.
func (c Config) Validate() error {
	if c.CheckEvery <= 0 || c.Timeout <= 0 {
		return fmt.Errorf("%w: CheckEvery is %v, Timeout is %v; both must be positive", lock.ErrInvalid, c.CheckEvery, c.Timeout)
	}
	return nil
}

// Keeper keeps locks of connections.
type Keeper struct {
	db     *sql.DB
	config Config
	queue  queue

	closing context.Context
	close   context.CancelFunc
	mu      sync.Mutex // guards running against Close
	running sync.WaitGroup

	holders sync.Map // connection (uint64) to lock.Owner, of this process
}

// NewKeeper returns a Keeper on the caller's pool; [lock.ErrInvalid] without one.
func NewKeeper(db *sql.DB, config Config) (*Keeper, error) {
	if db == nil {
		return nil, fmt.Errorf("%w: there is no database", lock.ErrInvalid)
	}
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	k := &Keeper{db: db, config: config}
	k.closing, k.close = context.WithCancel(context.Background())
	return k, nil
}

// Close tells every holder that nobody looks after its lock any more, and closes
// the holders' connections: the server takes their locks back.
func (k *Keeper) Close() error {
	k.mu.Lock()
	k.close()
	k.mu.Unlock()
	k.running.Wait()
	return nil
}

// Acquire takes claim's key for owner.
func (k *Keeper) Acquire(ctx context.Context, key string, owner lock.Owner, opts lock.Options, claim Claim) (lock.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	limit, cancel := context.WithTimeout(ctx, cmp.Or(opts.Wait, k.config.Timeout))
	defer cancel()
	stop := context.AfterFunc(k.closing, cancel)
	defer stop()
	s, err := k.win(limit, key, opts.Wait > 0, claim)
	if err != nil {
		return nil, k.refusal(ctx, key, claim, err)
	}
	l, err := k.hold(ctx, s, key, owner, opts.TTL, claim)
	if err != nil {
		return nil, err
	}
	return lock.Deliver(ctx, l, opts.Faults)
}

// win returns a session that has the key.
func (k *Keeper) win(ctx context.Context, key string, wait bool, claim Claim) (*Session, error) {
	if !wait || k.queue.len(key) == 0 { // else it would only stand behind the others
		s, err := k.try(ctx, key, claim)
		if err == nil || !wait || !errors.Is(err, lock.ErrNotAcquired) {
			return s, err
		}
	}
	leave, err := k.queue.enter(ctx, key)
	if err != nil {
		return nil, ErrTaken
	}
	defer leave()
	s, err := open(ctx, k.db)
	switch {
	case err != nil && ctx.Err() != nil: // as in line: the wait is over, and the key was taken
		return nil, ErrTaken
	case err != nil:
		return nil, err
	}
	for {
		err := claim.Wait(ctx, s)
		switch {
		case ctx.Err() != nil: // also when it was granted: the driver may have closed the connection
			err = ErrTaken
		case err == nil:
			return s, nil
		case errors.Is(err, ErrTaken) && !s.broken:
			continue
		}
		k.clean(s, claim)
		return nil, err
	}
}

// try asks once, and where the key is taken by whom. A try that was cut short by the
// mechanism itself, to learn what is in its way, is made again on another session.
func (k *Keeper) try(ctx context.Context, key string, claim Claim) (*Session, error) {
	for {
		s, err := open(ctx, k.db)
		if err != nil {
			return nil, err
		}
		err = claim.Try(ctx, s)
		switch {
		case err == nil && ctx.Err() == nil:
			return s, nil
		case errors.Is(err, ErrTaken) && !s.broken:
			holder, _ := k.ask(ctx, s, claim) // a name is welcome, not needed
			k.back(s)
			return nil, &lock.NotAcquiredError{Key: key, Holder: holder.Owner}
		}
		k.clean(s, claim)
		switch {
		case err == nil: // granted too late: the driver may have closed the connection
			return nil, ctx.Err()
		case !errors.Is(err, ErrTaken):
			return nil, err
		}
	}
}

// refusal is why an acquisition failed: ctx, or the locker that was closed, or the
// key that was taken until the end, or the server.
func (k *Keeper) refusal(ctx context.Context, key string, claim Claim, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case k.closing.Err() != nil:
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, errClosed)
	case errors.Is(err, lock.ErrNotAcquired):
		return err
	case errors.Is(err, ErrTaken):
		ctx, cancel := context.WithTimeout(ctx, min(k.config.Timeout, 100*time.Millisecond))
		defer cancel()
		holder, _ := k.holder(ctx, claim) // a name is welcome, not needed
		return &lock.NotAcquiredError{Key: key, Holder: holder.Owner}
	}
	return Error(ctx, err)
}

// clean ends a session that may have the key, or may yet get it.
func (k *Keeper) clean(s *Session, claim Claim) {
	ctx, cancel := k.aside()
	defer cancel()
	if s.end(ctx) == nil {
		k.clear(ctx, claim)
	}
}

func (k *Keeper) clear(ctx context.Context, claim Claim) {
	if s, err := open(ctx, k.db); err == nil {
		claim.Clear(ctx, s)
		s.giveBack(ctx)
	}
}

func (k *Keeper) back(s *Session) {
	ctx, cancel := k.aside()
	defer cancel()
	s.giveBack(ctx)
}

// aside is a context for what has to be done whatever became of the caller.
func (k *Keeper) aside() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), k.config.Timeout)
}

// holder asks who has a claim's key, on a session of the pool.
func (k *Keeper) holder(ctx context.Context, claim Claim) (Holder, error) {
	s, err := open(ctx, k.db)
	if err != nil {
		return Holder{}, err
	}
	defer k.back(s)
	return k.ask(ctx, s, claim)
}

// ask fills in the owner that the server does not know: from this process's
// leases, else the connection's number stands for it.
func (k *Keeper) ask(ctx context.Context, s *Session, claim Claim) (Holder, error) {
	holder, err := claim.Holder(ctx, s)
	if err != nil || holder.Connection == 0 {
		return Holder{}, err
	}
	if holder.Owner == "" {
		holder.Owner = lock.Owner(fmt.Sprintf("connection %d", holder.Connection))
		if owner, ok := k.holders.Load(holder.Connection); ok {
			holder.Owner, _ = owner.(lock.Owner)
		}
	}
	return holder, nil
}

// Inspect is what is known of a claim's key: not the lease, which is kept by the
// process that holds it, and of the waiters those of this process.
func (k *Keeper) Inspect(ctx context.Context, key string, claim Claim) (lock.State, error) {
	holder, err := k.holder(ctx, claim)
	if err != nil {
		return lock.State{}, Error(ctx, err)
	}
	state := lock.State{Waiting: k.queue.len(key)}
	if holder.Connection != 0 {
		state.Owner, state.Count, state.TTL = holder.Owner, 1, lock.NoExpiry
	}
	return state, nil
}

// ForceRelease ends the connection of whoever has the key. The number is asked for
// immediately before; what the connection does in between, nobody can hold up.
func (k *Keeper) ForceRelease(ctx context.Context, claim Claim) (bool, error) {
	s, err := open(ctx, k.db)
	if err != nil {
		return false, Error(ctx, err)
	}
	defer k.back(s)
	holder, err := claim.Holder(ctx, s)
	if err != nil || holder.Connection == 0 {
		return false, Error(ctx, err)
	}
	if err := killThread(ctx, s.conn, holder.Connection); err != nil {
		return false, Error(ctx, err)
	}
	claim.Clear(ctx, s)
	return true, nil
}
