package native

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/plain"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/lock/watchdog"
)

// Config configures a [Locker]. The zero value takes every default.
type Config struct {
	plain.Config
	// WatchdogTimeout is the length of a lease that is renewed, which is one without a TTL of its own. It is renewed
	// every third of that. Default 30 s.
	WatchdogTimeout time.Duration
}

// Locker is the mechanism. It implements lock.Locker, lock.Inspector and lock.ForceReleaser.
type Locker struct {
	*plain.Locker
	client   plain.Client
	watchdog *watchdog.Watchdog[*lease]
	deletes  atomic.Pointer[command] // nil: the server has not been asked yet
}

var _ lock.ForceReleaser = (*Locker)(nil)

// New checks the configuration (lock.ErrInvalid) and starts the watchdog, which Close stops. It does not talk to Redis
// yet.
func New(client plain.Client, config Config) (*Locker, error) {
	if config.WatchdogTimeout == 0 {
		config.WatchdogTimeout = 30 * time.Second
	}
	if config.WatchdogTimeout < lock.MinTTL || config.WatchdogTimeout > lock.MaxTTL {
		return nil, fmt.Errorf("%w: WatchdogTimeout is %v; %v to %v",
			lock.ErrInvalid, config.WatchdogTimeout, lock.MinTTL, lock.MaxTTL)
	}
	l := &Locker{client: client}
	var err error
	l.Locker, err = plain.New(client, config.Config, plain.Mechanism{
		Name: "native", Value: plain.Unique, Renewed: config.WatchdogTimeout, Try: l.try,
	})
	if err != nil {
		return nil, err
	}
	every := config.WatchdogTimeout / 3
	l.watchdog = watchdog.New(watchdog.Config{RenewEvery: every, RetryEvery: min(every/5, time.Second)}, l.renew, nil)
	return l, nil
}

// Close stops the watchdog, which tells the holders. It releases nothing: release first.
func (l *Locker) Close() error {
	l.watchdog.Close()
	return nil
}

// command makes the arguments of a command on one attempt's key and value.
type command func(a plain.Attempt) []any

// compareAndDelete lists the commands that delete a key if it has a given value. A server has one of them, or both.
var compareAndDelete = []command{
	func(a plain.Attempt) []any { return []any{"delifeq", a.Name, a.Value} },       // Valkey 9.0
	func(a plain.Attempt) []any { return []any{"delex", a.Name, "ifeq", a.Value} }, // Redis 8.4, Valkey 9.2
}

// choose finds the command by which this server compares and deletes. It sends them for a value that nobody has written
// yet, so nothing is deleted: unlike the version, which every fork and service counts in its own way, the reply is
// certain.
func (l *Locker) choose(ctx context.Context, a plain.Attempt) error {
	if l.deletes.Load() != nil {
		return nil
	}
	for _, deletes := range compareAndDelete {
		switch err := l.client.Do(ctx, deletes(a)...).Err(); {
		case err == nil:
			l.deletes.Store(&deletes)
			return nil
		case !redis.HasErrorPrefix(err, "unknown command"):
			return redisio.Error(ctx, err)
		}
	}
	return fmt.Errorf("%w: native needs DELIFEQ (Valkey 9.0 or later) or DELEX (Redis 8.4 or later), and the server has neither",
		lock.ErrUnavailable)
}

func (l *Locker) try(ctx context.Context, a plain.Attempt) (lock.Lease, error) {
	if err := l.choose(ctx, a); err != nil {
		return nil, err
	}
	start := time.Now()
	found, err := a.Client.SetArgs(ctx, a.Name, a.Value, redis.SetArgs{Mode: "NX", Get: true, TTL: a.TTL}).Result()
	switch {
	case errors.Is(err, redis.Nil), err == nil && found == a.Value:
		return lock.Deliver(ctx, l.hold(ctx, a, start))
	case err != nil:
		_ = lock.Release(ctx, l.hold(ctx, a, start)) // the server may have granted the key
		return nil, redisio.Error(ctx, err)
	}
	return nil, &lock.NotAcquiredError{Key: a.Key, Holder: plain.Holder(found)}
}

// release compares and deletes in one command. Its reply does not tell an expired lock from another holder's, so a GET
// looks for what is there now.
func (l *Locker) release(ctx context.Context, h *lease) error {
	deleted, err := l.client.Do(ctx, (*l.deletes.Load())(h.Attempt)...).Int()
	switch {
	case err != nil:
		h.releaseUnknown = true
		return redisio.Error(ctx, err)
	case deleted == 1, h.releaseUnknown && h.watched.Held.Remaining() > 0: // a release without a reply deleted it
		return nil
	}
	return over(ctx, l.client.Get(ctx, h.Name).Err())
}

// ForceRelease implements [lock.ForceReleaser].
func (l *Locker) ForceRelease(ctx context.Context, key string) (bool, error) {
	if err := lock.Check(key, lock.Options{}); err != nil {
		return false, err
	}
	n, err := l.client.Del(ctx, l.Name(key)).Result()
	return n == 1, redisio.Error(ctx, err)
}
