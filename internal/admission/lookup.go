package admission

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

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
		var seen []sighting
		for s := range g.search(ctx, sales, userID) {
			if id, err := s.order.Int64(); err == nil && id == orderID {
				o := s.found(userID, id)
				return o, g.kept(ctx, s.keys, o) // whoever else is asked has no say in it
			}
			seen = append(seen, s)
		}
		if err := g.complete(ctx, seen); err != nil {
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
	seen := slices.Collect(g.search(ctx, sales, userID))
	if err := g.complete(ctx, seen); err != nil {
		return nil, err
	}
	var found []order.Order
	keeping, kept := errgroup.WithContext(ctx)
	for _, s := range seen {
		if id, err := s.order.Int64(); err == nil {
			o := s.found(userID, id)
			found = append(found, o)
			keeping.Go(func() error { return g.kept(kept, s.keys, o) })
		}
	}
	if err := keeping.Wait(); err != nil {
		return nil, err
	}
	return found, nil
}

// sighting is what Redis has of a user in one voucher.
type sighting struct {
	voucherID    int64
	keys         admkey.Keys
	order, epoch *redis.StringCmd
}

func (s *sighting) found(userID, orderID int64) order.Order {
	return order.Order{ID: orderID, VoucherID: s.voucherID, UserID: userID, Status: order.Pending}
}

// search looks for a user's orders: in all vouchers of one node at once, and in all nodes
// side by side. A node that hangs is waited for last, for as long as an attempt may take,
// and spoils nothing that the others say.
func (g *Gate) search(ctx context.Context, sales []order.Sale, userID int64) iter.Seq[sighting] {
	return func(yield func(sighting) bool) {
		ctx, cancel := context.WithTimeout(ctx, g.config.AttemptTimeout)
		defer cancel()
		nodes := g.byNode(ctx, sales, userID)
		answers := make(chan []sighting, len(nodes)) // nobody may be left to take them
		for _, some := range nodes {
			go func() {
				line, user := g.config.Client.Pipeline(), strconv.FormatInt(userID, 10)
				for i := range some {
					s := &some[i]
					s.order, s.epoch = line.HGet(ctx, s.keys.Users, user), line.HGet(ctx, s.keys.Meta, admkey.Epoch)
				}
				_, _ = line.Exec(ctx) // each command has its own error
				answers <- some
			}()
		}
		for range nodes {
			for _, s := range <-answers {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// byNode sorts the vouchers by the nodes of a cluster that have the user's buckets. This
// is only who is asked with whom: the client knows, or learns, where each of them is now.
func (g *Gate) byNode(ctx context.Context, sales []order.Sale, userID int64) map[*redis.Client][]sighting {
	nodes := make(map[*redis.Client][]sighting)
	c, many := g.config.Client.(cluster)
	for _, s := range sales {
		keys := admkey.Of(g.config.Prefix, s.VoucherID, admkey.Bucket(userID, s.Buckets))
		var node *redis.Client
		if many {
			node, _ = c.MasterForKey(ctx, keys.Meta) // those that have none are asked together
		}
		nodes[node] = append(nodes[node], sighting{voucherID: s.VoucherID, keys: keys})
	}
	return nodes
}

// complete says whether all that there is was seen: wherever there is no order, Redis
// has all users of the voucher, as it is open or never was.
func (g *Gate) complete(ctx context.Context, seen []sighting) error {
	var unknown []error
	for _, s := range seen {
		switch _, err := s.order.Int64(); {
		case errors.Is(err, redis.Nil):
			unknown = append(unknown, g.hasUsers(ctx, s))
		case err != nil:
			unknown = append(unknown, unavailable(err))
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(unknown...)
}

func (g *Gate) hasUsers(ctx context.Context, s sighting) error {
	n, err := s.epoch.Int64()
	switch {
	case err == nil && n%2 == 0:
		return nil
	case err != nil && !errors.Is(err, redis.Nil):
		return unavailable(err)
	}
	st, err := g.config.Shelf.Standing(ctx, s.voucherID)
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
	all := p.look(ctx)
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
