package quorum

import (
	"context"
	"fmt"
	"slices"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
)

// NodeState is what one node knows of a key.
type NodeState struct {
	// Node is its address, where the client tells, else its number.
	Node string
	// Owner has the node; empty when it is free.
	Owner lock.Owner
	// TTL is for how long; 0 when it is free.
	TTL time.Duration
	// Err: the node could not be asked ([lock.ErrUnavailable]) or holds something
	// else ([lock.ErrWrongKind]).
	Err error

	value string
}

// InspectNodes says what each node knows of key, in the order of the clients.
func (l *Locker) InspectNodes(ctx context.Context, key string) []NodeState {
	states := make([]NodeState, len(l.nodes))
	for i, r := range round(ctx, l.config.NodeTimeout, l.nodes, nil, l.scripts.inspect.on(l.name(key))) {
		states[i] = seen(r[0])
		states[i].Node = l.nodes[i].name
	}
	return states
}

func seen(r reply) NodeState {
	if r.err != nil {
		return NodeState{Err: redisio.Error(context.Background(), r.err)}
	}
	pair, ok := r.val.([]any)
	if !ok || len(pair) != 2 {
		return NodeState{Err: strange(r.val)}
	}
	value, found := pair[0].(string)
	ms, isInt := pair[1].(int64)
	switch {
	case !isInt:
		return NodeState{Err: strange(r.val)}
	case !found:
		return NodeState{}
	case ms < 0:
		return NodeState{value: value, Owner: holder(value), TTL: lock.NoExpiry}
	}
	return NodeState{value: value, Owner: holder(value), TTL: time.Duration(ms) * time.Millisecond}
}

// Inspect implements [lock.Inspector]: who has a quorum of the nodes, and for how
// long: the shortest of the leases without which it would be none. A key that some
// nodes still have, but too few, is free. [lock.ErrUnavailable] where the nodes that
// answered do not decide it.
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
		if len(ttls) >= l.need {
			slices.Sort(ttls)
			return lock.State{Owner: holder(value), Count: 1, TTL: ttls[len(ttls)-l.need], Waiting: lock.WaitingUnknown}, nil
		}
		most = max(most, len(ttls))
	}
	switch {
	case ctx.Err() != nil:
		return lock.State{}, ctx.Err()
	case most+silent >= l.need:
		return lock.State{}, why
	}
	return lock.State{Waiting: lock.WaitingUnknown}, nil
}

// ForceRelease implements [lock.Breaker]: it deletes the key on all nodes.
// [lock.ErrUnavailable] where too few of them answered for the key to be free now;
// it is deleted on those that did.
func (l *Locker) ForceRelease(ctx context.Context, key string) (bool, error) {
	there := false
	votes := make([]vote, len(l.nodes))
	for i, r := range round(ctx, l.config.NodeTimeout, l.nodes, nil, del(l.name(key))) {
		votes[i] = judged(r[0])
		there = there || votes[i].verdict == ours
	}
	switch {
	case ctx.Err() != nil:
		return there, ctx.Err()
	case len(l.nodes)-count(votes, unknown) < l.need:
		return there, l.unavailable("force the release of "+key, votes)
	}
	return there, nil
}
