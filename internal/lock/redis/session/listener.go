package session

import (
	"context"
	"sync"
	"time"
)

// listener is the one pub/sub connection of the process. A single goroutine owns the connection and its subscriptions;
// the others only say which channels they want. So a waiter never waits for a socket, and a channel that is wanted, not
// wanted and wanted again is never confused with its predecessor: at most one command per channel is unconfirmed.
type listener struct {
	client Client
	retry  time.Duration

	mu      sync.Mutex
	wanted  map[string]*keyQueue // by channel
	changed []string             // channels whose wish has changed since takeChanges

	wake    chan struct{} // changed is not empty
	closing context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func newListener(client Client, retry time.Duration) *listener {
	l := &listener{client: client, retry: retry, wanted: make(map[string]*keyQueue), wake: make(chan struct{}, 1)}
	l.closing, l.cancel = context.WithCancel(context.Background())
	l.running.Go(l.run)
	return l
}

func (l *listener) close() {
	l.cancel()
	l.running.Wait()
}

// subscribe requests a subscription to the channel of k, which must have none.
func (l *listener) subscribe(k *keyQueue) {
	l.mu.Lock()
	l.wanted[k.channel] = k
	l.mu.Unlock()
	l.change(k.channel)
}

// unsubscribe requests the end of the subscription to the channel of k.
func (l *listener) unsubscribe(k *keyQueue) {
	l.mu.Lock()
	delete(l.wanted, k.channel)
	l.mu.Unlock()
	l.change(k.channel)
}

func (l *listener) change(channel string) {
	l.mu.Lock()
	l.changed = append(l.changed, channel)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run keeps a connection open from the first subscription until close, and replaces it when it fails. The waiters need
// not know: until the new connection has confirmed their channels, they sleep no longer than a lease lasts.
func (l *listener) run() {
	for {
		for !l.anyWanted() {
			select {
			case <-l.wake:
			case <-l.closing.Done():
				return
			}
		}
		l.serve()
		select {
		case <-time.After(l.retry):
		case <-l.closing.Done():
			return
		}
	}
}

func (l *listener) anyWanted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.wanted) > 0
}

// markAllChanged has a new connection subscribe to every wanted channel.
func (l *listener) markAllChanged() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed = l.changed[:0]
	for channel, k := range l.wanted {
		k.subscribed.Store(false)
		l.changed = append(l.changed, channel)
	}
}

// takeChanges returns the changed channels and forgets them.
func (l *listener) takeChanges() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.changed
	l.changed = nil
	return changed
}

// queue returns the queue that wants a channel, nil where none does.
func (l *listener) queue(channel string) *keyQueue {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wanted[channel]
}

// serve uses one connection until it fails or the listener closes.
func (l *listener) serve() {
	c := &connection{listener: l, pubsub: l.client.Subscribe(l.closing), channels: make(map[string]subscription)}
	events := make(chan any)
	var receiving sync.WaitGroup
	stop := make(chan struct{})
	defer func() {
		close(stop)
		_ = c.pubsub.Close()
		receiving.Wait()
	}()
	l.markAllChanged()
	if c.update(l.takeChanges()) != nil {
		return
	}
	receiving.Go(func() { c.receive(events, stop) })
	health := time.NewTicker(healthEvery)
	defer health.Stop()
	for {
		var err error
		select {
		case <-l.closing.Done():
			return
		case <-l.wake:
			err = c.update(l.takeChanges())
		case event, open := <-events:
			if !open {
				return
			}
			err = c.onEvent(event)
		case <-health.C:
			err = c.checkHealth()
		}
		if err != nil {
			return
		}
	}
}
