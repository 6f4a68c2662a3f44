package durability

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
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// failover is a sale over two processes during which the gate's Redis dies and Redis itself, not the test, promotes a
// replica.
type failover struct {
	sale *harness.Sale
	apis []harness.Process
	kill func() // of the primary
}

const failoverStock = 1000

// sell sells the whole stock and kills the primary meanwhile. It returns the accepted orders. No buyer is told of two
// orders.
func (f *failover) sell(t *testing.T) (orders map[string]int) {
	t.Helper()
	var answered atomic.Int64
	var load sync.WaitGroup
	load.Go(func() {
		_, orders = f.sale.OrderAll(failoverStock, 1, func(n int) {
			answered.Store(int64(n))
			time.Sleep(80 * time.Millisecond) // some 400 a second
		})
	})
	testkit.Until(t, "200 buyers are answered", func() bool { return answered.Load() >= 200 })
	killed := time.Now()
	f.kill()
	// Buyers of their own: those of the rush may have an order by now.
	var first harness.Outcome
	user := 10 * failoverStock
	testkit.Until(t, "on sale again", func() bool {
		first = f.sale.Buy(user, user+1, "")
		user++
		return first.Code == "accepted"
	})
	t.Logf("the next order is accepted %v after the death", time.Since(killed).Round(10*time.Millisecond))
	load.Wait()
	orders[first.Order] = user
	harness.WaitReady(t, f.apis...)
	testkit.Until(t, "all is sold", func() bool {
		_, more := f.sale.OrderAll(2*failoverStock, 1, nil)
		maps.Copy(orders, more)
		return f.sale.AtRest(0).Stock == 0
	})
	return orders
}

// check checks the outcome of a sale. client is connected to the current primary.
func (f *failover) check(t *testing.T, client redis.UniversalClient, orders map[string]int) {
	t.Helper()
	lost := f.sale.CheckSoldOut(0, failoverStock, orders)
	if lost > 0 {
		t.Errorf("%d accepted orders are missing", lost)
	}
	users, err := client.HLen(t.Context(), f.sale.Keys().Users).Result()
	if err != nil || users != failoverStock {
		t.Errorf("Redis has %d users, %v", users, err)
	}
}

// Sentinels promote a replica in the middle of a sale. A buyer is told of an order once one of two replicas has it, and
// the sentinels choose the replica that has more.
func TestDurabilitySentinelFailsOver(t *testing.T) {
	t.Parallel()
	sentinel := testkit.RedisSentinelOf(t, 2)
	primary := sentinel.Primary()
	s := harness.Stores{DB: testkit.MariaDB(t), Redis: sentinel.Addrs}.With("SECKILL_REDIS_MASTER="+sentinel.MasterName, "SECKILL_REDIS_WAIT_REPLICAS=1")
	f := &failover{kill: sentinel.KillPrimary, apis: []harness.Process{harness.Start(t, s), harness.Start(t, s)}}
	f.sale = harness.OpenSale(t, failoverStock, harness.AdmissionPolicy, f.apis...)
	orders := f.sell(t)
	now := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: sentinel.MasterName, SentinelAddrs: sentinel.Addrs})
	defer now.Close()
	f.check(t, now, orders)
	if sentinel.Primary() == primary {
		t.Error("no replica was promoted: the test shows nothing")
	}
}

// A cluster promotes a replica of the node that has the voucher's slot.
func TestDurabilityClusterFailsOver(t *testing.T) {
	t.Parallel()
	addrs := testkit.RedisCluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	defer client.Close()
	s := harness.Stores{DB: testkit.MariaDB(t), Redis: addrs}.With("SECKILL_REDIS_WAIT_REPLICAS=1")
	f := &failover{apis: []harness.Process{harness.Start(t, s), harness.Start(t, s)}}
	f.apis[0].WaitLine(t, "fewer replicas than orders wait for")
	f.sale = harness.OpenSale(t, failoverStock, harness.AdmissionPolicy, f.apis...)
	node, err := client.MasterForKey(t.Context(), f.sale.Keys().Meta)
	fail.NowIf(t, err)
	f.kill = func() { killAt(t, node) }
	for range 2 { // one is promoted, the other one follows it
		follow(t, node, addrs)
	}
	acknowledges(t, node, 2)
	orders := f.sell(t)
	now := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	defer now.Close()
	f.check(t, now, orders)
	if promoted, err := now.MasterForKey(t.Context(), f.sale.Keys().Meta); err != nil || promoted.Options().Addr == node.Options().Addr {
		t.Errorf("no replica was promoted: the test shows nothing (%v)", err)
	}
}

// follow adds a replica to a node of a cluster, and waits until all other nodes know it: nodes do not elect a replica
// that they do not know.
func follow(t *testing.T, node *redis.Client, all []string) {
	t.Helper()
	id, err := node.ClusterMyID(t.Context()).Result()
	fail.NowIf(t, err)
	host, port, _ := strings.Cut(node.Options().Addr, ":")
	replica := testkit.NewRedis(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-allow-replica-migration", "no").Client(t)
	fail.NowIf(t, replica.ClusterMeet(t.Context(), host, port).Err())
	// It has to have heard of the node before it can follow it.
	testkit.Until(t, "the new node is a replica", func() bool { return replica.ClusterReplicate(t.Context(), id).Err() == nil })
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
		testkit.Until(t, addr+" knows the replica", knows)
		_ = other.Close()
	}
}

// killAt kills the server that a client is connected to, with SIGKILL.
func killAt(t *testing.T, client *redis.Client) {
	t.Helper()
	pid, err := strconv.Atoi(client.InfoMap(context.WithoutCancel(t.Context()), "server").Item("Server", "process_id"))
	if err != nil || pid < 2 {
		t.Fatalf("process %d: %v", pid, err)
	}
	fail.NowIf(t, syscall.Kill(pid, syscall.SIGKILL))
}
