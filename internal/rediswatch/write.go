package rediswatch

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Write writes a small key that expires, below a prefix: a server that answers PING may refuse every write, because it
// is a replica, its memory is full, or too few replicas follow it. Of a cluster, it is enough that one primary takes
// it.
func Write(ctx context.Context, client redis.UniversalClient, prefix string) error {
	if _, cluster := client.(*redis.ClusterClient); !cluster {
		return WriteNode(ctx, client, prefix)
	}
	errs := make([]error, clusterKeys)
	var writing sync.WaitGroup
	for i := range errs {
		writing.Go(func() { errs[i] = WriteNode(ctx, client, prefix+strconv.Itoa(i)+":") })
	}
	writing.Wait()
	for _, err := range errs {
		if err == nil {
			return nil
		}
	}
	return errors.Join(errs...)
}

// clusterKeys is how many keys are written to a cluster, each in another slot: enough for every primary of a small one.
const clusterKeys = 8

// WriteNode is [Write] for one server.
func WriteNode(ctx context.Context, node Node, prefix string) error {
	return node.Process(ctx, redis.NewStatusCmd(ctx, "SET", prefix+"ready", "1", "PX", keptFor.Milliseconds()))
}

// keptFor is how long the key of [Write] is kept.
const keptFor = time.Minute

// Node is the part of a client that [WriteNode] needs.
type Node interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}
