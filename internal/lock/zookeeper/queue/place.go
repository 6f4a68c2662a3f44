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

// place is one acquisition's node in the queue.
type place struct {
	session *zkio.Session
	base    string
	queue   string // the parent
	opts    lock.Options
	claim   zkio.Claim
	touched bool // there may be something to give back
	waited  bool

	// Of the node, once there is one.
	name  string
	token int64
}

// acquire takes the lock, or stands in line until its node is the first. Whoever
// does not get the lock leaves no node.
func (p *place) acquire(ctx context.Context, limit <-chan time.Time) (lock.Lease, error) {
	gone, err := p.stand(ctx, limit)
	if err != nil {
		if p.touched {
			p.session.GiveBack(p.delete)
		}
		if errors.Is(err, lock.ErrUnavailable) && ctx.Err() != nil {
			err = ctx.Err() // what was not cut short could not be done either
		}
		return nil, err
	}
	return p.session.Hold(ctx, p.claim, p.token, gone)
}

// stand returns when the node is the first; gone is closed when it is deleted.
func (p *place) stand(ctx context.Context, limit <-chan time.Time) (gone <-chan struct{}, err error) {
	if p.opts.Wait == 0 {
		if err := p.try(ctx); err != nil {
			return nil, err
		}
		return p.session.Gone(p.claim.Node), nil
	}
	if err := p.join(ctx); err != nil {
		return nil, err
	}
	gone = p.session.Gone(p.claim.Node)
	if err := p.wait(ctx, limit, gone); err != nil {
		return nil, err
	}
	if p.waited && p.opts.TTL > 0 {
		return gone, p.date(ctx)
	}
	return gone, nil
}

// try enters the queue if and only if nobody is in it, so that a try that fails
// never stands there: neither in the way of another one, nor for a release that
// came too late to take it for the next holder.
func (p *place) try(ctx context.Context) error {
	p.claim.Began = time.Now()
	for ctx.Err() == nil {
		created, err := p.open(ctx)
		if err != nil {
			return p.failure(err)
		}
		if !created {
			record, _, err := zkio.Do(ctx, p.session, p.holder)
			if err == nil {
				return record.Taken(p.claim.Key)
			}
			if !errors.Is(err, zk.ErrNoNode) {
				return p.failure(err)
			}
		}
		switch err := p.enter(ctx, unused); {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrBadVersion):
			// Whoever entered may have left again, and a parent that was used is of no
			// use here. Where they have not, it is not deleted.
			if _, _, err := zkio.Do(ctx, p.session, p.forget); err != nil {
				return p.failure(err)
			}
		case !errors.Is(err, zk.ErrNoNode): // else somebody deleted it as unused
			return p.failure(err)
		}
	}
	return ctx.Err()
}

// join enters the queue behind whoever is in it.
func (p *place) join(ctx context.Context) error {
	for ctx.Err() == nil {
		err := p.enter(ctx, used)
		if err == nil {
			return nil
		}
		if errors.Is(err, zk.ErrNoNode) {
			_, err = p.open(ctx)
		}
		if err != nil {
			return p.failure(err)
		}
	}
	return ctx.Err()
}

// Whoever enters a queue writes to its parent in the same step, and so raises its
// version. One of version 0 is one that nobody has entered since it was created.
const (
	unused int32 = 0
	used   int32 = -1 // or not
)

// enter creates the node if the parent has that version. The server adds a number
// to the node's name, so that a reply that is lost leaves the name unknown: it is
// then looked for by its id.
func (p *place) enter(ctx context.Context, version int32) error {
	p.touched = true
	type node struct {
		name  string
		token int64
	}
	sent := false
	// Not cut short: a create that nobody waits for could be carried out later.
	entered, _, err := zkio.Do(context.WithoutCancel(ctx), p.session, func(c *zk.Conn) (node, error) {
		if sent {
			name, err := p.find(c)
			if err != nil {
				return node{}, err
			}
			if name != "" {
				_, stat, err := c.Exists(p.queue + "/" + name)
				if err != nil {
					return node{}, err
				}
				return node{name, stat.Czxid}, nil
			}
		}
		sent = true
		done, err := c.Multi(
			&zk.CreateRequest{
				Path: p.queue + "/" + p.claim.Record.ID + "-", Data: p.claim.Record.Bytes(),
				Acl: zkio.ACL(), Flags: zk.FlagEphemeralSequential,
			},
			&zk.SetDataRequest{Path: p.queue, Version: version},
		)
		if err != nil {
			return node{}, err
		}
		// What is done in one step has one zxid.
		return node{strings.TrimPrefix(done[0].String, p.queue+"/"), done[1].Stat.Mzxid}, nil
	})
	if err != nil {
		return err
	}
	p.name, p.token = entered.name, entered.token
	p.claim.Node = p.queue + "/" + p.name
	p.claim.Proof = p.claim.Node
	return nil
}

// open creates the parent: a container, which the server deletes some time after
// its last child where the last to leave could not. It reports whether there was none.
func (p *place) open(ctx context.Context) (created bool, err error) {
	ctx = context.WithoutCancel(ctx)
	for {
		_, unsure, err := zkio.Do(ctx, p.session, func(c *zk.Conn) (string, error) {
			return c.CreateContainer(p.queue, nil, zk.FlagContainer, zkio.ACL())
		})
		if errors.Is(err, zk.ErrNodeExists) {
			p.touched = p.touched || unsure
			return false, nil
		}
		p.touched = true
		if !errors.Is(err, zk.ErrNoNode) {
			return err == nil, err
		}
		if err := p.session.MakePath(ctx, p.base); err != nil {
			return false, err
		}
	}
}

// wait returns when the node is the first. That the node ahead is gone says nothing
// by itself: its owner may have given up in the middle of the queue.
func (p *place) wait(ctx context.Context, limit <-chan time.Time, gone <-chan struct{}) error {
	for {
		p.claim.Began = time.Now() // a lease runs from the attempt that won, not from the arrival
		nodes, err := p.session.Look(ctx, p.queue, func(c *zk.Conn) ([]string, error) { return list(c, p.queue) })
		at := slices.Index(nodes, p.name)
		switch {
		case err != nil:
			return p.failure(err)
		case at < 0:
			return errOut
		case at == 0:
			return nil
		}
		ahead, err := p.session.Watch(ctx, p.queue+"/"+nodes[at-1])
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return p.failure(err)
		}
		p.waited = true
		select {
		case <-ahead.Gone:
		case <-gone:
			return errOut
		case <-limit:
			return p.taken(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// date writes the end of a fixed lease into the node: when it was created nobody
// knew when the lease would begin.
func (p *place) date(ctx context.Context) error {
	p.claim.Record = zkio.NewRecord(p.claim.Record.ID, p.claim.Record.Owner, p.opts.TTL)
	_, _, err := zkio.Do(ctx, p.session, func(c *zk.Conn) (*zk.Stat, error) {
		return c.Set(p.claim.Node, p.claim.Record.Bytes(), -1)
	})
	if err != nil {
		return p.failure(err)
	}
	return nil
}

// failure translates an error on the way: without the session or the node the place
// is lost.
func (p *place) failure(err error) error {
	if p.session.Over() || errors.Is(err, zk.ErrNoNode) {
		return errOut
	}
	return zkio.Error(err)
}

// taken is the error of who does not get in: it names the holder where there still
// is one to be found.
func (p *place) taken(ctx context.Context) error {
	record, _, err := zkio.Do(ctx, p.session, p.holder)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return record.Taken(p.claim.Key)
}
