package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/admkey"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// listFresh is how old the list of vouchers may be. Where an order is not found among
// them, the list is read again, in case its voucher is younger.
const listFresh = time.Second

// Lookup implements the method of [order.Gate].
func (g *Gate) Lookup(ctx context.Context, userID, orderID int64) (order.Order, error) {
	asked := time.Now()
	for _, since := range []time.Time{asked.Add(-listFresh), asked} {
		sales, err := g.vouchers.list(ctx, since)
		if err != nil {
			return order.Order{}, err
		}
		found, err := g.ordersOf(ctx, sales, userID)
		for _, o := range found {
			if o.ID == orderID {
				return o, g.kept(ctx, sales, o)
			}
		}
		if err != nil {
			return order.Order{}, err
		}
	}
	return order.Order{}, order.ErrNotFound
}

// OrdersOf implements the method of [order.Gate].
func (g *Gate) OrdersOf(ctx context.Context, userID int64) ([]order.Order, error) {
	sales, err := g.vouchers.list(ctx, time.Now().Add(-listFresh))
	if err != nil {
		return nil, err
	}
	found, err := g.ordersOf(ctx, sales, userID)
	if err != nil {
		return nil, err
	}
	return found, nil
}

// ordersOf returns what Redis has of a user. With an error there may be more.
func (g *Gate) ordersOf(ctx context.Context, sales []order.Sale, userID int64) ([]order.Order, error) {
	if len(sales) == 0 {
		return nil, nil
	}
	user := strconv.FormatInt(userID, 10)
	line := g.config.Client.Pipeline()
	orders, epochs := make([]*redis.StringCmd, len(sales)), make([]*redis.StringCmd, len(sales))
	for i, s := range sales {
		keys := admkey.Of(g.config.Prefix, s.VoucherID, admkey.Bucket(userID, s.Buckets))
		orders[i], epochs[i] = line.HGet(ctx, keys.Users, user), line.HGet(ctx, keys.Meta, admkey.Epoch)
	}
	_, _ = line.Exec(ctx) // each command has its own error
	var found []order.Order
	var unknown []error
	for i, s := range sales {
		orderID, err := orders[i].Int64()
		switch {
		case err == nil:
			found = append(found, order.Order{ID: orderID, VoucherID: s.VoucherID, UserID: userID, Status: order.Pending})
		case errors.Is(err, redis.Nil):
			unknown = append(unknown, g.complete(ctx, s.VoucherID, epochs[i]))
		case ctx.Err() != nil:
			return found, ctx.Err()
		default:
			unknown = append(unknown, unavailable(err))
		}
	}
	return found, errors.Join(unknown...)
}

// complete says whether Redis has all users of a voucher: it is open, or never was.
func (g *Gate) complete(ctx context.Context, id int64, epoch *redis.StringCmd) error {
	n, err := epoch.Int64()
	switch {
	case err == nil && n%2 == 0:
		return nil
	case err != nil && !errors.Is(err, redis.Nil):
		return unavailable(err)
	}
	st, err := g.config.Shelf.Standing(ctx, id)
	if err != nil || neverOpened(st) {
		return err
	}
	return unavailable(errOpening)
}

// neverOpened: the first even epoch, and with it the first order, is still to come.
func neverOpened(st order.Standing) bool { return st.Epoch <= 1 }

// Audit implements the method of [order.Gate]. Of a voucher that is split all numbers
// are sums. Its buckets are not read in the same moment, but each of them is the same
// while Seq and Pending are; and what is moved between them in the meantime is counted
// once.
func (g *Gate) Audit(ctx context.Context, voucherID int64) (order.GateAudit, error) {
	p := g.known(voucherID)
	if p == nil {
		st, err := g.config.Shelf.Standing(ctx, voucherID)
		if err != nil {
			return order.GateAudit{}, err
		}
		v := &voucher.Voucher{ID: voucherID}
		v.Policy.Buckets = len(st.Seq)
		p = newPool(g, v) // to look at, not to keep: it knows nothing of the sale
	}
	all := p.look(ctx, storeTimeout)
	switch err := unknown(all); {
	case err != nil && ctx.Err() != nil:
		return order.GateAudit{}, ctx.Err()
	case err != nil:
		return order.GateAudit{}, unavailable(err)
	}
	sum, open := order.GateAudit{Epoch: all[0].epoch}, true
	for i := range all {
		open = open && all[i].open() && all[i].epoch == sum.Epoch
		sum.Stock += all[i].share()
		sum.Pending += all[i].pending
		sum.Seq += all[i].seq
	}
	if open {
		return sum, nil
	}
	st, err := g.config.Shelf.Standing(ctx, voucherID)
	switch {
	case err != nil:
		return order.GateAudit{}, err
	case neverOpened(st):
		return order.GateAudit{Stock: st.Stock, Epoch: st.Epoch}, nil
	}
	return order.GateAudit{}, unavailable(errOpening)
}

func unavailable(cause error) error { return fmt.Errorf("%w: %w", order.ErrUnavailable, cause) }

// vouchers is the list of those whose orders are looked for.
type vouchers struct {
	shelf      Shelf
	remembered time.Duration

	mu    sync.Mutex
	sales []order.Sale
	at    time.Time // when it was asked for
}

// list returns the list as it was at a time or later. One caller at a time asks the
// database, and those who wait for it are mostly served with what it got.
func (v *vouchers) list(ctx context.Context, since time.Time) ([]order.Sale, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.at.Before(since) && !v.at.IsZero() {
		return v.sales, nil
	}
	at := time.Now()
	sales, err := v.shelf.AdmissionSales(ctx, at.Add(-v.remembered))
	if err != nil {
		return nil, err
	}
	v.sales, v.at = slices.Clip(sales), at
	return v.sales, nil
}
