package admission

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill/internal/order"
)

const (
	drainPoll = 10 * time.Millisecond
	fillPage  = 1000
	// bucketsAtOnce is how many buckets are closed or opened at a time.
	bucketsAtOnce = 8
)

// rebuild closes the voucher, all of its buckets, and opens it with what the database
// has. Wherever it is given up, something stays closed, and the next attempt begins anew:
// a bucket that was opened already is closed and drained again.
func (p *pool) rebuild(ctx context.Context) error {
	g := p.gate
	st, err := p.asked(ctx, func(ctx context.Context) (order.Standing, error) { return g.config.Shelf.Close(ctx, p.id) })
	if err != nil {
		return err
	}
	err = p.each(ctx, func(ctx context.Context, l *line) error {
		epoch, err := g.server.shut(ctx, l.keys, st.Epoch)
		if err == nil && epoch != st.Epoch {
			err = fmt.Errorf("%w: Redis has %d, the database %d", errMoved, epoch, st.Epoch)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := p.drain(ctx); err != nil {
		return err
	}
	st, err = p.asked(ctx, func(ctx context.Context) (order.Standing, error) { return g.config.Shelf.Open(ctx, p.id, st.Epoch) })
	if err != nil {
		return err
	}
	filled, err := p.fill(ctx, st.Epoch)
	if err != nil {
		return err
	}
	return p.each(ctx, func(ctx context.Context, l *line) error {
		part := p.part(st, l.bucket)
		part.users = filled[l.bucket]
		opened, err := g.server.begin(ctx, l.keys, part)
		if err == nil && !opened {
			err = fmt.Errorf("%w: %d is over", errMoved, st.Epoch)
		}
		return err
	})
}

// part is what a bucket is opened with: an equal share of the stock, and of what cannot
// be shared equally one piece.
func (p *pool) part(st order.Standing, bucket int) part {
	buckets := int64(len(p.lines))
	stock := st.Stock / buckets
	if int64(bucket) < st.Stock%buckets {
		stock++
	}
	return part{epoch: st.Epoch, seq: st.Seq[bucket], stock: stock, sale: p.sale}
}

// each does something to all buckets, some at a time.
func (p *pool) each(ctx context.Context, do func(context.Context, *line) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(bucketsAtOnce)
	for _, l := range p.lines {
		group.Go(func() error { return do(ctx, l) })
	}
	return group.Wait()
}

// drain waits until no order is on its way any more. Consumers see to that.
func (p *pool) drain(ctx context.Context) error {
	for told := false; ; {
		all := p.look(ctx)
		if err := unknown(all); err != nil {
			return err
		}
		var pending int64
		for i := range all {
			pending += all[i].pending
		}
		if pending == 0 {
			return nil
		}
		if !told {
			p.gate.config.Log.Info("admission waits for orders on their way", "voucher", p.id, "orders", pending)
			told = true
		}
		select {
		case <-time.After(drainPoll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// fill prepares the users of an epoch: all who have an order, each for his bucket. It
// returns how many they are in each.
func (p *pool) fill(ctx context.Context, epoch int64) ([]int64, error) {
	filled := make([]int64, len(p.lines))
	for after := int64(0); ; {
		page, err := p.page(ctx, after)
		if err != nil || len(page) == 0 {
			return filled, err
		}
		if err := p.gate.server.fill(ctx, p.sorted(page, epoch)); err != nil {
			return nil, fmt.Errorf("copy the users of voucher %d: %w", p.id, err)
		}
		for _, o := range page {
			filled[p.line(o.UserID).bucket]++
		}
		after = page[len(page)-1].UserID
	}
}

// sorted puts orders to the users of their buckets.
func (p *pool) sorted(page []order.Order, epoch int64) []users {
	byBucket := make([]users, len(p.lines))
	for _, o := range page {
		to := &byBucket[p.line(o.UserID).bucket]
		to.orders = append(to.orders, o)
	}
	for i, l := range p.lines {
		byBucket[i].key = l.keys.Fresh(epoch)
	}
	return slices.DeleteFunc(byBucket, func(u users) bool { return len(u.orders) == 0 })
}

func (p *pool) page(ctx context.Context, after int64) ([]order.Order, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return p.gate.config.Shelf.LiveOrders(ctx, p.id, after, fillPage)
}
