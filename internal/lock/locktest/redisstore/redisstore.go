// Package redisstore builds the locktest subjects of mechanisms that keep their locks in Redis: in this process in virtual
// time, on real servers, or on a cluster.
package redisstore

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
)

// Mechanism is a lock in Redis.
type Mechanism struct {
	// Name is the mechanism's name. The key of a lock is the one that redisio.Key returns for it without a part.
	Name string
	// Open makes a locker on one client for each node. A locker that implements io.Closer is closed before its clients.
	Open func(clients []redis.UniversalClient, s Setting) (lock.Locker, error)
	// Nodes is how many independent servers the mechanism needs, and Quorum how many of them have to grant a key. 0
	// stands for one.
	Nodes, Quorum int
	// Server starts the server that the mechanism needs. nil: any redis-server, which its tests share.
	Server func(t testkit.TB) *testkit.RedisServer
	// Keeps is the end of the names of keys that outlive their locks on purpose.
	Keeps string
	// ErrorsInScripts says that the mechanism tells the kind of an error that Redis raises in one of its scripts.
	ErrorsInScripts bool
	// Promises are those of the mechanism.
	Promises locktest.Promises
}

// Setting is what a locker needs to know of where it runs.
type Setting struct {
	// Prefix comes before every key.
	Prefix string
	// Renewed is the length of renewed leases.
	Renewed time.Duration
	// Patience is how long a server may take to answer, or a waiter to ask again. 0: the mechanism's default.
	Patience time.Duration
	// Poll is how waiters poll.
	Poll lock.Polling
}

// The settings of each tier. In virtual time they are the mechanisms' defaults, except that waiters poll at fixed intervals:
// at most 20 ms pass before one asks again. On real servers that may be slow, nothing may end before they answer.
func virtual() Setting {
	return Setting{Poll: lock.Polling{Jitter: func(n time.Duration) time.Duration { return n / 2 }}}
}
func untimed() Setting { return Setting{Patience: 20 * time.Second} }
func real() Setting    { return Setting{Patience: 3 * time.Second, Renewed: 2 * time.Second} }

type node struct {
	// options are those of a client that reaches the server through network, if that is not nil.
	options func(network *locktest.Network) *redis.Options
	pause   func(time.Duration) // nil: send CLIENT PAUSE
}

// Simulated are the promises that a server in this process can prove.
func (m Mechanism) Simulated() locktest.Promises {
	if !m.ErrorsInScripts {
		return m.Promises
	}
	return m.Promises.Except(locktest.NotApplicable("the simulated server has words of its own for an error in a script"),
		locktest.RefusesWrongKind)
}

// Virtual makes a subject on servers in this process. Call it in a bubble of testing/synctest.
func (m Mechanism) Virtual(tb testing.TB) locktest.Subject {
	var nodes []node
	listening := &listening{}
	for i := range cmp.Or(m.Nodes, 1) {
		server := simulate.NewRedis(tb)
		nodes = append(nodes, node{pause: server.Pause, options: func(network *locktest.Network) *redis.Options {
			options := server.Options()
			options.Addr = fmt.Sprintf("127.0.0.1:%d", i+1) // a mechanism may refuse two nodes with one address
			options.Dialer = listening.over(server.Dial)
			if network != nil {
				options.Dialer = network.Over(options.Dialer)
			}
			return options
		}})
	}
	setting := virtual()
	if m.Nodes > 1 {
		setting.Renewed = 3 * time.Second // waiters poll: each second costs hundreds of scripts
	}
	s := m.subject(tb, "t:", nodes, setting)
	s.Store.Connections = listening.count
	return s
}

// Real makes a subject on real servers. Those with one node share the test binary's, each under its own prefix.
func (m Mechanism) Real(servers []*testkit.RedisServer, s Setting) locktest.Factory {
	return func(tb testing.TB) locktest.Subject {
		subject := m.on(tb, servers, s)
		subject.Dedicated = func(tb testing.TB) locktest.Subject {
			var own []*testkit.RedisServer
			for range servers {
				own = append(own, m.server(tb))
			}
			return m.on(tb, own, s)
		}
		return subject
	}
}

func (m Mechanism) on(tb testing.TB, servers []*testkit.RedisServer, s Setting) locktest.Subject {
	prefix := testkit.KeyPrefix(tb)
	var nodes []node
	for _, server := range servers {
		nodes = append(nodes, node{options: func(network *locktest.Network) *redis.Options {
			options := &redis.Options{Addr: server.Addr(), ClientName: prefix}
			if network != nil {
				options.Dialer = network.Dial
			}
			return options
		}})
	}
	return m.subject(tb, prefix, nodes, s)
}

// Run proves on real servers what does not depend on time.
func (m Mechanism) Run(t *testing.T) { locktest.Run(t, m.Real(m.servers(t), untimed()), m.Promises) }

// Soak proves everything on real servers, with real leases.
func (m Mechanism) Soak(t *testing.T) { locktest.Soak(t, m.Real(m.servers(t), real()), m.Promises) }

func (m Mechanism) servers(t *testing.T) (servers []*testkit.RedisServer) {
	if m.Nodes == 0 && m.Server == nil {
		return []*testkit.RedisServer{testkit.Redis(t)}
	}
	for range cmp.Or(m.Nodes, 1) {
		servers = append(servers, m.server(t))
	}
	return servers
}

// server starts a server for one test alone.
func (m Mechanism) server(t testkit.TB) *testkit.RedisServer {
	if m.Server == nil {
		return testkit.NewRedis(t)
	}
	return m.Server(t)
}

// subject makes a subject on the nodes. A process reaches all of them through one network.
func (m Mechanism) subject(tb testing.TB, prefix string, nodes []node, s Setting) locktest.Subject {
	s.Prefix = prefix
	v := &view{Mechanism: m, prefix: prefix, quorum: cmp.Or(m.Quorum, 1), nodes: nodes}
	for _, n := range nodes {
		v.clients = append(v.clients, dial(tb, n, nil))
	}
	return m.described(locktest.Subject{
		Store: v.store(),
		Process: func(tb testing.TB, network *locktest.Network) lock.Locker {
			tb.Helper()
			var clients []redis.UniversalClient
			for _, n := range nodes {
				clients = append(clients, dial(tb, n, network))
			}
			locker, err := m.Open(clients, s)
			return locktest.Opened(tb, locker, err)
		},
	}, s)
}

// Renews reports whether a watchdog renews leases, as the catalogue says.
func (m Mechanism) Renews() bool {
	known, _ := lock.Lookup(m.Name)
	return known.Ends == lock.EndsUnlessRenewed
}

// described fills in what a subject says of the mechanism. Two callers that ask several nodes at once may each get a part
// of them.
func (m Mechanism) described(subject locktest.Subject, s Setting) locktest.Subject {
	subject.Name, subject.Remote, subject.SplitVote = m.Name, true, m.Nodes > 1
	subject.DeadWaiterTimeout = 3 * time.Second
	if m.Renews() {
		subject.Renewed = cmp.Or(s.Renewed, 30*time.Second)
	}
	return subject
}

// dial opens the client of a process. Its commands end with their context. It repeats lost commands, as go-redis does by
// default: a mechanism has to cope with that. It does not repeat dialling, so that a cut network is noticed at once.
func dial(tb testing.TB, n node, network *locktest.Network) *redis.Client {
	options := n.options(network)
	options.ContextTimeoutEnabled, options.DialerRetries, options.MaxRetries = true, 1, 3
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	// After so many failures go-redis dials in the background, even if it is closed.
	options.PoolSize = 1000
	client := redis.NewClient(options)
	tb.Cleanup(func() { _ = client.Close() })
	return client
}
