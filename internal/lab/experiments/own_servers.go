package experiments

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lab"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/lab/witness"
	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
	"seckill/internal/lock/redis/quorum"
	"seckill/internal/testkit"
)

const (
	// longWatchdog is a renewed lease whose first renewal comes after the experiment: the
	// watchdog plays no part.
	longWatchdog = 15 * time.Second
	// overlapTime is how long a holder works on after the second client has tried.
	overlapTime = 300 * time.Millisecond
	// longNodeTimeout is the time that one of several nodes has to answer. A node that is
	// down refuses at once, and a busy machine must not look like a node that hangs.
	longNodeTimeout = time.Second
	// retryWait is the wait limit of a client that tries again when the lock is free.
	retryWait = 5 * time.Second
)

// renewedTryOnce is a setup in which clients try once, under a lock that is renewed.
func renewedTryOnce(mechanism string) lab.Setup {
	return lab.Setup{Policy: policyFor(mechanism, 0, 0), Watchdog: longWatchdog}
}

// ownServers are clients whose lock is stored on servers of the experiment's own, which
// it kills, restarts or cuts off. Each server is observed separately.
type ownServers struct {
	*clients
	addrs    []string // of the servers, as the clients know them
	observed []*observedServer
}

// observedServer is a server and its observer.
type observedServer struct {
	server string
	*testbed.Observer
	killedAt int64 // 0: it runs
}

func newOwnServers(t *lab.Trial, setup lab.Setup) *ownServers {
	return &ownServers{clients: newClients(t, setup)}
}

// usesNodes says whether the mechanism uses several independent nodes.
func (s *ownServers) usesNodes() bool {
	return lock.StoreOf(s.setup.Policy.Lock) == lock.InNodes
}

// addServer makes a server known to the clients, and observes it.
func (s *ownServers) addServer(name string, server *testkit.RedisServer) {
	s.addServerAt(name, server, server.Addr())
}

// addServerAt is addServer for a server that the clients reach at another address.
func (s *ownServers) addServerAt(name string, server *testkit.RedisServer, addr string) {
	s.addrs = append(s.addrs, addr)
	s.observeServer(name, server)
}

// observeServer samples what a server stores under the key.
func (s *ownServers) observeServer(name string, server *testkit.RedisServer) {
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
	s.Cleanup(func() { s.Must(client.Close()) })
	s.observed = append(s.observed, &observedServer{server: name, Observer: s.Observe(s.singleInspector(client), s.key)})
}

// singleInspector asks the mechanism what a single server stores.
func (s *ownServers) singleInspector(client *redis.Client) lock.Inspector {
	if s.usesNodes() {
		one, err := quorum.New(s.setup.Policy.Lock, 1, []quorum.Client{client}, quorum.Config{Prefix: testbed.KeyPrefix})
		s.Must(err)
		s.Cleanup(func() { s.Must(one.Close()) })
		return one
	}
	set := s.Lockers(lockers.Servers{Redis: client}, lockers.Config{Prefix: testbed.KeyPrefix})
	locker, err := set.Locker(s.setup.Policy.Lock)
	s.Must(err)
	inspector, ok := locker.(lock.Inspector)
	if !ok {
		s.Fatalf("%s does not say who holds a key", s.setup.Policy.Lock)
	}
	return inspector
}

// kill kills a server and stops observing it.
func (s *ownServers) kill(name string, server *testkit.RedisServer) {
	for _, o := range s.observed {
		if o.server == name && o.killedAt == 0 {
			o.Stop()
			o.killedAt = time.Now().UnixNano()
		}
	}
	server.Kill()
}

// noteReturn records what has come back, the server that was observed last, and whether it has
// the key.
func (s *ownServers) noteReturn(what i18n.Text) {
	server := s.observed[len(s.observed)-1]
	var now judge.Sample
	s.Until(server.server+" to answer", func() bool {
		seen := server.Samples()
		if len(seen) > 0 {
			now = seen[len(seen)-1]
		}
		return len(seen) > 0 && now.Err == ""
	})
	content := i18n.F("with the key")
	if now.Stored.Owner == "" {
		content = i18n.F("without the key")
	}
	s.Fault(i18n.F("%s, %s", what, content))()
}

// start starts a client that knows the servers.
func (s *ownServers) start(name string) *lockclient.Client {
	return s.clients.start(name, func(config *lockclient.Config) {
		if s.usesNodes() {
			config.NodeAddrs, config.NodeTimeout = s.addrs, longNodeTimeout
		} else {
			config.RedisAddrs = s.addrs
		}
	})
}

// request names the owner, so that a key that a refused acquisition left on some of the
// nodes can be attributed to it.
func (s *ownServers) request(who string) lockclient.Acquire {
	req := s.clients.request(who)
	req.Owner = who
	return req
}

// evidence adds what each server stored.
func (s *ownServers) evidence() judge.Evidence {
	ev := s.fullEvidence()
	for _, o := range s.observed {
		for _, sample := range o.Samples() {
			sample.Server = o.server
			ev.Samples = append(ev.Samples, sample)
		}
		if o.killedAt != 0 {
			ev.Samples = append(ev.Samples, judge.Sample{At: o.killedAt, Key: s.key, Server: o.server, Err: "killed"})
		}
	}
	return ev
}

// The names of the two buyers.
const firstBuyer, secondBuyer = "buyer 1", "buyer 2"

// firstAcquires makes the first buyer take the lock.
func (s *ownServers) firstAcquires(first *lockclient.Client) lockclient.Grant {
	g := s.take(first, s.request(firstBuyer))
	s.Sleep(overlapTime / 3)
	return g
}

// secondTries makes the second buyer try while the first one works. If it is refused, it
// tries again when the first one is done. Then the evidence is judged.
func (s *ownServers) secondTries(first *lockclient.Client, held lockclient.Grant, second *lockclient.Client) {
	g, err := second.Acquire(s.Context(), s.request(secondBuyer))
	refused := errors.Is(err, lock.ErrNotAcquired)
	if !refused {
		s.Must(err)
	}
	tried := g
	s.Sleep(overlapTime)
	done := time.Now().UnixNano()
	s.release(first, held.Lease)
	if refused {
		again := s.request(secondBuyer)
		again.Wait = retryWait
		g = s.take(second, again)
	}
	s.Sleep(overlapTime / 2)
	s.release(second, g.Lease)

	evidence := s.evidence()
	if refused {
		s.Measure(i18n.F("the second buyer was refused after"), millis(tried.Waited()), i18n.F("ms"))
		s.Witness(witness.Tell(evidence, witness.Story{
			Key: s.key, Who: []string{firstBuyer, secondBuyer}, From: held.Asked, To: g.At,
			Summary: i18n.F("Buyer 1 gets the lock at %s. Buyer 2 is refused at %s, tries again when buyer 1 is done, and gets it at %s.",
				witness.At(held.At), witness.At(tried.At), witness.At(g.At)),
		}))
	} else {
		s.Measure(i18n.F("both believed to hold it"), millis(time.Duration(done-g.At)), i18n.F("ms"))
	}
	s.Judge(evidence)
}
