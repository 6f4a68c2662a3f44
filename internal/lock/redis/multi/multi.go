package multi

import (
	"seckill/internal/lock"
	"seckill/internal/lock/redis/quorum"
)

// Client is what the mechanism needs of go-redis, once for each node.
type Client = quorum.Client

// Config says how a [Locker] works. The zero value takes every default.
type Config = quorum.Config

// Locker holds a key while every node grants it.
type Locker struct{ *quorum.Locker }

var (
	_ lock.Locker    = (*Locker)(nil)
	_ lock.Inspector = (*Locker)(nil)
	_ lock.Breaker   = (*Locker)(nil)
)

// New returns a Locker that needs all of the nodes, of which there must be one at
// least, none of them visibly twice ([lock.ErrInvalid]). List them in the same
// order everywhere. Close ends what it runs in the background.
func New(nodes []Client, config Config) (*Locker, error) {
	l, err := quorum.New("multi", len(nodes), nodes, config)
	if err != nil {
		return nil, err
	}
	return &Locker{l}, nil
}
