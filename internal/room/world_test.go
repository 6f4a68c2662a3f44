package room_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/order"
	"seckill/internal/room"
	"seckill/internal/room/ledger"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// world is a sale with a waiting room, in a bubble: a Redis in this process, a database and a sale in memory, and some
// instances.
type world struct {
	t         *testing.T
	redis     *simulate.Redis
	client    *redis.Client
	instances []*room.Service

	mu      sync.Mutex
	v       voucher.Voucher
	record  *room.Record  // of the database
	down    bool          // the database does not answer
	failing bool          // the stock cannot be read
	hold    chan struct{} // until it is closed, the stock is being read; nil: it is not held
	reads   int           // of the stock
	stock   int64
	orders  map[int64]int  // live, by user
	had     map[int64]bool // a user who ever had one
	passes  map[string]int // orders, by pass
	issued  []time.Time
	given   map[string]bool
	// called has the highest position that has a pass.
	served []int64
}

var errDown = errors.New("the database is down")

const voucherID = 7

// play runs a test in a bubble, in which the sale begins a minute from its start.
func play(t *testing.T, stock int64, policy voucher.Room, instances int, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, redis: simulate.NewRedis(t), stock: stock,
			orders: make(map[int64]int), had: make(map[int64]bool), passes: make(map[string]int), given: make(map[string]bool),
		}
		w.client = w.redis.Client(t)
		now := time.Now()
		w.v = voucher.Voucher{ID: voucherID, BeginAt: now.Add(time.Minute), EndAt: now.Add(3 * time.Hour), Policy: voucher.DefaultPolicy()}
		w.v.Policy.Room = &policy
		for range instances {
			w.start()
		}
		defer func() {
			for _, s := range w.instances {
				s.Close()
			}
		}()
		test(t, w)
	})
}

func policyOf(rate int64) voucher.Room { return voucher.Room{Rate: rate, DrawS: 60, PassS: 60} }

// start starts another instance.
func (w *world) start() *room.Service {
	s := room.New(room.Config{
		Store: w, Redis: ledger.New(w.client, "t:", 16), Vouchers: w, Sales: w, Log: slog.New(slog.NewTextHandler(w.t.Output(), nil)),
	})
	w.instances = append(w.instances, s)
	return s
}

func (w *world) locked(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// change changes the voucher.
func (w *world) change(c voucher.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.v
	v.Title, v.InitialStock, v.Stock = "a voucher", 1, 1
	changed, _, err := c.Apply(v, time.Now())
	fail.NowIf(w.t, err)
	w.v = changed
}

// Voucher implements [room.Vouchers].
func (w *world) Voucher(context.Context, int64) (*voucher.Voucher, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.v
	return &v, nil
}

// Left implements [room.Sales].
func (w *world) Left(context.Context, *voucher.Voucher) (int64, error) {
	w.mu.Lock()
	hold := w.hold
	w.mu.Unlock()
	if hold != nil {
		<-hold
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	if w.down || w.failing {
		return 0, errDown
	}
	return w.stock, nil
}

// Ordered implements [room.Sales].
func (w *world) Ordered(_ context.Context, _ *voucher.Voucher, userID int64) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return false, errDown
	}
	return w.had[userID], nil
}

func (w *world) write(do func(*room.Record)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return errDown
	}
	if w.record == nil {
		w.record = &room.Record{Secret: slices.Repeat([]byte{7}, room.SecretSize), Drawn: room.NotDrawn}
	}
	do(w.record)
	return nil
}

// Room implements [room.Store].
func (w *world) Room(context.Context, int64) (r room.Record, err error) {
	err = w.write(func(has *room.Record) { r = *has })
	return r, err
}

// Reserve implements [room.Store].
func (w *world) Reserve(_ context.Context, _, upTo int64) error {
	return w.write(func(r *room.Record) { r.Reserved = max(r.Reserved, upTo) })
}

// Draw implements [room.Store].
func (w *world) Draw(_ context.Context, _, tickets int64) (drawn int64, err error) {
	err = w.write(func(r *room.Record) {
		if r.Drawn < 0 {
			r.Drawn = tickets
		}
		drawn = r.Drawn
	})
	return drawn, err
}

// Serve implements [room.Store].
func (w *world) Serve(_ context.Context, _, serving int64) error {
	return w.write(func(r *room.Record) { r.Serving = max(r.Serving, serving) })
}

// at is one of the instances.
func (w *world) at(user int64) *room.Service { return w.instances[user%int64(len(w.instances))] }

// enter gives a user a ticket.
func (w *world) enter(user int64) room.Answer {
	w.t.Helper()
	a := w.again(func() (room.Answer, error) {
		return w.at(user).Enter(w.t.Context(), room.Entry{VoucherID: voucherID, UserID: user})
	})
	w.locked(func() { // otherwise the number is told again when Redis has lost the room
		if a.Number >= w.record.Reserved {
			w.t.Errorf("number %d was told, %d are reserved", a.Number, w.record.Reserved)
		}
	})
	return a
}

// enterAll has n users enter, from one user on, and returns their tickets.
func (w *world) enterAll(from, n int64) map[int64]string {
	w.t.Helper()
	tickets := make(map[int64]string, n)
	for user := from; user < from+n; user++ {
		tickets[user] = w.enter(user).Ticket
	}
	return tickets
}

func (w *world) look(user int64, ticket string) room.Answer {
	w.t.Helper()
	a := w.again(func() (room.Answer, error) {
		return w.at(user).Look(w.t.Context(), room.Query{VoucherID: voucherID, Ticket: ticket, User: user, Claims: true})
	})
	if a.Pass != "" {
		w.locked(func() {
			if !w.given[a.Pass] {
				w.given[a.Pass] = true
				w.issued = append(w.issued, time.Now())
				w.served = append(w.served, a.Position)
			}
		})
	}
	return a
}

// again repeats a call while Redis does not answer, as a client does that is told 503: of the connections to a Redis
// that has died each one is noticed when it is used.
func (w *world) again(call func() (room.Answer, error)) room.Answer {
	w.t.Helper()
	for range 100 {
		a, err := call()
		if !errors.Is(err, order.ErrUnavailable) {
			fail.NowIf(w.t, err)
			return a
		}
		simulate.Sleep(10 * time.Millisecond)
	}
	w.t.Fatal("Redis does not answer")
	return room.Answer{}
}

// order places an order with a pass, as package order does.
func (w *world) order(user int64, pass, request string) error {
	v, _ := w.Voucher(w.t.Context(), voucherID)
	s := w.at(user)
	if err := s.Use(w.t.Context(), v, user, pass, request); err != nil {
		return err
	}
	err := func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case w.down:
			return errDown
		case w.orders[user] > 0:
			return order.ErrAlreadyOrdered
		case w.stock <= 0:
			return voucher.ErrSoldOut
		}
		w.stock--
		w.orders[user]++
		w.had[user] = true
		w.passes[pass]++
		return nil
	}()
	s.Done(w.t.Context(), v, pass, request, err == nil)
	return err
}

// cancel gives a user's unit back.
func (w *world) cancel(user int64) {
	w.locked(func() { w.orders[user]--; w.stock++ })
}

// visit polls as a client should until something is final, and returns the last answer. A visitor who leaves does not
// come when called.
func (w *world) visit(user int64, leaves bool, until time.Duration) room.Answer {
	end := time.Now().Add(until)
	a := w.enter(user)
	for ticket := a.Ticket; time.Now().Before(end); {
		simulate.Sleep(a.PollAfter)
		if leaves {
			return a
		}
		if a = w.look(user, ticket); !a.State.Changes() {
			return a
		}
	}
	return a
}

func until(d time.Duration) {
	simulate.Sleep(d)
	synctest.Wait()
}
