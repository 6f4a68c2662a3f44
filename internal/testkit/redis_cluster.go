package testkit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisCluster starts a cluster of three primaries without replicas for this test alone, and returns their
// addresses once each of them reports a complete cluster. It is stopped at the end of the test.
func RedisCluster(t TB) []string {
	t.Helper()
	const nodes, slots = 3, 16384
	servers := make([]*RedisServer, nodes)
	addrs := make([]string, nodes)
	for i := range servers {
		servers[i] = NewRedis(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
		addrs[i] = servers[i].Addr()
	}
	for i, server := range servers {
		check(t, joinCluster(t.Context(), server, servers[0], i*slots/nodes, (i+1)*slots/nodes-1))
	}
	for _, server := range servers {
		check(t, server.process.waitReady(func(ctx context.Context) error { return clusterComplete(ctx, server, nodes) }))
	}
	return addrs
}

// joinCluster assigns slots to a server and introduces it to the first one.
func joinCluster(ctx context.Context, server, first *RedisServer, firstSlot, lastSlot int) error {
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	if err := client.ClusterAddSlotsRange(ctx, firstSlot, lastSlot).Err(); err != nil {
		return fmt.Errorf("assign the slots of a cluster node: %w", err)
	}
	if server == first {
		return nil
	}
	if err := client.ClusterMeet(ctx, "127.0.0.1", strconv.Itoa(first.process.port)).Err(); err != nil {
		return fmt.Errorf("introduce a cluster node: %w", err)
	}
	return nil
}

// clusterComplete checks the state and the number of nodes: a node that knows only itself may also call
// that a cluster.
func clusterComplete(ctx context.Context, server *RedisServer, nodes int) error {
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	defer client.Close()
	shards, err := client.ClusterShards(ctx).Result()
	if err != nil {
		return err
	}
	if err := client.Set(ctx, "probe", 1, time.Second).Err(); err != nil && !redis.HasErrorPrefix(err, "MOVED") {
		return err // CLUSTERDOWN until all slots are served
	}
	if len(shards) != nodes {
		return fmt.Errorf("%d of %d nodes known", len(shards), nodes)
	}
	// A node without a link to another one serves its slots, but drops messages that are published to the
	// other node's clients.
	links, err := client.ClusterNodes(ctx).Result()
	if err != nil {
		return err
	}
	if n := strings.Count(links, " connected"); n != nodes || strings.Contains(links, "handshake") {
		return fmt.Errorf("%d of %d nodes connected", n, nodes)
	}
	return nil
}

// Sentinel is a primary with replicas, monitored by three sentinels, for one test.
type Sentinel struct {
	Addrs      []string // of the sentinels
	MasterName string   // the name under which they monitor the primary

	t         TB
	primary   *RedisServer
	replicas  []*RedisServer
	sentinels []*redisProcess
}

// RedisSentinel starts a primary, its replica and three sentinels for this test alone, and returns once a
// failover is possible: all sentinels know the replica and each other. They are stopped at the end of
// the test.
func RedisSentinel(t TB) *Sentinel {
	t.Helper()
	return RedisSentinelOf(t, 1)
}

// RedisSentinelOf is [RedisSentinel] with some replicas. The sentinels find all of them at their first look at the primary:
// the next one is ten seconds later.
func RedisSentinelOf(t TB, replicas int) *Sentinel {
	t.Helper()
	const sentinels, quorum = 3, 2
	s := &Sentinel{MasterName: "seckill", t: t}
	s.primary = NewRedis(t)
	for range replicas {
		s.replicas = append(s.replicas, NewRedisReplica(t, s.primary))
	}
	for range sentinels {
		process, err := startRedis(redisOptions{sentinel: true})
		check(t, err)
		closeAtEnd(t, process)
		s.sentinels = append(s.sentinels, process)
		s.Addrs = append(s.Addrs, process.addr())
		check(t, s.monitor(t.Context(), process, quorum))
	}
	for _, process := range s.sentinels {
		check(t, process.waitReady(func(ctx context.Context) error { return s.complete(ctx, process) }))
	}
	return s
}

// Primary returns the current address of the primary according to the first sentinel.
func (s *Sentinel) Primary() string {
	s.t.Helper()
	client := redis.NewSentinelClient(&redis.Options{Addr: s.Addrs[0]})
	defer client.Close()
	addr, err := client.GetMasterAddrByName(s.t.Context(), s.MasterName).Result()
	if err != nil || len(addr) != 2 {
		s.t.Fatalf("testkit: ask a sentinel for the primary: %v %v", addr, err)
	}
	return addr[0] + ":" + addr[1]
}

// KillPrimary kills the first primary with SIGKILL. It does not wait: the sentinels notice within a second
// and promote the replica a few seconds later.
func (s *Sentinel) KillPrimary() { s.primary.Kill() }

// monitor configures what a sentinel monitors, with shorter timeouts than the default of 30 s.
func (s *Sentinel) monitor(ctx context.Context, process *redisProcess, quorum int) error {
	client := redis.NewSentinelClient(&redis.Options{Addr: process.addr()})
	defer client.Close()
	port := strconv.Itoa(s.primary.process.port)
	err := errors.Join(
		client.Monitor(ctx, s.MasterName, "127.0.0.1", port, strconv.Itoa(quorum)).Err(),
		client.Set(ctx, s.MasterName, "down-after-milliseconds", "1000").Err(),
		client.Set(ctx, s.MasterName, "failover-timeout", "3000").Err(),
	)
	if err != nil {
		return fmt.Errorf("configure a sentinel: %w", err)
	}
	return nil
}

// complete returns nil if a sentinel knows the replicas, which are in sync, and the other sentinels.
func (s *Sentinel) complete(ctx context.Context, process *redisProcess) error {
	client := redis.NewSentinelClient(&redis.Options{Addr: process.addr(), MaxRetries: -1})
	defer client.Close()
	replicas, err := client.Replicas(ctx, s.MasterName).Result()
	if err != nil {
		return err
	}
	notInSync := func(replica map[string]string) bool { return replica["master-link-status"] != "ok" }
	if len(replicas) != len(s.replicas) || slices.ContainsFunc(replicas, notInSync) {
		return fmt.Errorf("not %d replicas in sync yet: %v", len(s.replicas), replicas)
	}
	return client.CkQuorum(ctx, s.MasterName).Err()
}
