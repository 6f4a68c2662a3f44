package queue

import (
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

// holder reads the first node, which belongs to the holder or to a waiter whose turn it is.
func (e *queueEntry) holder(c *zk.Conn) (zkio.Record, error) {
	for {
		nodes, err := list(c, e.queue)
		if err != nil {
			return zkio.Record{}, err
		}
		if len(nodes) == 0 {
			return zkio.Record{}, zk.ErrNoNode
		}
		data, _, err := c.Get(e.queue + "/" + nodes[0])
		if errors.Is(err, zk.ErrNoNode) {
			continue // it was deleted meanwhile: read the new first node
		}
		if err != nil {
			return zkio.Record{}, err
		}
		return zkio.ParseRecord(data)
	}
}

// delete deletes the entry's node.
func (e *queueEntry) delete(c *zk.Conn) error {
	name := e.name
	if name == "" {
		var err error
		if name, err = e.find(c); err != nil {
			return err
		}
	}
	return leave(c, e.queue, name)
}

// deleteParent deletes the parent if it has no children.
func (e *queueEntry) deleteParent(c *zk.Conn) (struct{}, error) {
	err := c.Delete(e.queue, -1)
	if errors.Is(err, zk.ErrNotEmpty) || errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	return struct{}{}, err
}

// find returns the name of the node with the entry's id, "" if there is none. It is called after a connection broke:
// this may be another server, which has to catch up first.
func (e *queueEntry) find(c *zk.Conn) (string, error) {
	if _, err := c.Sync(e.queue); err != nil {
		return "", err
	}
	names, _, err := c.Children(e.queue)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, e.attempt.Record.ID+"-") })
	if at < 0 {
		return "", nil
	}
	return names[at], nil
}

// leave deletes a node ("" is none), and the parent if it has no other children. It returns zk.ErrNoNode if the node
// did not exist.
func leave(c *zk.Conn, queue, name string) error {
	err := zk.ErrNoNode
	if name != "" {
		err = c.Delete(queue+"/"+name, -1)
	}
	if err == nil || errors.Is(err, zk.ErrNoNode) {
		deleteUnused(c, queue)
	}
	return err
}

// deleteUnused deletes the queue if it has no children. Where the connection breaks it tries again a few times, since
// the driver fails requests until it has connected again. A container that stays all the same is deleted by the server
// later.
func deleteUnused(c *zk.Conn, queue string) {
	for pause := 10 * time.Millisecond; pause < 200*time.Millisecond; pause *= 2 {
		if err := c.Delete(queue, -1); err == nil || zkio.Answered(err) {
			return
		}
		time.Sleep(pause)
	}
}

// list returns the queue's nodes in order.
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
	// The server counts in 32 bits and wraps around; the difference stays correct.
	slices.SortFunc(names, func(a, b string) int { return int(number[a] - number[b]) })
	return names, nil
}

// sequence returns the number that the server appended to a node's name. It returns [lock.ErrWrongKind] for a node that
// does not belong to a queue.
func sequence(name string) (int32, error) {
	id, digits, ok := strings.Cut(name, "-")
	n, err := strconv.ParseInt(digits, 10, 32)
	if !ok || id == "" || err != nil {
		return 0, fmt.Errorf("%w: a node called %q in a queue", lock.ErrWrongKind, name)
	}
	return int32(n), nil
}
