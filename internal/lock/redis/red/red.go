package red

import (
	"fmt"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/quorum"
)

// Client is what the mechanism needs of go-redis, once for each node.
type Client = quorum.Client

// Config says how a [Locker] works. The zero value takes every default.
type Config = quorum.Config

// MinNodes is the fewest nodes of which one may fail.
const MinNodes = 3

// Locker holds a key while a majority of the nodes grants it.
type Locker struct{ *quorum.Locker }

var (
	_ lock.Locker    = (*Locker)(nil)
	_ lock.Inspector = (*Locker)(nil)
	_ lock.Breaker   = (*Locker)(nil)
)

// New returns a Locker that needs a majority of the nodes, of which there must be
// three at least, none of them visibly twice ([lock.ErrInvalid]). An odd number is
// better: a fourth node lets no second one fail. List them in the same order
// everywhere. Close ends what it runs in the background.
func New(nodes []Client, config Config) (*Locker, error) {
	if len(nodes) < MinNodes {
		return nil, fmt.Errorf("%w: a majority that outlives a node needs %d nodes, not %d", lock.ErrInvalid, MinNodes, len(nodes))
	}
	l, err := quorum.New("red", len(nodes)/2+1, nodes, config)
	if err != nil {
		return nil, err
	}
	return &Locker{l}, nil
}
