package actor

import (
	"errors"
	"time"
)

// Config says who an actor is, and which servers it has. Servers that are not given
// are mechanisms that it does not know.
type Config struct {
	// Name of the process in the trace, such as "holder".
	Name string
	// Prefix goes before every key, so that experiments share servers.
	Prefix string

	// RedisAddrs is a single node; several are a cluster, or with RedisMaster the
	// sentinels that know the primary of that name.
	RedisAddrs  []string
	RedisMaster string
	// RedisTimeout bounds one attempt of a command. Default 2 s.
	RedisTimeout time.Duration
	// NodeAddrs are independent Redis servers, for multi and red.
	NodeAddrs []string
	// NodeTimeout bounds a round trip to one of them. Default: the mechanism's own.
	NodeTimeout time.Duration
	// MySQLDSN or SQLite is the database, migrated already; SQLite is a file's path.
	MySQLDSN, SQLite string
	ZooKeeperAddrs   []string

	// Watchdog is the lease of locks that are renewed. Default: each mechanism's own.
	Watchdog time.Duration
	// ZKSession is ZooKeeper's session timeout. Default: the mechanism's own.
	ZKSession time.Duration

	// TraceFile is where events are appended. Default: a file of the actor's own.
	TraceFile string
	// Untraced actors write no events, and ask the store nothing but what the
	// mechanism does: for experiments that count commands.
	Untraced bool
}

// Validate says what is wrong with a configuration.
func (c Config) Validate() error {
	switch {
	case c.Name == "":
		return errors.New("actor: it has no name")
	case c.MySQLDSN != "" && c.SQLite != "":
		return errors.New("actor: both a MySQL DSN and an SQLite file are given")
	case c.RedisMaster != "" && len(c.RedisAddrs) == 0:
		return errors.New("actor: a Redis master is named, and no sentinel")
	case min(c.RedisTimeout, c.NodeTimeout, c.Watchdog, c.ZKSession) < 0:
		return errors.New("actor: a duration is negative")
	}
	return nil
}
