package session

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/lock/watchdog"
)

// Client is what a session needs of go-redis. [redis.UniversalClient] has it: a
// single node, a sentinel's primary or a cluster.
type Client interface {
	// Pipeline sends commands together; in a cluster, to each node its own.
	Pipeline() redis.Pipeliner
	// Subscribe opens the shared pub/sub connection.
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// Session is one mechanism in one process. It is safe for use by many goroutines,
// and a process needs one: its waiters share a connection and its leases one
// watchdog.
type Session struct {
	config   Config
	protocol Protocol
	scripts  scripts
	sides    []*side
	process  string       // this process, in the names of channels
	owners   *lock.Owners // and of leases

	pipe     *pipe
	watchdog *watchdog.Watchdog[*lease]
	listener *listener
	room     *room

	closing context.Context
	close   context.CancelFunc

	once   sync.Once // for Close
	mu     sync.Mutex
	closed bool           // guarded by mu: no clean-up begins any more
	clean  sync.WaitGroup // clean-ups under way
}

var (
	_ lock.Locker    = (*Session)(nil)
	_ lock.Inspector = (*Session)(nil)
	_ lock.Breaker   = (*Session)(nil)
)

// New checks the configuration ([lock.ErrInvalid]) and starts what works in the
// background. It does not talk to Redis yet. Close stops it all.
func New(client Client, protocol Protocol, config Config) (*Session, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: %s needs a Redis client", lock.ErrInvalid, protocol.Name)
	}
	if _, ring := client.(*redis.Ring); ring {
		return nil, fmt.Errorf("%w: %s cannot be kept on a redis.Ring, whose nodes share no channels", lock.ErrInvalid, protocol.Name)
	}
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	owners := lock.NewOwners()
	_, cluster := client.(*redis.ClusterClient)
	cluster = cluster || config.Cluster
	s := &Session{
		config: config, protocol: protocol,
		scripts: protocol.scripts(cluster), sides: protocol.sides(cluster),
		process: string(owners.New()), owners: owners,
		pipe: newPipe(client, config.CommandTimeout, config.Pipelines),
	}
	s.closing, s.close = context.WithCancel(context.Background())
	s.watchdog = watchdog.New(watchdog.Config{RenewEvery: config.RenewEvery, RetryEvery: config.RetryEvery}, s.renew, sameHold)
	s.listener = newListener(client, config.RetryEvery)
	s.room = newRoom(s.listener, config)
	return s, nil
}

// Close ends every wait and stops the watchdog, whose holders are told. It gives
// nothing back: release first. It returns when nothing of the session runs any more.
func (s *Session) Close() error {
	s.once.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.close()
		s.watchdog.Close()
		s.listener.close()
		s.pipe.close()
		s.clean.Wait()
	})
	return nil
}

// background runs work that Close waits for. It reports false once closed.
func (s *Session) background(work func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.clean.Go(work)
	return true
}

// Acquire implements [lock.Locker] for the protocol's first side.
func (s *Session) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	return s.acquireSide(ctx, 0, key, opts)
}

// Side is the locker of one of the protocol's sides.
func (s *Session) Side(i int) lock.Locker {
	return acquireFunc(func(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
		return s.acquireSide(ctx, i, key, opts)
	})
}

type acquireFunc func(context.Context, string, lock.Options) (lock.Lease, error)

// Acquire implements [lock.Locker].
func (f acquireFunc) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	return f(ctx, key, opts)
}

func (s *Session) acquireSide(ctx context.Context, i int, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	r := s.request(ctx, s.sides[i], key, opts)
	delivered := false
	defer func() { // also when a fault panics
		if !delivered && (r.granted.Load() || r.unanswered.Load() || r.pending != nil) {
			s.giveBack(r)
		}
	}()
	held, err := s.acquire(ctx, r, opts.Wait)
	if err != nil {
		return nil, err
	}
	delivered = true
	return held, nil
}

// request is one acquisition.
type request struct {
	key     string
	side    *side
	keys    []string // in Redis: the lock, its queue, the protocol's further ones
	owner   lock.Owner
	lease   string // the request's identity
	ttl     time.Duration
	renewed bool
	begun   time.Time
	faults  *lock.Faults

	// What the server may do, or have done, for an acquisition that fails.
	granted    atomic.Bool // it granted the lease, which was not delivered
	unanswered atomic.Bool // a command had no answer, and may be carried out yet
	pending    *call       // the last attempt, if it was given up before it ended

	prompt time.Time // until when the caller waits for its own clean-up; zero: not begun
}

func (s *Session) request(ctx context.Context, side *side, key string, opts lock.Options) *request {
	r := &request{
		key: key, side: side, keys: s.keys(key),
		ttl: opts.TTL.Truncate(time.Millisecond), begun: time.Now(), faults: opts.Faults,
	}
	id := s.owners.New()
	r.lease = leasePrefix + string(id)
	if owner, given := lock.OwnerFrom(ctx); given {
		r.owner = owner
	} else {
		r.owner = id
	}
	if opts.TTL == 0 {
		r.ttl, r.renewed = s.config.WatchdogTimeout.Truncate(time.Millisecond), true
	}
	return r
}

// leasePrefix sets a lease apart from what else a lock's value may hold.
const leasePrefix = "lease:"

// lock is the key of the lock itself.
func (r *request) lock() string { return r.keys[0] }

// keys are those of one lock, all with the lock's key as their hash tag.
func (s *Session) keys(key string) []string {
	return s.keysOf(redisio.Key(s.config.Prefix, s.protocol.Name, key, ""))
}

func (s *Session) keysOf(name string) []string {
	keys := make([]string, 2, 2+len(s.protocol.Parts))
	keys[0], keys[1] = name, name+":queue"
	for _, part := range s.protocol.Parts {
		keys = append(keys, name+":"+part)
	}
	return keys
}

// channel is where this process hears of a lock.
func (s *Session) channel(r *request) string {
	return r.lock() + ":" + r.side.Name + "@" + s.process
}
