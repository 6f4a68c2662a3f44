package actor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"seckill/internal/order"
	"seckill/internal/trace"
	"seckill/internal/voucher"
)

// errNoDatabase: an actor without a database is to read or to write.
var errNoDatabase = errors.New("actor: it was given no database")

// transaction is one that was begun by a read and waits for its write.
type transaction struct {
	voucher int64
	lease   *held // nil: under none
	cancel  context.CancelFunc

	read  chan Reading // takes the one reading
	write chan Write   // gives the one write
	what  *Write       // once it is known; touched by the transaction alone

	done chan struct{}
	err  error // valid once done is closed
}

// under is the context of work under a lease, or of deaf work, or of work under
// none; and the token to write with.
func (c *child) under(name Lease, deaf bool, who string) (_ context.Context, h *held, err error) {
	if c.store == nil {
		return nil, nil, errNoDatabase
	}
	if name == "" {
		return trace.WithWho(c.life, c.who(who)), nil, nil
	}
	if h, err = c.lease(name); err != nil {
		return nil, nil, err
	}
	ctx := h.Context()
	if deaf {
		ctx = context.WithoutCancel(ctx)
	}
	if who != "" {
		ctx = trace.WithWho(ctx, who)
	}
	return ctx, h, nil
}

// during is ctx, which ends with the request and with the process too.
func (c *child) during(ctx, request context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	unlink, unlinkLife := context.AfterFunc(request, cancel), context.AfterFunc(c.life, cancel)
	return ctx, func() { unlink(); unlinkLife(); cancel() }
}

// read begins a transaction. It stays at its first step until a write comes, the
// loss of its lock ends it, or the process does.
func (c *child) read(request context.Context, what Read) (Reading, error) {
	ctx, h, err := c.under(what.Lease, what.Deaf, what.Who)
	if err != nil {
		return Reading{}, err
	}
	ctx, cancel := c.during(ctx, c.life)
	t := &transaction{
		voucher: what.Voucher, lease: h, cancel: cancel,
		read: make(chan Reading, 1), write: make(chan Write), done: make(chan struct{}),
	}
	c.work.Go(func() {
		defer cancel()
		defer close(t.done)
		t.err = lostFirst(h, c.store.Transact(ctx, t.run))
	})
	select {
	case r := <-t.read:
		r.Tx = c.name()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open[r.Tx] = t
		return r, nil
	case <-t.done:
		return Reading{}, t.err
	case <-request.Done():
		cancel()
		return Reading{}, request.Err()
	}
}

// run is the transaction. A collision repeats all of it, with the write that it was
// told the first time.
func (t *transaction) run(ctx context.Context, tx order.Tx) error {
	stock, version, err := tx.StockOf(ctx, t.voucher)
	if err != nil {
		return err
	}
	if t.what == nil {
		t.read <- Reading{Stock: stock, Version: version, At: now()}
		select {
		case what := <-t.write:
			t.what = &what
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return t.what.apply(ctx, tx, t.voucher, t.lease)
}

// transaction takes the open one of that name; nil where there is none.
func (c *child) transaction(name string) *transaction {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.open[name]
	delete(c.open, name)
	return t
}

func (c *child) write(request context.Context, what Write) (nothing, error) {
	if what.Tx == "" {
		return nothing{}, c.writeAlone(request, what)
	}
	t := c.transaction(what.Tx)
	if t == nil {
		return nothing{}, invalid("actor %s has no open transaction %q", c.config.Name, what.Tx)
	}
	unlink := context.AfterFunc(request, t.cancel)
	defer unlink()
	select {
	case t.write <- what:
		<-t.done
	case <-t.done:
	}
	return nothing{}, t.err
}

func (c *child) writeAlone(request context.Context, what Write) error {
	ctx, h, err := c.under(what.Lease, what.Deaf, what.Who)
	if err != nil {
		return err
	}
	ctx, cancel := c.during(ctx, request)
	defer cancel()
	return lostFirst(h, c.store.Transact(ctx, func(ctx context.Context, tx order.Tx) error {
		return what.apply(ctx, tx, what.Voucher, h)
	}))
}

// apply takes one from the stock, as the mode has it, and inserts the order.
func (w *Write) apply(ctx context.Context, tx order.Tx, id int64, h *held) error {
	if err := w.take(ctx, tx, id, h); err != nil {
		return err
	}
	if w.Order == 0 {
		return nil
	}
	return tx.Insert(ctx, order.Order{
		ID: w.Order, VoucherID: id, UserID: w.User, Status: order.Confirmed, CreatedAt: time.Now(),
	}, w.Unique)
}

func (w *Write) take(ctx context.Context, tx order.Tx, id int64, h *held) error {
	switch w.Mode {
	case voucher.StockConditional:
		return tx.Decrement(ctx, id)
	case voucher.StockUnguarded:
		return tx.SetStock(ctx, id, w.Stock)
	case voucher.StockVersion:
		return tx.DecrementVersion(ctx, id, w.Version)
	case voucher.StockFenced:
		if h == nil {
			return invalid("a fenced write needs the token of a lease")
		}
		return tx.DecrementFenced(ctx, id, h.Token())
	}
	return invalid("unknown mode %q", w.Mode)
}

func (c *child) sell(request context.Context, what Sell) (Sold, error) {
	if what.Pause < 0 {
		return Sold{}, invalid("the pause is negative: %v", what.Pause)
	}
	ctx, h, err := c.under(what.Lease, what.Deaf, what.Who)
	if err != nil {
		return Sold{}, err
	}
	ctx, cancel := c.during(ctx, request)
	defer cancel()
	sold := Sold{Order: what.Order}
	if sold.Order == 0 {
		sold.Order = 1 + rand.Int64N(1<<62)
	}
	err = c.store.Transact(ctx, func(ctx context.Context, tx order.Tx) error {
		w := Write{Mode: what.Mode, Order: sold.Order, User: what.User, Unique: what.Unique}
		var err error
		if sold.Stock, err = w.look(ctx, tx, what.Voucher); err != nil {
			return err
		}
		pause(request, what.Pause)
		return w.apply(ctx, tx, what.Voucher, h)
	})
	if err != nil {
		return Sold{}, lostFirst(h, err)
	}
	sold.At = now()
	return sold, nil
}

// look makes the checks before a write, and completes it with what they found.
func (w *Write) look(ctx context.Context, tx order.Tx, id int64) (stock int64, err error) {
	if !w.Unique {
		ordered, err := tx.Ordered(ctx, id, w.User)
		if err != nil {
			return 0, err
		}
		if ordered {
			return 0, order.ErrAlreadyOrdered
		}
	}
	if w.Mode != voucher.StockUnguarded && w.Mode != voucher.StockVersion {
		return 0, nil
	}
	stock, w.Version, err = tx.StockOf(ctx, id)
	w.Stock = stock - 1
	if err == nil && stock <= 0 {
		err = voucher.ErrSoldOut
	}
	return stock, err
}

// pause is work that takes its time whatever becomes of the lock; only the end of the
// request cuts it short.
func pause(request context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-request.Done():
	}
}

// lostFirst names why the lock's context ended, the loss of it most often: work under
// a context that ends sees only that it was canceled.
func lostFirst(h *held, err error) error {
	if h == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	// Not asked of Lost: a holder's context ends a moment before that is closed.
	if cause := context.Cause(h.Context()); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
