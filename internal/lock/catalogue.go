package lock

import (
	"fmt"
	"slices"
	"strings"
)

// Mechanism describes one way of locking. The catalogue of all mechanisms is fixed;
// which of them a process can use depends on the servers it has.
type Mechanism struct {
	Name string
	// Store is where it keeps its locks.
	Store Store
	// Ends says how a grant ends without a release.
	Ends Ending
	// Passing says how a released key finds its next holder.
	Passing Passing
	// Safe mechanisms free the key after their holder's death and never release
	// another holder's lock. The others are allowed in lab mode only.
	Safe bool
	// Fenced mechanisms give each holder a token that is greater than that of every earlier holder.
	Fenced bool
}

// Store is what a mechanism keeps its locks in.
type Store string

// The stores.
const (
	InProcess   Store = "process" // or nowhere
	InRedis     Store = "redis"
	InNodes     Store = "nodes" // several independent Redis servers
	InMySQL     Store = "mysql"
	InZooKeeper Store = "zookeeper"
)

// Ending says how a grant ends without a release.
type Ending string

// The endings.
const (
	EndsNever          Ending = "never"
	EndsAfterLease     Ending = "lease"      // when its time is over
	EndsUnlessRenewed  Ending = "renewed"    // when its time is over, which a watchdog puts off while its holder lives
	EndsWithConnection Ending = "connection" // of its holder
	EndsWithSession    Ending = "session"    // a while after the store has last heard of its holder
)

// Catalogue returns all mechanisms of the project: those of one store together, from
// the weakest to the strongest. What the service, the laboratory and the documents say of a mechanism comes from here.
func Catalogue() []Mechanism {
	const safe, fenced = true, true
	return []Mechanism{
		{"none", InProcess, EndsNever, PassingNone, !safe, !fenced},
		{"local", InProcess, EndsNever, PassingTold, !safe, !fenced},
		{"setnx", InRedis, EndsNever, PassingNone, !safe, !fenced},
		{"setnx-expire", InRedis, EndsAfterLease, PassingNone, !safe, !fenced},
		{"naive", InRedis, EndsAfterLease, PassingNone, !safe, !fenced},
		{"thread-id", InRedis, EndsAfterLease, PassingNone, !safe, !fenced},
		{"uuid", InRedis, EndsAfterLease, PassingNone, !safe, !fenced},
		{"uuid-wrong-key", InRedis, EndsAfterLease, PassingNone, !safe, !fenced},
		{"lua", InRedis, EndsAfterLease, PassingNone, safe, !fenced},
		{"native", InRedis, EndsUnlessRenewed, PassingNone, safe, !fenced},
		{"reentrant", InRedis, EndsUnlessRenewed, PassingTold, safe, !fenced},
		{"waited", InRedis, EndsUnlessRenewed, PassingTold, safe, !fenced},
		{"fair", InRedis, EndsUnlessRenewed, PassingTold, safe, !fenced},
		{"rw", InRedis, EndsUnlessRenewed, PassingTold, safe, !fenced},
		{"fenced", InRedis, EndsUnlessRenewed, PassingTold, safe, fenced},
		{"multi", InNodes, EndsUnlessRenewed, PassingNone, safe, !fenced},
		{"red", InNodes, EndsUnlessRenewed, PassingNone, safe, !fenced},
		{"mysql-row", InMySQL, EndsNever, PassingNone, !safe, !fenced},
		{"mysql-row-expiry", InMySQL, EndsUnlessRenewed, PassingNone, safe, !fenced},
		{"mysql-get-lock", InMySQL, EndsWithConnection, PassingUntold, safe, !fenced},
		{"mysql-for-update", InMySQL, EndsWithConnection, PassingUntold, safe, !fenced},
		{"zk-node", InZooKeeper, EndsWithSession, PassingNone, safe, fenced},
		{"zk-queue", InZooKeeper, EndsWithSession, PassingTold, safe, fenced},
	}
}

// Lookup finds a mechanism in the catalogue. For an unknown name it returns
// [ErrUnknown] with a list of the known ones.
func Lookup(name string) (Mechanism, error) {
	all := Catalogue()
	i := slices.IndexFunc(all, func(m Mechanism) bool { return m.Name == name })
	if i < 0 {
		names := make([]string, len(all))
		for j, m := range all {
			names[j] = m.Name
		}
		return Mechanism{}, fmt.Errorf("%w %q: one of %s", ErrUnknown, name, strings.Join(names, ", "))
	}
	return all[i], nil
}

// StoreOf returns where a mechanism keeps its locks: "" for a name that the catalogue does not have.
func StoreOf(name string) Store {
	m, _ := Lookup(name)
	return m.Store
}
