package sale

import (
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// TestGaleraSale sells under both flows by two processes that write to two nodes of a Galera cluster at once, with
// connections of each process to both nodes, as to a name with two addresses. The processes start at once on an empty
// database, and a node is killed during the second sale.
func TestGaleraSale(t *testing.T) {
	t.Parallel()
	g := newGalera(t)
	databases := g.cluster.Database(t)
	dsn, err := mysql.ParseDSN(databases[0].DSN)
	fail.NowIf(t, err)
	dsn.Addr = alternately(t, g.cluster.Nodes[0].Addr(), g.cluster.Nodes[1].Addr())
	databases[0].DSN = dsn.FormatDSN()
	s := harness.Stores{DB: databases[0], Redis: []string{testkit.NewRedis(t).Addr()}, Env: []string{"SECKILL_CLAIM_IDLE=2s"}}
	a, b := harness.Launch(t, harness.SelfPath(t), s), harness.Launch(t, harness.SelfPath(t), s)
	g.apis = [2]harness.Process{harness.Served(t, a), harness.Served(t, b)}
	g.sell(`{}`, 200, func(<-chan struct{}) {})
	g.sell(`{"flow":"admission"}`, 200, func(<-chan struct{}) {
		g.cluster.Nodes[1].Kill()
		g.cluster.Nodes[1].Restart()
	})
}

// alternately listens for connections, and leads each to the server after the one before, or to another one if it is
// down.
func alternately(t *testing.T, addrs ...string) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for n := 0; ; n++ {
			client, err := l.Accept()
			if err != nil {
				return
			}
			var server net.Conn
			for try := range addrs {
				if server, err = new(net.Dialer).DialContext(t.Context(), "tcp", addrs[(n+try)%len(addrs)]); err == nil {
					break
				}
			}
			if err != nil {
				_ = client.Close()
				continue
			}
			for from, to := range map[net.Conn]net.Conn{client: server, server: client} {
				go func() {
					_, _ = io.Copy(to, from)
					_ = to.Close()
				}()
			}
		}
	}()
	return l.Addr().String()
}

// TestSoakGaleraSale repeats that with a node for each process, while the nodes are killed and paused.
// SECKILL_TEST_ROUNDS is the number of rounds (default 20).
func TestSoakGaleraSale(t *testing.T) {
	testkit.Soak(t)
	g := openGalera(t)
	began, struck := time.Now(), map[string]int{}
	rounds := harness.Number(t, "SECKILL_TEST_ROUNDS", 20)
	for n := range rounds {
		policy := []string{
			`{}`, `{"flow":"admission"}`, `{"lock":"fenced","stock":"fenced","scope":"voucher"}`,
			`{"lock":"none","stock":"rows"}`, `{"lock":"none","stock":"units"}`, `{"lock":"none","stock":"grouped"}`,
		}[n%6]
		g.sell(policy, 600, func(sold <-chan struct{}) {
			for range 2 {
				select {
				case <-sold:
				case <-time.After(time.Duration(50+rand.IntN(500)) * time.Millisecond): // at a random moment of the load
				}
				node := g.cluster.Nodes[rand.IntN(len(g.cluster.Nodes))]
				if rand.IntN(2) == 0 {
					struck["SIGKILL"]++
					node.Kill()
					node.Restart()
					continue
				}
				struck["SIGSTOP"]++
				node.Pause()
				time.Sleep(time.Duration(50+rand.IntN(3000)) * time.Millisecond) // it is expelled after one second
				node.Resume()
			}
		})
	}
	t.Logf("%d rounds in %v, %v, %d orders; answers %v", rounds, time.Since(began).Round(time.Second), struck, g.orders, g.codes)
}

// galeraCluster is a service over a cluster of three nodes. Each process uses a node of its own.
type galeraCluster struct {
	t       *testing.T
	cluster *testkit.GaleraCluster
	apis    [2]harness.Process
	client  *http.Client
	users   atomic.Int64

	mu     sync.Mutex
	orders int
	codes  map[string]int
}

func openGalera(t *testing.T) *galeraCluster {
	t.Helper()
	g := newGalera(t)
	databases, redis := g.cluster.Database(t), testkit.NewRedis(t).Addr()
	for i := range g.apis {
		g.apis[i] = harness.Start(t, harness.Stores{DB: databases[i], Redis: []string{redis}, Env: []string{"SECKILL_CLAIM_IDLE=2s"}})
	}
	return g
}

// newGalera is openGalera without the processes.
func newGalera(t *testing.T) *galeraCluster {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: harness.Connections}
	t.Cleanup(transport.CloseIdleConnections)
	return &galeraCluster{
		t: t, cluster: testkit.Galera(t, 3), codes: map[string]int{},
		client: &http.Client{Transport: transport, Timeout: 15 * time.Second},
	}
}

// sell sells a whole voucher. Every buyer repeats the request, with one Idempotency-Key and to either process, until it
// is answered. Each of them orders for the first time, so none may be answered with already_ordered.
func (g *galeraCluster) sell(policy string, stock int, during func(sold <-chan struct{})) {
	g.t.Helper()
	harness.WaitReady(g.t, g.apis[:]...)
	s := harness.OpenSale(g.t, stock, policy, g.apis[:]...)
	s.Client = g.client
	sold := make(chan struct{})
	soldOut := sync.OnceFunc(func() { close(sold) })
	told := map[int]string{} // the order of each user
	var buyers sync.WaitGroup
	for range harness.Connections {
		buyers.Go(func() {
			for {
				user := int(g.users.Add(1))
				got := g.buyUntilAnswered(s, user)
				if got.Order == "" {
					soldOut()
					return
				}
				g.mu.Lock()
				told[user] = got.Order
				g.mu.Unlock()
			}
		})
	}
	during(sold)
	buyers.Wait()

	harness.WaitReady(g.t, g.apis[:]...)
	want := harness.Audit{InitialStock: stock, Orders: stock, Balanced: true}
	for i := range g.apis {
		fail.Unequal(g.t, s.AtRest(i), want, "%s, process %d", policy, i)
	}
	fail.Unequal(g.t, len(told), stock, "%s: buyers who were told of an order", policy)
	for user, order := range told {
		fail.Unequal(g.t, s.StatusOf(user, order, user), "confirmed", "%s: order %s of user %d", policy, order, user)
	}
	g.orders += len(told)
	g.t.Logf("%s: %d orders; answers so far %v", policy, len(told), g.codes)
}

// buyUntilAnswered repeats a request until its answer is final.
func (g *galeraCluster) buyUntilAnswered(s *harness.Sale, user int) harness.Outcome {
	for deadline, n := time.Now().Add(2*time.Minute), user; ; n++ {
		got := s.Buy(n, user, "key-"+strconv.Itoa(user))
		g.mu.Lock()
		g.codes[got.Code]++
		g.mu.Unlock()
		switch got.Code {
		case "accepted", "created", "sold_out":
			return got
		case "network", "unavailable", "busy":
		default:
			g.t.Errorf("user %d was told %q", user, got.Code)
			return got
		}
		if time.Now().After(deadline) {
			g.t.Errorf("user %d had no answer within two minutes, but %q", user, got.Code)
			return got
		}
		time.Sleep(20*time.Millisecond + rand.N(50*time.Millisecond))
	}
}
