package room

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/order"
	"seckill/internal/voucher"
)

// Config is what a [Service] needs. All of it is required.
type Config struct {
	Store    Store
	Redis    Redis
	Vouchers Vouchers
	Sales    Sales
	Log      *slog.Logger
}

// Service is the waiting rooms of an instance. It is safe for use by several goroutines.
type Service struct {
	config  Config
	working sync.WaitGroup
	ctx     context.Context // of the work in the background
	stop    context.CancelFunc

	hot   atomic.Pointer[localRoom] // the one that was used last: a rush is about one voucher, and finds it without a lock
	mu    sync.RWMutex
	rooms map[int64]*localRoom
}

var _ order.Room = (*Service)(nil)

// New returns a service. Close it, or let Run do that.
func New(c Config) *Service {
	s := &Service{config: c, rooms: make(map[int64]*localRoom)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Run keeps the rooms going until ctx ends.
func (s *Service) Run(ctx context.Context) {
	<-ctx.Done()
	s.Close()
}

// Close ends the work in the background.
func (s *Service) Close() {
	s.stop()
	s.working.Wait()
}

// room returns the room of a voucher as this instance has it. The first caller loads it.
func (s *Service) room(ctx context.Context, v *voucher.Voucher) (*localRoom, error) {
	if v.Policy.Room == nil {
		return nil, ErrNoRoom
	}
	if l := s.hot.Load(); l != nil && l.id == v.ID && !l.gone.Load() {
		l.use()
		return l, nil
	}
	s.mu.RLock()
	l := s.rooms[v.ID]
	s.mu.RUnlock()
	if l == nil {
		l = s.open(v)
	}
	select {
	case <-l.loaded:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l.failed != nil {
		return nil, l.failed
	}
	l.use()
	s.hot.Store(l)
	return l, nil
}

// open loads a room in the background, once.
func (s *Service) open(v *voucher.Voucher) *localRoom {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.rooms[v.ID]; l != nil {
		return l
	}
	l := &localRoom{service: s, id: v.ID, loaded: make(chan struct{}), kick: make(chan struct{}, 1)}
	if s.ctx.Err() != nil {
		l.failed = fmt.Errorf("%w: the service stops", order.ErrUnavailable)
		close(l.loaded)
		return l
	}
	s.rooms[v.ID] = l
	s.working.Go(func() {
		if l.failed = l.load(s.ctx, v); l.failed != nil {
			s.forget(l)
			close(l.loaded)
			return
		}
		l.used.Store(time.Now().UnixNano())
		close(l.loaded)
		l.run(s.ctx)
		s.forget(l)
	})
	return l
}

// forget has the next visitor load the room again.
func (s *Service) forget(l *localRoom) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rooms[l.id] == l {
		delete(s.rooms, l.id)
	}
	l.gone.Store(true)
}

// voucherAndRoom returns a voucher with its room.
func (s *Service) voucherAndRoom(ctx context.Context, voucherID int64) (*voucher.Voucher, *localRoom, error) {
	v, err := s.config.Vouchers.Voucher(ctx, voucherID)
	if err != nil {
		return nil, nil, err
	}
	l, err := s.room(ctx, v)
	return v, l, err
}

// NotOpenError is an [ErrNotOpen] with the time at which the room opens.
type NotOpenError struct{ OpensAt time.Time }

func (e *NotOpenError) Error() string {
	return fmt.Sprintf("%v: it opens at %s", ErrNotOpen, e.OpensAt.UTC().Format(time.RFC3339))
}

// Unwrap makes it an [ErrNotOpen].
func (e *NotOpenError) Unwrap() error { return ErrNotOpen }

// Entry asks for a ticket.
type Entry struct {
	VoucherID, UserID int64
	// Shown is the ticket that the client has; "" for none. It counts if Redis has forgotten it.
	Shown string
	// Address is where the client is.
	Address uint64
	// Work is the proof of work, see [Worked].
	Work string
}

// attempts bounds how often a call is made again because the state in Redis had to be restored, or numbers to be reserved.
const attempts = 10

// Enter gives a user a ticket: the one that the user has, or a new one. A user whose pass has lapsed or is spent gets a new
// one. Its errors are [ErrNoRoom], [ErrNotOpen], [ErrTicket], [ErrAddress], [ErrWork], [voucher.ErrNotFound], [voucher.ErrEnded] and
// [order.ErrUnavailable].
func (s *Service) Enter(ctx context.Context, e Entry) (Answer, error) {
	v, l, err := s.voucherAndRoom(ctx, e.VoucherID)
	if err != nil {
		return Answer{}, err
	}
	call := TicketCall{VoucherID: v.ID, UserID: e.UserID, Shown: -1, Keep: l.keep(v), Address: e.Address, PerAddress: v.Policy.Room.PerAddress}
	if e.Shown != "" {
		t, ok := l.ticket(e.Shown, e.UserID)
		if !ok {
			return Answer{}, ErrTicket
		}
		call.Shown = t.Number
	} else if bits := v.Policy.Room.WorkBits; !Worked(l.commitment, e.UserID, e.Work, bits) {
		return Answer{}, &WorkError{Bits: bits, Commitment: l.commitment}
	}
	switch now := l.clock(); {
	case now < v.OpensAt().UnixMilli():
		return Answer{}, &NotOpenError{v.OpensAt()}
	case now >= v.EndAt.UnixMilli():
		return Answer{}, voucher.ErrEnded
	}
	l.entering.Add(1)
	defer l.entering.Add(-1)
	for range attempts {
		call.Reserved, call.Tickets = l.known.reserved.Load(), l.known.tickets.Load()
		reply, err := s.config.Redis.Ticket(ctx, call)
		switch {
		case errors.Is(err, ErrMissing):
			err = l.restore(ctx, v)
		case err == nil && reply.AddressFull:
			err = fmt.Errorf("%w: it may have %d; come back when the sale has begun", ErrAddress, call.PerAddress)
		case err == nil && reply.Full:
			err = l.reserve(ctx, reply.Tickets)
		case err == nil:
			raise(&l.known.tickets, reply.Tickets)
			t := Ticket{User: e.UserID, Number: reply.Number}
			a := l.answer(v, &t)
			a.Ticket = l.sign.ticket(t)
			return a, nil
		}
		if err != nil {
			return Answer{}, err
		}
	}
	return Answer{}, fmt.Errorf("%w: no ticket after %d attempts", order.ErrUnavailable, attempts)
}

// Query asks for the state of a room.
type Query struct {
	VoucherID int64
	// Ticket is the caller's; "" asks for what everybody may know.
	Ticket string
	// User is who asks with a ticket.
	User int64
	// Claims says that a visitor who is called gets a pass.
	Claims bool
}

// Look returns the state of a room, for a ticket or for everybody. Nobody is asked for it but memory, unless the ticket is
// called. Its errors are [ErrNoRoom], [ErrTicket], [voucher.ErrNotFound] and [order.ErrUnavailable].
func (s *Service) Look(ctx context.Context, q Query) (Answer, error) {
	v, l, err := s.voucherAndRoom(ctx, q.VoucherID)
	if err != nil {
		return Answer{}, err
	}
	if q.Ticket == "" {
		return l.answer(v, nil), nil
	}
	t, ok := l.ticket(q.Ticket, q.User)
	if !ok {
		return Answer{}, ErrTicket
	}
	a := l.answer(v, &t)
	if q.Claims && a.called {
		if err := l.claim(ctx, v, t, &a); err != nil {
			return Answer{}, err
		}
	}
	return a, nil
}

// Await waits until the state of a room that was answered may be another one, or the limit has passed. Its only error is the context's.
func (s *Service) Await(ctx context.Context, q Query, told Answer, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if told.State == Called { // nothing tells when the rate allows a pass, or a unit comes back
		ctx, cancel = context.WithTimeout(ctx, refreshEvery)
		defer cancel()
	}
	q.Claims = false
	for {
		v, l, err := s.voucherAndRoom(ctx, q.VoucherID)
		if err != nil {
			return nil // the caller looks again, and is told
		}
		changed := l.view().changed
		t, ok := l.sign.readTicket(q.Ticket)
		ticket := &t
		if !ok {
			ticket = nil
		}
		if now := l.answer(v, ticket); now.State != told.State {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil
			}
			return ctx.Err()
		}
	}
}
