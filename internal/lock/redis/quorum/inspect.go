package quorum

import (
	"context"
	"fmt"
	"slices"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
)

// NodeState is the state of a key on one node.
type NodeState struct {
	// Node is the address of the node where its client has one, else its number.
	Node string
	// Owner holds the key there; empty when it is free.
	Owner lock.Owner
	// TTL is how long it holds the key; 0 when it is free.
	TTL time.Duration
	// Err: the node could not be asked ([lock.ErrUnavailable]), or the key holds something else ([lock.ErrWrongKind]).
	Err error

	value string
}

// InspectNodes returns the state of key on each node, in the order of the clients.
func (l *Locker) InspectNodes(ctx context.Context, key string) []NodeState {
	states := make([]NodeState, len(l.nodes))
	for i, r := range askNodes(ctx, l.config.NodeTimeout, l.nodes, nil, run(l.scripts.inspect, l.name(key))) {
		states[i] = parseNodeState(r[0])
		states[i].Node = l.nodes[i].name
	}
	return states
}

func parseNodeState(r reply) NodeState {
	if r.err != nil {
		return NodeState{Err: redisio.Error(context.Background(), r.err)}
	}
	pair, ok := r.val.([]any)
	if !ok || len(pair) != 2 {
		return NodeState{Err: unexpected(r.val)}
	}
	value, found := pair[0].(string)
	ms, isInt := pair[1].(int64)
	switch {
	case !isInt:
		return NodeState{Err: unexpected(r.val)}
	case !found:
		return NodeState{}
	case ms < 0:
		return NodeState{value: value, Owner: holder(value), TTL: lock.NoExpiry}
	}
	return NodeState{value: value, Owner: holder(value), TTL: time.Duration(ms) * time.Millisecond}
}

// Inspect implements [lock.Inspector]. The owner is who has a quorum of the nodes, and the TTL is how long it keeps a
// quorum. A key that fewer nodes have is free. [lock.ErrUnavailable] where the nodes that answered do not decide it.
func (l *Locker) Inspect(ctx context.Context, key string) (lock.State, error) {
	states := l.InspectNodes(ctx, key)
	leases := make(map[string][]time.Duration)
	silent := 0
	var why error
	for _, s := range states {
		switch {
		case s.Err != nil:
			silent++
			why = fmt.Errorf("%s: %w", s.Node, s.Err)
		case s.value != "":
			leases[s.value] = append(leases[s.value], s.TTL)
		}
	}
	most := 0
	for value, ttls := range leases {
		if len(ttls) >= l.quorum {
			slices.Sort(ttls)
			return lock.State{Owner: holder(value), Count: 1, TTL: ttls[len(ttls)-l.quorum], Waiting: lock.WaitingUnknown}, nil
		}
		most = max(most, len(ttls))
	}
	switch {
	case ctx.Err() != nil:
		return lock.State{}, ctx.Err()
	case most+silent >= l.quorum:
		return lock.State{}, why
	}
	return lock.State{Waiting: lock.WaitingUnknown}, nil
}

// ForceRelease implements [lock.ForceReleaser]: it deletes the key on all nodes. With [lock.ErrUnavailable] it is
// deleted on the nodes that answered, but these are too few for the key to be free.
func (l *Locker) ForceRelease(ctx context.Context, key string) (bool, error) {
	there := false
	votes := make([]vote, len(l.nodes))
	for i, r := range askNodes(ctx, l.config.NodeTimeout, l.nodes, nil, del(l.name(key))) {
		votes[i] = parseVote(r[0])
		there = there || votes[i].verdict == ours
	}
	switch {
	case ctx.Err() != nil:
		return there, ctx.Err()
	case len(l.nodes)-count(votes, unknown) < l.quorum:
		return there, l.unavailable("force the release of "+key, votes)
	}
	return there, nil
}
