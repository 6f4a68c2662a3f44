package failures_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest/nodestore"
	"seckill/internal/lock/redis/session"
	"seckill/internal/testkit"
)

// replicaPromotedUnreplicated: the primary dies before its replica has the lock. Then there
// are two holders. A watchdog tells the first one at its next renewal; without a watchdog
// nobody does. Fencing tokens grow although the replica does not know the token counter,
// because they are drawn from the clock.
func replicaPromotedUnreplicated(t *testing.T, r *report) {
	const fault = "replica promoted, lock unreplicated"
	pair := nodestore.NewPair(t)
	config := session.Config{WatchdogTimeout: longLease, RenewEvery: renewEvery}
	first, losses := map[string]lock.Lease{}, map[string]*loss{}
	for _, m := range mechanisms() {
		first[m.name] = acquire(t, newProcess(t, m.name, pair.Dial(t), config), key, m.lease(longLease))
		losses[m.name] = awaitLoss(t, first[m.name])
	}
	pair.FailOver(t)
	promoted := time.Now()
	if n := pair.Dial(t).Exists(t.Context(), redisKey("", "fenced", key)+":token").Val(); n != 0 {
		t.Error("the replica knows the token counter, so the test proves nothing about it")
	}
	again := map[string]<-chan lock.Result{}
	for _, m := range mechanisms() {
		again[m.name] = lock.Async(t.Context(), newProcess(t, m.name, pair.Dial(t), config), key, m.lease(longLease))
	}
	for _, m := range mechanisms() {
		second := <-again[m.name]
		if second.Err != nil {
			t.Fatalf("%s: Acquire after the failover: %v", m.name, second.Err)
		}
		mustNotKnow(t, first[m.name])
		r.add(fault, m.name, time.Since(promoted), "two holders at the same time")
		if m.name == "fenced" {
			mustGrow(t, r, fault, "the failover to a server without the counter", first[m.name].Token(), second.Lease.Token())
		}
	}
	for _, m := range selected(renews) {
		losses[m.name].mustBeTold(t, m.name, lock.ErrLost)
		took := losses[m.name].at.Sub(promoted)
		mustBeBetween(t, m.name+"'s first holder was told", took, 0, renewEvery+2*slack)
		r.add(fault, m.name, took, "the first holder is told at its next renewal (every %v): %v", renewEvery,
			losses[m.name].cause)
	}
}

// mustGrow checks that a token is greater than the one before it.
func mustGrow(t *testing.T, r *report, fault, after string, before, token uint64) {
	t.Helper()
	if before == 0 || token <= before {
		t.Errorf("tokens %d, then %d after %s; want them to grow", before, token, after)
	}
	r.add(fault, "fenced", 0, "after %s the token is greater", after)
}

// replicaPromotedBySentinel: the primary dies, and sentinels promote the replica. A
// replicated lock stays held, and its watchdog renews it on the new primary. Other locks
// can be acquired again, and a waiter gets the lock at its release.
func replicaPromotedBySentinel(t *testing.T, r *report) {
	const fault = "replica promoted by sentinels"
	sentinel := testkit.RedisSentinel(t)
	dial := func() *redis.Client {
		c := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: sentinel.MasterName, SentinelAddrs: sentinel.Addrs, ContextTimeoutEnabled: true,
		})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	config := session.Config{WatchdogTimeout: longLease, RenewEvery: renewEvery, QueueEntryTTL: queueEntryTTL}
	held, others := map[string]lock.Lease{}, map[string]lock.Locker{}
	waiting, again := map[string]*acquisition{}, map[string]*acquisition{}
	for _, m := range mechanisms() {
		held[m.name] = acquire(t, newProcess(t, m.name, dial(), config), key, m.lease(time.Minute))
		others[m.name] = newProcess(t, m.name, dial(), config)
		if m.renews {
			waiting[m.name] = acquireAsync(t.Context(), others[m.name], key, lock.Options{Wait: time.Minute})
		}
	}
	client := dial()
	awaitReplication(t, client)
	sentinel.KillPrimary()
	killed := time.Now()
	for _, m := range selected(renews) {
		again[m.name] = acquireAsync(t.Context(), others[m.name], "another "+key, lock.Options{})
	}
	for _, m := range selected(renews) {
		again[m.name].mustSucceed(t)
		took := again[m.name].at.Sub(killed)
		mustBeBetween(t, m.name+" could be acquired again", took, 0, longLease)
		r.add(fault, m.name, took, "other locks can be acquired again")
	}
	for _, m := range mechanisms() {
		if !m.renews {
			checkFixedLeaseAfterFailover(t, m, held[m.name], others[m.name])
			r.add(fault, m.name, 0, "a replicated lock stays taken, and its holder releases it on the new primary")
			continue
		}
		mustBeRenewed(t, client, redisKey("", m.name, key))
		took, outages := checkWaiterAfterFailover(t, m, held[m.name], waiting[m.name])
		waiter := "its waiter gets it at the release"
		if outages > 0 {
			waiter = "its waiter is told that the server is unavailable, tries again and gets it at the release"
		}
		r.add(fault, m.name, took, "a replicated lock is still renewed; %s", waiter)
	}
}

func checkWaiterAfterFailover(
	t *testing.T, m mechanism, held lock.Lease, waiting *acquisition,
) (took time.Duration, outages int) {
	t.Helper()
	select {
	case <-waiting.ended:
		t.Errorf("%s: a waiter's acquisition ended although the lock is held (%v)", m.name, waiting.err)
	default:
	}
	if err := errors.Join(held.Extend(t.Context(), 0), context.Cause(held.Context())); err != nil {
		t.Errorf("%s: the holder of a replicated lock: %v", m.name, err)
	}
	released := time.Now()
	if err := held.Release(t.Context()); err != nil {
		t.Errorf("%s: release on the new primary: %v", m.name, err)
	}
	waiting.mustSucceed(t)
	took = waiting.at.Sub(released)
	// An attempt that the failover interrupted may have left an entry in the fair lock's
	// queue, ahead of the waiter's.
	mustBeBetween(t, m.name+"'s waiter got the lock", took, 0, 2*queueEntryTTL+2*slack)
	return took, waiting.outages
}

func checkFixedLeaseAfterFailover(t *testing.T, m mechanism, held lock.Lease, other lock.Locker) {
	t.Helper()
	refused := acquireAsync(t.Context(), other, key, lock.Options{})
	<-refused.ended
	if !errors.Is(refused.err, lock.ErrNotAcquired) {
		t.Errorf("%s: a replicated lock after the failover gave %v, want ErrNotAcquired", m.name, refused.err)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Errorf("%s: release on the new primary: %v", m.name, err)
	}
	acquireAsync(t.Context(), other, key, lock.Options{}).mustSucceed(t)
}

// mustBeRenewed waits until the end of a lock's lease has been moved once more.
func mustBeRenewed(t *testing.T, client *redis.Client, key string) {
	t.Helper()
	end := func() time.Duration { return client.PExpireTime(t.Context(), key).Val() }
	before := end()
	if before <= 0 {
		t.Errorf("the server does not have %s", key)
	}
	testkit.Until(t, "a renewal of "+key, func() bool { return end() > before })
}

// awaitReplication waits until the replica has everything that was written so far: it
// has, when it has a later write of this connection.
func awaitReplication(t *testing.T, client *redis.Client) {
	t.Helper()
	conn := client.Conn()
	defer conn.Close()
	if err := conn.Set(t.Context(), "mark", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Wait(t.Context(), 1, patience).Result(); err != nil || n != 1 {
		t.Fatalf("WAIT: %d replicas, %v", n, err)
	}
}
