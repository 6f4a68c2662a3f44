package queue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"seckill/internal/lock"
	"seckill/internal/lock/zookeeper/zkio"
)

// queueEntry is the node of one acquisition in the queue.
type queueEntry struct {
	session *zkio.Session
	base    string
	queue   string // the parent
	opts    lock.Options
	attempt zkio.Attempt
	touched bool // there may be nodes to delete
	waited  bool

	// Set when the node exists.
	name  string
	token int64
}

// acquire takes the lock or waits until its node is the first. If it fails it deletes its node.
func (e *queueEntry) acquire(ctx context.Context, limit <-chan time.Time) (lock.Lease, error) {
	gone, err := e.waitForTurn(ctx, limit)
	if err != nil {
		if e.touched {
			e.session.DeleteEventually(e.delete)
		}
		if errors.Is(err, lock.ErrUnavailable) && ctx.Err() != nil {
			err = ctx.Err() // ctx has ended, whatever the server's error
		}
		return nil, err
	}
	if e.waited { // until the nodes ahead were deleted
		e.attempt.Handover = lock.PassedByStore
	}
	return e.session.Hold(ctx, e.attempt, e.token, gone)
}

// waitForTurn returns when the node is the first. gone is closed when the node is deleted.
func (e *queueEntry) waitForTurn(ctx context.Context, limit <-chan time.Time) (gone <-chan struct{}, err error) {
	if e.opts.Wait == 0 {
		if err := e.try(ctx); err != nil {
			return nil, err
		}
		return e.session.Gone(e.attempt.Node), nil
	}
	if err := e.enterForWaiting(ctx); err != nil {
		return nil, err
	}
	gone = e.session.Gone(e.attempt.Node)
	if err := e.wait(ctx, limit, gone); err != nil {
		return nil, err
	}
	if e.waited && e.opts.TTL > 0 {
		return gone, e.writeLeaseEnd(ctx)
	}
	return gone, nil
}

// try enters the queue only if nobody is in it. So a failed try never has a node, which could make another try fail or
// which a late release could mistake for the next holder.
func (e *queueEntry) try(ctx context.Context) error {
	e.attempt.Began = time.Now()
	for ctx.Err() == nil {
		created, err := e.createParent(ctx)
		if err != nil {
			return e.translate(err)
		}
		if !created {
			record, _, err := zkio.Do(ctx, e.session, e.holder)
			if err == nil {
				return record.Taken(e.attempt.Key)
			}
			if !errors.Is(err, zk.ErrNoNode) {
				return e.translate(err)
			}
		}
		switch err := e.enter(ctx, neverEntered); {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrBadVersion):
			// Somebody has entered and may have left again. The delete succeeds only if the parent is empty; a used
			// parent does not help a try.
			if _, _, err := zkio.Do(ctx, e.session, e.deleteParent); err != nil {
				return e.translate(err)
			}
		case !errors.Is(err, zk.ErrNoNode): // otherwise another process deleted the unused parent
			return e.translate(err)
		}
	}
	return ctx.Err()
}

// enterForWaiting enters the queue behind all others.
func (e *queueEntry) enterForWaiting(ctx context.Context) error {
	for ctx.Err() == nil {
		err := e.enter(ctx, anyVersion)
		if err == nil {
			return nil
		}
		if errors.Is(err, zk.ErrNoNode) {
			_, err = e.createParent(ctx)
		}
		if err != nil {
			return e.translate(err)
		}
	}
	return ctx.Err()
}

// Every entry writes to the parent in the same step and so increases the parent's version. A parent with version 0 has
// had no entry since its creation.
const (
	neverEntered int32 = 0
	anyVersion   int32 = -1
)

// enter creates the node if the parent has the given version. The server appends a number to the node's name. If the
// reply is lost the name is unknown, and enter finds the node by its id.
func (e *queueEntry) enter(ctx context.Context, version int32) error {
	e.touched = true
	type node struct {
		name  string
		token int64
	}
	sent := false
	// ctx must not cut this short: the server could carry out the request later.
	entered, _, err := zkio.Do(context.WithoutCancel(ctx), e.session, func(c *zk.Conn) (node, error) {
		if sent {
			name, err := e.find(c)
			if err != nil {
				return node{}, err
			}
			if name != "" {
				_, stat, err := c.Exists(e.queue + "/" + name)
				if err != nil {
					return node{}, err
				}
				return node{name, stat.Czxid}, nil
			}
		}
		sent = true
		done, err := c.Multi(
			&zk.CreateRequest{
				Path: e.queue + "/" + e.attempt.Record.ID + "-", Data: e.attempt.Record.Bytes(),
				Acl: zkio.ACL(), Flags: zk.FlagEphemeralSequential,
			},
			&zk.SetDataRequest{Path: e.queue, Version: version},
		)
		if err != nil {
			return node{}, err
		}
		// Both operations of a multi have the same zxid.
		return node{strings.TrimPrefix(done[0].String, e.queue+"/"), done[1].Stat.Mzxid}, nil
	})
	if err != nil {
		return err
	}
	e.name, e.token = entered.name, entered.token
	e.attempt.Node = e.queue + "/" + e.name
	e.attempt.Marker = e.attempt.Node
	return nil
}

// createParent creates the parent if it does not exist, and reports whether it did. The parent is a container: if the
// last process could not delete it, the server deletes it some time after its last child.
func (e *queueEntry) createParent(ctx context.Context) (created bool, err error) {
	ctx = context.WithoutCancel(ctx)
	for {
		_, uncertain, err := zkio.Do(ctx, e.session, func(c *zk.Conn) (string, error) {
			return c.CreateContainer(e.queue, nil, zk.FlagContainer, zkio.ACL())
		})
		if errors.Is(err, zk.ErrNodeExists) {
			e.touched = e.touched || uncertain
			return false, nil
		}
		e.touched = true
		if !errors.Is(err, zk.ErrNoNode) {
			return err == nil, err
		}
		if err := e.session.MakePath(ctx, e.base); err != nil {
			return false, err
		}
	}
}

// wait returns when the node is the first. It lists the queue whenever the node ahead is deleted, because that node's
// owner may have given up in the middle of the queue.
func (e *queueEntry) wait(ctx context.Context, limit <-chan time.Time, gone <-chan struct{}) error {
	for {
		e.attempt.Began = time.Now() // a lease counts from the list that shows the node first, not from the arrival
		nodes, err := e.session.List(ctx, e.queue, func(c *zk.Conn) ([]string, error) { return list(c, e.queue) })
		at := slices.Index(nodes, e.name)
		switch {
		case err != nil:
			return e.translate(err)
		case at < 0:
			return errEntryLost
		case at == 0:
			return nil
		}
		ahead, err := e.session.Watch(ctx, e.queue+"/"+nodes[at-1])
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return e.translate(err)
		}
		e.waited = true
		select {
		case <-ahead.Gone:
		case <-gone:
			return errEntryLost
		case <-limit:
			return e.notAcquired(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// writeLeaseEnd writes the end of a fixed lease into the node. When the node was created, the start of the lease was
// not known.
func (e *queueEntry) writeLeaseEnd(ctx context.Context) error {
	e.attempt.Record = zkio.NewRecord(e.attempt.Record.ID, e.attempt.Record.Owner, e.opts.TTL)
	_, _, err := zkio.Do(ctx, e.session, func(c *zk.Conn) (*zk.Stat, error) {
		return c.Set(e.attempt.Node, e.attempt.Record.Bytes(), -1)
	})
	if err != nil {
		return e.translate(err)
	}
	return nil
}

// translate translates an error of a request. Without the session or the node the entry is lost.
func (e *queueEntry) translate(err error) error {
	if e.session.Over() || errors.Is(err, zk.ErrNoNode) {
		return errEntryLost
	}
	return zkio.Error(err)
}

// notAcquired returns the error of a refused caller. It names the holder if there still is one.
func (e *queueEntry) notAcquired(ctx context.Context) error {
	record, _, err := zkio.Do(ctx, e.session, e.holder)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return record.Taken(e.attempt.Key)
}
