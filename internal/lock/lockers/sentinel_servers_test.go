package lockers_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// The primary dies, and sentinels promote its replica. A lock that was replicated stays held, and its holder goes on
// with it on the new primary. A waiter gets it at the release. Other locks can be acquired again.
func TestReplicatedLocksSurviveAFailover(t *testing.T) {
	sentinel := testkit.RedisSentinel(t)
	dial := func() *redis.Client {
		client := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: sentinel.MasterName, SentinelAddrs: sentinel.Addrs, ContextTimeoutEnabled: true,
		})
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	config := lockers.Config{Watchdog: 30 * time.Minute}
	first, second := open(t, lockers.Servers{Redis: dial()}, config), open(t, lockers.Servers{Redis: dial()}, config)
	held, waiting := map[string]lock.Lease{}, map[string]<-chan error{}
	for _, m := range survivors() {
		held[m.name] = mustAcquire(t, locker(t, first, m.name), "seat", m.lease())
		if m.renews {
			waiting[m.name] = acquirePatiently(t.Context(), locker(t, second, m.name), "seat", time.Sleep)
		}
	}
	awaitReplica(t, dial())
	sentinel.KillPrimary()

	for _, m := range survivors() {
		l := locker(t, second, m.name)
		fail.If(t, <-acquirePatiently(t.Context(), l, "another seat", time.Sleep), "%s: another key", m.name)
		if m.renews {
			fail.If(t, errors.Join(held[m.name].Extend(t.Context(), 0), context.Cause(held[m.name].Context())), "%s: the holder of a replicated lock", m.name)
		} else if _, err := l.Acquire(t.Context(), "seat", lock.Options{}); !errors.Is(err, lock.ErrNotAcquired) {
			t.Errorf("%s: a replicated lock is not taken: %v", m.name, err)
		}
		fail.If(t, held[m.name].Release(t.Context()), "%s: release on the new primary", m.name)
		next := waiting[m.name]
		if next == nil {
			next = acquirePatiently(t.Context(), l, "seat", time.Sleep)
		}
		fail.If(t, <-next, "%s: after the release", m.name)
	}
}

// survivors are the locks that are granted after the failover: native needs a newer server (its own tests have one),
// and waited a replica, which the new primary does not have.
func survivors() []onOneServer {
	return slices.DeleteFunc(onOneRedis(), func(m onOneServer) bool { return m.name == "native" || m.name == "waited" })
}

// awaitReplica waits until the replica has everything that was written so far: it has, when it has a later write of
// this connection.
func awaitReplica(t *testing.T, client *redis.Client) {
	t.Helper()
	conn := client.Conn()
	defer conn.Close()
	fail.NowIf(t, conn.Set(t.Context(), "mark", 1, 0).Err())
	if n, err := conn.Wait(t.Context(), 1, 0).Result(); err != nil || n != 1 {
		t.Fatalf("WAIT: %d replicas, %v", n, err)
	}
}
