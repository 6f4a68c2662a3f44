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

// Config configures a [Locker].
type Config struct {
	// Prefix is the path of the node below which the locks are. Default /seckill/locks.
	Prefix string
}

// Locker keeps one ephemeral node for each lock. All waiters watch it.
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
			err = ctx.Err() // ctx has ended, whatever the server's error
		}
		if err != nil || lease != nil {
			return lease, err
		}
		taken := other.record.Taken(key)
		if opts.Wait == 0 {
			return nil, taken
		}
		select {
		case <-other.gone: // or the session is over: the next round opens another one
		case <-limit.C:
			return nil, taken
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// holder is the record of the lock's holder. gone is closed when its node is deleted.
type holder struct {
	record zkio.Record
	gone   <-chan struct{}
}

// try creates the nodes or returns the current holder.
func (l *Locker) try(ctx context.Context, s *zkio.Session, key string, owner lock.Owner,
	opts lock.Options) (lock.Lease, holder, error) {
	attempt := l.newAttempt(key, owner, opts)
	for {
		// ctx must not cut this short: the server could carry out the request later.
		token, uncertain, err := zkio.Do(context.WithoutCancel(ctx), s, creation(attempt))
		switch {
		case err == nil:
			lease, err := s.Hold(ctx, attempt, token, s.Gone(attempt.Marker))
			return lease, holder{}, err
		case uncertain && errors.Is(err, zk.ErrNodeExists):
			if token, err = l.recognise(ctx, s, attempt); err == nil && token != 0 {
				lease, err := s.Hold(ctx, attempt, token, s.Gone(attempt.Marker))
				return lease, holder{}, err
			}
		case uncertain:
			s.DeleteEventually(attempt.Delete)
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
		seen, err := s.Watch(ctx, attempt.Node)
		if err == nil {
			record, err := zkio.ParseRecord(seen.Data)
			return nil, holder{record, seen.Gone}, err
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return nil, holder{}, zkio.Error(err)
		}
		// The node was deleted before it was read: try again.
	}
}

// recognise returns the token of an attempt whose reply was lost, 0 if it was not granted. If it cannot find out, it
// deletes the nodes.
func (l *Locker) recognise(ctx context.Context, s *zkio.Session, a zkio.Attempt) (token int64, err error) {
	token, _, err = zkio.Do(ctx, s, func(conn *zk.Conn) (int64, error) {
		// This may be another server by now, which has to catch up first.
		if _, err := conn.Sync(a.Marker); err != nil {
			return 0, err
		}
		found, stat, err := conn.Exists(a.Marker)
		if err != nil || !found {
			return 0, err
		}
		return stat.Czxid, nil
	})
	if err != nil {
		s.DeleteEventually(a.Delete)
	}
	return token, err
}

func (l *Locker) node(key string) string { return l.base + "/" + zkio.Name(key) }

// marker returns the path of the second node, whose name is unique to the acquisition.
func (l *Locker) marker(key, id string) string { return l.node(key) + "!" + id }

func (l *Locker) newAttempt(key string, owner lock.Owner, opts lock.Options) zkio.Attempt {
	id := string(l.owners.New())
	node, marker := l.node(key), l.marker(key, id)
	return zkio.Attempt{
		Key: key, Record: zkio.NewRecord(id, owner, opts.TTL),
		TTL: opts.TTL, Began: time.Now(),
		Node: node, Marker: marker, Delete: deletion(node, marker), Holder: readRecord(node),
	}
}

// creation creates both nodes or neither. The write at the end changes nothing: it is there because its reply contains
// the zxid, unlike the reply of a create.
func creation(a zkio.Attempt) func(*zk.Conn) (int64, error) {
	return func(conn *zk.Conn) (int64, error) {
		data := a.Record.Bytes()
		done, err := conn.Multi(
			&zk.CreateRequest{Path: a.Node, Data: data, Acl: zkio.ACL(), Flags: zk.FlagEphemeral},
			&zk.CreateRequest{Path: a.Marker, Acl: zkio.ACL(), Flags: zk.FlagEphemeral},
			&zk.SetDataRequest{Path: a.Node, Data: data, Version: -1},
		)
		if err != nil {
			return 0, err
		}
		return done[2].Stat.Czxid, nil
	}
}

// deletion deletes both nodes or neither. Without the marker, the lock is free or has another holder by now.
func deletion(node, marker string) func(*zk.Conn) error {
	return func(conn *zk.Conn) error {
		_, err := conn.Multi(&zk.DeleteRequest{Path: marker, Version: -1}, &zk.DeleteRequest{Path: node, Version: -1})
		return err
	}
}

func readRecord(node string) func(*zk.Conn) (zkio.Record, error) {
	return func(conn *zk.Conn) (zkio.Record, error) {
		data, _, err := conn.Get(node)
		if err != nil {
			return zkio.Record{}, err
		}
		return zkio.ParseRecord(data)
	}
}

// Inspect implements [lock.Inspector]. It does not know the waiters, because clients cannot read each other's watches.
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

// ForceRelease implements [lock.ForceReleaser].
func (l *Locker) ForceRelease(ctx context.Context, key string) (bool, error) {
	s, err := l.client.Session(ctx)
	if err != nil {
		return false, err
	}
	_, uncertain, err := zkio.Do(ctx, s, func(c *zk.Conn) (struct{}, error) {
		record, err := readRecord(l.node(key))(c)
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, deletion(l.node(key), l.marker(key, record.ID))(c)
	})
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, zk.ErrNoNode): // or the holder released it after it was read
		return uncertain, nil
	}
	return false, zkio.Error(err)
}
