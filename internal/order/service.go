package order

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"seckill/internal/voucher"
)

// Service places orders and shows them.
type Service struct {
	store    Store
	vouchers Vouchers
	ids      IDs
	lockers  Lockers
	gate     Gate // nil: nothing is sold by admission
	now      func() time.Time
	log      *slog.Logger
	lab      bool
}

// Config is what a [Service] needs. All of it, Gate and Lab aside.
type Config struct {
	Store    Store
	Vouchers Vouchers
	IDs      IDs
	Lockers  Lockers
	Now      func() time.Time
	Log      *slog.Logger
	// Gate decides about vouchers under the flow admission. Without it none is sold.
	Gate Gate
	// Lab sells under policies that are not safe. Without it a voucher that was
	// created in lab mode, on the same database, is not sold.
	Lab bool
}

// NewService returns an error where something is missing.
func NewService(c Config) (*Service, error) {
	if c.Store == nil || c.Vouchers == nil || c.IDs == nil || c.Lockers == nil || c.Now == nil || c.Log == nil {
		return nil, errors.New("order: incomplete configuration")
	}
	return &Service{
		store: c.Store, vouchers: c.Vouchers, ids: c.IDs, lockers: c.Lockers, gate: c.Gate, now: c.Now, log: c.Log, lab: c.Lab,
	}, nil
}

// Request asks for one voucher for one user.
type Request struct {
	VoucherID, UserID int64
	// ID is the id the order is to have; 0 mints one.
	ID int64
	// Resumed says that an earlier attempt with the same ID may have placed the
	// order already.
	Resumed bool
}

// Place orders one voucher for one user under the voucher's policy. The order is
// Confirmed, or Pending where the flow is admission; a resumed one is in whichever
// state it has reached. Beside the errors of voucher, of this package and of the
// context it returns the lock's: one that says that the lock was lost means that
// nothing was sold.
//
// An error with [ErrUnavailable] means that the outcome could not be found out. A
// repetition with the same ID, Resumed, gets the one true answer.
func (s *Service) Place(ctx context.Context, req Request) (Order, error) {
	if req.Resumed {
		if o, err := s.store.Order(ctx, req.ID); !errors.Is(err, ErrNotFound) {
			return req.own(o, err)
		}
	}
	v, err := s.vouchers.Voucher(ctx, req.VoucherID)
	if err != nil {
		return Order{}, err
	}
	if v.Policy.Flow == voucher.FlowAdmission {
		return s.placeAdmitted(ctx, v, req)
	}
	if err := s.onSale(v); err != nil {
		return Order{}, err
	}
	o, err := s.newOrder(ctx, v, req, Confirmed, s.now())
	if err != nil {
		return Order{}, err
	}
	if err := s.placeLocked(ctx, v, o); err != nil {
		return s.settle(ctx, o, req, err)
	}
	return o, nil
}

// asksFor says whether an order is what the request asks for, whoever placed it.
func (r Request) asksFor(o Order) bool { return o.UserID == r.UserID && o.VoucherID == r.VoucherID }

// own is the answer to a resumed request for whose ID a look found this. An ID is minted
// once, and reserved for one request; were the order another's all the same, it is not
// shown, and what became of the request nobody can say.
func (r Request) own(found Order, err error) (Order, error) {
	if err == nil && !r.asksFor(found) {
		return Order{}, fmt.Errorf("%w: %w: %d", ErrUnavailable, ErrIDTaken, r.ID)
	}
	return found, err
}

// onSale says whether a voucher can be bought now, as far as memory tells.
func (s *Service) onSale(v *voucher.Voucher) error {
	if err := v.OnSale(s.now()); err != nil {
		return err
	}
	if v.Stock <= 0 {
		return voucher.ErrSoldOut
	}
	if !s.lab {
		return v.Policy.Safe()
	}
	return nil
}

// newOrder is the order that a request asks for now, under the id it brings or a new one.
func (s *Service) newOrder(ctx context.Context, v *voucher.Voucher, req Request, status Status, now time.Time) (o Order, err error) {
	o = Order{ID: req.ID, VoucherID: v.ID, UserID: req.UserID, Status: status}
	if o.ID == 0 {
		if o.ID, err = s.ids.NextID(ctx); err != nil {
			return Order{}, fmt.Errorf("mint an order id: %w", err)
		}
	}
	o.CreatedAt = now.UTC().Truncate(time.Microsecond)
	return o, nil
}

// settleTimeout bounds the look for an order whose commit had no answer.
const settleTimeout = 2 * time.Second

// settle finds out what became of an order whose placing failed. Most failures
// speak for themselves. A commit without an answer is decided by whether the order
// is there. So is whatever a resumed attempt meets: the earlier one may have been
// committed since the first look, and taken the last one or the user's only one.
func (s *Service) settle(ctx context.Context, o Order, req Request, failed error) (Order, error) {
	if errors.Is(failed, voucher.ErrSoldOut) {
		s.vouchers.SoldOut(o.VoucherID)
	}
	if !req.Resumed && !errors.Is(failed, ErrUnavailable) {
		return Order{}, failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	placed, err := s.store.Order(ctx, o.ID)
	if err != nil || !req.asksFor(placed) {
		return Order{}, failed
	}
	return placed, nil
}

// Order returns a user's order: [ErrNotFound] also where it is somebody else's,
// so that nobody learns which ids exist.
func (s *Service) Order(ctx context.Context, userID, id int64) (Order, error) {
	o, err := s.find(ctx, userID, id)
	if err != nil {
		return Order{}, err
	}
	if o.UserID != userID {
		return Order{}, ErrNotFound
	}
	return o, nil
}

// OrdersOf lists up to limit of a user's orders with an ID below before, newest
// first.
func (s *Service) OrdersOf(ctx context.Context, userID, before int64, limit int) ([]Order, error) {
	if s.gate == nil {
		return s.store.OrdersOf(ctx, userID, before, limit)
	}
	accepted, err := s.gate.OrdersOf(ctx, userID) // first: what is stored meanwhile is then seen twice
	if err != nil {
		return nil, err
	}
	stored, err := s.store.OrdersOf(ctx, userID, before, limit)
	if err != nil {
		return nil, err
	}
	return withAccepted(stored, accepted, before, limit), nil
}

// Audit counts what the database holds of a voucher, and the gate where it is sold
// by admission; or returns [voucher.ErrNotFound].
func (s *Service) Audit(ctx context.Context, voucherID int64) (Audit, error) {
	if s.gate == nil {
		return s.store.Audit(ctx, voucherID)
	}
	v, err := s.vouchers.Voucher(ctx, voucherID)
	if err != nil {
		return Audit{}, err
	}
	if v.Policy.Flow != voucher.FlowAdmission {
		return s.store.Audit(ctx, voucherID)
	}
	return s.auditAdmitted(ctx, voucherID)
}
