package lockclient

import (
	"errors"
	"time"
)

// Config says who a client is, and which servers it has. Without its server a mechanism is
// unknown to the client.
type Config struct {
	// Name of the process in the event log, such as "holder".
	Name string
	// Prefix goes before every key, so that experiments can share servers.
	Prefix string

	// RedisAddrs is a single node, or a cluster if there are several, or with RedisMaster the
	// sentinels that know the primary of that name.
	RedisAddrs  []string
	RedisMaster string
	// RedisTimeout bounds one attempt of a command. Default 2 s.
	RedisTimeout time.Duration
	// NodeAddrs are independent Redis servers, for multi and red.
	NodeAddrs []string
	// NodeTimeout bounds a round trip to one of them. Default: the mechanism's own.
	NodeTimeout time.Duration
	// MySQLDSN or SQLite is the database, already migrated; SQLite is the path of a file.
	MySQLDSN, SQLite string
	ZooKeeperAddrs   []string

	// Watchdog is the lease of locks that are renewed. Default: each mechanism's own.
	Watchdog time.Duration
	// ZKSession is ZooKeeper's session timeout. Default: the mechanism's own.
	ZKSession time.Duration

	// EventFile is where events are appended. Default: a file of the client's own.
	EventFile string
	// Untraced clients record no events, and send the store only the mechanism's own commands:
	// for experiments that count commands.
	Untraced bool
}

// Validate reports what is wrong with a configuration.
func (c Config) Validate() error {
	switch {
	case c.Name == "":
		return errors.New("lockclient: it has no name")
	case c.MySQLDSN != "" && c.SQLite != "":
		return errors.New("lockclient: both a MySQL DSN and an SQLite file are given")
	case c.RedisMaster != "" && len(c.RedisAddrs) == 0:
		return errors.New("lockclient: a Redis master is named, and no sentinel")
	case min(c.RedisTimeout, c.NodeTimeout, c.Watchdog, c.ZKSession) < 0:
		return errors.New("lockclient: a duration is negative")
	}
	return nil
}
