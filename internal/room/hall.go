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

// hall is a room as this instance has it.
type hall struct {
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

func (h *hall) view() *view { return h.seen.Load() }

// use notes that somebody asks.
func (h *hall) use() {
	if now := time.Now().UnixNano(); now-h.used.Load() > int64(time.Second) {
		h.used.Store(now)
	}
}

// clock is Redis' clock now, in ms: as it was told, and this instance's own time since. What this instance's clock shows
// does not matter, except before Redis was heard for the first time.
func (h *hall) clock() int64 {
	seen := h.view()
	if seen == nil {
		return time.Now().UnixMilli()
	}
	return seen.Now + time.Since(seen.heard).Milliseconds()
}

// keep is for how long Redis keeps what it has.
func (h *hall) keep(v *voucher.Voucher) time.Duration {
	return time.Duration(max(0, v.EndAt.UnixMilli()-h.clock()))*time.Millisecond + keepAfter
}

// load reads the record and renews the snapshot for the first time.
func (h *hall) load(ctx context.Context, v *voucher.Voucher) error {
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	r, err := h.service.config.Store.Room(ctx, h.id)
	if err != nil {
		return err
	}
	h.sign, h.draw = newSigner(r.Secret, h.id), newDraw(r.Secret)
	h.commitment, h.seed = hex.EncodeToString(h.draw.Commitment()), hex.EncodeToString(h.draw.Seed)
	h.voucher.Store(v)
	h.known.drawn.Store(NotDrawn)
	h.learn(r)
	if err := h.refresh(ctx, v); err != nil {
		return err
	}
	h.store(ctx, v)
	return nil
}

// learn takes over what the record has.
func (h *hall) learn(r Record) {
	raise(&h.known.serving, r.Serving)
	raise(&h.known.reserved, r.Reserved)
	h.drawn(r.Drawn)
}

// drawn takes over the number of tickets in the draw, and computes their positions: of a million in half a second, in the
// background.
func (h *hall) drawn(n int64) {
	if n < 0 {
		return
	}
	h.known.drawn.Store(n)
	raise(&h.known.tickets, n)
	h.computing.Do(func() {
		h.service.working.Go(func() {
			positions := h.draw.Positions(n)
			h.positions.Store(&positions)
		})
	})
}

// run renews the snapshot until nobody asks for the room any more, or it is over.
func (h *hall) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.service.working.Go(func() { h.runStore(ctx) })
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		v, ok := h.stillThere(ctx)
		if !ok {
			return
		}
		calling, cancel := context.WithTimeout(ctx, callTimeout)
		err := h.refresh(calling, v)
		cancel()
		if err != nil && ctx.Err() == nil {
			h.service.config.Log.LogAttrs(ctx, slog.LevelWarn, "a waiting room does not move on", slog.Int64("voucher", h.id), slog.Any("error", err))
		}
	}
}

// runStore does what needs the database, which may hang, beside run.
func (h *hall) runStore(ctx context.Context) {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-tick.C:
		case <-h.kick:
			if time.Since(last) < kickEvery {
				continue
			}
		case <-ctx.Done():
			return
		}
		calling, cancel := context.WithTimeout(ctx, callTimeout)
		h.store(calling, h.voucher.Load())
		cancel()
		last = time.Now()
	}
}

// stillThere returns the voucher. It reports false if the room is not needed any more.
func (h *hall) stillThere(ctx context.Context) (*voucher.Voucher, bool) {
	if time.Since(time.Unix(0, h.used.Load())) > idleAfter {
		return nil, false
	}
	reading, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	v, err := h.service.config.Vouchers.Voucher(reading, h.id)
	switch {
	case err == nil && v.Policy.Room != nil:
		h.voucher.Store(v)
		return v, true
	case err != nil && !errors.Is(err, voucher.ErrNotFound):
		return h.voucher.Load(), true // as it was
	}
	h.publish(func(now *view) { now.ended = true }) // visitors who wait look again, and are told
	return nil, false
}

// refresh renews the snapshot. Redis draws, and calls the next visitors.
func (h *hall) refresh(ctx context.Context, v *voucher.Voucher) error {
	call := AdvanceCall{
		VoucherID: h.id, Begin: v.BeginAt.UnixMilli(), Rate: v.Policy.Room.Rate, Drawn: h.known.drawn.Load(),
		Tickets: h.known.tickets.Load(), Serving: h.known.serving.Load(), Reserved: h.known.reserved.Load(), Keep: h.keep(v),
	}
	ended := false
	if seen := h.view(); seen != nil {
		call.Stock = seen.stock
		ended = h.clock() >= v.EndAt.UnixMilli()
		call.Calls = !v.Paused && !ended
	}
	state, err := h.service.config.Redis.Advance(ctx, call)
	if errors.Is(err, ErrMissing) {
		if err = h.restore(ctx, v); err == nil {
			call.Stock = Stock{}
			state, err = h.service.config.Redis.Advance(ctx, call)
		}
	}
	if err != nil {
		return err
	}
	heard := time.Now()
	raise(&h.known.tickets, state.Tickets)
	raise(&h.known.serving, state.Serving)
	h.publish(func(now *view) {
		now.State, now.heard, now.paused, now.ended = state, heard, v.Paused, ended
	})
	if state.Drawn >= 0 && call.Drawn < 0 {
		h.kickStore()
	}
	return nil
}

func (h *hall) kickStore() {
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

// publish changes the snapshot.
func (h *hall) publish(change func(*view)) {
	h.publishing.Lock()
	defer h.publishing.Unlock()
	next, before := view{}, h.view()
	if before != nil {
		next = *before
	}
	change(&next)
	if before == nil || before.tells() != next.tells() {
		next.changed = make(chan struct{})
	}
	h.seen.Store(&next)
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
func (h *hall) restore(ctx context.Context, v *voucher.Voucher) error {
	r, err := h.service.config.Store.Room(ctx, h.id)
	if err != nil {
		return err
	}
	h.learn(r)
	if r.Reserved > 0 {
		h.service.config.Log.LogAttrs(ctx, slog.LevelWarn, "Redis has lost a waiting room; it goes on with what the database has", slog.Int64("voucher", h.id))
	}
	return h.service.config.Redis.Restore(ctx, h.id, rand.Text(), r, h.keep(v))
}

// ticket returns a user's ticket. It was told, whatever Redis has lost since.
func (h *hall) ticket(text string, user int64) (Ticket, bool) {
	t, ok := h.sign.readTicket(text)
	if !ok || t.User != user {
		return Ticket{}, false
	}
	raise(&h.known.tickets, t.Number+1)
	return t, true
}

// block is how many ticket numbers are reserved at once. Up to so many are lost when Redis loses the room.
func (h *hall) block(tickets int64) int64 { return 100 + tickets/10 + 2*h.entering.Load() }

// reserve has the database let more numbers be told than there are tickets.
func (h *hall) reserve(ctx context.Context, tickets int64) error {
	h.reserving.Lock()
	defer h.reserving.Unlock()
	if h.known.reserved.Load() > tickets {
		return nil
	}
	return h.reserveBlock(ctx, tickets)
}

func (h *hall) reserveBlock(ctx context.Context, tickets int64) error {
	upTo := tickets + h.block(tickets)
	if err := h.service.config.Store.Reserve(ctx, h.id, upTo); err != nil {
		return err
	}
	raise(&h.known.reserved, upTo)
	return nil
}

// store does what needs the database: it makes the draw certain, reserves numbers ahead, notes who was called, and reads
// the stock.
func (h *hall) store(ctx context.Context, v *voucher.Voucher) {
	config, seen := &h.service.config, h.view()
	warn := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			config.Log.LogAttrs(ctx, slog.LevelWarn, what, slog.Int64("voucher", h.id), slog.Any("error", err))
		}
	}
	if seen.Drawn >= 0 && h.known.drawn.Load() < 0 {
		n, err := config.Store.Draw(ctx, h.id, seen.Drawn)
		warn("the draw of a waiting room waits for the database", err)
		if err == nil {
			h.drawn(n)
		}
	}
	if tickets := h.known.tickets.Load(); h.known.reserved.Load() < tickets+h.block(tickets)/2 {
		h.reserving.Lock()
		err := h.reserveBlock(ctx, tickets)
		h.reserving.Unlock()
		warn("ticket numbers of a waiting room were not reserved", err)
	}
	if seen.Save {
		warn("the database does not know whom a waiting room has called", config.Store.Serve(ctx, h.id, seen.Serving))
	}
	// What was spent is known before the stock is read: see claim.lua.
	left, err := config.Sales.Left(ctx, v)
	if err != nil {
		warn("a waiting room does not know the stock", err)
		return
	}
	h.publish(func(now *view) { now.stock, now.read = Stock{Left: left, Spent: seen.Spent, Born: seen.Born}, true })
}
