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

// clockSlack is how far this process's clock may differ from the gate's. A buyer who is too early or
// too late by more than that is refused from memory. Closer to the limit the gate decides, by one clock
// for all processes.
const clockSlack = time.Second

// placeAdmitted lets the gate decide. An accepted order is Pending until it is in the database.
func (s *Service) placeAdmitted(ctx context.Context, v *voucher.Voucher, req Request) (Order, error) {
	if s.gate == nil {
		return Order{}, fmt.Errorf("%w: this server does not sell by admission", ErrUnavailable)
	}
	now := s.now()
	refused := s.refusalFromMemory(v, req.UserID, now)
	if refused != nil && !req.mayBeRepeated(refused) {
		return Order{}, refused
	}
	if req.Key != 0 && req.MayLook != nil {
		if err := req.MayLook(); err != nil {
			return Order{}, err
		}
	}
	if refused != nil {
		return s.placedEarlier(ctx, v, req, refused)
	}
	o, err := s.newOrder(ctx, v, req, Pending, now)
	if err != nil {
		return Order{}, err
	}
	refused = s.gate.Admit(ctx, v, o)
	if refused == nil {
		return o, nil
	}
	if repeated, ok := errors.AsType[*RepeatedError](refused); ok {
		return s.repeated(ctx, req, repeated.ID)
	}
	if !req.mayBeRepeated(refused) {
		return Order{}, refused
	}
	return s.placedEarlier(ctx, v, req, refused)
}

// mayBeRepeated reports whether a refused request may be that of a user whose order is placed. The gate knows an earlier
// order whenever it asks Redis. But it knows without asking that a sale is over, paused or sold out, and then the user may have
// been the one who was in time.
func (r Request) mayBeRepeated(refused error) bool {
	return r.Key != 0 && (errors.Is(refused, voucher.ErrSoldOut) || errors.Is(refused, voucher.ErrEnded) || errors.Is(refused, voucher.ErrPaused))
}

// placedEarlier returns the order that the user has placed under the request's key. If there is none, it
// returns the refusal. It asks the gate, and then the database.
func (s *Service) placedEarlier(ctx context.Context, v *voucher.Voucher, req Request, refused error) (Order, error) {
	o, err := s.gate.OrderOf(ctx, v, req.UserID)
	switch {
	case err == nil && o.Key == req.Key:
		return s.repeated(ctx, req, o.ID)
	case err == nil:
		return Order{}, refused
	case !errors.Is(err, ErrNotFound):
		return Order{}, err
	}
	o, err = s.store.OrderUnderKey(ctx, v.ID, req.UserID, req.Key)
	if errors.Is(err, ErrNotFound) {
		return Order{}, refused
	}
	o.Repeated = err == nil
	return o, err
}

// repeated returns the state of the order that an earlier request was told of. An order that is gone a
// moment after the gate had it was lost or rejected, and the same request may be placed again.
func (s *Service) repeated(ctx context.Context, req Request, id int64) (Order, error) {
	o, err := s.findOrder(ctx, req.UserID, id)
	if errors.Is(err, ErrNotFound) {
		return Order{}, fmt.Errorf("%w: order %d is gone", ErrUnavailable, id)
	}
	o, err = req.checkFound(o, err)
	o.Repeated = err == nil
	return o, err
}

// refusalFromMemory returns the gate's refusal, if memory is enough to know it. In a rush nearly every
// request ends here, so it is called before an id is generated. The database's stock follows the
// gate's: if it is 0 the gate has none left either; above 0 it tells nothing.
func (s *Service) refusalFromMemory(v *voucher.Voucher, userID int64, now time.Time) error {
	if err := v.OnSale(now); err != nil && v.OnSale(now.Add(clockSlack)) != nil && v.OnSale(now.Add(-clockSlack)) != nil {
		return err
	}
	if v.Stock <= 0 {
		return voucher.ErrSoldOut
	}
	return s.gate.Refusal(v, userID)
}

// findOrder looks for an order in the database, then at the gate, then in the database again: an order
// leaves the gate only after it was written to the database, confirmed or rejected, and that may
// happen between the first two queries. It may also have happened while the gate cannot tell, for
// instance since another voucher is being opened.
func (s *Service) findOrder(ctx context.Context, userID, id int64) (Order, error) {
	o, err := s.store.Order(ctx, id)
	if s.gate == nil || !errors.Is(err, ErrNotFound) {
		return o, err
	}
	o, err = s.gate.Lookup(ctx, userID, id)
	if err == nil || ctx.Err() != nil {
		return o, err
	}
	stored, inStore := s.store.Order(ctx, id)
	if errors.Is(inStore, ErrNotFound) {
		return Order{}, err
	}
	return stored, inStore
}

// Await waits until a pending order is confirmed or rejected, or until the limit has passed. It does
// not return the state: call [Service.Order] for that. Its only error is the context's.
func (s *Service) Await(ctx context.Context, o Order, limit time.Duration) error {
	if s.gate == nil || o.Status != Pending || limit <= 0 {
		return nil
	}
	return s.gate.Await(ctx, o, limit)
}

// mergeAccepted merges a user's accepted orders into a page of stored ones: at most limit orders, newest
// first, with IDs below before. The gate may still list orders that are stored already. An accepted
// order with an ID below the last one of a full page is left out, since it may be such an order and
// belong to a later page.
func mergeAccepted(stored, accepted []Order, before int64, limit int) []Order {
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

// auditAttempts bounds how often an audit is taken because the gate changed meanwhile.
const auditAttempts = 3

// auditAdmitted reads the gate before and after the database. If both reads are equal, nothing happened
// in between, and the sums are exact, except for orders that are persisted and not yet acknowledged.
// During a sale they never are equal, and the last attempt is returned.
func (s *Service) auditAdmitted(ctx context.Context, voucherID int64) (a Audit, err error) {
	before, err := s.gate.Audit(ctx, voucherID)
	if err != nil {
		return Audit{}, err
	}
	for range auditAttempts {
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
