package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
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
	name    string // of the node, once it is known
	opts    lock.Options
	claim   zkio.Claim
	waited  bool
}

// acquire stands in line until its node is the first. Whoever does not get the
// lock leaves no node.
func (p *place) acquire(ctx context.Context, limit <-chan time.Time) (lock.Lease, error) {
	if err := p.enter(ctx); err != nil {
		return nil, err
	}
	seen, err := p.wait(ctx, limit)
	if err == nil && p.waited && p.opts.TTL > 0 {
		err = p.date(ctx)
	}
	if err != nil {
		p.session.GiveBack(p.delete)
		return nil, err
	}
	return p.session.Hold(ctx, p.claim, seen.Stat.Czxid, seen.Gone)
}

// enter creates the node. The server adds a number to its name, so that a reply
// that is lost leaves the name unknown: it is then looked for by its id.
func (p *place) enter(ctx context.Context) (err error) {
	touched := false // there may be something to give back
	defer func() {
		if err != nil && touched {
			p.session.GiveBack(p.delete)
		}
	}()
	for {
		sent := false
		// Not cut short: a create that nobody waits for could be carried out later.
		path, _, err := zkio.Do(context.WithoutCancel(ctx), p.session, func(c *zk.Conn) (string, error) {
			if sent {
				if name, err := p.find(c); err != nil || name != "" {
					return p.queue + "/" + name, err
				}
			}
			sent = true
			return c.Create(p.queue+"/"+p.claim.Record.ID+"-", p.claim.Record.Bytes(), zk.FlagEphemeralSequential, zkio.ACL())
		})
		switch {
		case err == nil:
			p.name = path[strings.LastIndexByte(path, '/')+1:]
			p.claim.Node, p.claim.Proof = path, path
			return nil
		case !errors.Is(err, zk.ErrNoNode):
			touched = touched || sent
			return zkio.Error(err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		touched = true
		if err := p.open(context.WithoutCancel(ctx)); err != nil {
			return zkio.Error(err)
		}
	}
}

// open creates the parent: a container, which the server deletes some time after
// its last child where the last to leave could not.
func (p *place) open(ctx context.Context) error {
	for {
		_, _, err := zkio.Do(ctx, p.session, func(c *zk.Conn) (string, error) {
			return c.CreateContainer(p.queue, nil, zk.FlagContainer, zkio.ACL())
		})
		if !errors.Is(err, zk.ErrNoNode) {
			if errors.Is(err, zk.ErrNodeExists) {
				return nil
			}
			return err
		}
		if err := p.session.MakePath(ctx, p.base); err != nil {
			return err
		}
	}
}

// wait returns the sight of the own node once it is the first. That the node ahead
// is gone says nothing by itself: its owner may have given up in the middle of the
// queue.
func (p *place) wait(ctx context.Context, limit <-chan time.Time) (zkio.Watch, error) {
	own, err := p.session.Watch(ctx, p.claim.Node)
	if err != nil {
		return zkio.Watch{}, p.failure(err)
	}
	for {
		p.claim.Began = time.Now() // a lease runs from the attempt that won, not from the arrival
		nodes, _, err := zkio.Do(ctx, p.session, func(c *zk.Conn) ([]string, error) { return list(c, p.queue) })
		at := slices.Index(nodes, p.name)
		switch {
		case err != nil:
			return zkio.Watch{}, p.failure(err)
		case at < 0:
			return zkio.Watch{}, errOut
		case at == 0:
			return own, nil
		case p.opts.Wait == 0:
			return zkio.Watch{}, p.taken(ctx)
		}
		seen, err := p.session.Watch(ctx, p.queue+"/"+nodes[at-1])
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return zkio.Watch{}, p.failure(err)
		}
		p.waited = true
		select {
		case <-seen.Gone:
		case <-limit:
			return zkio.Watch{}, p.taken(ctx)
		case <-ctx.Done():
			return zkio.Watch{}, ctx.Err()
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
	switch {
	case p.session.Over(), errors.Is(err, zk.ErrNoNode):
		return errOut
	case errors.Is(err, lock.ErrWrongKind):
		return err
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

// holder reads the first node.
func (p *place) holder(c *zk.Conn) (zkio.Record, error) {
	for {
		nodes, err := list(c, p.queue)
		if err != nil {
			return zkio.Record{}, err
		}
		if len(nodes) == 0 {
			return zkio.Record{}, zk.ErrNoNode
		}
		data, _, err := c.Get(p.queue + "/" + nodes[0])
		if errors.Is(err, zk.ErrNoNode) {
			continue // it went since: who is first now?
		}
		if err != nil {
			return zkio.Record{}, err
		}
		return zkio.ParseRecord(data)
	}
}

// passing is how long the node of a try that failed may be the first, at most, in
// practice.
const passing = 20 * time.Millisecond

// successor is holder for a release that came too late: a first node that is about
// to leave, since its owner only tried, is not taken for a holder's.
func (p *place) successor(c *zk.Conn) (zkio.Record, error) {
	before, err := p.holder(c)
	for range 5 {
		if err != nil {
			break
		}
		time.Sleep(passing)
		var now zkio.Record
		if now, err = p.holder(c); err == nil && now.ID == before.ID {
			break
		}
		before = now
	}
	return before, err
}

// delete leaves the queue.
func (p *place) delete(c *zk.Conn) error {
	name := p.name
	if name == "" {
		var err error
		if name, err = p.find(c); err != nil {
			return err
		}
	}
	return leave(c, p.queue, name)
}

// find looks for a node with the own id; "" where there is none.
func (p *place) find(c *zk.Conn) (string, error) {
	names, _, err := c.Children(p.queue)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, p.claim.Record.ID+"-") })
	if at < 0 {
		return "", nil
	}
	return names[at], nil
}

// leave deletes a node ("" is none), and the parent if it was the last one.
// zk.ErrNoNode where the node was not there.
func leave(c *zk.Conn, queue, name string) error {
	err := zk.ErrNoNode
	if name != "" {
		err = c.Delete(queue+"/"+name, -1)
	}
	if err == nil || errors.Is(err, zk.ErrNoNode) {
		_ = c.Delete(queue, -1) // not while somebody else is in it; and it is a container
	}
	return err
}

// list returns the queue's nodes, first first.
func list(c *zk.Conn, queue string) ([]string, error) {
	names, _, err := c.Children(queue)
	if err != nil {
		return nil, err
	}
	number := make(map[string]int32, len(names))
	for _, name := range names {
		if number[name], err = sequence(name); err != nil {
			return nil, err
		}
	}
	// The server counts in 32 bits and goes round; the difference is right all the same.
	slices.SortFunc(names, func(a, b string) int { return int(number[a] - number[b]) })
	return names, nil
}

// sequence is the number that the server gave a node: [lock.ErrWrongKind] for a
// node that is not of a queue.
func sequence(name string) (int32, error) {
	id, digits, ok := strings.Cut(name, "-")
	n, err := strconv.ParseInt(digits, 10, 32)
	if !ok || id == "" || err != nil {
		return 0, fmt.Errorf("%w: a node called %q in a queue", lock.ErrWrongKind, name)
	}
	return int32(n), nil
}
