package main

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
)

// failover is a sale over two processes, in the middle of which the gate's Redis dies and
// somebody else than the test promotes a replica.
type failover struct {
	shop *shop
	apis []process
	kill func() // of the primary
}

const failoverStock = 1000

// sell has buyers come until all is sold, and the primary die on the way. It returns the
// orders that were promised. Nobody is told of two.
func (f *failover) sell(t *testing.T) (orders map[string]int) {
	t.Helper()
	var answered atomic.Int64
	var load sync.WaitGroup
	load.Go(func() {
		_, orders = f.shop.rush(failoverStock, 1, func(n int) {
			answered.Store(int64(n))
			time.Sleep(80 * time.Millisecond) // some 400 a second
		})
	})
	for deadline := time.Now().Add(30 * time.Second); answered.Load() < 200; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody buys")
		}
	}
	killed := time.Now()
	f.kill()
	// Buyers of their own: those of the rush may have an order by now.
	var first outcome
	user := 10 * failoverStock
	for ; first.code != "accepted"; user++ {
		if time.Since(killed) > time.Minute {
			t.Fatalf("never on sale again: %+v", first)
		}
		first = f.shop.buy(user, user+1, "")
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("the next order is accepted %v after the death", time.Since(killed).Round(10*time.Millisecond))
	load.Wait()
	orders[first.order] = user
	waitReady(t, f.apis...)
	for deadline := time.Now().Add(90 * time.Second); f.shop.atRest(0).Stock > 0; {
		if time.Now().After(deadline) {
			t.Fatal("never sold out")
		}
		_, more := f.shop.rush(2*failoverStock, 1, nil)
		maps.Copy(orders, more)
	}
	return orders
}

// judge checks what a sale comes to. The client asks whoever is the primary now.
func (f *failover) judge(t *testing.T, client redis.UniversalClient, orders map[string]int) {
	t.Helper()
	lost := f.shop.soldRight(0, failoverStock, orders)
	if lost > 0 {
		t.Errorf("%d orders were promised and are not there", lost)
	}
	users, err := client.HLen(t.Context(), f.shop.keys().Users).Result()
	if err != nil || users != failoverStock {
		t.Errorf("Redis has %d users, %v", users, err)
	}
}

// Sentinels promote a replica in the middle of a sale. Buyers are told of an order when
// one of two replicas has it; the sentinels choose the one that has more.
func TestDurabilitySentinelFailsOver(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for sentinels")
	}
	sentinel := testkit.RedisSentinel(t)
	primary := sentinel.Primary()
	testkit.NewRedis(t).ReplicaOf(primary)
	watched := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addrs[0]})
	defer watched.Close()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		known, err := watched.Replicas(t.Context(), sentinel.MasterName).Result()
		if err == nil && len(known) == 2 && known[0]["master-link-status"] == "ok" && known[1]["master-link-status"] == "ok" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the sentinels never know both replicas: %v, %v", known, err)
		}
	}
	s := servers{db: testkit.MariaDB(t), redis: sentinel.Addrs}.with("SECKILL_REDIS_MASTER="+sentinel.MasterName, "SECKILL_REDIS_WAIT_REPLICAS=1")
	f := &failover{kill: sentinel.KillPrimary, apis: []process{startProcess(t, s), startProcess(t, s)}}
	f.shop = openShop(t, failoverStock, admissionPolicy, f.apis...)
	orders := f.sell(t)
	now := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: sentinel.MasterName, SentinelAddrs: sentinel.Addrs})
	defer now.Close()
	f.judge(t, now, orders)
	if sentinel.Primary() == primary {
		t.Error("nobody was promoted: this shows nothing")
	}
}

// A cluster promotes a replica of the node that has the voucher's slot.
func TestDurabilityClusterFailsOver(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a cluster")
	}
	addrs := testkit.RedisCluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	defer client.Close()
	s := servers{db: testkit.MariaDB(t), redis: addrs}.with("SECKILL_REDIS_WAIT_REPLICAS=1")
	f := &failover{apis: []process{startProcess(t, s), startProcess(t, s)}}
	f.apis[0].WaitLine(t, "fewer replicas than orders wait for")
	f.shop = openShop(t, failoverStock, admissionPolicy, f.apis...)
	node, err := client.MasterForKey(t.Context(), f.shop.keys().Meta)
	if err != nil {
		t.Fatal(err)
	}
	f.kill = func() { killAt(t, node) }
	for range 2 { // one is promoted, the other one follows it
		follow(t, node, addrs)
	}
	acknowledges(t, node, 2)
	orders := f.sell(t)
	now := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	defer now.Close()
	f.judge(t, now, orders)
	if promoted, err := now.MasterForKey(t.Context(), f.shop.keys().Meta); err != nil || promoted.Options().Addr == node.Options().Addr {
		t.Errorf("nobody was promoted: this shows nothing (%v)", err)
	}
}

// follow gives a node of a cluster one more replica, and waits until all others know it:
// whom they do not know they do not elect.
func follow(t *testing.T, node *redis.Client, all []string) {
	t.Helper()
	id, err := node.ClusterMyID(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(node.Options().Addr, ":")
	replica := testkit.NewRedis(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-allow-replica-migration", "no").Client(t)
	if err := replica.ClusterMeet(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	// It has to have heard of the node before it can follow it.
	for deadline := time.Now().Add(30 * time.Second); replica.ClusterReplicate(t.Context(), id).Err() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never a replica")
		}
	}
	self := replica.ClusterMyID(t.Context()).Val()
	for _, addr := range all {
		other := redis.NewClient(&redis.Options{Addr: addr})
		knows := func() bool {
			for line := range strings.Lines(other.ClusterNodes(t.Context()).Val()) {
				if strings.HasPrefix(line, self) && strings.Contains(line, "slave "+id) && strings.Contains(line, " connected") {
					return true
				}
			}
			return false
		}
		for deadline := time.Now().Add(30 * time.Second); !knows(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s never knows the replica", addr)
			}
		}
		_ = other.Close()
	}
}

// killAt kills the server that a client asks with SIGKILL.
func killAt(t *testing.T, client *redis.Client) {
	t.Helper()
	pid, err := strconv.Atoi(client.InfoMap(context.WithoutCancel(t.Context()), "server").Item("Server", "process_id"))
	if err != nil || pid < 2 {
		t.Fatalf("process %d: %v", pid, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
