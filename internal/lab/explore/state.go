package explore

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"seckill/internal/eventlog"
	"seckill/internal/lab/judge"
	"seckill/internal/lock"
	"seckill/internal/lock/redis/quorum"
)

// store is what the servers hold, without the time that is left.
func (b *bed) store() string {
	var text strings.Builder
	for _, n := range b.nodes {
		fmt.Fprintf(&text, "%d\n%s", n.number, n.dump())
	}
	return text.String()
}

// sample notes what the lock's store holds, if that has changed.
func (b *bed) sample() {
	b.stored = b.store()
	var ends strings.Builder
	for _, n := range b.nodes {
		left := n.keys()
		for _, k := range slices.Sorted(maps.Keys(left)) {
			if left[k] > 0 {
				fmt.Fprintln(&ends, n.number, k, left[k]+b.now())
			}
		}
	}
	now := b.stored + ends.String()
	if now == b.sampled && len(b.samples) > 0 {
		return
	}
	b.sampled = now
	at := int64(len(b.steps))
	if of, ok := b.watcher.(interface {
		InspectNodes(context.Context, string) []quorum.NodeState
	}); ok {
		for i, s := range of.InspectNodes(context.Background(), key) {
			b.samples = append(b.samples, judge.Sample{At: at, Key: key, Server: fmt.Sprintf("node %d", i+1), Stored: *eventlog.StoredFrom(lock.State{Owner: s.Owner, TTL: s.TTL})})
		}
	}
	if of, ok := b.watcher.(lock.Inspector); ok {
		state, err := of.Inspect(context.Background(), key)
		if err != nil { // a restart has closed the connection
			state, err = of.Inspect(context.Background(), key)
		}
		if err == nil {
			state.Owner = b.holder(state.Owner)
			b.samples = append(b.samples, judge.Sample{At: at, Key: key, Stored: *eventlog.StoredFrom(state)})
		}
	}
}

// holder is the process that has stored a value of the lock. Two processes may have made up the same value: then it is the
// one whose request has just changed what is stored.
func (b *bed) holder(value lock.Owner) lock.Owner {
	before := b.value
	b.value = value
	owner := b.ownerOf(value)
	switch {
	case value == "" || slices.ContainsFunc(b.procs, func(p *process) bool { return owner == lock.Owner(p.name()) }):
		b.taker = owner
	case value != before && len(b.steps) > 0 && b.steps[len(b.steps)-1].Action == Request:
		b.taker = lock.Owner(b.procs[b.steps[len(b.steps)-1].On-1].name())
	case value != before:
		b.taker = owner
	}
	return b.taker
}

// ownerOf is whose a value is that a process has made up; else the value.
func (b *bed) ownerOf(value lock.Owner) lock.Owner {
	for _, p := range b.procs {
		if slices.ContainsFunc(p.ids, func(id string) bool { return strings.Contains(string(value), id) }) {
			return lock.Owner(p.name())
		}
	}
	return value
}

// state is a digest of everything that decides what can happen from now on: the time, what each process was told and
// when, what is under way, and what the servers and the database hold.
func (b *bed) state() string {
	h := fnv.New128a()
	fmt.Fprintln(h, b.now(), b.current != nil, b.quiet, b.stock, b.version, b.token, b.tidy(b.sampled))
	if b.current != nil {
		fmt.Fprintln(h, b.current.number)
	}
	for _, p := range b.procs {
		fmt.Fprintln(h, string(p.digest.Sum(nil)), p.started, p.finished, p.dead, p.paused)
		for _, q := range p.queues {
			if len(q.items) > 0 {
				fmt.Fprintln(h, string(q.action), q.conn(), q.slow, len(q.items))
				for _, one := range q.items {
					fmt.Fprintln(h, b.tidy(string(one.data)))
				}
			}
		}
		for _, w := range p.wires {
			fmt.Fprint(h, w.dead, w.clientClosed)
		}
	}
	return string(h.Sum(nil))
}
