package getlock

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"seckill/internal/lock"
	"seckill/internal/lock/mysql/mysqlio"
)

// maxName is the length of the longest name that the servers accept, in characters.
const maxName = 64

// plain lists the characters of names that are used unchanged.
const plain = "abcdefghijklmnopqrstuvwxyz0123456789:-_./"

// slice is how long one GET_LOCK waits on the server, in seconds: whole seconds, because MySQL has no others. It is
// repeated until the wait has ended.
const slice = 5

// Config configures a [Locker]. Zero fields take their defaults.
type Config struct {
	// Prefix comes before every key. The names of GET_LOCK belong to the server, not to a database, so the prefix
	// distinguishes installations.
	Prefix string
	mysqlio.Config
}

// Locker acquires GET_LOCK, each lease on its own connection.
type Locker struct {
	prefix string
	locks  *mysqlio.ConnectionLocks
	owners *lock.Owners
}

var (
	_ lock.Locker        = (*Locker)(nil)
	_ lock.Inspector     = (*Locker)(nil)
	_ lock.ForceReleaser = (*Locker)(nil)
)

// New returns a Locker on the caller's pool. It returns [lock.ErrInvalid] if the pool is nil. Close ends its background
// work.
func New(db *sql.DB, config Config) (*Locker, error) {
	locks, err := mysqlio.NewConnectionLocks(db, config.Config)
	if err != nil {
		return nil, err
	}
	return &Locker{prefix: config.Prefix, locks: locks, owners: lock.NewOwners()}, nil
}

// Close tells every holder that its lock is lost and closes its connection.
func (l *Locker) Close() error { return l.locks.Close() }

// Acquire implements [lock.Locker]. This process keeps the fixed lease (opts.TTL), not the server. Without one the lock
// ends only with its connection.
func (l *Locker) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	return l.locks.Acquire(ctx, key, l.owners.From(ctx), opts, attempt(Name(l.prefix, key)))
}

// Inspect implements [lock.Inspector]. The server knows only the number of a connection, so a holder in another process
// is called "connection <number>".
func (l *Locker) Inspect(ctx context.Context, key string) (lock.State, error) {
	return l.locks.Inspect(ctx, key, attempt(Name(l.prefix, key)))
}

// ForceRelease implements [lock.ForceReleaser] by ending the holder's connection.
func (l *Locker) ForceRelease(ctx context.Context, key string) (bool, error) {
	return l.locks.ForceRelease(ctx, attempt(Name(l.prefix, key)))
}

// Name returns the server's name for a key: "lock:", prefix and key if that is short enough and lower-case ASCII,
// otherwise a digest of it. The servers ignore the case of names and refuse names longer than 64 characters.
func Name(prefix, key string) string {
	name := "lock:" + prefix + key
	if len(name) <= maxName && strings.TrimLeft(name, plain) == "" {
		return name
	}
	digest := sha256.Sum256([]byte(name))
	return "lock#" + hex.EncodeToString(digest[:28]) // no plain name contains '#'
}

// attempt is the name of the lock.
type attempt string

var _ mysqlio.Attempt = attempt("")

var errNoAnswer = errors.New("the server could not tell")

func (a attempt) Try(ctx context.Context, s *mysqlio.Session) error { return a.get(ctx, s, 0) }

func (a attempt) Wait(ctx context.Context, s *mysqlio.Session) error { return a.get(ctx, s, slice) }

func (a attempt) get(ctx context.Context, s *mysqlio.Session, seconds int) error {
	var got sql.NullBool
	err := s.Scan(ctx, []any{&got}, "SELECT GET_LOCK(?, ?)", string(a), seconds)
	switch {
	case err != nil:
		return err
	case !got.Valid:
		return fmt.Errorf("GET_LOCK: %w", errNoAnswer)
	case !got.Bool:
		return mysqlio.ErrTaken
	}
	return nil
}

// Check asks whether this connection still has the lock. The answer also proves that the connection is alive.
func (a attempt) Check(ctx context.Context, s *mysqlio.Session) error {
	var mine sql.NullBool
	if err := s.Scan(ctx, []any{&mine}, "SELECT IS_USED_LOCK(?) = CONNECTION_ID()", string(a)); err != nil {
		return err
	}
	if !mine.Bool {
		return lock.ErrExpired
	}
	return nil
}

func (a attempt) Free(ctx context.Context, s *mysqlio.Session) error {
	var freed sql.NullBool // NULL: free; 0: held by another connection
	if err := s.Scan(ctx, []any{&freed}, "SELECT RELEASE_LOCK(?)", string(a)); err != nil {
		return err
	}
	if !freed.Bool {
		return lock.ErrExpired
	}
	return nil
}

// Holder returns the connection. The server knows no owner.
func (a attempt) Holder(ctx context.Context, s *mysqlio.Session) (mysqlio.Holder, error) {
	var id sql.Null[uint64]
	err := s.Scan(ctx, []any{&id}, "SELECT IS_USED_LOCK(?)", string(a))
	return mysqlio.Holder{Connection: id.V}, err
}

// Clear does nothing: a lock leaves nothing behind.
func (attempt) Clear(context.Context, *mysqlio.Session) {}
