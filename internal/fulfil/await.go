package fulfil

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/order"
)

// Await waits until the order is final, and returns nil; the caller then reads the
// database. At the limit it returns nil too. Its only error is the context's. See
// [order.Gate].
//
// It asks the database once, when it is certain to hear of whatever happens from then
// on, and again only when it may have missed something.
func (f *Fulfiller) Await(ctx context.Context, o order.Order, limit time.Duration) error {
	if limit <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	w := f.bell.wait(doneChannel(f.config.Prefix, o.VoucherID), o.ID)
	defer f.bell.leave(w)
	for {
		select {
		case <-w.final:
			return nil
		case <-w.look:
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

// bell tells those who wait for an order that it is final: of what this process does at
// once, of what the others do by one subscription.
type bell struct {
	client redis.UniversalClient

	mu sync.Mutex
	// waiting are those who wait, by order.
	waiting map[int64]map[*waiter]struct{}
	// channels are those that somebody listens to, or did a short while ago.
	channels map[string]*channel
	// changed wakes listen, which subscribes to what is missing.
	changed chan struct{}
}

// waiter is one who waits.
type waiter struct {
	order   int64
	channel *channel
	final   chan struct{} // closed once
	look    chan struct{} // has room for one
}

// channel is where the orders of one voucher are announced.
type channel struct {
	name    string
	waiters map[*waiter]struct{}
	// asked: a subscription is under way or there. heard: it is there.
	asked, heard bool
	idleSince    time.Time
}

func newBell(client redis.UniversalClient) *bell {
	return &bell{
		client: client, waiting: map[int64]map[*waiter]struct{}{}, channels: map[string]*channel{},
		changed: make(chan struct{}, 1),
	}
}

func (b *bell) wait(name string, orderID int64) *waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.channels[name]
	if c == nil {
		c = &channel{name: name, waiters: map[*waiter]struct{}{}}
		b.channels[name] = c
	}
	w := &waiter{order: orderID, channel: c, final: make(chan struct{}), look: make(chan struct{}, 1)}
	c.waiters[w] = struct{}{}
	if b.waiting[orderID] == nil {
		b.waiting[orderID] = map[*waiter]struct{}{}
	}
	b.waiting[orderID][w] = struct{}{}
	switch {
	case c.heard:
		w.look <- struct{}{}
	case !c.asked:
		wake(b.changed)
	}
	return w
}

func (b *bell) leave(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(w)
	if delete(w.channel.waiters, w); len(w.channel.waiters) == 0 {
		w.channel.idleSince = time.Now()
	}
}

func (b *bell) forget(w *waiter) {
	if all := b.waiting[w.order]; all != nil {
		if delete(all, w); len(all) == 0 {
			delete(b.waiting, w.order)
		}
	}
}

// ring tells whoever waits for an order.
func (b *bell) ring(orderID int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for w := range b.waiting[orderID] {
		close(w.final)
	}
	delete(b.waiting, orderID)
}

// deafAfter is how long a channel is listened to that nobody waits for.
const deafAfter = time.Minute

// listen hears what is announced, until ctx ends.
func (b *bell) listen(ctx context.Context) {
	subscription := b.client.Subscribe(ctx)
	defer subscription.Close()
	// The channel would drop what waits for long; nothing here does.
	heard := subscription.ChannelWithSubscriptions(redis.WithChannelSize(1000), redis.WithChannelSendTimeout(time.Minute))
	tick := time.NewTicker(deafAfter)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.changed:
			b.subscribe(ctx, subscription)
		case <-tick.C:
			b.unsubscribe(ctx, subscription)
		case m, open := <-heard:
			if !open {
				return
			}
			b.hear(m)
		}
	}
}

// hear takes one message.
func (b *bell) hear(m any) {
	switch m := m.(type) {
	case *redis.Message:
		for text := range strings.FieldsSeq(m.Payload) {
			if id, err := strconv.ParseInt(text, 10, 64); err == nil {
				b.ring(id)
			}
		}
	case *redis.Subscription: // the first, or again after a connection was lost
		b.mu.Lock()
		defer b.mu.Unlock()
		if c := b.channels[m.Channel]; c != nil && m.Kind == "subscribe" {
			c.heard = true
			for w := range c.waiters {
				wake(w.look)
			}
		}
	}
}

// subscribe asks for the channels that somebody waits for.
func (b *bell) subscribe(ctx context.Context, to *redis.PubSub) {
	b.mu.Lock()
	var names []string
	for name, c := range b.channels {
		if !c.asked {
			c.asked = true
			names = append(names, name)
		}
	}
	b.mu.Unlock()
	if len(names) > 0 {
		// A failure is of the connection; the client makes another one, and subscribes
		// there to all it was asked for.
		_ = to.Subscribe(ctx, names...)
	}
}

// unsubscribe gives the channels up that nobody has waited for in a while.
func (b *bell) unsubscribe(ctx context.Context, to *redis.PubSub) {
	b.mu.Lock()
	var names []string
	for name, c := range b.channels {
		if len(c.waiters) == 0 && time.Since(c.idleSince) >= deafAfter {
			delete(b.channels, name)
			names = append(names, name)
		}
	}
	b.mu.Unlock()
	if len(names) > 0 {
		_ = to.Unsubscribe(ctx, names...) // as above
	}
}

// wake puts something into a channel that has room for one thing.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
