package multi

import "seckill/internal/lock/redis/quorum"

// Client is what the mechanism needs of go-redis, once for each node.
type Client = quorum.Client

// Config configures a [Locker]. The zero value takes every default.
type Config = quorum.Config

// Locker holds a key while every node grants it. It implements lock.Locker, lock.Inspector and lock.ForceReleaser.
type Locker = quorum.Locker

// New returns a Locker that needs all of the nodes. There must be at least one, and none twice (lock.ErrInvalid). List
// them in the same order everywhere. Close stops the background goroutines.
func New(nodes []Client, config Config) (*Locker, error) {
	return quorum.New("multi", len(nodes), nodes, config)
}
