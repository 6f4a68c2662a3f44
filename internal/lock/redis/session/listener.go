package session

import (
	"context"
	"sync"
	"time"
)

// listener is the one pub/sub connection of the process. A single goroutine owns
// the connection and what it is subscribed to; others only say which channels they
// want. So nobody who waits ever waits for a socket, and a subscription that is
// wanted, not wanted and wanted again cannot be confused with its predecessor:
// there is at most one unconfirmed command for a channel.
type listener struct {
	client Client
	retry  time.Duration

	mu      sync.Mutex
	wanted  map[string]*line
	changed []string // channels that were wanted or unwanted since the last look

	look    chan struct{}
	closing context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func newListener(client Client, retry time.Duration) *listener {
	l := &listener{client: client, retry: retry, wanted: make(map[string]*line), look: make(chan struct{}, 1)}
	l.closing, l.cancel = context.WithCancel(context.Background())
	l.running.Go(l.run)
	return l
}

func (l *listener) close() {
	l.cancel()
	l.running.Wait()
}

// want has a line's channel subscribed to. It must not be wanted already.
func (l *listener) want(who *line) {
	l.mu.Lock()
	l.wanted[who.channel] = who
	l.mu.Unlock()
	l.change(who.channel)
}

// unwant has it unsubscribed from.
func (l *listener) unwant(who *line) {
	l.mu.Lock()
	delete(l.wanted, who.channel)
	l.mu.Unlock()
	l.change(who.channel)
}

func (l *listener) change(channel string) {
	l.mu.Lock()
	l.changed = append(l.changed, channel)
	l.mu.Unlock()
	select {
	case l.look <- struct{}{}:
	default:
	}
}

// run keeps a connection from the first channel wanted until the end, and opens a
// new one when it fails. Nobody needs to be told: until the new connection has
// confirmed their channels, all waiters sleep no longer than a lease runs.
func (l *listener) run() {
	for {
		for !l.anyWanted() {
			select {
			case <-l.look:
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

// begin makes every channel that is wanted a change, for a new connection.
func (l *listener) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed = l.changed[:0]
	for channel, who := range l.wanted {
		who.ready.Store(false)
		l.changed = append(l.changed, channel)
	}
}

// changes takes the changes since the last look.
func (l *listener) changes() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.changed
	l.changed = nil
	return changed
}

// line is who wants a channel, nil where nobody does.
func (l *listener) line(channel string) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wanted[channel]
}

// serve works with one connection until it fails or the listener closes.
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
	l.begin()
	if c.apply(l.changes()) != nil {
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
		case <-l.look:
			err = c.apply(l.changes())
		case event, open := <-events:
			if !open {
				return
			}
			err = c.handle(event)
		case <-health.C:
			err = c.check()
		}
		if err != nil {
			return
		}
	}
}
