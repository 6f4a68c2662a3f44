package redisstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/testkit"
)

// ClusterFactory starts a Redis Cluster of three primaries for t and makes subjects of a
// mechanism on it. There, a script fails if it touches a key of another slot. The key
// names are those of [Factory].
//
// The store can neither pause a cluster nor count its subscribers: the behaviours that
// need this run on one server.
func ClusterFactory(t testing.TB, mechanism string,
	open func(client redis.UniversalClient, prefix string) (lock.Locker, error)) locktest.Factory {
	t.Helper()
	addrs := testkit.RedisCluster(t)
	return func(tb testing.TB) locktest.Subject {
		client := dialCluster(tb, addrs, nil)
		v := &clusterView{view: view{client: client, mechanism: mechanism, prefix: testkit.KeyPrefix(tb)}, cluster: client}
		return locktest.Subject{
			Name: mechanism + " on a cluster", Remote: true,
			Process: func(tb testing.TB, network *locktest.Network) lock.Locker {
				tb.Helper()
				locker, err := open(dialCluster(tb, addrs, network), v.prefix)
				return locktest.Opened(tb, locker, err)
			},
			Store: locktest.Store{TTL: v.ttl, Shorten: v.shorten, Remove: v.remove, PutWrongKind: v.putWrongKind,
				Leftovers: v.leftovers},
		}
	}
}

func dialCluster(tb testing.TB, addrs []string, network *locktest.Network) *redis.ClusterClient {
	opts := &redis.ClusterOptions{
		Addrs: addrs, ContextTimeoutEnabled: true, DialerRetries: 1,
		PoolSize: 1000, // after so many failures to dial, go-redis stops dialling for a second
	}
	if network != nil {
		opts.Dialer = network.Dial
	}
	client := redis.NewClusterClient(opts)
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// clusterView reads the keys under one prefix on every node.
type clusterView struct {
	view
	cluster *redis.ClusterClient
}

func (v *clusterView) leftovers(ctx context.Context) ([]string, error) {
	var mu sync.Mutex
	var found []string
	err := v.cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		one := view{client: node, prefix: v.prefix}
		left, err := one.leftovers(ctx)
		if err != nil {
			return fmt.Errorf("a node: %w", err)
		}
		mu.Lock()
		defer mu.Unlock()
		found = append(found, left...)
		return nil
	})
	slices.Sort(found)
	return slices.Compact(found), err
}

// ClusterBehaviours lists the behaviours that a cluster could change: where keys are
// stored, how commands are sent, and what a lost reply or connection does.
func ClusterBehaviours() []locktest.Behaviour {
	return []locktest.Behaviour{
		locktest.ExcludesProcesses, locktest.KeepsKeysApart, locktest.NamesHolder, locktest.Reenters,
		locktest.ReentryKeepsLease,
		locktest.TokensGrow, locktest.ServesInOrder, locktest.ReleaseLetsWaiterIn, locktest.ExpiryLetsWaiterIn,
		locktest.CancelledWaitersAreGone, locktest.KeepsGivenLease, locktest.LeaseRunsOut, locktest.SurvivesLongHold,
		locktest.FreedAfterDeath, locktest.RenewalEndsWithRelease, locktest.ToldWhenDeleted, locktest.ReleasesOnlyOwn,
		locktest.TellsExpiredFromLost, locktest.LeavesNothing, locktest.ReleasesAgainAfterOutage, locktest.UnavailableIsQuick,
		locktest.RefusesWrongKind, locktest.ExtendsLease, locktest.SaysWhoHolds, locktest.CanBeForced,
		locktest.LinearizableMutex, locktest.LinearizableReentrant, locktest.LinearizableFenced, locktest.FollowsModel,
		locktest.EnduresManyPairs,
	}
}
