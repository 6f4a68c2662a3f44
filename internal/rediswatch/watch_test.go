package rediswatch_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/rediswatch"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// expect checks once, and compares the result.
func expect(t *testing.T, when string, w *rediswatch.Watch, want rediswatch.Counts) {
	t.Helper()
	err := w.Check(t.Context())
	if errors.Is(err, rediswatch.ErrEvicts) != (want.Evicting > 0) || w.Counts() != want {
		t.Errorf("%s: %v, %+v, want %+v", when, err, w.Counts(), want)
	}
}

// expectLog wants each text in the log this often.
func expectLog(t *testing.T, log *strings.Builder, texts map[string]int) {
	t.Helper()
	for text, times := range texts {
		if strings.Count(log.String(), text) != times {
			t.Errorf("the log does not contain %q %d times:\n%s", text, times, log)
		}
	}
}

const unchecked = "cannot tell whether Redis evicts"

func TestPolicies(t *testing.T) {
	all := servers{}
	server := all.add(t, "noeviction")
	server.aof = false
	w, log := newWatch(all.client(t, server, true))
	for _, policy := range []string{"noeviction", "allkeys-lru", "allkeys-lfu", "allkeys-random",
		"volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "noeviction"} {
		server.set(policy)
		err := w.Check(t.Context())
		if evicts := policy != "noeviction"; errors.Is(err, rediswatch.ErrEvicts) != evicts || !errors.Is(w.Evicts(), err) {
			t.Errorf("%s: %v", policy, err)
		} else if evicts && (!strings.Contains(err.Error(), policy) || !strings.Contains(err.Error(), server.addr)) {
			t.Errorf("%q names neither the policy %s nor the server", err, policy)
		}
	}
	fail.Unequal(t, w.Counts(), rediswatch.Counts{WithoutAOF: 1})
	server.aof = true
	expect(t, "with appendonly yes", w, rediswatch.Counts{})
	expectLog(t, log, map[string]int{"allkeys-random": 1, "no longer evicts": 1, "appendonly yes": 1})
}

// If INFO or CONFIG is denied, the other one is used. If both are, the server is unchecked, and what it told before
// counts.
func TestDeniedCommands(t *testing.T) {
	for name, c := range map[string]struct {
		denied []string
		before bool // it has answered once
		want   rediswatch.Counts
		log    map[string]int
	}{
		"CONFIG":     {[]string{"CONFIG"}, false, rediswatch.Counts{Evicting: 1}, map[string]int{unchecked: 0}},
		"INFO":       {[]string{"INFO"}, false, rediswatch.Counts{Evicting: 1}, map[string]int{unchecked: 0}},
		"both":       {[]string{"INFO", "CONFIG"}, false, rediswatch.Counts{Unchecked: 1}, map[string]int{unchecked: 1}},
		"both later": {[]string{"INFO", "CONFIG"}, true, rediswatch.Counts{Evicting: 1, Unchecked: 1}, map[string]int{"NOPERM": 1, "latest_known_policy=allkeys-lru": 1, "set maxmemory-policy": 1, "no longer": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			all := servers{}
			server := all.add(t, "allkeys-lru")
			w, log := newWatch(all.client(t, server, true))
			if c.before {
				_ = w.Check(t.Context())
			}
			server.set("allkeys-lru", c.denied...)
			for range 2 {
				expect(t, "denied", w, c.want)
			}
			expectLog(t, log, c.log)
		})
	}
}

// Without INFO the primary's replicas are known from ROLE. Without both, the primary is unchecked.
func TestReplicasWithoutInfo(t *testing.T) {
	all := servers{}
	primary := all.add(t, "noeviction", all.add(t, "allkeys-lru"))
	primary.set("noeviction", "INFO", "ROLE")
	w, log := newWatch(all.client(t, primary, true))
	for range 2 {
		expect(t, "without INFO and ROLE", w, rediswatch.Counts{Unchecked: 1})
	}
	expectLog(t, log, map[string]int{unchecked: 1, primary.addr: 1, "replicas are not known": 1, "'role'": 1})
	primary.set("noeviction", "INFO")
	expect(t, "without INFO", w, rediswatch.Counts{Evicting: 1})
	primary.set("noeviction", "INFO", "ROLE")
	expect(t, "known replicas without ROLE", w, rediswatch.Counts{Evicting: 1, Unchecked: 1})
}

// silences are the ways in which a server does not answer, for a minute.
func silences() map[string]func(*node) {
	return map[string]func(*node){
		"hangs": func(n *node) { n.Pause(time.Minute) },
		"is down": func(n *node) {
			n.Stop()
			time.AfterFunc(time.Minute, n.Start)
		},
	}
}

// A replica that is listed and has never answered is unchecked. Once it has answered, that counts.
func TestReplicaThatHasNeverAnswered(t *testing.T) {
	for name, silence := range silences() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := servers{}
				replica := all.add(t, "allkeys-lru")
				w, log := newWatch(all.client(t, all.add(t, "noeviction", replica), true))
				silence(replica)
				for range 2 {
					expect(t, "it has never answered", w, rediswatch.Counts{Unchecked: 1})
				}
				expectLog(t, log, map[string]int{unchecked: 1, replica.addr: 1, "no answer: ": 1})
				simulate.Sleep(time.Minute + time.Second) // it answers again
				expect(t, "it has answered", w, rediswatch.Counts{Evicting: 1})
				silence(replica)
				expect(t, "it has answered before", w, rediswatch.Counts{Evicting: 1})
				expectLog(t, log, map[string]int{unchecked: 1})
				simulate.Sleep(time.Minute + time.Second) // it answers again
			})
		})
	}
}

// While a primary is down nothing lists its replicas, and one of them may be promoted.
func TestReplicasOfAPrimaryThatIsSilent(t *testing.T) {
	for name, silence := range silences() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := servers{}
				evicting, later := all.add(t, "allkeys-lru"), all.add(t, "noeviction")
				primary := all.add(t, "noeviction", evicting, later)
				w, _ := newWatch(all.client(t, primary, true))
				expect(t, "all answer", w, rediswatch.Counts{Evicting: 1})
				silence(primary)
				expect(t, "the primary is silent", w, rediswatch.Counts{Evicting: 1})
				later.set("volatile-lru")
				expect(t, "another replica evicts too", w, rediswatch.Counts{Evicting: 2})
				evicting.set("noeviction")
				later.set("noeviction")
				expect(t, "both are repaired", w, rediswatch.Counts{})
				evicting.set("allkeys-lru")
				expect(t, "one evicts again", w, rediswatch.Counts{Evicting: 1})
				evicting.Stop()
				expect(t, "it is down as well", w, rediswatch.Counts{Evicting: 1})
				simulate.Sleep(time.Minute + time.Second) // it answers again
			})
		})
	}
}

// While one server hangs, what another one answers takes effect.
func TestChangeWhileAnotherServerHangs(t *testing.T) {
	for name, start := range map[string]func(t *testing.T, all servers) (hangs, changes *node, clients []redis.UniversalClient){
		"primary": func(t *testing.T, all servers) (_, _ *node, _ []redis.UniversalClient) {
			replica := all.add(t, "noeviction")
			primary := all.add(t, "noeviction", replica)
			return primary, replica, []redis.UniversalClient{all.client(t, primary, true)}
		},
		"replica": func(t *testing.T, all servers) (_, _ *node, _ []redis.UniversalClient) {
			replica := all.add(t, "noeviction")
			primary := all.add(t, "noeviction", replica)
			return replica, primary, []redis.UniversalClient{all.client(t, primary, true)}
		},
		"independent node": func(t *testing.T, all servers) (_, _ *node, _ []redis.UniversalClient) {
			a, b := all.add(t, "noeviction"), all.add(t, "noeviction")
			return a, b, []redis.UniversalClient{all.client(t, a, true), all.client(t, b, true)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hangs, changes, clients := start(t, servers{})
				w, _ := newWatch(clients...)
				expect(t, "at first", w, rediswatch.Counts{})
				hangs.Pause(time.Minute)
				changes.set("allkeys-lru")
				noticesDuringCheck(t, w)
				simulate.Sleep(time.Minute + time.Second) // it answers again
			})
		})
	}
}

// noticesDuringCheck wants a check to notice at once that a server evicts, though it ends only with its time limit.
func noticesDuringCheck(t *testing.T, w *rediswatch.Watch) {
	t.Helper()
	began := time.Now()
	done := make(chan time.Duration, 1)
	go func() {
		_ = w.Check(t.Context())
		done <- time.Since(began)
	}()
	synctest.Wait()
	if w.Evicts() == nil || time.Since(began) != 0 {
		t.Errorf("%v after %v", w.Evicts(), time.Since(began))
	}
	fail.Unequal(t, <-done, 2*time.Second, "the default time limit")
}

// While no node of a cluster lists the others, those that the client knows are asked.
func TestClusterListingHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := servers{}
		var slots []redis.ClusterSlot // which node has which does not matter here
		for i := range 3 {
			slots = append(slots, redis.ClusterSlot{Start: i, End: i, Nodes: []redis.ClusterNode{{Addr: all.add(t, "noeviction").addr}}})
		}
		hangs := false
		o := all[slots[0].Nodes[0].Addr].Options()
		client := redis.NewClusterClient(&redis.ClusterOptions{
			ContextTimeoutEnabled: true, DisableIdentity: true, MaintNotificationsConfig: o.MaintNotificationsConfig, MaxRedirects: -1,
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return all[addr].Dial(ctx, network, addr)
			},
			ClusterSlots: func(ctx context.Context) ([]redis.ClusterSlot, error) {
				if hangs {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return slots, nil
			}})
		defer client.Close()
		w, _ := newWatch(client)
		expect(t, "the cluster answers", w, rediswatch.Counts{}) // now the client knows the nodes
		hangs = true
		evicting := all[slots[0].Nodes[0].Addr]
		evicting.set("allkeys-lru")
		expect(t, "the first listing hangs", w, rediswatch.Counts{Evicting: 1})
		evicting.set("noeviction")
		expect(t, "the second one hangs", w, rediswatch.Counts{})
		evicting.set("allkeys-lru")
		noticesDuringCheck(t, w)
	})
}

// Whatever a client leads to: it is unchecked as long as no server behind it has answered.
func TestClientWithoutAnAnswer(t *testing.T) {
	nowhere := func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
	addrs := []string{"10.0.0.1:6379"}
	for name, client := range map[string]redis.UniversalClient{
		"single node": redis.NewClient(&redis.Options{Addr: addrs[0], Dialer: nowhere, MaxRetries: -1, DialerRetries: 1}),
		"cluster":     redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, Dialer: nowhere, DialerRetries: 1}),
		// The watch does not know what is behind a ring.
		"ring": redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": addrs[0]}, Dialer: nowhere}),
	} {
		t.Run(name, func(t *testing.T) {
			defer client.Close()
			w, log := newWatch(client)
			for range 2 {
				expect(t, "no answer", w, rediswatch.Counts{Unchecked: 1})
			}
			expectLog(t, log, map[string]int{unchecked: 1})
		})
	}
}

// A server is behind two clients, one of which cannot reach it any more, or never could. What the other one has learnt
// counts, whichever comes first, and the server counts once.
func TestServerBehindTwoClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := servers{}
		server := all.add(t, "allkeys-lru")
		good, silent := all.client(t, server, true), all.client(t, server, false)
		for _, clients := range [][]redis.UniversalClient{{silent, good}, {good, silent}} {
			w, _ := newWatch(clients...)
			expect(t, "one cannot reach it", w, rediswatch.Counts{Evicting: 1})
		}
		server.set("allkeys-lru", "CONFIG", "INFO", "ROLE")
		w, _ := newWatch(good, silent)
		expect(t, "unknown to both", w, rediswatch.Counts{Unchecked: 1})
		server.set("allkeys-lru", "CONFIG", "ROLE")
		expect(t, "known now", w, rediswatch.Counts{Evicting: 1})
		server.set("allkeys-lru", "CONFIG", "INFO", "ROLE")
		expect(t, "known before to one", w, rediswatch.Counts{Evicting: 1, Unchecked: 1})

		// Both knew it, and one no longer reaches it: what the other one hears is newer.
		server.set("noeviction")
		former := all.client(t, server, true)
		w, _ = newWatch(former, good)
		expect(t, "both reach it", w, rediswatch.Counts{})
		_ = former.Close()
		simulate.Sleep(time.Second)
		server.set("allkeys-lru")
		expect(t, "one reaches it", w, rediswatch.Counts{Evicting: 1})
		simulate.Sleep(time.Second)
		server.set("noeviction")
		expect(t, "still one", w, rediswatch.Counts{})
	})
}
