package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/admkey"
	"seckill/internal/database"
	"seckill/internal/order"
)

// reconciler compares what Redis and the database have of the vouchers that are sold
// by admission.
type reconciler struct {
	client redis.UniversalClient
	shelf  order.Shelf
	orders *database.Orders
	pause  time.Duration // between two looks at a voucher
}

// An imbalance counts when it stands: two looks find the very same, or all of them an
// imbalance. Between two looks whatever is under way has come to its end.
const (
	looks     = 10
	lookPause = 500 * time.Millisecond
)

func newReconciler(client redis.UniversalClient, db *database.DB) *reconciler {
	return &reconciler{client: client, shelf: db.Shelf(), orders: db.Orders(), pause: lookPause}
}

// sales lists the vouchers that were ever sold by admission, or the one that is given.
func (r *reconciler) sales(ctx context.Context, voucherID int64) ([]order.Sale, error) {
	if voucherID == 0 {
		return r.shelf.AdmissionSales(ctx, time.Unix(0, 0)) // no sale is older
	}
	st, err := r.shelf.Standing(ctx, voucherID)
	if err != nil {
		return nil, err
	}
	return []order.Sale{{VoucherID: voucherID, Buckets: len(st.Seq)}}, nil
}

// counting says whether a voucher's orders are to be counted, as it stands now.
type counting func(id int64, now standingInRedis) bool

// finding is what the last look at a voucher found, or why there is none.
type finding struct {
	look
	err error
}

// settle looks at vouchers, and again at those that do not balance until that stands.
// It asks for each whether its orders are to be counted.
func (r *reconciler) settle(ctx context.Context, sales []order.Sale, count counting) []finding {
	found := make([]finding, len(sales))
	left := make([]int, 0, len(sales))
	for i, sale := range sales {
		found[i] = r.find(ctx, sale, count)
		if found[i].err == nil && !found[i].balanced() {
			left = append(left, i)
		}
	}
	for n := 1; n < looks && len(left) > 0; n++ {
		select {
		case <-time.After(r.pause):
		case <-ctx.Done():
		}
		moving := left[:0]
		for _, i := range left {
			before := found[i].look
			found[i] = r.find(ctx, sales[i], func(id int64, now standingInRedis) bool { return before.audit != nil || count(id, now) })
			if found[i].err == nil && !found[i].balanced() && !found[i].same(before) {
				moving = append(moving, i)
			}
		}
		left = moving
	}
	return found
}

func (r *reconciler) find(ctx context.Context, sale order.Sale, count counting) finding {
	l, err := r.look(ctx, sale, count)
	l.voucher = sale.VoucherID
	return finding{l, err}
}

// look is one look at a voucher: at Redis, at the database, and at Redis again.
type look struct {
	voucher       int64
	before, after standingInRedis
	database      order.Standing
	// audit is what was counted; nil where nothing was.
	audit *order.Audit
	// unacknowledged of the entries in the stream are confirmed already. They are
	// counted only where that may explain something.
	unacknowledged int64
}

func (r *reconciler) look(ctx context.Context, sale order.Sale, count counting) (l look, err error) {
	id := sale.VoucherID
	if l.before, err = r.inRedis(ctx, sale); err != nil {
		return l, err
	}
	if l.database, err = r.shelf.Standing(ctx, id); err != nil {
		return l, err
	}
	if count(id, l.before) {
		a, err := r.orders.Audit(ctx, id)
		if err != nil {
			return l, err
		}
		l.audit, l.database.Stock = &a, a.Stock // of one moment with the orders
	}
	if l.after, err = r.inRedis(ctx, sale); err != nil {
		return l, err
	}
	if l.drift() < 0 && l.after.pending() > 0 {
		l.unacknowledged, err = r.confirmed(ctx, sale)
	}
	return l, err
}

// confirmedAtMost is how many entries of a bucket are looked up. Those that a process
// died with after it had written them are the oldest, and a batch or two.
const confirmedAtMost = 2000

// confirmed counts the entries of the streams that the database has already: written,
// and not acknowledged yet.
func (r *reconciler) confirmed(ctx context.Context, sale order.Sale) (n int64, err error) {
	for b := range sale.Buckets {
		entries, err := r.client.XRangeN(ctx, admkey.Of(keyPrefix, sale.VoucherID, b).Orders, "-", "+", confirmedAtMost).Result()
		if err != nil {
			return 0, fmt.Errorf("%w: ask Redis: %w", order.ErrUnavailable, err)
		}
		for _, e := range entries {
			text, _ := e.Values[admkey.EntryOrder].(string)
			orderID, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				continue // no order: the consumers put it among the dead letters
			}
			switch o, err := r.orders.Order(ctx, orderID); {
			case err == nil && o.Status == order.Confirmed && o.VoucherID == sale.VoucherID:
				n++
			case err != nil && !errors.Is(err, order.ErrNotFound):
				return 0, err
			}
		}
	}
	return n, nil
}

// state says what a look can be judged by.
type state string

// The states.
const (
	// neverOpened: Redis has no part in the sale yet.
	neverOpened state = "never opened"
	// closed: it is being rebuilt from the database, or will be for the next buyer.
	closed state = "closed"
	// moving: orders were decided or acknowledged during the look.
	moving state = "moving"
	// atRest: they were not.
	atRest state = "at rest"
)

func (l look) state() state {
	switch {
	case l.database.Epoch <= 1:
		return neverOpened
	case !l.database.Open() || !l.before.at(l.database.Epoch) || !l.after.open(l.database.Epoch):
		return closed
	case !slices.Equal(l.before, l.after):
		return moving
	}
	return atRest
}

// drift is by how much Redis disagrees with the database's stock. Above 0: stock that
// nobody can buy. Below: orders can be accepted that the database will refuse.
//
// An accepted order leaves stock plus pending as it was, a confirmed one leaves the
// database first and the pending later. So within an epoch stock plus pending only
// falls, what the database has lies between its readings before and after, and what is
// confirmed and not acknowledged is all that may be missing there. All of that is so of
// each bucket by itself, in which what it lent counts as its own: so it is of their sums
// too, though they are read one after the other and draw from each other meanwhile.
func (l look) drift() int64 {
	if s := l.state(); s == neverOpened || s == closed {
		return 0
	}
	least := l.database.Stock - l.before.stock() - l.before.pending()
	most := l.database.Stock - l.after.stock() - l.after.pending()
	switch {
	case least > 0:
		return least
	case most < 0:
		return min(0, most+l.unacknowledged)
	}
	return 0
}

// behind: of a bucket the database has seen more than Redis, which was read later.
func (l look) behind() bool {
	if s := l.state(); s != moving && s != atRest {
		return false
	}
	for b, seq := range l.database.Seq {
		if b < len(l.after) && l.after[b].seq < seq {
			return true
		}
	}
	return false
}

func (l look) balanced() bool {
	if l.drift() != 0 || l.behind() {
		return false
	}
	return l.audit == nil || l.audit.Drift() == 0 && l.audit.Oversold() == 0 && l.audit.DuplicateOrders() == 0
}

// missing is by how much stock the sides disagree, with each other and the database
// with its own orders; more than 0 where it is not balanced for another reason.
func (l look) missing() int64 {
	n := max(l.drift(), -l.drift())
	if l.audit != nil {
		n += max(l.audit.Drift(), -l.audit.Drift()) + l.audit.Oversold() + l.audit.DuplicateOrders()
	}
	return n
}

// same: nothing at all happened between two looks.
func (l look) same(other look) bool {
	return slices.Equal(l.before, other.before) && slices.Equal(l.after, other.after) && l.database.Epoch == other.database.Epoch && l.database.Stock == other.database.Stock && slices.Equal(l.database.Seq, other.database.Seq) && l.unacknowledged == other.unacknowledged
}
