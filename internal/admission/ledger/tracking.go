package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/redis/go-redis/v9/push"
)

// tracking remembers which buckets have nothing pending, until Redis says that they have changed: each read of a bucket
// asks Redis to say so (CLIENT TRACKING, https://redis.io/docs/latest/develop/reference/client-side-caching/). So
// finding the buckets that have something pending costs one command for each node, and two for each bucket that has
// changed since, instead of two for every bucket there is.
//
// Redis sends the changes on the connection that has read the bucket, and in order. So the reply to a later command on
// that connection proves that all changes before that command have been received. If the connection ends, all that was
// remembered is forgotten with it.
type tracking struct {
	mu    sync.Mutex
	nodes map[*redis.Client]*trackedNode
}

// trackedNode is what is remembered of the buckets of one node.
type trackedNode struct {
	mu     sync.Mutex
	client *redis.Client // has the connection alone, since its pushes go to one handler; nil where there is none now
	conn   *redis.Conn
	// refusedUntil is until when tracking is not tried again, because the server cannot do it.
	refusedUntil time.Time
	// empty are the epochs of the buckets that had nothing pending, by their key Meta.
	empty map[string]int64
	// changed are the buckets that Redis has named since it was last cleared; all says that it has named all of them.
	changed map[string]bool
	all     bool
}

const (
	// trackingRetry is when tracking is tried again after a server has refused it.
	trackingRetry = time.Minute
	// maxTracked bounds how many buckets of a node are remembered. Beyond it, all are forgotten: most are of vouchers
	// that are gone.
	maxTracked = 100_000
)

var (
	errNoTracking = errors.New("ledger: the server does not say what has changed")
	errNotPrimary = errors.New("ledger: the server is no primary any more")
)

// of returns what is remembered of a node.
func (t *tracking) of(node *redis.Client) *trackedNode {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.nodes == nil {
		t.nodes = make(map[*redis.Client]*trackedNode)
	}
	n := t.nodes[node]
	if n == nil {
		n = &trackedNode{}
		t.nodes[node] = n
	}
	return n
}

// backlogs returns the backlogs of buckets of the node. With an error it returns none.
func (n *trackedNode) backlogs(ctx context.Context, node *redis.Client, buckets []Keys) ([]Backlog, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.connect(ctx, node); err != nil {
		return nil, err
	}
	all, err := n.read(ctx, buckets)
	if err != nil || len(n.empty) > maxTracked {
		n.disconnect()
	}
	return all, err
}

func (n *trackedNode) disconnect() {
	if n.client != nil {
		_ = errors.Join(n.conn.Close(), n.client.Close()) // nothing is lost with it but what it remembers
		n.client, n.conn = nil, nil
	}
}

// close ends all connections.
func (t *tracking) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.nodes {
		n.mu.Lock()
		n.disconnect()
		n.mu.Unlock()
	}
	t.nodes = nil
}

// connect makes sure that there is a connection on which the node says what has changed.
func (n *trackedNode) connect(ctx context.Context, node *redis.Client) error {
	if n.client != nil {
		return nil
	}
	// Without RESP3 a server accepts CLIENT TRACKING, and says nothing.
	options := *node.Options()
	if time.Now().Before(n.refusedUntil) || options.Protocol != 3 {
		return errNoTracking
	}
	options.PushNotificationProcessor, options.MinIdleConns = nil, 0
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	n.client = redis.NewClient(&options)
	n.conn = n.client.Conn()
	n.empty, n.changed, n.all = make(map[string]int64), make(map[string]bool), false
	err := n.client.RegisterPushNotificationHandler("invalidate", (*changes)(n), false)
	if err == nil {
		err = n.conn.Hello(ctx, 3, "", "", "").Err()
	}
	if err == nil {
		err = n.conn.Process(ctx, redis.NewStatusCmd(ctx, "client", "tracking", "on"))
	}
	if err == nil {
		return nil
	}
	n.disconnect()
	if _, answered := errors.AsType[redis.Error](err); answered {
		n.refusedUntil = time.Now().Add(trackingRetry)
	}
	return fmt.Errorf("%w: %w", errNoTracking, err)
}

func (n *trackedNode) read(ctx context.Context, buckets []Keys) ([]Backlog, error) {
	// A primary that was demoted hears of changes late.
	role, err := n.conn.Do(ctx, "role").Slice()
	if err != nil {
		return nil, err
	}
	if len(role) == 0 || role[0] != "master" {
		return nil, errNotPrimary
	}
	n.forgetChanged()
	all := make([]Backlog, len(buckets))
	var unknown []Keys
	var places []int
	for i, keys := range buckets {
		if epoch, known := n.empty[keys.Meta]; known {
			all[i].Epoch = epoch
		} else {
			unknown, places = append(unknown, keys), append(places, i)
		}
	}
	read, err := readBacklogs(ctx, n.conn.Pipeline(), unknown)
	if _, answered := errors.AsType[redis.Error](err); err != nil && !answered {
		return nil, err
	}
	for i, b := range read {
		all[places[i]] = b
		// What has changed between its two commands, or while the replies were on their way, is read again next time.
		if meta := unknown[i].Meta; b.Err == nil && b.Pending == 0 && !n.changed[meta] && !n.all {
			n.empty[meta] = b.Epoch
		}
	}
	n.forgetChanged()
	return all, nil
}

// forgetChanged forgets the buckets that have changed.
func (n *trackedNode) forgetChanged() {
	if n.all {
		clear(n.empty)
	}
	for meta := range n.changed {
		delete(n.empty, meta)
	}
	clear(n.changed)
	n.all = false
}

// changes is called with the keys that have changed, while a reply is read. n.mu is held then.
type changes trackedNode

var _ push.NotificationHandler = (*changes)(nil)

// HandlePushNotification implements [push.NotificationHandler].
func (c *changes) HandlePushNotification(_ context.Context, _ push.NotificationHandlerContext, said []any) error {
	var keys []any
	if len(said) > 1 {
		keys, _ = said[1].([]any)
	}
	if len(keys) == 0 { // the server was emptied, or this program does not understand what it says
		c.all = true
	}
	for _, key := range keys {
		if name, ok := key.(string); ok {
			c.changed[strings.TrimSuffix(name, ordersSuffix)] = true
		} else {
			c.all = true
		}
	}
	return nil
}
