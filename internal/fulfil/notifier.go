package fulfil

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
)

// Await waits until the order is final, or for limit at most, and returns nil; the caller then reads the order from the
// database. Its only error is the context's. See [order.Gate].
//
// It queries the database once, as soon as it is subscribed to all further announcements, and again only after it may
// have missed some.
func (f *Fulfiller) Await(ctx context.Context, o order.Order, limit time.Duration) error {
	if limit <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	w := f.notifier.wait(ledger.FinalChannel(f.config.Prefix, o.VoucherID), o.ID)
	defer f.notifier.leave(w)
	for {
		select {
		case <-w.final:
			return nil
		case <-w.query:
			if now, err := f.config.Orders.Order(ctx, o.ID); err == nil && now.Status != order.Pending {
				return nil
			}
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// notifier tells waiters that their orders are final. It learns of this process's orders directly, and of other
// processes' orders from a Redis subscription.
type notifier struct {
	client redis.UniversalClient

	mu sync.Mutex
	// waiting are the waiters by order id.
	waiting map[int64]map[*waiter]struct{}
	// channels are those with waiters, now or recently.
	channels map[string]*channel
	// changed wakes listen to subscribe to new channels.
	changed chan struct{}
}

// waiter is one call of Await.
type waiter struct {
	order   int64
	channel *channel
	final   chan struct{} // closed when the order is final
	query   chan struct{} // asks for a query of the database; its buffer holds one message
}

// channel is the Redis channel that announces the final orders of one voucher.
type channel struct {
	name    string
	waiters map[*waiter]struct{}
	// requested: a subscription was sent. subscribed: Redis has confirmed it.
	requested, subscribed bool
	idleSince             time.Time
}

func newNotifier(client redis.UniversalClient) *notifier {
	return &notifier{
		client: client, waiting: map[int64]map[*waiter]struct{}{}, channels: map[string]*channel{},
		changed: make(chan struct{}, 1),
	}
}

func (n *notifier) wait(name string, orderID int64) *waiter {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.channels[name]
	if c == nil {
		c = &channel{name: name, waiters: map[*waiter]struct{}{}}
		n.channels[name] = c
	}
	w := &waiter{order: orderID, channel: c, final: make(chan struct{}), query: make(chan struct{}, 1)}
	c.waiters[w] = struct{}{}
	if n.waiting[orderID] == nil {
		n.waiting[orderID] = map[*waiter]struct{}{}
	}
	n.waiting[orderID][w] = struct{}{}
	switch {
	case c.subscribed:
		w.query <- struct{}{}
	case !c.requested:
		wake(n.changed)
	}
	return w
}

func (n *notifier) leave(w *waiter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if waiters := n.waiting[w.order]; waiters != nil {
		if delete(waiters, w); len(waiters) == 0 {
			delete(n.waiting, w.order)
		}
	}
	if delete(w.channel.waiters, w); len(w.channel.waiters) == 0 {
		w.channel.idleSince = time.Now()
	}
}

// notify tells the waiters of an order that it is final.
func (n *notifier) notify(orderID int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.waiting[orderID] {
		close(w.final)
	}
	delete(n.waiting, orderID)
}

// unsubscribeAfter is how long a channel without waiters stays subscribed.
const unsubscribeAfter = time.Minute

// listen receives announcements until ctx ends.
func (n *notifier) listen(ctx context.Context) {
	subscription := n.client.Subscribe(ctx)
	defer subscription.Close()
	// The client drops messages that wait too long for a receiver; this receiver never blocks.
	messages := subscription.ChannelWithSubscriptions(redis.WithChannelSize(1000), redis.WithChannelSendTimeout(time.Minute))
	tick := time.NewTicker(unsubscribeAfter)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.changed:
			n.subscribe(ctx, subscription)
		case <-tick.C:
			n.unsubscribe(ctx, subscription)
		case m, open := <-messages:
			if !open {
				return
			}
			n.receive(m)
		}
	}
}

// receive handles one message: the ids of final orders, separated by blanks, or the confirmation of a subscription.
func (n *notifier) receive(m any) {
	switch m := m.(type) {
	case *redis.Message:
		for text := range strings.FieldsSeq(m.Payload) {
			if id, err := strconv.ParseInt(text, 10, 64); err == nil {
				n.notify(id)
			}
		}
	case *redis.Subscription: // the first one, or another one after a lost connection
		n.mu.Lock()
		defer n.mu.Unlock()
		if c := n.channels[m.Channel]; c != nil && m.Kind == "subscribe" {
			c.subscribed = true
			for w := range c.waiters {
				wake(w.query)
			}
		}
	}
}

// subscribe subscribes to the channels for which no subscription was requested yet.
func (n *notifier) subscribe(ctx context.Context, to *redis.PubSub) {
	n.mu.Lock()
	var names []string
	for name, c := range n.channels {
		if !c.requested {
			c.requested = true
			names = append(names, name)
		}
	}
	n.mu.Unlock()
	if len(names) > 0 {
		// An error means that the connection is lost. The client reconnects and subscribes to all channels again.
		_ = to.Subscribe(ctx, names...)
	}
}

// unsubscribe drops the channels that have had no waiter for unsubscribeAfter.
func (n *notifier) unsubscribe(ctx context.Context, to *redis.PubSub) {
	n.mu.Lock()
	var names []string
	for name, c := range n.channels {
		if len(c.waiters) == 0 && time.Since(c.idleSince) >= unsubscribeAfter {
			delete(n.channels, name)
			names = append(names, name)
		}
	}
	n.mu.Unlock()
	if len(names) > 0 {
		_ = to.Unsubscribe(ctx, names...) // as in subscribe
	}
}

// wake sends to a channel with a buffer of one, unless a message is already waiting.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
