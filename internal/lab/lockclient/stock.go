package lockclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// errNoDatabase means that a client without a database is asked to read or write.
var errNoDatabase = errors.New("lockclient: it was given no database")

// transaction was begun by a read and waits for its write.
type transaction struct {
	voucher int64
	lease   *held // nil: without a lock
	cancel  context.CancelFunc

	read  chan Reading // receives the one reading
	write chan Write   // sends the one write
	given *Write       // set when it is known; used by the transaction only

	done chan struct{}
	err  error // valid once done is closed
}

// contextUnder returns the context of work under a lease, of work that ignores its loss, or of work without a lease,
// and the lease.
func (c *child) contextUnder(name Lease, deaf bool, who string) (_ context.Context, h *held, err error) {
	if c.store == nil {
		return nil, nil, errNoDatabase
	}
	if name == "" {
		return eventlog.WithWho(c.life, c.who(who)), nil, nil
	}
	if h, err = c.lease(name); err != nil {
		return nil, nil, err
	}
	ctx := h.Context()
	if deaf {
		ctx = context.WithoutCancel(ctx)
	}
	if who != "" {
		ctx = eventlog.WithWho(ctx, who)
	}
	return ctx, h, nil
}

// boundedBy returns a context that ends with ctx, with the request and with the process.
func (c *child) boundedBy(ctx, request context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	unlink, unlinkLife := context.AfterFunc(request, cancel), context.AfterFunc(c.life, cancel)
	return ctx, func() { unlink(); unlinkLife(); cancel() }
}

// read begins a transaction. It stays at its first step until a write comes, or until the loss of its lock or the end
// of the process ends it.
func (c *child) read(request context.Context, what Read) (Reading, error) {
	ctx, h, err := c.contextUnder(what.Lease, what.IgnoreLoss, what.Who)
	if err != nil {
		return Reading{}, err
	}
	ctx, cancel := c.boundedBy(ctx, c.life)
	t := &transaction{
		voucher: what.Voucher, lease: h, cancel: cancel,
		read: make(chan Reading, 1), write: make(chan Write), done: make(chan struct{}),
	}
	c.work.Go(func() {
		defer cancel()
		defer close(t.done)
		t.err = withLossCause(h, c.store.Transact(ctx, t.run))
	})
	select {
	case r := <-t.read:
		r.Tx = c.name()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.transactions[r.Tx] = t
		return r, nil
	case <-t.done:
		return Reading{}, t.err
	case <-request.Done():
		cancel()
		return Reading{}, request.Err()
	}
}

// run is the transaction. A collision repeats all of it, with the same write.
func (t *transaction) run(ctx context.Context, tx order.Tx) error {
	stock, version, err := tx.StockOf(ctx, t.voucher)
	if err != nil {
		return err
	}
	if t.given == nil {
		t.read <- Reading{Stock: stock, Version: version, At: now()}
		select {
		case what := <-t.write:
			t.given = &what
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return t.given.apply(ctx, tx, t.voucher, t.lease)
}

// takeTransaction removes and returns the open transaction of that name; nil if there is none.
func (c *child) takeTransaction(name string) *transaction {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.transactions[name]
	delete(c.transactions, name)
	return t
}

func (c *child) write(request context.Context, what Write) (noResult, error) {
	if what.Tx == "" {
		return noResult{}, c.writeAlone(request, what)
	}
	t := c.takeTransaction(what.Tx)
	if t == nil {
		return noResult{}, invalid("lock client %s has no open transaction %q", c.config.Name, what.Tx)
	}
	unlink := context.AfterFunc(request, t.cancel)
	defer unlink()
	select {
	case t.write <- what:
		<-t.done
	case <-t.done:
	}
	return noResult{}, t.err
}

func (c *child) writeAlone(request context.Context, what Write) error {
	ctx, h, err := c.contextUnder(what.Lease, what.IgnoreLoss, what.Who)
	if err != nil {
		return err
	}
	ctx, cancel := c.boundedBy(ctx, request)
	defer cancel()
	if what.Apart {
		return withLossCause(h, c.writeApart(ctx, what, h))
	}
	return withLossCause(h, c.store.Transact(ctx, func(ctx context.Context, tx order.Tx) error {
		return what.apply(ctx, tx, what.Voucher, h)
	}))
}

// writeApart commits each statement by itself.
func (c *child) writeApart(ctx context.Context, what Write, h *held) error {
	if err := c.store.Transact(ctx, func(ctx context.Context, tx order.Tx) error {
		return what.decrement(ctx, tx, what.Voucher, h)
	}); err != nil {
		return err
	}
	pause(ctx, what.Gap)
	return c.store.Transact(ctx, func(ctx context.Context, tx order.Tx) error {
		return what.insert(ctx, tx, what.Voucher)
	})
}

// apply takes one from the stock in the given mode, and inserts the order.
func (w *Write) apply(ctx context.Context, tx order.Tx, id int64, h *held) error {
	if err := w.decrement(ctx, tx, id, h); err != nil {
		return err
	}
	pause(ctx, w.Gap)
	return w.insert(ctx, tx, id)
}

// insert inserts the order, if there is one.
func (w *Write) insert(ctx context.Context, tx order.Tx, id int64) error {
	if w.Order == 0 {
		return nil
	}
	return tx.Insert(ctx, order.Order{
		ID: w.Order, VoucherID: id, UserID: w.User, Status: order.Confirmed, CreatedAt: time.Now(),
	}, w.Unique)
}

func (w *Write) decrement(ctx context.Context, tx order.Tx, id int64, h *held) error {
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
	ctx, h, err := c.contextUnder(what.Lease, what.IgnoreLoss, what.Who)
	if err != nil {
		return Sold{}, err
	}
	ctx, cancel := c.boundedBy(ctx, request)
	defer cancel()
	sold := Sold{Order: what.Order}
	if sold.Order == 0 {
		sold.Order = 1 + rand.Int64N(1<<62)
	}
	err = c.store.Transact(ctx, func(ctx context.Context, tx order.Tx) error {
		w := Write{Mode: what.Mode, Order: sold.Order, User: what.User, Unique: what.Unique}
		var err error
		if sold.Stock, err = w.check(ctx, tx, what.Voucher); err != nil {
			return err
		}
		pause(request, what.Pause)
		return w.apply(ctx, tx, what.Voucher, h)
	})
	if err != nil {
		return Sold{}, withLossCause(h, err)
	}
	sold.At = now()
	return sold, nil
}

// check makes the checks before a write, and completes it with what they found.
func (w *Write) check(ctx context.Context, tx order.Tx, id int64) (stock int64, err error) {
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

// pause is work that takes its time whatever becomes of the lock; only the end of the request cuts it short.
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

// withLossCause adds why the lock's context ended, usually its loss: the error of the work itself says only that it was
// cancelled.
func withLossCause(h *held, err error) error {
	if h == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	// Lost is not asked: a holder's context ends just before Lost is closed.
	if cause := context.Cause(h.Context()); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
