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

// Config names the servers and sets the timeouts.
type Config struct {
	// Servers are the members of the ensemble, each as host:port.
	Servers []string
	// SessionTimeout is how long the nodes of a dead process stay, and how long a process that is cut off may rely on
	// its locks. The server may grant a longer or shorter timeout. Default 10 s.
	SessionTimeout time.Duration
	// CommandTimeout is how long a request waits while nothing arrives. Then the client reconnects in the same session.
	// Default a quarter of SessionTimeout, at most 1 s.
	CommandTimeout time.Duration
	// Dial opens connections. Default: DialContext of a net.Dialer.
	Dial DialFunc
	// Logger receives the log of the driver as debug messages. Default: none.
	Logger *slog.Logger
}

// WithDefaults returns c with every zero field replaced by its default.
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

// Validate returns [lock.ErrInvalid] for a configuration that cannot work: a session must outlast a failed command and
// its repetition.
func (c Config) Validate() error {
	switch {
	case len(c.Servers) == 0:
		return fmt.Errorf("%w: there is no ZooKeeper server", lock.ErrInvalid)
	case c.SessionTimeout < 10*time.Millisecond || c.SessionTimeout > lock.MaxTTL:
		return fmt.Errorf("%w: SessionTimeout is %v; 10ms to %v", lock.ErrInvalid, c.SessionTimeout, lock.MaxTTL)
	case c.CommandTimeout <= 0 || c.CommandTimeout > c.SessionTimeout/2:
		return fmt.Errorf("%w: CommandTimeout is %v, not positive or more than half of SessionTimeout, %v",
			lock.ErrInvalid, c.CommandTimeout, c.SessionTimeout)
	}
	return nil
}

// Client has one session for all lockers of a process. It opens a session with the first request, and a new one with
// the first request after a session is over.
type Client struct {
	config  Config
	running sync.WaitGroup // the sessions that have not shut down, and their goroutines

	mu      sync.Mutex
	current *Session
	closed  bool
}

var errClosed = errors.New("the client is closed")

// Open returns a client that connects with its first request.
func Open(config Config) (*Client, error) {
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Client{config: config}, nil
}

// Close tells all holders and ends the session. The server deletes its nodes at once, or after the session timeout if
// it cannot be reached. Close waits for all background work.
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

// Session returns the current session, connected, or a new one if the last is over. It returns [lock.ErrUnavailable]
// after Config.CommandTimeout, or the error of ctx.
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

// live returns a session that is not over. It may still have to connect.
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
