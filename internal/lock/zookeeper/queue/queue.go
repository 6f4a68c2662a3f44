package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"seckill/internal/lock"
	"seckill/internal/lock/zookeeper/zkio"
)

// Config configures a [Locker].
type Config struct {
	// Prefix is the path of the node below which the locks are. Default /seckill/locks.
	Prefix string
}

// Locker keeps a queue of ephemeral sequential nodes for each lock. The first one belongs to the holder, and every
// waiter watches the node before its own.
type Locker struct {
	client *zkio.Client
	base   string
	owners *lock.Owners
}

var (
	_ lock.Locker        = (*Locker)(nil)
	_ lock.Inspector     = (*Locker)(nil)
	_ lock.ForceReleaser = (*Locker)(nil)
)

// New returns a Locker on client, which the caller closes. It returns [lock.ErrInvalid] if client is nil.
func New(client *zkio.Client, config Config) (*Locker, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: zk-queue needs a ZooKeeper client", lock.ErrInvalid)
	}
	return &Locker{client: client, base: zkio.Path(config.Prefix, "zk-queue"), owners: lock.NewOwners()}, nil
}

// Acquire implements [lock.Locker].
func (l *Locker) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	limit := time.NewTimer(opts.Wait)
	defer limit.Stop()
	owner := l.owners.From(ctx)
	for {
		s, err := l.client.Session(ctx)
		if err != nil {
			return nil, err
		}
		e := l.newEntry(s, key, owner, opts)
		lease, err := e.acquire(ctx, limit.C)
		if lease != nil {
			return lease, err
		}
		if !errors.Is(err, errEntryLost) {
			return nil, err
		}
		// The node is gone, with the session or by manual deletion: enter again.
	}
}

// Inspect implements [lock.Inspector]. It reads every node of the queue.
func (l *Locker) Inspect(ctx context.Context, key string) (lock.State, error) {
	s, err := l.client.Session(ctx)
	if err != nil {
		return lock.State{}, err
	}
	state, _, err := zkio.Do(ctx, s, func(c *zk.Conn) (lock.State, error) {
		var state lock.State
		nodes, err := list(c, l.queue(key))
		if err != nil {
			return state, err
		}
		for _, name := range nodes {
			data, stat, err := c.Get(l.queue(key) + "/" + name)
			if errors.Is(err, zk.ErrNoNode) {
				continue // it was deleted meanwhile
			}
			if err != nil {
				return state, err
			}
			record, err := zkio.ParseRecord(data)
			if err != nil {
				return state, err
			}
			if state.Count == 0 {
				state.Owner, state.Count, state.Token, state.TTL = record.Owner, 1, uint64(stat.Czxid), record.TTL()
				continue
			}
			state.Queue = append(state.Queue, record.Owner)
		}
		state.Waiting = len(state.Queue)
		return state, nil
	})
	if errors.Is(err, zk.ErrNoNode) {
		return lock.State{}, nil
	}
	return state, zkio.Error(err)
}

// ForceRelease implements [lock.ForceReleaser]: it deletes the first node of the queue, and so lets the second in.
func (l *Locker) ForceRelease(ctx context.Context, key string) (bool, error) {
	s, err := l.client.Session(ctx)
	if err != nil {
		return false, err
	}
	var first string // a repeated request must not delete another node
	_, uncertain, err := zkio.Do(ctx, s, func(c *zk.Conn) (struct{}, error) {
		if first == "" {
			nodes, err := list(c, l.queue(key))
			if err != nil {
				return struct{}{}, err
			}
			if len(nodes) == 0 {
				return struct{}{}, zk.ErrNoNode
			}
			first = nodes[0]
		}
		return struct{}{}, leave(c, l.queue(key), first)
	})
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, zk.ErrNoNode):
		return uncertain && first != "", nil
	}
	return false, zkio.Error(err)
}

func (l *Locker) queue(key string) string { return l.base + "/" + zkio.Name(key) }

// newEntry makes an entry without a node.
func (l *Locker) newEntry(s *zkio.Session, key string, owner lock.Owner, opts lock.Options) *queueEntry {
	id := string(l.owners.New())
	e := &queueEntry{session: s, base: l.base, queue: l.queue(key), opts: opts}
	e.attempt = zkio.Attempt{
		Key: key, Record: zkio.NewRecord(id, owner, opts.TTL),
		TTL: opts.TTL, Delete: e.delete, Holder: e.holder,
	}
	return e
}

var errEntryLost = fmt.Errorf("%w: the node in the queue is gone", lock.ErrUnavailable)
