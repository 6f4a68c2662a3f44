package zkio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"seckill/internal/lock"
)

// DialFunc connects to a server, as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// Config says where the servers are and how long a session outlives its process.
type Config struct {
	// Servers are the members of the ensemble, host:port each.
	Servers []string
	// SessionTimeout is how long the nodes of a process that died stay, and how
	// long one that is cut off may still count on its locks. The server may
	// negotiate it up or down. Default 10 s.
	SessionTimeout time.Duration
	// CommandTimeout is how long a request waits without anything arriving. The
	// connection is then given up and made anew, in the same session. Default a
	// quarter of SessionTimeout, at most 1 s.
	CommandTimeout time.Duration
	// Dial makes connections. Default: that of net.Dialer.
	Dial DialFunc
	// Logger receives what the driver has to say, as debug messages. Default: nobody.
	Logger *slog.Logger
}

// WithDefaults returns c with every zero replaced.
func (c Config) WithDefaults() Config {
	if c.SessionTimeout == 0 {
		c.SessionTimeout = 10 * time.Second
	}
	if c.CommandTimeout == 0 {
		c.CommandTimeout = min(c.SessionTimeout/4, time.Second)
	}
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate says with [lock.ErrInvalid] what cannot work: a session must outlast a
// command that fails and the one that repeats it.
func (c Config) Validate() error {
	switch {
	case len(c.Servers) == 0:
		return fmt.Errorf("%w: no ZooKeeper server is named", lock.ErrInvalid)
	case c.SessionTimeout < 10*time.Millisecond || c.SessionTimeout > lock.MaxTTL:
		return fmt.Errorf("%w: SessionTimeout is %v; 10ms to %v", lock.ErrInvalid, c.SessionTimeout, lock.MaxTTL)
	case c.CommandTimeout <= 0 || c.CommandTimeout > c.SessionTimeout/2:
		return fmt.Errorf("%w: CommandTimeout is %v, not positive or more than half of SessionTimeout, %v", lock.ErrInvalid, c.CommandTimeout, c.SessionTimeout)
	}
	return nil
}

// Client keeps one session for all lockers of a process. It connects with the
// first request, and again with the next one after a session is over.
type Client struct {
	config  Config
	running sync.WaitGroup // one for each session that has not come to rest, and what works for it

	mu      sync.Mutex
	current *Session
	closed  bool
}

var errClosed = errors.New("the client is closed")

// Open returns a client. It does not connect yet.
func Open(config Config) (*Client, error) {
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Client{config: config}, nil
}

// Close ends the session: its nodes go at once where the server can be reached,
// else after the session timeout. Holders are told. It waits for all that works in
// the background.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	s := c.current
	c.mu.Unlock()
	if s != nil {
		s.end(fmt.Errorf("%w: %w", lock.ErrUnavailable, errClosed))
	}
	c.running.Wait()
	return nil
}

// Session returns the session that this process has, connected, or a new one where
// the last is over. It gives [lock.ErrUnavailable] after Config.CommandTimeout, or
// the error of ctx.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	limit := time.Now().Add(c.config.CommandTimeout)
	for {
		s, err := c.live()
		if err != nil {
			return nil, err
		}
		err = s.ready(ctx)
		if err == nil {
			return s, nil
		}
		if !s.Over() || !time.Now().Before(limit) {
			return nil, err
		}
	}
}

// live returns a session that is not over; it may still have to connect.
func (c *Client) live() (*Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("%w: %w", lock.ErrUnavailable, errClosed)
	}
	if c.current == nil || c.current.Over() {
		s, err := newSession(c)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
		}
		c.current = s
	}
	return c.current, nil
}
