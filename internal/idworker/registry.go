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

// registry leases the machine ids.
type registry interface {
	// acquire leases a machine id whose mark is before r.tick. A *busyError means that
	// none is available at the moment.
	acquire(ctx context.Context, r reservation) (grant, error)
	// renew extends g to r. errLost means that the caller no longer holds it.
	renew(ctx context.Context, g grant, r reservation) error
	// release releases g, whose holder mints no more and whose last id is in the tick
	// last. If the caller no longer holds g, nothing happens.
	release(ctx context.Context, g grant, last int64) error
}

// grant is a leased machine id.
type grant struct {
	machine uint16
	token   string // unique to this acquisition
}

// reservation is what an acquisition or a renewal asks for.
type reservation struct {
	tick     int64     // the current tick
	ceiling  int64     // the mark: the last tick to mint in
	deadline time.Time // when to stop minting
}

// reserve returns the reservation for an acquisition or a renewal that is sent from now
// on. It must come before the call to the registry, so that the deadline counts from
// before the beginning of the lease.
func reserve(c ticks, ttl time.Duration) reservation {
	now := time.Now()
	tick := c.at(now)
	return reservation{tick: tick, ceiling: tick + int64(ttl/unit), deadline: now.Add(usable(ttl))}
}

// errLost: the lease has expired, was deleted, or belongs to another holder.
var errLost = errors.New("idworker: machine id lost")

// busyError means that no machine id is available. wait is when to ask again.
type busyError struct {
	wait   time.Duration
	reason string
}

func (e *busyError) Error() string {
	return fmt.Sprintf("idworker: no machine id is free: %s", e.reason)
}

// maxTries is the largest number of machine ids that one acquisition tries. More than one
// is needed only when few are free.
const maxTries = 32

//go:embed acquire.lua
var acquireLua string

//go:embed renew.lua
var renewLua string

//go:embed release.lua
var releaseLua string

// redisRegistry is the registry in Redis. All its keys have the same hash tag.
type redisRegistry struct {
	client redis.Scripter
	cfg    Config
	ticks  ticks
	// holder is the prefix of every token. It shows an operator who holds a machine id.
	holder string

	acquireScript, renewScript, releaseScript *redis.Script
}

func newRedisRegistry(client redis.Scripter, cfg Config) *redisRegistry {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return &redisRegistry{
		client: client, cfg: cfg, ticks: ticks{start: cfg.start},
		holder:        fmt.Sprintf("%s/%d/", host, os.Getpid()),
		acquireScript: redis.NewScript(acquireLua),
		renewScript:   redis.NewScript(renewLua),
		releaseScript: redis.NewScript(releaseLua),
	}
}

// acquire tries successive machine ids, starting from a random one. A try whose reply is
// lost may leave a lease, which expires.
func (r *redisRegistry) acquire(ctx context.Context, res reservation) (grant, error) {
	available := r.cfg.available()
	first := mathrand.IntN(available)
	busy := &busyError{wait: r.cfg.TTL}
	for i := range min(maxTries, available) {
		g := grant{
			machine: r.cfg.FirstMachine + uint16((first+i)%available),
			token:   r.holder + rand.Text(),
		}
		status, n, err := r.tryAcquire(ctx, g, res)
		if err != nil {
			return grant{}, err
		}
		wait := time.Duration(n) * time.Millisecond
		switch {
		case status == "leased":
			return g, nil
		case status == "grace":
			return grant{}, &busyError{wait: wait, reason: "Redis was empty, in the grace period"}
		case status == "marked":
			wait = max(0, r.ticks.until(n+1, time.Now()))
		case n < 0: // the key has no expiry, so it was not written by this package
			wait = r.cfg.TTL
		}
		if i == 0 || wait < busy.wait {
			busy.wait, busy.reason = wait, fmt.Sprintf("machine id %d is %s for another %v", g.machine, status, wait)
		}
	}
	return grant{}, busy
}

func (r *redisRegistry) tryAcquire(ctx context.Context, g grant, res reservation) (status string, n int64, err error) {
	keys := []string{r.leaseKey(g.machine), r.markKey(g.machine), r.key("birth")}
	reply, err := r.acquireScript.Run(ctx, r.client, keys,
		g.token, r.cfg.TTL.Milliseconds(), res.tick, res.ceiling,
		r.cfg.start().UnixMilli(), r.cfg.MarkRetention.Milliseconds(), r.cfg.GracePeriod.Milliseconds()).Slice()
	if err != nil {
		return "", 0, fmt.Errorf("idworker: lease machine id %d: %w", g.machine, err)
	}
	status, _ = reply[0].(string)
	n, _ = reply[1].(int64)
	return status, n, nil
}

func (r *redisRegistry) renew(ctx context.Context, g grant, res reservation) error {
	reply, err := r.renewScript.Run(ctx, r.client, []string{r.leaseKey(g.machine), r.markKey(g.machine)},
		g.token, r.cfg.TTL.Milliseconds(), res.ceiling,
		r.cfg.start().UnixMilli(), r.cfg.MarkRetention.Milliseconds()).StringSlice()
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
	if err := r.releaseScript.Run(ctx, r.client, keys, g.token, last).Err(); err != nil {
		return fmt.Errorf("idworker: release machine id %d: %w", g.machine, err)
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
