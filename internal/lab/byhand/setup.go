package byhand

import (
	"cmp"
	"slices"
	"strings"

	"seckill/internal/lab/testbed"
	"seckill/internal/lock"
)

// The bounds of a setup.
const (
	minProcesses, maxProcesses = 2, 4
	minLease, maxLease         = 1, 60
	maxWait                    = 60
)

// Setup is what is on the bench.
type Setup struct {
	Lock      string `json:"lock"`
	Processes int    `json:"processes"`
	// Lease is how long a grant lasts, or the session of a process with ZooKeeper, in s. A lock
	// without a lease ignores it.
	Lease int `json:"lease"`
	// Wait is how long a process waits for the lock, in s; 0: it tries once.
	Wait int `json:"wait"`
	// Renew has the holder renew the lease while it lives. Otherwise it is fixed.
	Renew bool `json:"renew,omitempty"`
	// Replica gives the Redis server a replica, which can take its place.
	Replica bool `json:"replica,omitempty"`
}

// Mechanisms are those that a bench offers: all that are kept in a server, since two processes share no other.
func Mechanisms() []lock.Mechanism {
	return slices.DeleteFunc(lock.Catalogue(), func(m lock.Mechanism) bool { return m.Store == lock.InProcess })
}

// Kind is what a page has to know of the mechanism on a bench.
type Kind struct {
	Store lock.Store  `json:"store"`
	Ends  lock.Ending `json:"ends"`
}

// mechanism is the setup's. The setup is a valid one.
func (s Setup) mechanism() lock.Mechanism {
	m, _ := find(s.Lock)
	return m
}

func find(name string) (m lock.Mechanism, ok bool) {
	m, err := lock.Lookup(name)
	return m, err == nil && m.Store != lock.InProcess
}

// Validate reports what is wrong with a setup: an [Error].
func (s Setup) Validate() error {
	m, known := find(s.Lock)
	if !known {
		var names []string
		for _, m := range Mechanisms() {
			names = append(names, m.Name)
		}
		return wrong(WrongLock, values{"lock": brief(s.Lock)}, "the lock is %q; one of %s", brief(s.Lock), strings.Join(names, ", "))
	}
	for _, n := range []struct {
		name           Reason
		n, least, most int
	}{
		{WrongProcesses, s.Processes, minProcesses, maxProcesses}, {WrongLease, s.Lease, minLease, maxLease}, {WrongWait, s.Wait, 0, maxWait},
	} {
		if n.n < n.least || n.n > n.most {
			return wrong(n.name, values{"n": n.n, "least": n.least, "most": n.most}, "%s is %d; %d to %d", n.name, n.n, n.least, n.most)
		}
	}
	switch {
	case s.Renew && m.Ends != lock.EndsUnlessRenewed:
		return wrong(WrongRenewal, values{"lock": s.Lock}, "%s renews no lease", s.Lock)
	case s.Replica && m.Store != lock.InRedis:
		return wrong(WrongReplica, values{"lock": s.Lock}, "%s has no replica: it is not kept in one Redis server", s.Lock)
	}
	return nil
}

// Needs are the servers of a bench.
func (s Setup) Needs() []testbed.Server {
	switch s.mechanism().Store {
	case lock.InNodes:
		return []testbed.Server{testbed.Redis, testbed.Nodes}
	case lock.InMySQL:
		return []testbed.Server{testbed.Database}
	case lock.InZooKeeper:
		return []testbed.Server{testbed.ZooKeeper}
	case lock.InRedis, lock.InProcess:
	}
	switch {
	case s.Replica:
		return []testbed.Server{testbed.RedisServer}
	case s.Lock == "native":
		return []testbed.Server{testbed.Redis, testbed.Valkey}
	}
	return []testbed.Server{testbed.Redis}
}

// Database is where the stock is: what cuts a process off from a lock in MySQL cuts it off from
// the stock, too.
func (s Setup) Database() string {
	if s.mechanism().Store == lock.InMySQL {
		return "MariaDB"
	}
	return "SQLite"
}

// nodes is how many servers a setup has that can be killed and started one by one.
func (s Setup) nodes() int {
	if s.mechanism().Store == lock.InNodes {
		return nodeCount
	}
	return 0
}

// nodeCount is how many nodes the locks multi and red have.
const nodeCount = 3

// Why says why an action is not on a bench.
type Why string

// The reasons.
const (
	WhyNoLease    Why = "no-lease"   // nothing ends by itself
	WhyConnection Why = "connection" // the lock ends with a connection, and there is no key
	WhyNoReplica  Why = "no-replica" // there is one server, and a replica can be had
	WhyNodes      Why = "nodes"      // the nodes are independent: each is killed and started
	WhyOneServer  Why = "one-server" // there is one server
)

// Whys lists them.
func Whys() []Why { return []Why{WhyNoLease, WhyConnection, WhyNoReplica, WhyNodes, WhyOneServer} }

// Off is what the store of this setup cannot suffer, and why.
func (s Setup) Off() map[Action]Why {
	m := s.mechanism()
	off := map[Action]Why{}
	switch m.Ends {
	case lock.EndsNever:
		off[Expire] = WhyNoLease
	case lock.EndsWithConnection:
		off[Expire], off[Delete] = WhyConnection, WhyConnection
	case lock.EndsWithSession, lock.EndsAfterLease, lock.EndsUnlessRenewed:
	}
	if !s.Replica {
		why := cmp.Or(map[lock.Store]Why{lock.InRedis: WhyNoReplica, lock.InNodes: WhyNodes}[m.Store], WhyOneServer)
		off[Lag], off[CatchUp], off[FailOver] = why, why, why
	}
	return off
}
