package testkit

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Proxy passes TCP connections on to a server and spoils them when it is told to, in each direction: requests are what
// the clients send, replies what the server does. What is set applies to the open connections and to new ones, until
// [Proxy.Reset]. Its methods fail the test that it was made for.
//
// A connection to a server that is down is accepted and closed at once.
//
// Slow it and make it swallow before the load begins, or in a quiet moment: the library can hang when it rebuilds a
// connection whose client hangs up at that moment with replies on their way. Cut and Reset rebuild none and are safe at
// any time.
type Proxy struct {
	t        TB
	api      *toxiproxy.ApiServer // holds the library's settings; it serves nothing
	addr     string
	upstream string

	mu    sync.Mutex
	proxy *toxiproxy.Proxy
}

// The library's names of the two directions.
const (
	requests = "upstream"
	replies  = "downstream"
)

// portPatience is how long a port may stay taken that a proxy has just given up.
const portPatience = 5 * time.Second

// NewProxy puts a proxy in front of the server at an address, for this test alone.
func NewProxy(t TB, upstream string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, upstream: upstream,
		api: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())}
	check(t, withFreePort(func(port int) error {
		p.addr = fmt.Sprintf("127.0.0.1:%d", port)
		return p.open()
	}))
	t.Cleanup(p.Cut)
	return p
}

// Addr returns the address under which clients reach the server, host:port. It stays the same over Cut and Reset.
func (p *Proxy) Addr() string { return p.addr }

// Latency makes a round trip take d longer, half of it on the way there and half on the way back. Whole milliseconds
// count. It replaces what Latency and Slow said before; 0 takes the latency away and keeps the connections.
func (p *Proxy) Latency(d time.Duration) {
	p.t.Helper()
	there := (d / 2).Truncate(time.Millisecond)
	p.Slow(there, d-there)
}

// Slow makes requests and replies arrive so much later each. Whole milliseconds count.
func (p *Proxy) Slow(request, reply time.Duration) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	check(p.t, errors.Join(p.delay(requests, request), p.delay(replies, reply)))
}

// BlackholeReplies lets requests through and swallows what the server replies: it does what it is asked to, and nobody
// hears of it. Connections stay open and new ones are accepted.
func (p *Proxy) BlackholeReplies() {
	p.t.Helper()
	p.blackhole(replies)
}

// BlackholeRequests swallows what clients send, and lets through what the server sends of its own accord. Connections
// stay open and new ones are accepted.
func (p *Proxy) BlackholeRequests() {
	p.t.Helper()
	p.blackhole(requests)
}

// Cut closes every connection and refuses new ones.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proxy.Stop()
}

// Reset heals everything that was done. It closes the open connections, as a stream from which bytes were swallowed
// cannot go on, and accepts new ones, which are good.
func (p *Proxy) Reset() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proxy.Stop()
	check(p.t, p.reopen())
}

// reopen opens at the address that the proxy had until now. A child process that is being started at this moment has a
// copy of the old listener until it executes its program, so the port can be taken for a little longer.
func (p *Proxy) reopen() error {
	for end := time.Now().Add(portPatience); ; time.Sleep(pollEvery) {
		if err := p.open(); !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) {
			return err
		}
	}
}

// Lead makes the address lead to another server from now on, as one does that belongs to whoever is the primary. It closes
// the open connections, and heals as Reset does.
func (p *Proxy) Lead(upstream string) {
	p.t.Helper()
	p.mu.Lock()
	p.upstream = upstream
	p.mu.Unlock()
	p.Reset()
}

// open begins anew, with a proxy of the library that knows of no fault. Taking the faults out of the old one would mean
// rebuilding connections that are just ending.
func (p *Proxy) open() error {
	p.proxy = toxiproxy.NewProxy(p.api, "testkit", p.addr, p.upstream)
	if err := p.proxy.Start(); err != nil {
		return fmt.Errorf("open a proxy at %s: %w", p.addr, err)
	}
	return nil
}

func (p *Proxy) blackhole(direction string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	// A timeout of 0 never closes the connection.
	check(p.t, p.add(fmt.Sprintf(`{"type": "timeout", "stream": %q, "attributes": {"timeout": 0}}`, direction)))
}

func (p *Proxy) delay(direction string, d time.Duration) error {
	err := p.proxy.Toxics.RemoveToxic(p.t.Context(), "latency_"+direction)
	if err != nil && !errors.Is(err, toxiproxy.ErrToxicNotFound) {
		return err
	}
	if d < time.Millisecond {
		return nil
	}
	return p.add(fmt.Sprintf(`{"type": "latency", "stream": %q, "attributes": {"latency": %d}}`, direction, d.Milliseconds()))
}

// add describes a fault the way the library's HTTP API takes it; it has no other door.
func (p *Proxy) add(toxic string) error {
	_, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(toxic))
	if errors.Is(err, toxiproxy.ErrToxicAlreadyExists) {
		return nil
	}
	return err
}
