package session

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// healthEvery is how often a silent connection is asked whether it is alive; by
// the next time it must have said something. It also bounds one write.
const healthEvery = 3 * time.Second

var errSilent = errors.New("the pub/sub connection is silent")

// connection is a pub/sub connection and what it is subscribed to. Only the
// listener's goroutine uses it, but for receive.
type connection struct {
	listener *listener
	pubsub   *redis.PubSub
	channels map[string]subscription // absent: not subscribed
	silent   atomic.Bool             // nothing came since the last check
}

// subscription is the state of one channel on one connection.
type subscription uint8

const (
	subscribing subscription = iota
	subscribed
	unsubscribing
)

// receive passes on what comes in, until the connection fails or is closed.
// go-redis would reconnect by itself and keep silent about it; the first error
// ends this connection instead, so that the listener knows what it missed.
func (c *connection) receive(events chan<- any, stop <-chan struct{}) {
	defer close(events)
	for {
		event, err := c.pubsub.Receive(c.listener.closing)
		if err != nil {
			return
		}
		c.silent.Store(false)
		if said, ok := event.(*redis.Message); ok { // the one that is in a hurry
			if who := c.listener.line(said.Channel); who != nil {
				who.announced(said.Payload)
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

// apply brings channels whose state may be other than wanted a step closer, all
// of them by one command of each kind.
func (c *connection) apply(channels []string) error {
	var join, part []string
	for _, channel := range channels {
		who := c.listener.line(channel)
		state, known := c.channels[channel]
		switch {
		case !known && who != nil:
			c.channels[channel] = subscribing
			join = append(join, channel)
		case known && state == subscribed && who == nil:
			c.channels[channel] = unsubscribing
			part = append(part, channel)
		case known && state == subscribed:
			who.confirmed()
		}
		// One that awaits a confirmation is looked at again when it comes.
	}
	ctx, cancel := context.WithTimeout(c.listener.closing, healthEvery)
	defer cancel()
	if len(join) > 0 {
		if err := c.pubsub.Subscribe(ctx, join...); err != nil {
			return err
		}
	}
	if len(part) > 0 {
		return c.pubsub.Unsubscribe(ctx, part...)
	}
	return nil
}

// handle deals with one thing that came in.
func (c *connection) handle(event any) error {
	change, ok := event.(*redis.Subscription)
	if !ok {
		return nil
	}
	if change.Kind == "subscribe" {
		c.channels[change.Channel] = subscribed
	} else {
		delete(c.channels, change.Channel)
	}
	return c.apply([]string{change.Channel})
}

// check finds a connection whose other end is gone without a word.
func (c *connection) check() error {
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
