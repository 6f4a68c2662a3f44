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

// RunOnCluster proves on a Redis Cluster of three primaries what does not depend on time. There, a script fails if it
// touches a key of another slot.
func (m Mechanism) RunOnCluster(t *testing.T, addrs []string) {
	locktest.Run(t, m.cluster(addrs, untimed()), locktest.Only(m.Promises, clusterBehaviours()...))
}

// SoakOnCluster is RunOnCluster with real leases.
func (m Mechanism) SoakOnCluster(t *testing.T, addrs []string) {
	locktest.Soak(t, m.cluster(addrs, real()), locktest.Only(m.Promises, clusterBehaviours()...))
}

// cluster makes subjects on a cluster. The store can neither pause a cluster nor count its subscribers.
func (m Mechanism) cluster(addrs []string, s Setting) locktest.Factory {
	return func(tb testing.TB) locktest.Subject {
		s := s
		s.Prefix = testkit.KeyPrefix(tb)
		client := dialCluster(tb, addrs, nil)
		v := &clusterView{
			view:    view{Mechanism: m, prefix: s.Prefix, quorum: 1, clients: []redis.UniversalClient{client}},
			cluster: client,
		}
		subject := m.described(locktest.Subject{
			Process: func(tb testing.TB, network *locktest.Network) lock.Locker {
				tb.Helper()
				locker, err := m.Open([]redis.UniversalClient{dialCluster(tb, addrs, network)}, s)
				return locktest.Opened(tb, locker, err)
			},
			Store: locktest.Store{TTL: v.ttl, Shorten: v.shorten, Remove: v.remove, PutWrongKind: v.putWrongKind,
				Leftovers: v.leftovers},
		}, s)
		subject.Name += " on a cluster"
		return subject
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
		left, err := v.left(ctx, node)
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

// clusterBehaviours lists the behaviours that a cluster could change: where keys are stored, how commands are sent, and
// what a lost reply or connection does.
func clusterBehaviours() []locktest.Behaviour {
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
