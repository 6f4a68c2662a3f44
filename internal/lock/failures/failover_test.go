package failures_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest/nodestore"
	"seckill/internal/lock/redis/multi"
	"seckill/internal/lock/redis/session"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// renewEvery is the renewals' interval where the time until one is measured, and
// long the lease in tests in which it is not to end.
const (
	renewEvery = time.Second
	long       = 20 * time.Second
)

// loss is a holder being told.
type loss struct {
	at    time.Time
	cause error
	ended chan struct{}
}

// listen notes when a holder is told.
func listen(t *testing.T, held lock.Lease) *loss {
	l := &loss{ended: make(chan struct{})}
	go func() {
		select {
		case <-held.Lost():
			l.at, l.cause = time.Now(), context.Cause(held.Context())
			close(l.ended)
		case <-t.Context().Done():
		}
	}()
	return l
}

// wait waits until the holder was told one of some reasons.
func (l *loss) wait(t *testing.T, who string, reasons ...error) {
	t.Helper()
	select {
	case <-l.ended:
	case <-time.After(patience):
		t.Fatalf("%s: the holder was never told", who)
	}
	for _, reason := range reasons {
		if errors.Is(l.cause, reason) {
			return
		}
	}
	t.Errorf("%s: the holder was told %v, want one of %v", who, l.cause, reasons)
}

// replicaPromotedUnreplicated: the primary dies before its replica had the lock.
// There are two holders, and the first one hears of it at its next renewal. A token
// that is drawn from the clock grows all the same; and what two more nodes know is
// not given out twice.
func replicaPromotedUnreplicated(t *testing.T, r *report) {
	const fault = "replica promoted, lock unreplicated"
	nodes, pair, where := nodestore.Start(t, 2), nodestore.NewPair(t), testkit.MariaDB(t)
	config := session.Config{WatchdogTimeout: long, RenewEvery: renewEvery}
	several := func(mechanism string) lock.Locker {
		l, err := openNodes(mechanism, append(nodestore.DialAll(t, nodes, nil), pair.Dial(t)),
			multi.Config{WatchdogTimeout: long, RenewEvery: renewEvery, NodeTimeout: time.Second})
		return closeLater(t, l, err)
	}
	first, losses := map[string]lock.Lease{}, map[string]*loss{}
	sale := newShop(t, where.DSN, several("multi"), 10, func(p *voucher.Policy) { p.Lock, p.Stock = "fenced", voucher.StockFenced })
	for _, m := range []string{"multi", "red"} {
		first[m] = acquire(t, several(m), key)
	}
	for _, m := range strong {
		first[m] = acquire(t, process(t, m, pair.Dial(t), config), key)
	}
	for m, held := range first {
		losses[m] = listen(t, held)
	}
	if err := sale.write(t.Context(), first["fenced"].Token()); err != nil {
		t.Errorf("the first holder's write: %v", err)
	}
	pair.FailOver(t)
	promoted := time.Now()
	if n := pair.Dial(t).Exists(t.Context(), name("", "fenced", key)+":token").Val(); n != 0 {
		t.Error("the replica knows the counter of tokens: this shows nothing")
	}
	second := map[string]lock.Lease{}
	for _, m := range strong {
		second[m] = acquire(t, process(t, m, pair.Dial(t), config), key)
		unaware(t, first[m])
		r.saw(fault, m, time.Since(promoted), "two holders at once")
	}
	for _, m := range []string{"multi", "red"} {
		if _, err := several(m).Acquire(t.Context(), key, lock.Options{}); !errors.Is(err, lock.ErrNotAcquired) {
			t.Errorf("%s: Acquire after one of three nodes failed over = %v, want ErrNotAcquired", m, err)
		}
		r.saw(fault, m, 0, "one of three nodes: nobody else gets in")
	}
	tokens(t, r, fault, sale, first["fenced"].Token(), second["fenced"].Token())
	for _, m := range strong {
		losses[m].wait(t, m, lock.ErrLost)
		took := losses[m].at.Sub(promoted)
		between(t, m+"'s first holder was told", took, 0, renewEvery+2*slack)
		r.saw(fault, m, took, "the first is told at its next renewal (every %v): %v", renewEvery, losses[m].cause)
	}
	losses["multi"].wait(t, "multi", lock.ErrExpired)
	r.saw(fault, "multi", losses["multi"].at.Sub(promoted), "but its holder is told that a node lost the key")
	if err := first["red"].Extend(t.Context(), 0); err != nil || first["red"].Context().Err() != nil {
		t.Errorf("red's holder: %v, %v, want it to go on", err, context.Cause(first["red"].Context()))
	}
}

// tokens checks that the new primary, which never saw a token, gives out a greater
// one than the old primary did, so that the first holder's write is refused.
func tokens(t *testing.T, r *report, fault string, sale *shop, old, newest uint64) {
	t.Helper()
	if old == 0 || newest <= old {
		t.Errorf("tokens %d, then %d from a server that has no counter; want them to grow", old, newest)
	}
	if err := sale.write(t.Context(), newest); err != nil {
		t.Errorf("the second holder's write: %v", err)
	}
	if err := sale.write(t.Context(), old); !errors.Is(err, order.ErrStale) {
		t.Errorf("the first holder's late write: %v, want ErrStale", err)
	}
	r.saw(fault, "fenced", 0, "the second token is greater by %d, the first one's write refused", newest-old)
}

// replicaPromotedBySentinel: the primary dies, sentinels promote the replica. What
// had been replicated stays held, by the holder who goes on renewing it; everything
// else is to be had again; and whoever waits gets in.
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
	config := session.Config{WatchdogTimeout: long, RenewEvery: renewEvery, PlaceTimeout: place}
	held, waiting, again := map[string]lock.Lease{}, map[string]*attempt{}, map[string]*attempt{}
	others := map[string]lock.Locker{}
	for _, m := range strong {
		held[m] = acquire(t, process(t, m, dial(), config), key)
		others[m] = process(t, m, dial(), config)
		waiting[m] = begin(t.Context(), others[m], key, lock.Options{Wait: time.Minute})
	}
	for _, m := range simple {
		lease, err := process(t, m, dial(), config).Acquire(t.Context(), key, lock.Options{TTL: time.Minute})
		if err != nil {
			t.Fatalf("%s: %v", m, err)
		}
		held[m], others[m] = lease, process(t, m, dial(), config)
	}
	client := dial()
	replicated(t, client)
	sentinel.KillPrimary()
	killed := time.Now()
	for _, m := range strong {
		again[m] = begin(t.Context(), others[m], "another "+key, lock.Options{})
	}
	for _, m := range strong {
		again[m].got(t)
		took := again[m].at.Sub(killed)
		between(t, m+" was to be had again", took, 0, long)
		r.saw(fault, m, took, "other locks are to be had again")
	}
	for _, m := range strong {
		renewed(t, client, name("", m, key))
		select {
		case <-waiting[m].ended:
			t.Errorf("%s: a waiter got in although the lock is held (%v)", m, waiting[m].err)
		default:
		}
		if err := errors.Join(held[m].Extend(t.Context(), 0), context.Cause(held[m].Context())); err != nil {
			t.Errorf("%s: the holder of a replicated lock: %v", m, err)
		}
		released := time.Now()
		if err := held[m].Release(t.Context()); err != nil {
			t.Errorf("%s: release on the new primary: %v", m, err)
		}
		waiting[m].got(t)
		took := waiting[m].at.Sub(released)
		// An attempt that was cut off by the failover may have left a place in the queue
		// of the fair one, in front of the waiter's.
		between(t, m+"'s waiter got in", took, 0, 2*place+2*slack)
		asked := "who slept through it"
		if waiting[m].outages > 0 {
			asked = "who was told that the server is unavailable and asked again,"
		}
		r.saw(fault, m, took, "a replicated lock is renewed on; its waiter, %s gets in at the release", asked)
	}
	for _, m := range simple {
		taken := begin(t.Context(), others[m], key, lock.Options{})
		<-taken.ended
		if !errors.Is(taken.err, lock.ErrNotAcquired) {
			t.Errorf("%s: a replicated lock after the failover gave %v, want ErrNotAcquired", m, taken.err)
		}
		if err := held[m].Release(t.Context()); err != nil {
			t.Errorf("%s: release on the new primary: %v", m, err)
		}
		next := begin(t.Context(), others[m], key, lock.Options{})
		next.got(t)
		r.saw(fault, m, 0, "a replicated lock stays taken, and is given back on the new primary")
	}
}

// renewed waits until a lock's end has been moved, once more from now.
func renewed(t *testing.T, client *redis.Client, lock string) {
	t.Helper()
	end := func() time.Duration { return client.PExpireTime(t.Context(), lock).Val() }
	before := end()
	if before <= 0 {
		t.Errorf("the server does not have %s", lock)
	}
	until(t, lock+" to be renewed", func() bool { return end() > before })
}

// replicated waits until the replica has all that was written so far: a later write
// of this connection comes after it.
func replicated(t *testing.T, client *redis.Client) {
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
