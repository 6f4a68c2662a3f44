package red

import (
	"fmt"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/quorum"
)

// Client is what the mechanism needs of go-redis, once for each node.
type Client = quorum.Client

// Config configures a [Locker]. The zero value takes every default.
type Config = quorum.Config

// Locker holds a key while a majority of the nodes grants it. It implements lock.Locker, lock.Inspector and
// lock.ForceReleaser.
type Locker = quorum.Locker

// MinNodes is the smallest number of nodes that tolerates the failure of one.
const MinNodes = 3

// New returns a Locker that needs a majority of the nodes. There must be at least [MinNodes], and none twice
// ([lock.ErrInvalid]). Use an odd number: a fourth node does not let a second one fail. List them in the same order
// everywhere. Close stops the background goroutines.
func New(nodes []Client, config Config) (*Locker, error) {
	if len(nodes) < MinNodes {
		return nil, fmt.Errorf("%w: a majority that survives the loss of a node needs %d nodes, not %d",
			lock.ErrInvalid, MinNodes, len(nodes))
	}
	return quorum.New("red", len(nodes)/2+1, nodes, config)
}
