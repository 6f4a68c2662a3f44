package idworker

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// registry is who leases the machine ids. A test has one in memory.
type registry interface {
	// acquire leases a machine id whose mark is before r.tick. *busyError: there
	// is none at the moment.
	acquire(ctx context.Context, r reservation) (grant, error)
	// renew keeps g up to r. errLost: it is no longer the caller's.
	renew(ctx context.Context, g grant, r reservation) error
	// release gives g back; its holder minted up to last and mints no more.
	// Giving back what was lost does nothing.
	release(ctx context.Context, g grant, last int64) error
}

// grant is a leased machine id.
type grant struct {
	machine uint16
	token   string // names this one acquisition
}

// reservation is what an acquisition or a renewal asks for.
type reservation struct {
	tick     int64     // now
	ceiling  int64     // the last tick to mint in
	deadline time.Time // when to stop minting
}

// reserve must be called before the registry is asked: the lease begins, at the
// earliest, after this.
func reserve(c ticks, ttl time.Duration) reservation {
	now := time.Now()
	tick := c.at(now)
	return reservation{tick: tick, ceiling: tick + int64(ttl/unit), deadline: now.Add(usable(ttl))}
}

// errLost: the lease ran out, was deleted, or is somebody else's.
var errLost = errors.New("idworker: machine id lost")

// busyError says that no machine id could be had, and when to ask again.
type busyError struct {
	wait   time.Duration
	reason string
}

func (e *busyError) Error() string {
	return fmt.Sprintf("idworker: no machine id is free: %s", e.reason)
}

// tries bounds how many machine ids an acquisition asks for. Only a pool that is
// nearly used up, or small, needs a second.
const tries = 32

//go:embed acquire.lua
var acquireLua string

//go:embed renew.lua
var renewLua string

//go:embed release.lua
var releaseLua string

// redisRegistry leases from Redis. All its keys share one hash tag.
type redisRegistry struct {
	client redis.Scripter
	cfg    Config
	ticks  ticks
	// holder begins every token: an operator sees who has a machine id.
	holder                      string
	acquiring, renewing, ending *redis.Script
}

func newRedisRegistry(client redis.Scripter, cfg Config) *redisRegistry {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return &redisRegistry{
		client: client, cfg: cfg, ticks: ticks{start: cfg.start},
		holder:    fmt.Sprintf("%s/%d/", host, os.Getpid()),
		acquiring: redis.NewScript(acquireLua),
		renewing:  redis.NewScript(renewLua),
		ending:    redis.NewScript(releaseLua),
	}
}

// acquire asks for machine ids in a row that begins at a random one. An attempt
// whose reply is lost may leave a lease behind, until it expires.
func (r *redisRegistry) acquire(ctx context.Context, res reservation) (grant, error) {
	pool := r.cfg.pool()
	first := mathrand.IntN(pool)
	busy := &busyError{wait: r.cfg.TTL}
	for i := range min(tries, pool) {
		g := grant{
			machine: r.cfg.FirstMachine + uint16((first+i)%pool),
			token:   r.holder + rand.Text(),
		}
		status, n, err := r.try(ctx, g, res)
		if err != nil {
			return grant{}, err
		}
		wait := time.Duration(n) * time.Millisecond
		switch {
		case status == "leased":
			return g, nil
		case status == "settling":
			return grant{}, &busyError{wait: wait, reason: "the key space is new"}
		case status == "marked":
			wait = max(0, r.ticks.until(n+1, time.Now()))
		case n < 0: // somebody else wrote this key, without an expiry
			wait = r.cfg.TTL
		}
		if i == 0 || wait < busy.wait {
			busy.wait, busy.reason = wait, fmt.Sprintf("machine id %d is %s for another %v", g.machine, status, wait)
		}
	}
	return grant{}, busy
}

func (r *redisRegistry) try(ctx context.Context, g grant, res reservation) (status string, n int64, err error) {
	keys := []string{r.leaseKey(g.machine), r.markKey(g.machine), r.key("birth")}
	reply, err := r.acquiring.Run(ctx, r.client, keys,
		g.token, r.cfg.TTL.Milliseconds(), res.tick, res.ceiling,
		r.cfg.start().UnixMilli(), r.cfg.Memory.Milliseconds(), r.cfg.Settle.Milliseconds()).Slice()
	if err != nil {
		return "", 0, fmt.Errorf("idworker: lease machine id %d: %w", g.machine, err)
	}
	status, _ = reply[0].(string)
	n, _ = reply[1].(int64)
	return status, n, nil
}

func (r *redisRegistry) renew(ctx context.Context, g grant, res reservation) error {
	reply, err := r.renewing.Run(ctx, r.client, []string{r.leaseKey(g.machine), r.markKey(g.machine)},
		g.token, r.cfg.TTL.Milliseconds(), res.ceiling,
		r.cfg.start().UnixMilli(), r.cfg.Memory.Milliseconds()).StringSlice()
	switch {
	case err != nil:
		return fmt.Errorf("idworker: renew machine id %d: %w", g.machine, err)
	case reply[0] == "held":
		return fmt.Errorf("%w: %d is held by %s", errLost, g.machine, reply[1])
	case reply[0] == "gone":
		return fmt.Errorf("%w: the lease of %d is gone", errLost, g.machine)
	}
	return nil
}

func (r *redisRegistry) release(ctx context.Context, g grant, last int64) error {
	keys := []string{r.leaseKey(g.machine), r.markKey(g.machine)}
	if err := r.ending.Run(ctx, r.client, keys, g.token, last).Err(); err != nil {
		return fmt.Errorf("idworker: give back machine id %d: %w", g.machine, err)
	}
	return nil
}

func (r *redisRegistry) leaseKey(machine uint16) string {
	return r.key("lease:" + strconv.Itoa(int(machine)))
}

func (r *redisRegistry) markKey(machine uint16) string {
	return r.key("mark:" + strconv.Itoa(int(machine)))
}

func (r *redisRegistry) key(part string) string {
	return r.cfg.KeyPrefix + "idworker:{sonyflake}:" + part
}
