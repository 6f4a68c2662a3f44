package queue

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"seckill/internal/lock"
	"seckill/internal/lock/zookeeper/zkio"
)

// holder reads the first node: the holder's, or that of a waiter whose turn it is.
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

// forget deletes a parent without children.
func (p *place) forget(c *zk.Conn) (struct{}, error) {
	err := c.Delete(p.queue, -1)
	if errors.Is(err, zk.ErrNotEmpty) || errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	return struct{}{}, err
}

// find looks for a node with the own id; "" where there is none. It is asked after a
// connection broke: the server may be another one by now, and has to catch up first.
func (p *place) find(c *zk.Conn) (string, error) {
	if _, err := c.Sync(p.queue); err != nil {
		return "", err
	}
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
