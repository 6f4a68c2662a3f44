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
	// Timeout bounds the check of one client's servers. Default 2 s.
	Timeout time.Duration
}

// Watch checks how the servers are configured, again and again. It is safe for use by
// several goroutines, except that [Watch.Check] and [Watch.Run] must not run at the same
// time.
type Watch struct {
	config Config
	nodes  map[string]settings // by address; used by Check only
	// evicts is an ErrEvicts that names the server, or nil.
	evicts atomic.Pointer[error]
	counts atomic.Pointer[Counts]
}

// Counts are the numbers of servers with each problem.
type Counts struct {
	Evicting, WithoutAOF int
	// Unknown is the number of servers that allow neither INFO nor CONFIG GET.
	Unknown int
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
// does not answer keeps its latest known settings, as long as it is configured or another
// server lists it.
func (w *Watch) Check(ctx context.Context) error {
	var mu sync.Mutex
	found := map[string]settings{}
	var queries sync.WaitGroup
	for _, client := range w.config.Clients {
		queries.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, w.config.Timeout)
			defer cancel()
			queryAll(ctx, client, func(addr string, s settings, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					s = w.nodes[addr]
				}
				found[addr] = s
			})
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
		switch {
		case s.unknown():
			counts.Unknown++
		case s.evicts():
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
	switch {
	case now.unknown():
		log.Warn("cannot tell whether Redis evicts keys: neither INFO nor CONFIG GET is allowed")
	case now.evicts():
		log.Error("Redis may evict locks and accepted orders: set maxmemory-policy noeviction", "maxmemory_policy", now.policy)
	case before.evicts():
		log.Info("Redis no longer evicts keys", "maxmemory_policy", now.policy)
	}
	if now.aof == "no" && before.aof != "no" {
		log.Warn("Redis loses accepted orders when it restarts: set appendonly yes", "appendonly", now.aof)
	}
}
