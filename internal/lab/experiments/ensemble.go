package experiments

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lab"
	"seckill/internal/lab/actor"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/stage"
	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
	"seckill/internal/lock/redis/quorum"
	"seckill/internal/testkit"
)

const (
	// unhurried is a lease that is renewed, and whose first renewal comes when all is
	// over: nobody hears from the watchdog.
	unhurried = 15 * time.Second
	// besides is how long a holder works on after somebody else has tried.
	besides = 300 * time.Millisecond
	// nodePatience is what one of several nodes has to answer. A node that is down
	// refuses at once, and a busy machine is no node that is silent.
	nodePatience = time.Second
	// retryWait is the limit of who comes again when the lock is free.
	retryWait = 5 * time.Second
)

// trying is a policy of those who try once, under a lock that is renewed.
func trying(mechanism string) lab.Setup {
	return lab.Setup{Policy: asking(mechanism, 0, 0), Watchdog: unhurried}
}

// ensemble is a company whose lock is kept on servers of its own, to which things are
// done. Each of them is watched by itself.
type ensemble struct {
	*company
	addrs   []string // of the servers, as the actors know them
	watched []*watched
}

// watched is a server and who looks at it.
type watched struct {
	server string
	*stage.Observer
	down int64 // since when it gives no answers; 0: it does
}

func assemble(p *lab.Play, with lab.Setup) *ensemble { return &ensemble{company: gather(p, with)} }

// several says whether the mechanism wants several nodes.
func (e *ensemble) several() bool {
	return stage.LockStore(e.with.Policy.Lock) == stage.LockStore("red")
}

// join makes a server one of those that the actors know, and has it watched.
func (e *ensemble) join(name string, server *testkit.RedisServer) {
	e.joinBehind(name, server, server.Addr())
}

// joinBehind is join for a server that the actors reach under another address.
func (e *ensemble) joinBehind(name string, server *testkit.RedisServer, addr string) {
	e.addrs = append(e.addrs, addr)
	e.watch(name, server)
}

// watch looks at what a server has under the key.
func (e *ensemble) watch(name string, server *testkit.RedisServer) {
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
	e.Cleanup(func() { e.must(client.Close()) })
	e.watched = append(e.watched, &watched{server: name, Observer: e.Observe(e.alone(client), e.key)})
}

// kill kills a server, at which nobody looks from then on.
func (e *ensemble) kill(name string, server *testkit.RedisServer) {
	for _, w := range e.watched {
		if w.server == name && w.down == 0 {
			w.Stop()
			w.down = time.Now().UnixNano()
		}
	}
	server.Kill()
}

// alone asks the mechanism what a single server holds.
func (e *ensemble) alone(client *redis.Client) lock.Inspector {
	if e.several() {
		one, err := quorum.New(e.with.Policy.Lock, 1, []quorum.Client{client}, quorum.Config{Prefix: stage.KeyPrefix})
		e.must(err)
		e.Cleanup(func() { e.must(one.Close()) })
		return one
	}
	locker, err := e.Lockers(lockers.Servers{Redis: client}, lockers.Config{Prefix: stage.KeyPrefix}).Locker(e.with.Policy.Lock)
	e.must(err)
	inspector, ok := locker.(lock.Inspector)
	if !ok {
		e.Fatalf("%s cannot be asked who holds it", e.with.Policy.Lock)
	}
	return inspector
}

// hire starts an actor that knows the servers.
func (e *ensemble) hire(name string) *actor.Actor {
	return e.company.hire(name, func(config *actor.Config) {
		if e.several() {
			config.NodeAddrs, config.NodeTimeout = e.addrs, nodePatience
		} else {
			config.RedisAddrs = e.addrs
		}
	})
}

// ask names the owner, so that what a refused acquisition left on some of the nodes is
// known by name.
func (e *ensemble) ask(who string) actor.Acquire {
	asks := e.company.ask(who)
	asks.Owner = who
	return asks
}

// evidence is all that is known now.
func (e *ensemble) evidence() judge.Evidence {
	ev := e.whole()
	for _, w := range e.watched {
		for _, s := range w.Samples() {
			s.Server = w.server
			ev.Samples = append(ev.Samples, s)
		}
		if w.down != 0 {
			ev.Samples = append(ev.Samples, judge.Sample{At: w.down, Key: e.key, Server: w.server, Err: "killed"})
		}
	}
	return ev
}

// Who they are.
const firstBuyer, nextBuyer = "buyer 1", "buyer 2"

// begin has the first one take the lock.
func (e *ensemble) begin(at *actor.Actor) actor.Grant {
	g, err := at.Acquire(e.Context(), e.ask(firstBuyer))
	e.must(err)
	e.Pause(besides / 3)
	return g
}

// intrude has the next one try while the first one works, and come again when that is
// done if it is refused. Then it is judged.
func (e *ensemble) intrude(first *actor.Actor, has actor.Grant, other *actor.Actor) {
	const next = nextBuyer
	g, err := other.Acquire(e.Context(), e.ask(next))
	refused := errors.Is(err, lock.ErrNotAcquired)
	if !refused {
		e.must(err)
	}
	tried := g
	e.Pause(besides)
	done := time.Now().UnixNano()
	e.letGo(first, has.Lease)
	if refused {
		again := e.ask(next)
		again.Wait = retryWait
		g, err = other.Acquire(e.Context(), again)
		e.must(err)
	}
	e.Pause(besides / 2)
	e.letGo(other, g.Lease)

	evidence := e.evidence()
	if refused {
		e.Measure("the next one was refused after", millis(tried.Waited()), "ms")
		e.Witness(judge.Tell(evidence, judge.Story{
			Key: e.key, Who: []string{firstBuyer, next}, From: has.Asked, To: g.At,
			Summary: func(when func(int64) string) string {
				return fmt.Sprintf("Buyer 1 gets the lock at %s; buyer 2 is refused at %s, comes again when buyer 1 is done, and gets it at %s.",
					when(has.At), when(tried.At), when(g.At))
			},
		}))
	} else {
		e.Measure("both believed to hold it", millis(time.Duration(done-g.At)), "ms")
	}
	e.Judge(evidence)
}
