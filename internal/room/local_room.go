package room

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/voucher"
)

const (
	// refreshEvery is how often an instance renews its snapshot of a room.
	refreshEvery = 500 * time.Millisecond
	// kickEvery bounds how often visitors have the database asked.
	kickEvery = 100 * time.Millisecond
	// idleAfter is how long an instance keeps a room that nobody asks for.
	idleAfter = 3 * time.Minute
	// callTimeout bounds a call to a store in the background.
	callTimeout = 2 * time.Second
	// keepAfter is for how long Redis keeps a room after its sale.
	keepAfter = time.Hour
)

// localRoom is a room as this instance has it.
type localRoom struct {
	service *Service
	id      int64
	loaded  chan struct{} // closed once the rest is set, or failed is
	failed  error
	// entering is how many visitors are being given a ticket.
	entering atomic.Int64
	used     atomic.Int64 // when somebody asked last, in ns of this instance's clock
	kick     chan struct{}
	gone     atomic.Bool                     // nobody renews the snapshot any more
	voucher  atomic.Pointer[voucher.Voucher] // as it was read last

	sign             signer
	draw             Draw
	commitment, seed string // as they are told

	known     known
	positions atomic.Pointer[[]int32] // of the draw, once it is known and computed
	computing sync.Once
	reserving sync.Mutex

	seen       atomic.Pointer[view]
	publishing sync.Mutex
}

// known is the largest that this instance has seen. None of it ever falls, whatever Redis loses.
type known struct {
	tickets, serving, reserved atomic.Int64
	drawn                      atomic.Int64 // of the record; NotDrawn before
}

// raise makes a number at least n.
func raise(number *atomic.Int64, n int64) {
	for has := number.Load(); has < n && !number.CompareAndSwap(has, n); has = number.Load() {
	}
}

// view is a snapshot. It does not change.
type view struct {
	State
	heard time.Time
	stock Stock
	// read says that the stock was ever read.
	read   bool
	paused bool
	ended  bool
	// changed is closed when the next view is another one for somebody who waits.
	changed chan struct{}
}

func (l *localRoom) view() *view { return l.seen.Load() }

// use notes that somebody asks.
func (l *localRoom) use() {
	if now := time.Now().UnixNano(); now-l.used.Load() > int64(time.Second) {
		l.used.Store(now)
	}
}

// clock is Redis' clock now, in ms: as it was told, and this instance's own time since. What this instance's clock
// shows does not matter, except before Redis was heard for the first time.
func (l *localRoom) clock() int64 {
	seen := l.view()
	if seen == nil {
		return time.Now().UnixMilli()
	}
	return seen.Now + time.Since(seen.heard).Milliseconds()
}

// keep is for how long Redis keeps what it has.
func (l *localRoom) keep(v *voucher.Voucher) time.Duration {
	return time.Duration(max(0, v.EndAt.UnixMilli()-l.clock()))*time.Millisecond + keepAfter
}

// load reads the record and renews the snapshot for the first time.
func (l *localRoom) load(ctx context.Context, v *voucher.Voucher) error {
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	r, err := l.service.config.Store.Room(ctx, l.id)
	if err != nil {
		return err
	}
	l.sign, l.draw = newSigner(r.Secret, l.id), newDraw(r.Secret)
	l.commitment, l.seed = hex.EncodeToString(l.draw.Commitment()), hex.EncodeToString(l.draw.Seed)
	l.voucher.Store(v)
	l.known.drawn.Store(NotDrawn)
	l.learn(r)
	if err := l.refresh(ctx, v); err != nil {
		return err
	}
	l.store(ctx, v)
	return nil
}

// learn takes over what the record has.
func (l *localRoom) learn(r Record) {
	raise(&l.known.serving, r.Serving)
	raise(&l.known.reserved, r.Reserved)
	l.drawn(r.Drawn)
}

// drawn takes over the number of tickets in the draw, and computes their positions: of a million in half a second, in
// the background.
func (l *localRoom) drawn(n int64) {
	if n < 0 {
		return
	}
	l.known.drawn.Store(n)
	raise(&l.known.tickets, n)
	l.computing.Do(func() {
		l.service.working.Go(func() {
			positions := l.draw.Positions(n)
			l.positions.Store(&positions)
		})
	})
}

// run renews the snapshot until nobody asks for the room any more, or it is over.
func (l *localRoom) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.service.working.Go(func() { l.runStore(ctx) })
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		v, ok := l.stillThere(ctx)
		if !ok {
			return
		}
		calling, cancel := context.WithTimeout(ctx, callTimeout)
		err := l.refresh(calling, v)
		cancel()
		if err != nil && ctx.Err() == nil {
			l.service.config.Log.LogAttrs(ctx, slog.LevelWarn, "a waiting room does not move on", slog.Int64("voucher", l.id), slog.Any("error", err))
		}
	}
}

// runStore does what needs the database, which may hang, beside run.
func (l *localRoom) runStore(ctx context.Context) {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-tick.C:
		case <-l.kick:
			if time.Since(last) < kickEvery {
				continue
			}
		case <-ctx.Done():
			return
		}
		calling, cancel := context.WithTimeout(ctx, callTimeout)
		l.store(calling, l.voucher.Load())
		cancel()
		last = time.Now()
	}
}

// stillThere returns the voucher. It reports false if the room is not needed any more.
func (l *localRoom) stillThere(ctx context.Context) (*voucher.Voucher, bool) {
	if time.Since(time.Unix(0, l.used.Load())) > idleAfter {
		return nil, false
	}
	reading, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	v, err := l.service.config.Vouchers.Voucher(reading, l.id)
	switch {
	case err == nil && v.Policy.Room != nil:
		l.voucher.Store(v)
		return v, true
	case err != nil && !errors.Is(err, voucher.ErrNotFound):
		return l.voucher.Load(), true // as it was
	}
	l.publish(func(now *view) { now.ended = true }) // visitors who wait look again, and are told
	return nil, false
}

// refresh renews the snapshot. Redis draws, and calls the next visitors.
func (l *localRoom) refresh(ctx context.Context, v *voucher.Voucher) error {
	call := AdvanceCall{
		VoucherID: l.id, Begin: v.BeginAt.UnixMilli(), Rate: v.Policy.Room.Rate, Drawn: l.known.drawn.Load(),
		Tickets: l.known.tickets.Load(), Serving: l.known.serving.Load(), Reserved: l.known.reserved.Load(), Keep: l.keep(v),
	}
	ended := false
	if seen := l.view(); seen != nil {
		call.Stock = seen.stock
		ended = l.clock() >= v.EndAt.UnixMilli()
		call.Calls = !v.Paused && !ended
	}
	state, err := l.service.config.Redis.Advance(ctx, call)
	if errors.Is(err, ErrMissing) {
		if err = l.restore(ctx, v); err == nil {
			call.Stock = Stock{}
			state, err = l.service.config.Redis.Advance(ctx, call)
		}
	}
	if err != nil {
		return err
	}
	heard := time.Now()
	raise(&l.known.tickets, state.Tickets)
	raise(&l.known.serving, state.Serving)
	l.publish(func(now *view) {
		now.State, now.heard, now.paused, now.ended = state, heard, v.Paused, ended
	})
	if state.Drawn >= 0 && call.Drawn < 0 {
		l.kickStore()
	}
	return nil
}

func (l *localRoom) kickStore() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// publish changes the snapshot.
func (l *localRoom) publish(change func(*view)) {
	l.publishing.Lock()
	defer l.publishing.Unlock()
	next, before := view{}, l.view()
	if before != nil {
		next = *before
	}
	change(&next)
	if before == nil || before.tells() != next.tells() {
		next.changed = make(chan struct{})
	}
	l.seen.Store(&next)
	if before != nil && next.changed != before.changed {
		close(before.changed)
	}
}

// told is what somebody who waits waits for.
type told struct {
	serving, drawn        int64
	soldOut, paused, over bool
	born                  string
}

func (v *view) tells() told {
	return told{v.Serving, v.Drawn, v.soldOut(), v.paused, v.ended, v.Born}
}

func (v *view) soldOut() bool { return v.read && v.stock.Left <= 0 }

// restore makes the state in Redis again from the record: Redis has lost it, or never had one.
func (l *localRoom) restore(ctx context.Context, v *voucher.Voucher) error {
	r, err := l.service.config.Store.Room(ctx, l.id)
	if err != nil {
		return err
	}
	l.learn(r)
	if r.Reserved > 0 {
		l.service.config.Log.LogAttrs(ctx, slog.LevelWarn, "Redis has lost a waiting room; it goes on with what the database has", slog.Int64("voucher", l.id))
	}
	return l.service.config.Redis.Restore(ctx, l.id, rand.Text(), r, l.keep(v))
}

// ticket returns a user's ticket. It was told, whatever Redis has lost since.
func (l *localRoom) ticket(text string, user int64) (Ticket, bool) {
	t, ok := l.sign.readTicket(text)
	if !ok || t.User != user {
		return Ticket{}, false
	}
	raise(&l.known.tickets, t.Number+1)
	return t, true
}

// block is how many ticket numbers are reserved at once. Up to so many are lost when Redis loses the room.
func (l *localRoom) block(tickets int64) int64 { return 100 + tickets/10 + 2*l.entering.Load() }

// reserve has the database let more numbers be told than there are tickets.
func (l *localRoom) reserve(ctx context.Context, tickets int64) error {
	l.reserving.Lock()
	defer l.reserving.Unlock()
	if l.known.reserved.Load() > tickets {
		return nil
	}
	return l.reserveBlock(ctx, tickets)
}

func (l *localRoom) reserveBlock(ctx context.Context, tickets int64) error {
	upTo := tickets + l.block(tickets)
	if err := l.service.config.Store.Reserve(ctx, l.id, upTo); err != nil {
		return err
	}
	raise(&l.known.reserved, upTo)
	return nil
}

// store does what needs the database: it makes the draw certain, reserves numbers ahead, notes who was called, and
// reads the stock.
func (l *localRoom) store(ctx context.Context, v *voucher.Voucher) {
	config, seen := &l.service.config, l.view()
	warn := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			config.Log.LogAttrs(ctx, slog.LevelWarn, what, slog.Int64("voucher", l.id), slog.Any("error", err))
		}
	}
	if seen.Drawn >= 0 && l.known.drawn.Load() < 0 {
		n, err := config.Store.Draw(ctx, l.id, seen.Drawn)
		warn("the draw of a waiting room waits for the database", err)
		if err == nil {
			l.drawn(n)
		}
	}
	if tickets := l.known.tickets.Load(); l.known.reserved.Load() < tickets+l.block(tickets)/2 {
		l.reserving.Lock()
		err := l.reserveBlock(ctx, tickets)
		l.reserving.Unlock()
		warn("ticket numbers of a waiting room were not reserved", err)
	}
	if seen.Save {
		warn("the database does not know whom a waiting room has called", config.Store.Serve(ctx, l.id, seen.Serving))
	}
	// What was spent is known before the stock is read: see claim.lua.
	left, err := config.Sales.Left(ctx, v)
	if err != nil {
		warn("a waiting room does not know the stock", err)
		return
	}
	l.publish(func(now *view) { now.stock, now.read = Stock{Left: left, Spent: seen.Spent, Born: seen.Born}, true })
}
