package order

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"seckill/internal/voucher"
)

// clockSlack is how far this process's clock may be from the gate's. Outside of it a
// buyer who is too early or too late is turned away from memory; inside, the gate
// decides, by one clock for all processes.
const clockSlack = time.Second

// placeAdmitted has the gate decide. The order it accepts is Pending until it is in
// the database.
func (s *Service) placeAdmitted(ctx context.Context, v *voucher.Voucher, req Request) (Order, error) {
	if s.gate == nil {
		return Order{}, fmt.Errorf("%w: this server does not sell by admission", ErrUnavailable)
	}
	now := s.now()
	if req.Resumed {
		// Whatever the time is now, the earlier attempt may have been in time.
		if o, err := s.find(ctx, req.UserID, req.ID); !errors.Is(err, ErrNotFound) {
			return req.own(o, err)
		}
	} else if err := s.hopeless(v, req.UserID, now); err != nil {
		return Order{}, err
	}
	o, err := s.newOrder(ctx, v, req, Pending, now)
	if err != nil {
		return Order{}, err
	}
	refused := s.gate.Admit(ctx, v, o)
	if refused == nil {
		return o, nil
	}
	if !req.Resumed {
		return Order{}, refused
	}
	// The earlier attempt may have been carried out since the look for it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if o, err := s.find(ctx, req.UserID, req.ID); err == nil && req.asksFor(o) {
		return o, nil
	}
	return Order{}, refused
}

// hopeless says what the gate would say, where memory is enough to know: in a rush that
// is what nearly all are told, so it comes before an id is minted. The stock in the
// database follows the gate's: at 0 there is nothing left behind the gate either, above
// 0 it says nothing.
func (s *Service) hopeless(v *voucher.Voucher, userID int64, now time.Time) error {
	if err := v.OnSale(now); err != nil && v.OnSale(now.Add(clockSlack)) != nil && v.OnSale(now.Add(-clockSlack)) != nil {
		return err
	}
	if v.Stock <= 0 {
		return voucher.ErrSoldOut
	}
	return s.gate.Refusal(v, userID)
}

// find looks for an order in the database and then at the gate. An order that is
// rejected in between leaves the gate after it has come into the database, so where
// neither had it the database is asked again.
func (s *Service) find(ctx context.Context, userID, id int64) (Order, error) {
	o, err := s.store.Order(ctx, id)
	if s.gate == nil || !errors.Is(err, ErrNotFound) {
		return o, err
	}
	o, err = s.gate.Lookup(ctx, userID, id)
	if !errors.Is(err, ErrNotFound) {
		return o, err
	}
	return s.store.Order(ctx, id)
}

// Await waits, where an order is pending, until it is confirmed or rejected, at most
// until the limit. Which of them it is then is [Service.Order]'s to say. The error is
// the context's.
func (s *Service) Await(ctx context.Context, o Order, limit time.Duration) error {
	if s.gate == nil || o.Status != Pending || limit <= 0 {
		return nil
	}
	return s.gate.Await(ctx, o, limit)
}

// withAccepted puts a user's accepted orders among the stored ones: a page of at most
// limit, newest first, with IDs below before. The gate also knows orders that are
// stored; what it has beyond the page's end may be one of them, on another page.
func withAccepted(stored, accepted []Order, before int64, limit int) []Order {
	end := int64(0)
	if n := len(stored); n > 0 && n >= limit {
		end = stored[n-1].ID
	}
	page := slices.Clone(stored)
	for _, o := range accepted {
		same := func(other Order) bool { return other.ID == o.ID }
		if o.ID > end && o.ID < before && !slices.ContainsFunc(page, same) {
			page = append(page, o)
		}
	}
	slices.SortFunc(page, func(a, b Order) int { return cmp.Compare(b.ID, a.ID) })
	return page[:min(len(page), limit)]
}

// auditLooks is how often an audit is taken again because the gate was at work.
const auditLooks = 3

// auditAdmitted reads the gate before and after the database. Where it is the same,
// nothing happened in between and the sums are exact, but for an order that is
// persisted and not acknowledged yet. In the middle of a sale it never is, and the
// last reading has to do.
func (s *Service) auditAdmitted(ctx context.Context, voucherID int64) (a Audit, err error) {
	before, err := s.gate.Audit(ctx, voucherID)
	if err != nil {
		return Audit{}, err
	}
	for range auditLooks {
		if a, err = s.store.Audit(ctx, voucherID); err != nil {
			return Audit{}, err
		}
		after, err := s.gate.Audit(ctx, voucherID)
		if err != nil {
			return Audit{}, err
		}
		a.Gate = &after
		if after == before {
			break
		}
		before = after
	}
	return a, nil
}
