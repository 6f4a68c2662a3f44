package session

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/lock/watchdog"
)

// Client is what a session needs of go-redis. [redis.UniversalClient] implements it: a single node, the primary behind
// a sentinel, or a cluster. A *redis.Client should have ContextTimeoutEnabled; a goroutine alone is then a fifth
// faster.
type Client interface {
	// Pipeline sends commands together; in a cluster, to each node its own.
	Pipeline() redis.Pipeliner
	// Subscribe opens the shared pub/sub connection.
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// Session is one mechanism in one process. It is safe for use by many goroutines. A process needs only one: its waiters
// share a connection and its leases a watchdog.
type Session struct {
	client   Client
	config   Config
	protocol Protocol
	scripts  scripts
	modes    []*mode
	process  string       // identifies this process in the names of channels
	ids      *lock.Owners // of owners and of leases

	batcher  *batcher
	watchdog *watchdog.Watchdog[*heldLease]
	listener *listener
	waiters  *waitQueues

	closing context.Context
	close   context.CancelFunc

	once     sync.Once // for Close
	mu       sync.Mutex
	closed   bool           // guarded by mu: no clean-up may start any more
	cleanUps sync.WaitGroup // running clean-ups
}

var (
	_ lock.Locker        = (*Session)(nil)
	_ lock.Inspector     = (*Session)(nil)
	_ lock.ForceReleaser = (*Session)(nil)
)

// New checks the configuration ([lock.ErrInvalid]) and starts the background goroutines. It does not talk to Redis yet.
// Close stops everything.
func New(client Client, protocol Protocol, config Config) (*Session, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: %s needs a Redis client", lock.ErrInvalid, protocol.Name)
	}
	if _, ring := client.(*redis.Ring); ring {
		return nil, fmt.Errorf("%w: %s cannot use a redis.Ring, whose nodes share no channels",
			lock.ErrInvalid, protocol.Name)
	}
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	_, cluster := client.(*redis.ClusterClient)
	scripts, modes, err := protocol.build(cluster || config.Cluster)
	if err != nil {
		return nil, err
	}
	ids := lock.NewOwners()
	s := &Session{
		client: client, config: config, protocol: protocol, scripts: scripts, modes: modes,
		process: string(ids.New()), ids: ids,
		batcher: newBatcher(client, config.CommandTimeout, config.Pipelines),
	}
	s.closing, s.close = context.WithCancel(context.Background())
	renewals := watchdog.Config{RenewEvery: config.RenewEvery, RetryEvery: config.RetryEvery}
	s.watchdog = watchdog.New(renewals, s.renew, sameHolder)
	s.listener = newListener(client, config.RetryEvery)
	s.waiters = newWaitQueues(s.listener, config)
	return s, nil
}

// Close ends every wait and stops the watchdog, which tells the holders. It releases nothing: release first. When it
// returns, no goroutine of the session is left.
func (s *Session) Close() error {
	s.once.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.close()
		s.watchdog.Close()
		s.listener.close()
		s.batcher.close()
		s.cleanUps.Wait()
	})
	return nil
}

// background runs work that Close waits for. It reports false after Close.
func (s *Session) background(work func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.cleanUps.Go(work)
	return true
}

// Acquire implements [lock.Locker] for the protocol's first mode.
func (s *Session) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	return s.acquireMode(ctx, 0, key, opts)
}

// Mode returns the locker of one of the protocol's modes.
func (s *Session) Mode(i int) lock.Locker {
	return acquireFunc(func(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
		return s.acquireMode(ctx, i, key, opts)
	})
}

type acquireFunc func(context.Context, string, lock.Options) (lock.Lease, error)

// Acquire implements [lock.Locker].
func (f acquireFunc) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	return f(ctx, key, opts)
}

func (s *Session) acquireMode(ctx context.Context, i int, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	r := s.request(ctx, s.modes[i], key, opts)
	delivered := false
	defer func() { // also when a fault panics
		if !delivered && (r.granted.Load() || r.unanswered.Load() || r.pending != nil) {
			s.cleanUp(r)
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
	key       string
	mode      *mode
	keys      []string // in Redis: the lock, its queue, the protocol's extra keys
	owner     lock.Owner
	leaseID   string // identifies the request and the lease that it is granted
	value     string // "<lease id> <owner>", what SET NX writes
	ttl       time.Duration
	autoRenew bool
	start     time.Time

	// The effects that an acquisition without an answer may have on the server, now or later.
	granted    atomic.Bool // it granted the lease, which was not delivered
	unanswered atomic.Bool // a command had no reply and may still be carried out
	pending    *call       // the last attempt, if the caller left before its reply

	cleanUpUntil time.Time // how long the caller waits for its clean-up; zero: not started
}

func (s *Session) request(ctx context.Context, m *mode, key string, opts lock.Options) *request {
	r := &request{
		key: key, mode: m, keys: s.keys(key),
		ttl: opts.TTL.Truncate(time.Millisecond), start: time.Now(),
	}
	owner, given := lock.OwnerFrom(ctx)
	id := string(s.ids.New())
	if given {
		r.leaseID, r.owner = leasePrefix+id, owner
		r.value = r.leaseID + " " + string(owner)
	} else { // parts of one string: this is the most frequent case
		r.value = leasePrefix + id + " " + id
		r.leaseID, r.owner = r.value[:len(leasePrefix)+len(id)], lock.Owner(id)
	}
	if opts.TTL == 0 {
		r.ttl, r.autoRenew = s.config.WatchdogTimeout.Truncate(time.Millisecond), true
	}
	return r
}

// leasePrefix tells a lease id from other values that a lock may hold.
const leasePrefix = "lease:"

// lock returns the key of the lock itself.
func (r *request) lock() string { return r.keys[0] }

// keys returns the keys of one lock. All have the lock's key as their hash tag.
func (s *Session) keys(key string) []string {
	queue := redisio.Key(s.config.Prefix, s.protocol.Name, key, "queue")
	name := strings.TrimSuffix(queue, ":queue")
	keys := make([]string, 2, 2+len(s.protocol.ExtraKeys))
	keys[0], keys[1] = name, queue
	for _, extra := range s.protocol.ExtraKeys {
		keys = append(keys, name+":"+extra)
	}
	return keys
}

// channel returns the channel on which this process is notified of a lock.
func (s *Session) channel(r *request) string {
	return r.lock() + ":" + r.mode.Name + "@" + s.process
}
