// Package rediswatch checks the configuration of the Redis servers that hold locks and accepted orders, whose data must
// not disappear.
//
// Two settings can make data disappear:
//
//	setting                             what is lost
//	maxmemory-policy allkeys-*          any key, when the server reaches maxmemory
//	maxmemory-policy volatile-*         any key with a time to live, so any lock, likewise
//	appendonly no                       everything, when the server restarts
//
// The policy is checked whatever maxmemory is. A server with maxmemory 0 evicts nothing, but one CONFIG SET changes
// that, even in the middle of a sale.
package rediswatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrEvicts says that a server may evict keys.
var ErrEvicts = errors.New("redis may evict locks and accepted orders")

// noEviction is the only policy that never evicts a key.
const noEviction = "noeviction"

// Config is what a [Watch] needs. Clients and Log are required.
type Config struct {
	// Clients lead to the servers. Of a cluster, all nodes are checked. Of a single node or behind sentinels, the
	// primary and its replicas are, as each of them may be promoted. The caller closes the clients.
	Clients []redis.UniversalClient
	Log     *slog.Logger
	// Every is the time between two checks. Default 2 s.
	Every time.Duration
	// Timeout bounds the check of one server. Default 2 s.
	Timeout time.Duration
}

// Watch checks how the servers are configured, again and again. It is safe for use by several goroutines, except that
// [Watch.Check] and [Watch.Run] must not run at the same time.
type Watch struct {
	config Config
	groups []*group
	mu     sync.Mutex // guards the known settings of the groups
	// evicts is an ErrEvicts that names the server, or nil.
	evicts atomic.Pointer[error]
	counts atomic.Pointer[Counts]
}

// Counts are the numbers of servers with each problem.
type Counts struct {
	Evicting, WithoutAOF int
	// Unchecked is the number of servers that do not tell their settings or their replicas, or that are listed and have
	// never answered.
	Unchecked int
}

// New returns a watch that has not checked anything yet.
func New(c Config) *Watch {
	if c.Every == 0 {
		c.Every = 2 * time.Second
	}
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Second
	}
	w := &Watch{config: c}
	w.counts.Store(&Counts{})
	for _, client := range c.Clients {
		w.groups = append(w.groups, &group{client: client, known: map[string]settings{}})
	}
	return w
}

// Evicts returns the result of the latest check: nil, or an [ErrEvicts] that names a server and its policy.
func (w *Watch) Evicts() error {
	if err := w.evicts.Load(); err != nil {
		return *err
	}
	return nil
}

// Counts returns the numbers of the latest check.
func (w *Watch) Counts() Counts { return *w.counts.Load() }

// Run calls [Watch.Check] periodically until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	tick := time.NewTicker(w.config.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = w.Check(ctx)
		}
	}
}

// Check queries every server and returns the new result of [Watch.Evicts]. What a server answers takes effect at once,
// as others may hang. A server that does not answer, or does not tell its settings, keeps its latest known ones. So do
// the replicas of a primary that does not answer. A server is forgotten when its primary or its cluster answers and no
// longer lists it.
func (w *Watch) Check(ctx context.Context) error {
	var checks sync.WaitGroup
	for _, g := range w.groups {
		checks.Go(func() {
			there := g.queryAll(ctx, w.config.Timeout, func(addr string, s settings, err error) {
				if ctx.Err() == nil { // else the check was interrupted
					w.update(g, addr, s, err)
				}
			})
			if ctx.Err() == nil {
				w.forget(g, there)
			}
		})
	}
	checks.Wait()
	return w.Evicts()
}

// update takes over what one server reported, and logs the changes.
func (w *Watch) update(g *group, addr string, s settings, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, known := g.known[addr]
	switch {
	case err == nil:
		if s.told = before.told; s.policy != "" {
			s.told = time.Now()
		}
		s.policy, s.aof = cmp.Or(s.policy, before.policy), cmp.Or(s.aof, before.aof)
	case known:
		s = before
	default:
		s = settings{unknown: noAnswer}
	}
	g.known[addr] = s
	w.logChange(addr, before, s, err)
	w.count()
}

// forget drops the servers of a group that are no longer there.
func (w *Watch) forget(g *group, there map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(g.known, func(addr string, _ settings) bool { return !there[addr] })
	w.count()
}

// count makes the known settings the result of the check.
func (w *Watch) count() {
	var counts Counts
	var evicts *error
	all := map[string]settings{} // a server can be behind two clients
	for _, g := range w.groups {
		for addr, s := range g.known {
			other, twice := all[addr]
			if newer := s.told.Compare(other.told); !twice || newer > 0 || newer == 0 && other.unchecked() {
				all[addr] = s
			}
		}
	}
	for _, addr := range slices.Sorted(maps.Keys(all)) {
		s := all[addr]
		if s.unchecked() {
			counts.Unchecked++
		}
		if s.evicts() {
			counts.Evicting++
			err := fmt.Errorf("%w: maxmemory-policy of %s is %s, not %s", ErrEvicts, addr, s.policy, noEviction)
			evicts = &err
		}
		if s.aof == "no" {
			counts.WithoutAOF++
		}
	}
	w.counts.Store(&counts)
	w.evicts.Store(evicts)
}

// logChange logs what is new. err is why a server is unchecked that did not answer.
func (w *Watch) logChange(addr string, before, now settings, err error) {
	log := w.config.Log.With("node", addr)
	if now.unchecked() && now.unknown != before.unknown {
		why := now.unknown
		if err != nil {
			why += ": " + err.Error()
		}
		log.Warn("cannot tell whether Redis evicts keys: the settings of a server are unknown", "why", why, "latest_known_policy", now.policy)
	}
	switch {
	case before.policy == now.policy:
	case now.evicts():
		log.Error("Redis may evict locks and accepted orders: set maxmemory-policy noeviction", "maxmemory_policy", now.policy)
	case before.evicts():
		log.Info("Redis no longer evicts keys", "maxmemory_policy", now.policy)
	}
	if now.aof == "no" && before.aof != "no" {
		log.Warn("Redis loses accepted orders when it restarts: set appendonly yes", "appendonly", now.aof)
	}
}
