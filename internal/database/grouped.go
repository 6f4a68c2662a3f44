package database

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"seckill/internal/admission/batch"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// Under the stock strategy grouped the orders of a voucher that arrive while a transaction is under way share the next
// one: one UPDATE of the hot row, one INSERT and one COMMIT for all of them. A process has one such transaction of a
// voucher at a time. Several processes meet at the voucher's row, as single orders do.

// Bounds of the groups of one voucher.
const (
	maxGroup = 512
	// maxGrouped is how many orders are in a group or wait for one; more are refused with [order.ErrBusy].
	maxGrouped = 8192
)

// groups holds the queue of each voucher that is sold in groups.
type groups struct {
	mu      sync.Mutex
	byID    map[int64]*group
	closed  bool
	running sync.WaitGroup
}

// group is the queue of one voucher. It implements [batch.Processor].
type group struct {
	db      *DB
	queue   *batch.Queue[*grouped]
	waiting atomic.Int64
}

// grouped is an order on its way through a group.
type grouped struct {
	order    order.Order
	revision int64
	attempts int // how often its transaction was begun
	err      error
}

// PlaceGrouped implements [order.Store].
func (o *Orders) PlaceGrouped(ctx context.Context, placed order.Order, revision int64) (attempts int, err error) {
	g := o.db.group(placed.VoucherID)
	defer g.waiting.Add(-1)
	if g.waiting.Add(1) > maxGrouped {
		return 0, fmt.Errorf("%w: %d orders wait already", order.ErrBusy, maxGrouped)
	}
	one := &grouped{order: placed, revision: revision}
	err = g.queue.Do(ctx, one)
	return one.attempts, err
}

// maxIdleGroups is how many existing queues are kept when a new one is made.
const maxIdleGroups = 1000

// group returns the queue of a voucher. Two queues of one voucher would do no harm.
func (d *DB) group(voucherID int64) *group {
	d.groups.mu.Lock()
	defer d.groups.mu.Unlock()
	g := d.groups.byID[voucherID]
	if g == nil {
		if d.groups.byID == nil {
			d.groups.byID = make(map[int64]*group)
		}
		if len(d.groups.byID) > maxIdleGroups {
			for id, old := range d.groups.byID {
				if old.waiting.Load() == 0 {
					delete(d.groups.byID, id)
				}
			}
		}
		g = &group{db: d}
		g.queue = batch.New(g, maxGroup, d.groups.spawn, fmt.Errorf("%w: the database is closed", order.ErrUnavailable))
		d.groups.byID[voucherID] = g
	}
	return g
}

// spawn runs work in a goroutine for which end waits.
func (g *groups) spawn(work func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running.Go(work)
	return true
}

// end waits for the groups that are under way. Later ones are refused.
func (g *groups) end() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.running.Wait()
}

// Ready implements [batch.Processor].
func (g *group) Ready() bool { return true }

// AwaitReady implements [batch.Processor].
func (g *group) AwaitReady() error { return nil }

// Process implements [batch.Processor]. An order waits for the next transaction if its user has an earlier order in the
// group, whose outcome it has to know, or if it was decided by another revision of the voucher than the group's first
// order. No outcome is told before its transaction is over.
func (g *group) Process(requests []*batch.Request[*grouped]) error {
	for len(requests) > 0 {
		users := make(map[int64]bool, len(requests))
		var now, later []*batch.Request[*grouped]
		for _, r := range requests {
			user := r.Value.order.UserID
			if users[user] || len(now) > 0 && r.Value.revision != now[0].Value.revision {
				later = append(later, r)
			} else if r.MarkSent() { // otherwise it has left
				users[user] = true
				now = append(now, r)
			}
		}
		if len(now) > 0 {
			all := make([]*grouped, len(now))
			for i, r := range now {
				all[i] = r.Value
			}
			g.db.placeAll(now[0].Context(), all)
			for _, r := range now {
				r.Answer(r.Value.err)
			}
		}
		requests = later
	}
	return nil
}

// placeAll sets the outcome of each order of a group. The end of one buyer's context does not interrupt it, since the
// group has the orders of other buyers too.
func (d *DB) placeAll(ctx context.Context, all []*grouped) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.config.LockWait+d.config.EndTimeout)
	defer cancel()
	defer func() {
		cause := recover()
		if cause != nil {
			d.config.Logger.LogAttrs(ctx, slog.LevelError, "panic in a group of orders", slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))
		}
		for _, g := range all {
			switch {
			case cause != nil:
				g.err = fmt.Errorf("%w: panic: %v", order.ErrUnavailable, cause)
			case g.err != nil && ctx.Err() != nil && errors.Is(g.err, ctx.Err()):
				g.err = fmt.Errorf("%w: %w", order.ErrUnavailable, g.err) // the group's time is over, not the buyer's
			}
		}
	}()
	d.place(ctx, all)
}

// place places orders of different users in one transaction if it can. If it cannot decide all of them together, it
// decides fewer at a time.
func (d *DB) place(ctx context.Context, all []*grouped) {
	for len(all) > 1 {
		err := d.transact(ctx, func(ctx context.Context, t *tx) error {
			for _, g := range all {
				g.attempts++
			}
			t.AtRevision(all[0].revision)
			return t.placeTogether(ctx, all)
		})
		first := 0 // that many are tried by themselves, and the others after them
		switch {
		case errors.Is(err, errNotAllNew):
			n := len(all)
			if all, err = d.withoutPlaced(ctx, all); err == nil && len(all) == n {
				first = n / 2
			}
		case errors.Is(err, errTooFew):
			first, err = d.leftFor(ctx, all)
		case errors.Is(err, order.ErrRefused) || slices.Contains([]failure{duplicate, depleted, misfit}, failureOf(err)):
			first, err = len(all)/2, nil // the fault of one of them is not that of the others
		case err == nil:
			return
		}
		if err != nil {
			for _, g := range all {
				g.err = err
			}
			return
		}
		d.place(ctx, all[:first])
		all = all[first:]
	}
	for _, g := range all {
		g.err = d.transact(ctx, func(ctx context.Context, t *tx) error {
			g.attempts++
			t.AtRevision(g.revision)
			return errors.Join(t.Decrement(ctx, g.order.VoucherID), t.Insert(ctx, g.order, true))
		})
	}
}

// leftFor is for how many of a group's orders there are units, after it was too large; 0 if by now for all of them. If
// one of the first ones does not get its unit, one of the others does.
func (d *DB) leftFor(ctx context.Context, all []*grouped) (first int, err error) {
	look, id := &tx{db: d, revision: all[0].revision}, all[0].order.VoucherID
	if err := look.checkRevision(ctx, id); err != nil {
		return 0, err
	}
	switch stock, _, err := look.StockOf(ctx, id); {
	case err != nil:
		return 0, err
	case stock == 0:
		return 0, voucher.ErrSoldOut
	case stock < int64(len(all)):
		return int(stock), nil
	}
	return 0, nil
}

var (
	// errNotAllNew says that an existing order has the id or the user of an order of a group.
	errNotAllNew = errors.New("database: an order of the group exists, or its user has another one")
	// errTooFew says that the stock is smaller than a group.
	errTooFew = errors.New("database: fewer units are left than the group has orders")
)

// placeTogether inserts orders of one voucher and takes their units. It inserts first, so that the voucher's row is
// locked for one statement and the commit. Even on a Galera node this packet may be sent in one piece: it has no
// COMMIT, and an error in it is known before the commit is sent. See sendWithCommit.
func (t *tx) placeTogether(ctx context.Context, all []*grouped) error {
	writes := t.groupWrites(all)
	found := make([]int64, len(writes))
	if err := t.begin(ctx); err != nil {
		return err
	}
	if t.db.batches {
		var err error
		if found, err = t.runPacket(ctx, writes); err != nil {
			return err
		}
	} else {
		for i, w := range writes {
			var err error
			if found[i], err = t.run(ctx, w.query, w.args...); err != nil {
				return err
			}
		}
	}
	for _, n := range found[:len(found)-1] {
		if n != int64(len(all)) {
			return fmt.Errorf("%w: %d of %d are new", errNotAllNew, n, len(all))
		}
	}
	if found[len(found)-1] != 1 {
		return errTooFew
	}
	return nil
}

// groupWrites inserts the orders, with the payments that are due for them, and takes from the stock. Duplicate rows are
// left out, so the number of inserted rows tells whether there were any.
func (t *tx) groupWrites(all []*grouped) []write {
	const columns = "INTO orders (id, voucher_id, user_id, unique_user_id, status, created_at) VALUES "
	orders, payments := make([]any, 0, 6*len(all)), []any(nil)
	for _, g := range all {
		o := &g.order
		orders = append(orders, o.ID, o.VoucherID, o.UserID, o.UserID, string(o.Status), stamp(o.CreatedAt))
		if o.Status == order.Unpaid {
			payments = append(payments, t.db.paymentArgs(heldOrder{Order: *o})...)
		}
	}
	writes := []write{{query: t.db.insertIgnore + columns + rowsOf(len(all), "(?, ?, ?, ?, ?, ?)"), args: orders}}
	if payments != nil { // all of them, since it is the voucher that asks for payment
		writes = append(writes, write{query: t.db.insertIgnore + paymentColumns + " VALUES " + rowsOf(len(all), t.db.paymentRow()), args: payments})
	}
	n := int64(len(all))
	return append(writes, write{
		query: "UPDATE vouchers SET stock = stock - ?, version = version + ? WHERE id = ? AND revision " + t.expected() + " AND stock >= ?",
		args:  []any{n, n, all[0].order.VoucherID, t.revision, n},
	})
}

// withoutPlaced sets the outcome of orders that exist, or whose users have another order, and returns the rest. If the
// conflicting rows are gone, it returns all orders.
func (d *DB) withoutPlaced(ctx context.Context, all []*grouped) (rest []*grouped, err error) {
	ids, users := make([]int64, len(all)), make([]int64, len(all))
	for i, g := range all {
		ids[i], users[i] = g.order.ID, g.order.UserID
	}
	var there []orderRow
	err = d.rows.WithContext(ctx).Find(&there, "voucher_id = ? AND (id IN ? OR unique_user_id IN ?)", all[0].order.VoucherID, ids, users).Error
	if err != nil {
		return all, translate(ctx, err)
	}
	taken, ordered := make(map[int64]bool, len(there)), make(map[int64]bool, len(there))
	for _, row := range there {
		taken[row.ID] = true
		if row.UniqueUserID != nil {
			ordered[row.UserID] = true
		}
	}
	for _, g := range all {
		if taken[g.order.ID] || ordered[g.order.UserID] {
			g.err = order.ErrAlreadyOrdered
			continue
		}
		rest = append(rest, g)
	}
	return rest, nil
}
