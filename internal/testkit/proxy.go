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

// Proxy forwards TCP connections to a server and injects faults, in each direction: requests are what
// the clients send, replies what the server sends. A fault applies to open and to new connections until
// [Proxy.Reset]. The methods fail the test that the proxy was made for.
// A connection to a server that is down is accepted and closed at once.
// Set delays and black holes before the load begins, or in a quiet moment: the library can hang when it
// rebuilds a connection whose client disconnects at that moment while replies are in transit. Cut and
// Reset do not rebuild connections and are safe at any time.
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

// portReleaseTimeout is how long a port may stay in use after the proxy has closed it.
const portReleaseTimeout = 5 * time.Second

// NewProxy starts a proxy in front of the server at an address, for this test alone.
func NewProxy(t TB, upstream string) *Proxy {
	t.Helper()
	check(t, allowed())
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

// Latency adds d to each round trip, half of it in each direction, in whole milliseconds. It replaces earlier calls; 0
// removes the delay. Connections stay open.
func (p *Proxy) Latency(d time.Duration) {
	p.t.Helper()
	there := (d / 2).Truncate(time.Millisecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	check(p.t, errors.Join(p.delay(requests, there), p.delay(replies, d-there)))
}

// BlackholeReplies forwards requests and drops the replies: the server executes them, and the clients get no answer.
// Connections stay open and new ones are accepted.
func (p *Proxy) BlackholeReplies() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	// A timeout of 0 never closes the connection.
	check(p.t, p.add(fmt.Sprintf(`{"type": "timeout", "stream": %q, "attributes": {"timeout": 0}}`, replies)))
}

// Cut closes every connection and refuses new ones.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proxy.Stop()
}

// Reset removes all faults. It closes the open connections, because a stream with dropped bytes cannot continue, and
// accepts new ones.
func (p *Proxy) Reset() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proxy.Stop()
	check(p.t, p.reopen())
}

// reopen opens the proxy again at its address. A child process that is being started at this moment has a copy of the
// old listener until it executes its program, so the port can be in use a little longer.
func (p *Proxy) reopen() error {
	for end := time.Now().Add(portReleaseTimeout); ; time.Sleep(pollEvery) {
		if err := p.open(); !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) {
			return err
		}
	}
}

// SetUpstream forwards to another server from now on, like a virtual address that follows the primary. It closes the
// open connections and removes all faults, as Reset does.
func (p *Proxy) SetUpstream(upstream string) {
	p.t.Helper()
	p.mu.Lock()
	p.upstream = upstream
	p.mu.Unlock()
	p.Reset()
}

// open creates a new proxy of the library, without faults. Removing the faults from the old one would rebuild
// connections that are just ending.
func (p *Proxy) open() error {
	p.proxy = toxiproxy.NewProxy(p.api, "testkit", p.addr, p.upstream)
	if err := p.proxy.Start(); err != nil {
		return fmt.Errorf("open a proxy at %s: %w", p.addr, err)
	}
	return nil
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

// add adds a fault in the format of the library's HTTP API, the only one that it has.
func (p *Proxy) add(toxic string) error {
	_, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(toxic))
	if errors.Is(err, toxiproxy.ErrToxicAlreadyExists) {
		return nil
	}
	return err
}
