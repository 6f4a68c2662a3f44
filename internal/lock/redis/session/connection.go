package session

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// healthEvery is how often a silent connection is pinged. Something must arrive before the next ping is due. It also
// bounds one write.
const healthEvery = 3 * time.Second

var errSilent = errors.New("the pub/sub connection is silent")

// connection is a pub/sub connection with its subscriptions. Only the listener's goroutine uses it, except for receive.
type connection struct {
	listener *listener
	pubsub   *redis.PubSub
	channels map[string]subscription // absent: not subscribed
	silent   atomic.Bool             // nothing arrived since the last check
}

// subscription is the state of one channel on one connection.
type subscription uint8

const (
	subscribing subscription = iota
	subscribed
	unsubscribing
)

// receive delivers messages to the queues and everything else to events, until the connection fails or is closed.
// go-redis would reconnect without telling; here the first error ends the connection, so that the listener knows that
// it may have missed messages.
func (c *connection) receive(events chan<- any, stop <-chan struct{}) {
	defer close(events)
	for {
		event, err := c.pubsub.Receive(c.listener.closing)
		if err != nil {
			return
		}
		c.silent.Store(false)
		if message, ok := event.(*redis.Message); ok { // at once: a waiter wakes up
			if k := c.listener.queue(message.Channel); k != nil {
				k.onMessage(message.Payload)
			}
			continue
		}
		select {
		case events <- event:
		case <-stop:
			return
		}
	}
}

// update brings the subscriptions to channels closer to what is wanted, with at most one SUBSCRIBE and one UNSUBSCRIBE.
func (c *connection) update(channels []string) error {
	var subscribe, unsubscribe []string
	for _, channel := range channels {
		k := c.listener.queue(channel)
		state, known := c.channels[channel]
		switch {
		case !known && k != nil:
			c.channels[channel] = subscribing
			subscribe = append(subscribe, channel)
		case known && state == subscribed && k == nil:
			c.channels[channel] = unsubscribing
			unsubscribe = append(unsubscribe, channel)
		case known && state == subscribed:
			k.onSubscribed()
		}
		// A channel that awaits a confirmation is updated when that arrives.
	}
	ctx, cancel := context.WithTimeout(c.listener.closing, healthEvery)
	defer cancel()
	if len(subscribe) > 0 {
		if err := c.pubsub.Subscribe(ctx, subscribe...); err != nil {
			return err
		}
	}
	if len(unsubscribe) > 0 {
		return c.pubsub.Unsubscribe(ctx, unsubscribe...)
	}
	return nil
}

// onEvent handles the confirmation of a subscription.
func (c *connection) onEvent(event any) error {
	change, ok := event.(*redis.Subscription)
	if !ok {
		return nil
	}
	if change.Kind == "subscribe" {
		c.channels[change.Channel] = subscribed
	} else {
		delete(c.channels, change.Channel)
	}
	return c.update([]string{change.Channel})
}

// checkHealth finds a connection whose other end has disappeared.
func (c *connection) checkHealth() error {
	if len(c.channels) == 0 {
		c.silent.Store(false)
		return nil
	}
	if c.silent.Load() {
		return errSilent
	}
	c.silent.Store(true)
	ctx, cancel := context.WithTimeout(c.listener.closing, healthEvery)
	defer cancel()
	return c.pubsub.Ping(ctx)
}
