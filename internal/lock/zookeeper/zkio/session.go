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

// Session is one ZooKeeper session, from its first connection to its end. It lives
// through reconnections. It is over when the server says so, or as soon as this
// process cannot prove any more that the server has not ended it.
type Session struct {
	client *Client
	ctx    context.Context // ends with the session
	cancel context.CancelFunc
	zxid   atomic.Uint64 // the newest that the server has told

	mu      sync.Mutex
	conn    *zk.Conn
	wire    *wire         // the connection, while there is one
	up      chan struct{} // closed while requests can be made
	isUp    bool
	timeout time.Duration // as the server negotiated it
	contact time.Time     // when the newest request was sent that has been answered
	heard   time.Time     // when the newest frame arrived
	lapse   *time.Timer   // not nil once the server has granted the session
	cause   error         // why it is over
	leases  map[*lease]struct{}
	watches map[string]*watch
	lookers map[string]*looker
}

var (
	errExpired = fmt.Errorf("%w: the session has ended", lock.ErrExpired)
	errAsleep  = fmt.Errorf("%w: this process did not run until after the session timeout", lock.ErrExpired)
	errNoWord  = fmt.Errorf("%w: no word from the server for a session timeout", lock.ErrUnavailable)
	errNoConn  = errors.New("no connection to ZooKeeper")
)

func newSession(c *Client) (*Session, error) {
	s := &Session{
		client: c, up: make(chan struct{}), leases: make(map[*lease]struct{}),
		watches: make(map[string]*watch), lookers: make(map[string]*looker),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mu.Lock() // the driver calls back before it returns
	defer s.mu.Unlock()
	conn, events, err := zk.Connect(c.config.Servers, c.config.SessionTimeout,
		zk.WithDialer(s.dial), zk.WithHostProvider(&hosts{over: s.ctx.Done()}),
		zk.WithLogger(logger{c.config.Logger}), zk.WithLogInfo(false), zk.WithEventCallback(s.event))
	if err != nil {
		s.cancel()
		return nil, err
	}
	s.conn = conn
	c.running.Go(func() {
		for range events { // the driver closes it when all its goroutines have ended
		}
	})
	return s, nil
}

// logger makes debug messages of what the driver says.
type logger struct{ to *slog.Logger }

// Printf implements zk.Logger.
func (l logger) Printf(format string, args ...any) {
	l.to.Debug("zookeeper: " + fmt.Sprintf(format, args...))
}

// Over reports whether the session has ended or may have.
func (s *Session) Over() bool { return s.ctx.Err() != nil }

// Done is closed when the session is over.
func (s *Session) Done() <-chan struct{} { return s.ctx.Done() }

// dial connects as long as the session is not over: one that is over would
// otherwise be followed by a new one that nobody asked for.
func (s *Session) dial(network, addr string, _ time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.client.config.CommandTimeout)
	defer cancel()
	conn, err := s.client.config.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w := newWire(conn, s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		_ = conn.Close() // it was never used
		return nil, s.cause
	}
	s.wire = w
	return w, nil
}

// event is called by the driver and must not block.
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
	w := s.wire
	if w == nil || s.cause != nil {
		return
	}
	asked, timeout := w.handshake()
	s.timeout, s.contact = timeout, asked
	s.renew()
	if s.lapse == nil {
		s.lapse = time.AfterFunc(time.Until(s.provenUntil()), s.lapsed)
	}
	if !s.isUp {
		s.isUp = true
		close(s.up)
	}
}

func (s *Session) disconnected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wire != nil {
		_ = s.wire.Close() // the driver forgets to where the session has expired
		s.wire = nil
	}
	if s.isUp {
		s.isUp = false
		s.up = make(chan struct{})
	}
}

// heardSince is when something was heard last, and no earlier than at.
func (s *Session) heardSince(at time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard.After(at) {
		return s.heard
	}
	return at
}

// contacted notes that a request sent at that time was answered. The server began
// to count the session timeout anew no earlier than that.
func (s *Session) contacted(at time.Time, ping bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
	if !at.After(s.contact) {
		return
	}
	s.contact = at
	if !ping {
		return // leases are told how long they run only now and then
	}
	s.renew()
}

// renew tells the leases that run as long as the session how long that is proven to
// be. The caller has locked mu.
func (s *Session) renew() {
	for l := range s.leases {
		if l.TTL == 0 {
			l.held.Renewed(s.provenUntil())
		}
	}
}

// provenUntil is when the server may end the session at the earliest, less a
// margin for clocks that do not run at one speed and for a timer that is late: 2 %,
// at most 200 ms. The caller has locked mu.
func (s *Session) provenUntil() time.Time { return s.contact.Add(s.timeout - s.margin()) }

func (s *Session) margin() time.Duration { return min(s.timeout/50, 200*time.Millisecond) }

// lapsed runs when the proof that the session lives may have come to its end.
func (s *Session) lapsed() {
	s.mu.Lock()
	until := s.provenUntil()
	left, margin := time.Until(until), s.margin()
	if left > 0 && s.cause == nil {
		s.lapse.Reset(left)
	}
	s.mu.Unlock()
	switch {
	case left > 0:
	case -left > margin:
		s.end(errAsleep)
	default:
		s.end(errNoWord)
	}
}

// end makes the session over, once, and tells every holder. The server hears of it
// after them: as soon as it does, somebody else can get in.
func (s *Session) end(cause error) {
	s.mu.Lock()
	if s.cause != nil {
		s.mu.Unlock()
		return
	}
	s.cause = cause
	s.cancel()
	if s.lapse != nil {
		s.lapse.Stop()
	}
	leases := s.leases
	s.leases = nil
	s.mu.Unlock()
	for l := range leases {
		l.held.Lose(cause)
	}
	// The counter is not zero here, although mu is free: the goroutine of newSession
	// runs until the driver has come to rest, which it does only after shutdown.
	s.client.running.Go(s.shutdown)
}

// shutdown tells the server that the session is over, so that its nodes go at
// once, and lets the driver come to rest whether that succeeded or not.
func (s *Session) shutdown() {
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	conn.Close() // takes no longer than a second
	s.kick()
}

// kick gives the connection up. The driver makes a new one for the same session
// and fails what was under way.
func (s *Session) kick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wire != nil {
		_ = s.wire.Close() // the driver closes it again
	}
}

// because is the error of a request that the session's end cut short.
func (s *Session) because() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Errorf("%w: %w", lock.ErrUnavailable, s.cause)
}
