package testbed

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lab/load"
	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
)

// stores lists what locks are kept in, other than the process.
func stores() []lock.Store {
	return []lock.Store{lock.InRedis, lock.InNodes, lock.InMySQL, lock.InZooKeeper}
}

// LockStore names the store in which a mechanism keeps its locks; "" if that is the process
// itself.
func LockStore(mechanism string) string {
	return map[lock.Store]string{
		lock.InRedis: "Redis", lock.InNodes: "Redis nodes", lock.InMySQL: "MariaDB", lock.InZooKeeper: "ZooKeeper",
	}[lock.StoreOf(mechanism)]
}

// ServersOf returns what a mechanism needs.
func ServersOf(mechanism string) []Server {
	return map[lock.Store][]Server{ // the embedded servers have Redis
		lock.InNodes: {Redis, Nodes}, lock.InMySQL: {Database}, lock.InZooKeeper: {ZooKeeper},
	}[lock.StoreOf(mechanism)]
}

// KeyPrefix is what the API processes put before every key in Redis and every name of
// GET_LOCK. Clients that use the same locks use the same prefix.
const KeyPrefix = "seckill:"

// Lockers opens mechanisms in this process for this experiment, for example to observe servers
// of its own.
func (r *Run) Lockers(servers lockers.Servers, config lockers.Config) *lockers.Set {
	set, err := lockers.Open(servers, config)
	r.must(err)
	r.Cleanup(func() { r.must(set.Close()) })
	return set
}

// Inspector inspects the store of a mechanism on the shared servers; nil if there is no such
// store, or the mechanism cannot be inspected.
func (r *Run) Inspector(mechanism string) lock.Inspector {
	store := lock.StoreOf(mechanism)
	if store == lock.InProcess {
		return nil
	}
	set := r.env.lockers[store].get(r, func() *lockers.Set { return r.openShared(store) })
	locker, err := set.Locker(mechanism)
	r.must(err)
	inspector, _ := locker.(lock.Inspector)
	return inspector
}

func (r *Run) openShared(store lock.Store) *lockers.Set {
	root := r.env.root
	var servers lockers.Servers
	switch store {
	case lock.InRedis:
		servers.Redis = r.RedisClient()
	case lock.InNodes:
		for _, addr := range r.Nodes(sharedNodes) {
			client := redis.NewClient(&redis.Options{Addr: addr})
			root.Cleanup(func() { r.must(client.Close()) })
			servers.Nodes = append(servers.Nodes, client)
		}
	case lock.InMySQL:
		db := r.DB()
		servers.MySQL, servers.Rows = db.LockPool(), db.RowPool()
	case lock.InZooKeeper:
		servers.ZooKeeper = []string{r.ZooKeeper().Addr()}
	}
	return root.Lockers(servers, lockers.Config{Prefix: KeyPrefix, Log: r.env.options.Log})
}

// apiInspector asks an embedded API process, whose store is not reachable otherwise.
type apiInspector struct {
	client    *load.Client
	at        load.Target
	mechanism string
}

// Inspect implements [lock.Inspector].
func (r apiInspector) Inspect(ctx context.Context, key string) (lock.State, error) {
	var answer struct {
		Code  string `json:"code"`
		Locks []struct {
			Owner  lock.Owner `json:"owner"`
			Count  int        `json:"count"`
			Shared bool       `json:"shared"`
			Token  uint64     `json:"token,string"`
			TTLMS  *int64     `json:"ttl_ms"`
		} `json:"locks"`
	}
	path := "/api/v1/locks/" + url.PathEscape(key) + "?lock=" + url.QueryEscape(r.mechanism)
	status, err := r.client.Do(ctx, r.at, http.MethodGet, path, 0, nil, &answer)
	switch {
	case err != nil:
		return lock.State{}, err
	case status != http.StatusOK || len(answer.Locks) != 1:
		return lock.State{}, &statusError{path: path, status: status, code: answer.Code}
	}
	l := answer.Locks[0]
	state := lock.State{Owner: l.Owner, Count: l.Count, Shared: l.Shared, Token: l.Token, TTL: lock.NoExpiry, Waiting: lock.WaitingUnknown}
	if l.TTLMS != nil {
		state.TTL = time.Duration(*l.TTLMS) * time.Millisecond
	}
	return state, nil
}
