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

// maxName is the longest name that the servers take, in characters.
const maxName = 64

// plain is what a name may be made of to be used as it is.
const plain = "abcdefghijklmnopqrstuvwxyz0123456789:-_./"

// slice is how long, in seconds, one GET_LOCK waits on the server: whole seconds,
// since MySQL knows no others. It is sent again until the wait is over.
const slice = 5

// Config says how a [Locker] works. The zero value takes every default.
type Config struct {
	// Prefix comes before every key. Names of GET_LOCK belong to the server, not
	// to a database, so it tells installations apart.
	Prefix string
	mysqlio.Config
}

// Locker is GET_LOCK on connections of its own.
type Locker struct {
	prefix string
	keeper *mysqlio.Keeper
	owners *lock.Owners
}

var (
	_ lock.Locker    = (*Locker)(nil)
	_ lock.Inspector = (*Locker)(nil)
	_ lock.Breaker   = (*Locker)(nil)
)

// New returns a Locker on the caller's pool, which may not be nil
// ([lock.ErrInvalid]). Close ends what it does in the background.
func New(db *sql.DB, config Config) (*Locker, error) {
	keeper, err := mysqlio.NewKeeper(db, config.Config)
	if err != nil {
		return nil, err
	}
	return &Locker{prefix: config.Prefix, keeper: keeper, owners: lock.NewOwners()}, nil
}

// Close tells every holder, and closes its connection.
func (l *Locker) Close() error { return l.keeper.Close() }

// Acquire implements [lock.Locker]. A lease (opts.TTL) is kept by this process, not
// by the server; without one the lock has no end but that of its connection.
func (l *Locker) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	return l.keeper.Acquire(ctx, key, l.owners.From(ctx), opts, claim(Name(l.prefix, key)))
}

// Inspect implements [lock.Inspector]. The server knows a connection by its number
// and not whose it is: a holder in another process is called "connection <number>".
func (l *Locker) Inspect(ctx context.Context, key string) (lock.State, error) {
	return l.keeper.Inspect(ctx, key, claim(Name(l.prefix, key)))
}

// ForceRelease implements [lock.Breaker]: it ends the holder's connection.
func (l *Locker) ForceRelease(ctx context.Context, key string) (bool, error) {
	return l.keeper.ForceRelease(ctx, claim(Name(l.prefix, key)))
}

// Name is what the server calls a key: "lock:", prefix and key where that is short
// enough and of lower-case ASCII, else a digest of it. The servers compare names
// without regard to case, and refuse what is longer than 64 characters.
func Name(prefix, key string) string {
	name := "lock:" + prefix + key
	if len(name) <= maxName && strings.TrimLeft(name, plain) == "" {
		return name
	}
	digest := sha256.Sum256([]byte(name))
	return "lock#" + hex.EncodeToString(digest[:28]) // '#' is in no plain name
}

// claim is the name.
type claim string

var _ mysqlio.Claim = claim("")

var errNoAnswer = errors.New("the server could not tell")

func (c claim) Try(ctx context.Context, s *mysqlio.Session) error { return c.get(ctx, s, 0) }

func (c claim) Wait(ctx context.Context, s *mysqlio.Session) error { return c.get(ctx, s, slice) }

func (c claim) get(ctx context.Context, s *mysqlio.Session, seconds int) error {
	var got sql.NullBool
	err := s.Scan(ctx, []any{&got}, "SELECT GET_LOCK(?, ?)", string(c), seconds)
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

// Check asks whether the lock is still this connection's; the answer proves that
// the connection lives, too.
func (c claim) Check(ctx context.Context, s *mysqlio.Session) error {
	var mine sql.NullBool
	if err := s.Scan(ctx, []any{&mine}, "SELECT IS_USED_LOCK(?) = CONNECTION_ID()", string(c)); err != nil {
		return err
	}
	if !mine.Bool {
		return lock.ErrExpired
	}
	return nil
}

func (c claim) Free(ctx context.Context, s *mysqlio.Session) error {
	var freed sql.NullBool // NULL: nobody has it; 0: somebody else
	if err := s.Scan(ctx, []any{&freed}, "SELECT RELEASE_LOCK(?)", string(c)); err != nil {
		return err
	}
	if !freed.Bool {
		return lock.ErrExpired
	}
	return nil
}

// Holder is a connection: the server knows no more.
func (c claim) Holder(ctx context.Context, s *mysqlio.Session) (mysqlio.Holder, error) {
	var id sql.Null[uint64]
	err := s.Scan(ctx, []any{&id}, "SELECT IS_USED_LOCK(?)", string(c))
	return mysqlio.Holder{Connection: id.V}, err
}

// Clear has nothing to do: a lock leaves no trace.
func (claim) Clear(context.Context, *mysqlio.Session) {}
