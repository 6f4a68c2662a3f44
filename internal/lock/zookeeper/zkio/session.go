package zkio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"seckill/internal/lock"
)

// Session is one ZooKeeper session, which survives reconnections. It is over when the server reports its end, or as
// soon as this process can no longer prove that the server has not ended it.
type Session struct {
	client *Client
	ctx    context.Context // ends with the session
	cancel context.CancelFunc
	zxid   atomic.Uint64 // the newest one received from the server

	mu         sync.Mutex
	conn       *zk.Conn
	observed   *observedConn // the connection, if there is one
	up         chan struct{} // closed while requests can be sent
	isUp       bool
	timeout    time.Duration // as granted by the server
	contact    time.Time     // when the newest answered request was sent
	heard      time.Time     // when the newest frame arrived
	proofTimer *time.Timer   // nil until the server has granted the session
	cause      error         // why the session is over
	leases     map[*lease]struct{}
	watches    map[string]*watch
	readers    map[string]*reader
}

var (
	errExpired   = fmt.Errorf("%w: the session has ended", lock.ErrExpired)
	errPaused    = fmt.Errorf("%w: this process did not run until after the session timeout", lock.ErrExpired)
	errNoContact = fmt.Errorf("%w: no answer from the server for a session timeout", lock.ErrUnavailable)
	errNoConn    = errors.New("no connection to ZooKeeper")
)

func newSession(c *Client) (*Session, error) {
	s := &Session{
		client: c, up: make(chan struct{}), leases: make(map[*lease]struct{}),
		watches: make(map[string]*watch), readers: make(map[string]*reader),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mu.Lock() // the driver calls back before Connect returns
	defer s.mu.Unlock()
	conn, events, err := zk.Connect(c.config.Servers, c.config.SessionTimeout,
		zk.WithDialer(s.dial), zk.WithHostProvider(&hostProvider{over: s.ctx.Done()}),
		zk.WithLogger(logger{c.config.Logger}), zk.WithLogInfo(false), zk.WithEventCallback(s.event))
	if err != nil {
		s.cancel()
		return nil, err
	}
	s.conn = conn
	c.running.Go(func() {
		for range events { // the driver closes the channel when all its goroutines have ended
		}
	})
	return s, nil
}

// logger logs the messages of the driver as debug messages.
type logger struct{ to *slog.Logger }

// Printf implements zk.Logger.
func (l logger) Printf(format string, args ...any) {
	l.to.Debug("zookeeper: " + fmt.Sprintf(format, args...))
}

// Over reports whether the session has ended or may have ended.
func (s *Session) Over() bool { return s.ctx.Err() != nil }

// Done is closed when the session is over.
func (s *Session) Done() <-chan struct{} { return s.ctx.Done() }

// dial connects unless the session is over: the driver would otherwise open a new session that nobody needs.
func (s *Session) dial(network, addr string, _ time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.client.config.CommandTimeout)
	defer cancel()
	conn, err := s.client.config.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w := newObservedConn(conn, s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		_ = conn.Close() // the connection was never used
		return nil, s.cause
	}
	s.observed = w
	return w, nil
}

// event handles an event of the driver. It must not block.
func (s *Session) event(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	switch e.State {
	case zk.StateHasSession:
		s.connected()
	case zk.StateDisconnected:
		s.disconnected()
	case zk.StateExpired:
		s.end(errExpired)
	}
}

func (s *Session) connected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.observed
	if w == nil || s.cause != nil {
		return
	}
	asked, timeout := w.handshake()
	s.timeout, s.contact = timeout, asked
	s.renew()
	if s.proofTimer == nil {
		s.proofTimer = time.AfterFunc(time.Until(s.provenUntil()), s.proofExpired)
	}
	if !s.isUp {
		s.isUp = true
		close(s.up)
	}
}

func (s *Session) disconnected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.observed != nil {
		_ = s.observed.Close() // the driver does not close it if the session has expired
		s.observed = nil
	}
	if s.isUp {
		s.isUp = false
		s.up = make(chan struct{})
	}
}

// lastHeard returns when the newest frame arrived, or at if that is later.
func (s *Session) lastHeard(at time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard.After(at) {
		return s.heard
	}
	return at
}

// recordContact records that a request sent at the time at was answered. The server restarted the session timeout no
// earlier than that.
func (s *Session) recordContact(at time.Time, ping bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
	if !at.After(s.contact) {
		return
	}
	s.contact = at
	if !ping {
		return // updating the leases at each ping is enough
	}
	s.renew()
}

// renew gives the leases without a fixed end the proven end of the session. The caller has locked mu.
func (s *Session) renew() {
	for l := range s.leases {
		if l.TTL == 0 {
			l.held.Renewed(s.provenUntil())
		}
	}
}

// provenUntil returns the earliest time at which the server may end the session, less a margin for late timers and for
// clocks that run at different speeds: 2 %, at most 200 ms. The caller has locked mu.
func (s *Session) provenUntil() time.Time { return s.contact.Add(s.timeout - s.margin()) }

func (s *Session) margin() time.Duration { return min(s.timeout/50, 200*time.Millisecond) }

// proofExpired runs when the session may no longer be proven to live.
func (s *Session) proofExpired() {
	s.mu.Lock()
	until := s.provenUntil()
	left, margin := time.Until(until), s.margin()
	if left > 0 && s.cause == nil {
		s.proofTimer.Reset(left)
	}
	s.mu.Unlock()
	switch {
	case left > 0:
	case -left > margin:
		s.end(errPaused)
	default:
		s.end(errNoContact)
	}
}

// end ends the session once and tells every holder. Only then it tells the server, because another owner can get a lock
// as soon as the server knows.
func (s *Session) end(cause error) {
	s.mu.Lock()
	if s.cause != nil {
		s.mu.Unlock()
		return
	}
	s.cause = cause
	s.cancel()
	if s.proofTimer != nil {
		s.proofTimer.Stop()
	}
	leases := s.leases
	s.leases = nil
	s.mu.Unlock()
	for l := range leases {
		l.held.Lose(cause)
	}
	// This cannot race with Wait although mu is not locked: the goroutine of newSession keeps the counter above zero
	// until the driver has stopped, which happens only after shutdown.
	s.client.running.Go(s.shutdown)
}

// shutdown tells the server that the session is over, so that it deletes the nodes at once. Whether that succeeds or
// not, it stops the driver.
func (s *Session) shutdown() {
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	conn.Close() // takes no longer than a second
	s.dropConnection()
}

// dropConnection closes the connection. The driver fails the requests under way and opens a new connection for the same
// session.
func (s *Session) dropConnection() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.observed != nil {
		_ = s.observed.Close() // the driver closes it again
	}
}

// endError returns the error of a request that the end of the session cut short.
func (s *Session) endError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Errorf("%w: %w", lock.ErrUnavailable, s.cause)
}
