package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"seckill/internal/lock"
	"seckill/internal/lock/zookeeper/zkio"
)

// Config says where nodes go.
type Config struct {
	// Prefix is the path of a node below which the locks lie. Default /seckill/locks.
	Prefix string
}

// Locker is one ephemeral node for each lock, which everybody who waits watches.
type Locker struct {
	client *zkio.Client
	base   string
	owners *lock.Owners
}

var (
	_ lock.Locker    = (*Locker)(nil)
	_ lock.Inspector = (*Locker)(nil)
	_ lock.Breaker   = (*Locker)(nil)
)

// New returns a Locker on client, which may not be nil ([lock.ErrInvalid]) and
// stays its caller's to close.
func New(client *zkio.Client, config Config) (*Locker, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: zk-node needs a ZooKeeper client", lock.ErrInvalid)
	}
	return &Locker{client: client, base: zkio.Path(config.Prefix, "zk-node"), owners: lock.NewOwners()}, nil
}

// Acquire implements [lock.Locker].
func (l *Locker) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	if err := lock.Check(key, opts); err != nil {
		return nil, err
	}
	owner := l.owners.From(ctx)
	limit := time.NewTimer(opts.Wait)
	defer limit.Stop()
	for {
		s, err := l.client.Session(ctx)
		if err != nil {
			return nil, err
		}
		lease, other, err := l.try(ctx, s, key, owner, opts)
		if errors.Is(err, lock.ErrUnavailable) && ctx.Err() != nil {
			err = ctx.Err() // what was not cut short could not be done either
		}
		if err != nil || lease != nil {
			return lease, err
		}
		taken := other.record.Taken(key)
		if opts.Wait == 0 {
			return nil, taken
		}
		select {
		case <-other.gone: // or the session is over, and there will be another
		case <-limit.C:
			return nil, taken
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// holder is who has the lock, and for how long at most.
type holder struct {
	record zkio.Record
	gone   <-chan struct{}
}

// try creates the nodes, or says who was first.
func (l *Locker) try(ctx context.Context, s *zkio.Session, key string, owner lock.Owner, opts lock.Options) (lock.Lease, holder, error) {
	claim := l.claim(key, owner, opts)
	for {
		// Not cut short: a create that nobody waits for could be carried out later.
		token, unsure, err := zkio.Do(context.WithoutCancel(ctx), s, creation(claim))
		switch {
		case err == nil:
			lease, err := s.Hold(ctx, claim, token, s.Gone(claim.Proof))
			return lease, holder{}, err
		case unsure && errors.Is(err, zk.ErrNodeExists):
			if token, err = l.recognise(ctx, s, claim); err == nil && token != 0 {
				lease, err := s.Hold(ctx, claim, token, s.Gone(claim.Proof))
				return lease, holder{}, err
			}
		case unsure:
			s.GiveBack(claim.Delete)
		}
		switch {
		case errors.Is(err, zk.ErrNodeExists) || err == nil:
		case errors.Is(err, zk.ErrNoNode):
			if err := s.MakePath(ctx, l.base); err != nil {
				return nil, holder{}, zkio.Error(err)
			}
			continue
		default:
			return nil, holder{}, zkio.Error(err)
		}
		seen, err := s.Watch(ctx, claim.Node)
		if err == nil {
			record, err := zkio.ParseRecord(seen.Data)
			return nil, holder{record, seen.Gone}, err
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return nil, holder{}, zkio.Error(err)
		}
		// It went before it was looked at: the next attempt may be the first.
	}
}

// recognise says with which token a claim was granted whose reply was lost; 0 when
// it was not. Where that cannot be found out the claim is given back.
func (l *Locker) recognise(ctx context.Context, s *zkio.Session, c zkio.Claim) (token int64, err error) {
	token, _, err = zkio.Do(ctx, s, func(conn *zk.Conn) (int64, error) {
		// The server may be another one by now, and has to catch up first.
		if _, err := conn.Sync(c.Proof); err != nil {
			return 0, err
		}
		found, stat, err := conn.Exists(c.Proof)
		if err != nil || !found {
			return 0, err
		}
		return stat.Czxid, nil
	})
	if err != nil {
		s.GiveBack(c.Delete)
	}
	return token, err
}

func (l *Locker) node(key string) string { return l.base + "/" + zkio.Name(key) }

// proof is a second node, whose name is the acquisition's own.
func (l *Locker) proof(key, id string) string { return l.node(key) + "!" + id }

func (l *Locker) claim(key string, owner lock.Owner, opts lock.Options) zkio.Claim {
	id := string(l.owners.New())
	node, proof := l.node(key), l.proof(key, id)
	return zkio.Claim{
		Key: key, Record: zkio.NewRecord(id, owner, opts.TTL),
		TTL: opts.TTL, Began: time.Now(), Faults: opts.Faults,
		Node: node, Proof: proof, Delete: deletion(node, proof), Holder: who(node),
	}
}

// creation creates both nodes or neither. The idle write at the end is there for
// its reply: unlike that of a create it has the zxid.
func creation(c zkio.Claim) func(*zk.Conn) (int64, error) {
	return func(conn *zk.Conn) (int64, error) {
		data := c.Record.Bytes()
		done, err := conn.Multi(
			&zk.CreateRequest{Path: c.Node, Data: data, Acl: zkio.ACL(), Flags: zk.FlagEphemeral},
			&zk.CreateRequest{Path: c.Proof, Acl: zkio.ACL(), Flags: zk.FlagEphemeral},
			&zk.SetDataRequest{Path: c.Node, Data: data, Version: -1},
		)
		if err != nil {
			return 0, err
		}
		return done[2].Stat.Czxid, nil
	}
}

// deletion deletes both nodes or neither: where the proof is gone, the lock is
// somebody else's by now, or nobody's.
func deletion(node, proof string) func(*zk.Conn) error {
	return func(conn *zk.Conn) error {
		_, err := conn.Multi(&zk.DeleteRequest{Path: proof, Version: -1}, &zk.DeleteRequest{Path: node, Version: -1})
		return err
	}
}

func who(node string) func(*zk.Conn) (zkio.Record, error) {
	return func(conn *zk.Conn) (zkio.Record, error) {
		data, _, err := conn.Get(node)
		if err != nil {
			return zkio.Record{}, err
		}
		return zkio.ParseRecord(data)
	}
}

// Inspect implements [lock.Inspector]. Who waits is not known: a watch tells only
// the server.
func (l *Locker) Inspect(ctx context.Context, key string) (lock.State, error) {
	state := lock.State{Waiting: lock.WaitingUnknown}
	s, err := l.client.Session(ctx)
	if err != nil {
		return state, err
	}
	seen, _, err := zkio.Do(ctx, s, func(c *zk.Conn) (zkio.Watch, error) {
		data, stat, err := c.Get(l.node(key))
		if err != nil {
			return zkio.Watch{}, err
		}
		return zkio.Watch{Data: data, Stat: *stat}, nil
	})
	if errors.Is(err, zk.ErrNoNode) {
		return state, nil
	}
	if err != nil {
		return state, zkio.Error(err)
	}
	record, err := zkio.ParseRecord(seen.Data)
	if err != nil {
		return state, err
	}
	state.Owner, state.Count, state.Token, state.TTL = record.Owner, 1, uint64(seen.Stat.Czxid), record.TTL()
	return state, nil
}

// ForceRelease implements [lock.Breaker].
func (l *Locker) ForceRelease(ctx context.Context, key string) (bool, error) {
	s, err := l.client.Session(ctx)
	if err != nil {
		return false, err
	}
	_, unsure, err := zkio.Do(ctx, s, func(c *zk.Conn) (struct{}, error) {
		record, err := who(l.node(key))(c)
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, deletion(l.node(key), l.proof(key, record.ID))(c)
	})
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, zk.ErrNoNode): // or its holder released it as it was looked at
		return unsure, nil
	}
	return false, zkio.Error(err)
}
