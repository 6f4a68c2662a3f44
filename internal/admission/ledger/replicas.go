package ledger

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"seckill/internal/order"
	"seckill/internal/redisscript"
)

// ErrUnacknowledged means that Redis executed the script, but fewer replicas than required have acknowledged what it
// wrote. If one of the other replicas is promoted now, the write is lost. So the outcome for an order is unknown. The
// same call again finds it out.
var ErrUnacknowledged = errors.New("too few replicas have what Redis wrote")

//go:embed replicate.lua
var replicateSource string

// Replicate reports whether a user has an order, and waits until enough replicas have it.
func (l *Ledger) Replicate(ctx context.Context, keys Keys, o order.Order) (bool, error) {
	reply, err := l.runAcknowledged(ctx, l.scripts.replicate, []any{"", "", 2, keys.Meta, keys.Users, o.UserID, Reserved(o.ID, o.Key)})
	if err != nil {
		return false, err
	}
	n := numbers(reply)
	return len(n) == 1 && n[0] == 1, nil
}

//go:embed replicate_all.lua
var replicateAllSource string

// LastRead is the last entry that was read from the stream of a bucket.
type LastRead struct {
	Keys  Keys
	Entry string
}

// ReplicateAll waits until enough replicas have everything that a server has written so far. All the buckets are on
// that server. For each it reports whether the server has the entry: a server that was promoted after the entry was
// read may lack it. A server that has an entry has all entries that were written before it and not removed since.
func (l *Ledger) ReplicateAll(ctx context.Context, read []LastRead) ([]bool, error) {
	keys, entries := make([]string, 0, 2*len(read)), make([]any, 0, len(read))
	for _, r := range read {
		keys, entries = append(keys, r.Keys.Meta, r.Keys.Orders), append(entries, r.Entry)
	}
	reply, err := l.runAcknowledged(ctx, l.scripts.replicateAll, redisscript.Args(keys, entries...))
	if err != nil {
		return nil, err
	}
	n := numbers(reply)
	if len(n) != len(read) {
		return nil, unexpected(reply)
	}
	has := make([]bool, len(n))
	for i := range n {
		has[i] = n[i] == 1
	}
	return has, nil
}

// runAcknowledged does what run does, and then waits until enough replicas have what the script and all commands before
// it wrote. If it returns a reply and [ErrUnacknowledged], the script was executed. The first key of args names the
// node.
func (l *Ledger) runAcknowledged(ctx context.Context, script *redisscript.Script, args []any) ([]any, error) {
	if l.options.WaitReplicas == 0 {
		return l.run(ctx, script, args)
	}
	key, _ := args[redisscript.FirstKey].(string)
	return runBy(ctx, script, args, func(cmd redisscript.Cmd) (any, error) { return l.sendAcknowledged(ctx, key, cmd) })
}

// sendAcknowledged sends a command with WAIT behind it in the same round trip. Both are on one connection, because WAIT
// covers what its own connection wrote.
//
// If it returns a reply and [ErrUnacknowledged], the command was executed. If no reply arrives before ctx ends, it
// returns another error.
func (l *Ledger) sendAcknowledged(ctx context.Context, key string, cmd redisscript.Cmd) (any, error) {
	node, err := l.node(ctx, key)
	if err != nil {
		return nil, err
	}
	wait := redis.NewIntCmd(ctx, "wait", l.options.WaitReplicas, l.options.WaitTimeout.Milliseconds())
	both := node.Pipeline()
	_ = both.Process(ctx, cmd)
	_ = both.Process(ctx, wait)
	_, _ = both.Exec(ctx) // each command has its own error
	l.failed(ctx, cmd.Err())
	switch reply, err := cmd.Result(); {
	case err != nil:
		return nil, err
	case wait.Err() != nil: // a server that was made a replica in between replies so
		return reply, fmt.Errorf("%w: %w", ErrUnacknowledged, wait.Err())
	case wait.Val() < int64(l.options.WaitReplicas):
		return reply, fmt.Errorf("%w: %d of %d", ErrUnacknowledged, wait.Val(), l.options.WaitReplicas)
	default:
		return reply, nil
	}
}

// pipeliner is a client of one node.
type pipeliner interface{ Pipeline() redis.Pipeliner }

// cluster is a client of many nodes. It knows which node holds a key.
type cluster interface {
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	ReloadState(ctx context.Context)
}

var _ cluster = (*redis.ClusterClient)(nil)

// node returns the client of the node that holds a key. WAIT must go to the node that executed the script. It names no
// key, so a cluster's client would send it to any node.
func (l *Ledger) node(ctx context.Context, key string) (pipeliner, error) {
	if c, many := l.client.(cluster); many {
		return c.MasterForKey(ctx, key)
	}
	return l.client, nil
}

// failed has a cluster's client reload the map of the cluster after an error.
func (l *Ledger) failed(ctx context.Context, err error) {
	if c, many := l.client.(cluster); many && err != nil {
		c.ReloadState(ctx)
	}
}
