package stage

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lab/load"
	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
)

// family is a kind of store that locks are kept in.
type family string

// The families. What is in none of them is kept in a process.
const (
	inRedis     family = "Redis"
	inNodes     family = "Redis nodes"
	inMariaDB   family = "MariaDB"
	inZooKeeper family = "ZooKeeper"
	inProcess   family = ""
)

func families() []family { return []family{inRedis, inNodes, inMariaDB, inZooKeeper} }

// familyOf says where a mechanism keeps its locks.
func familyOf(mechanism string) family {
	switch {
	case mechanism == "none" || mechanism == "local":
		return inProcess
	case mechanism == "multi" || mechanism == "red":
		return inNodes
	case strings.HasPrefix(mechanism, "mysql-"):
		return inMariaDB
	case strings.HasPrefix(mechanism, "zk-"):
		return inZooKeeper
	}
	return inRedis
}

// LockStore names the store that a mechanism keeps its locks in; "" where that is the
// process itself.
func LockStore(mechanism string) string { return string(familyOf(mechanism)) }

// KeyPrefix is what the API processes put before every key in Redis and every name of
// GET_LOCK. Whoever is to meet them uses the same.
const KeyPrefix = "seckill:"

// Lockers opens mechanisms in this process, for this experiment, such as one that is to
// be observed on servers of its own.
func (s *Stage) Lockers(servers lockers.Servers, config lockers.Config) *lockers.Set {
	set, err := lockers.Open(servers, config)
	s.must(err)
	s.Cleanup(func() { s.must(set.Close()) })
	return set
}

// Inspector looks into the store of a mechanism on the shared servers, as the API
// processes use them; nil where there is no such store, or it cannot be asked.
func (s *Stage) Inspector(mechanism string) lock.Inspector {
	f := familyOf(mechanism)
	if f == inProcess {
		return nil
	}
	set := s.house.lockers[f].get(s, func() *lockers.Set { return s.openShared(f) })
	locker, err := set.Locker(mechanism)
	s.must(err)
	inspector, _ := locker.(lock.Inspector)
	return inspector
}

func (s *Stage) openShared(f family) *lockers.Set {
	root := s.house.root
	var servers lockers.Servers
	switch f {
	case inRedis:
		servers.Redis = s.RedisClient()
	case inNodes:
		for _, addr := range s.Nodes(sharedNodes) {
			client := redis.NewClient(&redis.Options{Addr: addr})
			root.Cleanup(func() { s.must(client.Close()) })
			servers.Nodes = append(servers.Nodes, client)
		}
	case inMariaDB:
		db := s.DB()
		servers.MySQL, servers.Rows = db.LockPool(), db.RowPool()
	case inZooKeeper:
		servers.ZooKeeper = []string{s.ZooKeeper().Addr()}
	}
	return root.Lockers(servers, lockers.Config{Prefix: KeyPrefix, Log: s.house.options.Log})
}

// remote asks an embedded API process, whose store nobody else can reach.
type remote struct {
	client    *load.Client
	at        load.Target
	mechanism string
}

// Inspect implements [lock.Inspector].
func (r remote) Inspect(ctx context.Context, key string) (lock.State, error) {
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
