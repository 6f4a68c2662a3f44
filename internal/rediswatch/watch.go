// Package rediswatch checks the configuration of the Redis servers that hold locks and
// accepted orders, whose data must not disappear.
//
// Two settings can make data disappear:
//
//	setting                             what is lost
//	maxmemory-policy allkeys-*          any key, when the server reaches maxmemory
//	maxmemory-policy volatile-*         any key with a time to live, so any lock, likewise
//	appendonly no                       everything, when the server restarts
//
// The policy is checked whatever maxmemory is. A server with maxmemory 0 evicts nothing,
// but one CONFIG SET changes that, even in the middle of a sale.
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
	// Clients lead to the servers. Of a cluster, all nodes are checked. Of a single node
	// or behind sentinels, the primary and its replicas are, as each of them may be
	// promoted. The caller closes the clients.
	Clients []redis.UniversalClient
	Log     *slog.Logger
	// Every is the time between two checks. Default 2 s.
	Every time.Duration
	// Timeout bounds the check of one server. Default 2 s.
	Timeout time.Duration
}

// Watch checks how the servers are configured, again and again. It is safe for use by
// several goroutines, except that [Watch.Check] and [Watch.Run] must not run at the same
// time.
type Watch struct {
	config Config
	// Used by Check only.
	groups []*group
	nodes  map[string]settings // by address
	// evicts is an ErrEvicts that names the server, or nil.
	evicts atomic.Pointer[error]
	counts atomic.Pointer[Counts]
}

// Counts are the numbers of servers with each problem.
type Counts struct {
	Evicting, WithoutAOF int
	// Unchecked is the number of servers that answer, but do not tell their policy.
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
	w := &Watch{config: c, nodes: map[string]settings{}}
	w.counts.Store(&Counts{})
	for _, client := range c.Clients {
		w.groups = append(w.groups, &group{client: client})
	}
	return w
}

// Evicts returns the result of the latest check: nil, or an [ErrEvicts] that names a
// server and its policy.
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

// Check queries every server and returns the new result of [Watch.Evicts]. A server that
// does not answer, or does not tell its settings, keeps its latest known ones. So do the
// replicas of a primary that does not answer. A server is forgotten when its primary or its
// cluster answers and no longer lists it.
func (w *Watch) Check(ctx context.Context) error {
	var mu sync.Mutex
	found := map[string]settings{}
	var queries sync.WaitGroup
	for _, g := range w.groups {
		var behind []string
		queries.Go(func() {
			g.queryAll(ctx, w.config.Timeout, func(addr string, s settings, err error) {
				mu.Lock()
				defer mu.Unlock()
				known := w.nodes[addr]
				switch {
				case err != nil:
					s = known
				case s.unchecked():
					s.policy, s.aof = known.policy, cmp.Or(s.aof, known.aof)
				}
				found[addr], behind = s, append(behind, addr)
			})
			g.found = behind
		})
	}
	queries.Wait()
	if ctx.Err() != nil {
		return w.Evicts() // the check was interrupted
	}
	w.update(found)
	return w.Evicts()
}

// update replaces the known settings and logs the changes.
func (w *Watch) update(found map[string]settings) {
	var counts Counts
	var evicts *error
	for _, addr := range slices.Sorted(maps.Keys(found)) {
		s := found[addr]
		w.logChange(addr, w.nodes[addr], s)
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
	w.nodes = found
	w.counts.Store(&counts)
	w.evicts.Store(evicts)
}

func (w *Watch) logChange(addr string, before, now settings) {
	if before == now {
		return
	}
	log := w.config.Log.With("node", addr)
	if now.unchecked() && !before.unchecked() {
		log.Warn("cannot tell whether Redis evicts keys: it does not answer INFO or CONFIG GET", "answer", now.denied, "latest_known_policy", now.policy)
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
