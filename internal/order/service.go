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
	gate     Gate // nil: the service does not sell by admission
	room     Room // nil: the service sells no voucher with a waiting room
	now      func() time.Time
	log      *slog.Logger
	lab      bool
}

// Config is what a [Service] needs. Everything but Gate and Lab is required.
type Config struct {
	Store    Store
	Vouchers Vouchers
	IDs      IDs
	Lockers  Lockers
	Now      func() time.Time
	Log      *slog.Logger
	// Gate decides orders under the admission flow. Without it such a voucher is not sold.
	Gate Gate
	// Room knows the passes of waiting rooms. Without it a voucher that has one is not sold.
	Room Room
	// Lab allows policies that are not safe. Without it, a voucher that a server in lab mode created
	// in the same database with such a policy is not sold.
	Lab bool
}

// NewService returns a service, or an error if something is missing.
func NewService(c Config) (*Service, error) {
	if c.Store == nil || c.Vouchers == nil || c.IDs == nil || c.Lockers == nil || c.Now == nil || c.Log == nil {
		return nil, errors.New("order: incomplete configuration")
	}
	return &Service{
		store: c.Store, vouchers: c.Vouchers, ids: c.IDs, lockers: c.Lockers, gate: c.Gate, room: c.Room, now: c.Now, log: c.Log, lab: c.Lab,
	}, nil
}

// Request asks for one unit of a voucher for one user.
type Request struct {
	VoucherID, UserID int64
	// ID is the id for the order; 0 generates one.
	ID int64
	// Resumed says that an earlier attempt with the same ID may already have placed the order.
	Resumed bool
	// Key is the client's idempotency key, for vouchers with [Service.KeepsKeys].
	Key KeyHash
	// Pass is the pass of a waiting room; "" for none.
	Pass string
	// MayLook is asked before the database or the gate is asked for an earlier order with the key. Its error refuses
	// the request. nil allows it.
	MayLook func() error
}

// KeepsKeys reports whether the voucher's orders keep their idempotency keys themselves, so that Place is
// given the key and nobody else has to remember it. A voucher that does not exist keeps none.
// The error is [ErrUnavailable].
func (s *Service) KeepsKeys(ctx context.Context, voucherID int64) (bool, error) {
	v, err := s.vouchers.Voucher(ctx, voucherID)
	switch {
	case errors.Is(err, voucher.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	return v.Policy.Flow == voucher.FlowAdmission && s.gate != nil, nil
}

// Place orders one unit for one user under the voucher's policy. The order is Confirmed, or
// Unpaid if the voucher asks for payment, or Pending under the admission flow. A resumed order has the state that it has reached. Place returns
// the errors of voucher, of this package, of the context and of the lock. If the lock was lost,
// nothing was sold.
//
// [ErrUnavailable] means that the outcome is unknown. Calling Place again finds it out, with the same ID and
// Resumed, or with the same Key.
func (s *Service) Place(ctx context.Context, req Request) (Order, error) {
	if req.Resumed {
		if o, err := s.store.DurableOrder(ctx, req.ID); !errors.Is(err, ErrNotFound) {
			return req.checkFound(o, err)
		}
	}
	v, err := s.vouchers.Voucher(ctx, req.VoucherID)
	if err != nil {
		return Order{}, err
	}
	if v.Policy.Room != nil {
		return s.placeWithPass(ctx, v, req)
	}
	return s.place(ctx, v, req)
}

func (s *Service) place(ctx context.Context, v *voucher.Voucher, req Request) (Order, error) {
	if v.Policy.Flow == voucher.FlowAdmission {
		return s.placeAdmitted(ctx, v, req)
	}
	return s.placeUnderLock(ctx, v, req)
}

// maxChanges is how often an order is placed again because an administrator has changed the voucher meanwhile.
const maxChanges = 3

// placeUnderLock places an order under the locked flow. The voucher may be out of date: the transaction finds that out.
func (s *Service) placeUnderLock(ctx context.Context, v *voucher.Voucher, req Request) (Order, error) {
	if err := s.onSale(v); err != nil {
		return s.resolveFailure(ctx, req, req.ID, req.Resumed, err)
	}
	o, err := s.newOrder(ctx, v, req, Confirmed, s.now())
	if err != nil {
		return Order{}, err
	}
	if v.AsksForPayment() {
		o.Status, o.AmountCents = Unpaid, v.PriceCents
	}
	var placed Order
	var repeated bool
	for changes := 1; ; changes++ {
		var again bool
		placed, again, err = s.placeLocked(ctx, v, o)
		repeated = repeated || again
		if !errors.Is(err, voucher.ErrChanged) || changes > maxChanges {
			break
		}
		if v, err = s.vouchers.Newer(ctx, v); err == nil {
			err = s.onSale(v)
		}
		if err != nil {
			break
		}
	}
	if errors.Is(err, voucher.ErrSoldOut) {
		s.vouchers.SoldOut(v.ID)
	}
	if err != nil {
		return s.resolveFailure(ctx, req, o.ID, req.Resumed || repeated, err)
	}
	return placed, nil
}

// Refusal returns the error with which Place would refuse a new request, if memory is enough to know
// it: [voucher.ErrNotFound], [voucher.ErrNotStarted], [voucher.ErrEnded], [voucher.ErrSoldOut], [ErrPassRequired] or an
// unsafe policy. nil means that only Place can tell, as for a voucher with [Service.KeepsKeys]. Refusal reads the
// voucher from the database if it is not cached, and writes nothing.
//
// Do not call it for a request whose earlier attempt may already have placed the order.
func (s *Service) Refusal(ctx context.Context, req Request) error {
	v, err := s.vouchers.Voucher(ctx, req.VoucherID)
	switch {
	case errors.Is(err, voucher.ErrNotFound):
		return err
	case err != nil || v.Policy.Flow == voucher.FlowAdmission:
		return nil //nolint:nilerr // memory does not know; Place returns the error if it persists
	}
	if err := s.onSale(v); err != nil || v.Policy.Room == nil || s.room == nil {
		return err
	}
	return s.room.Check(ctx, v, req.UserID, req.Pass)
}

// matches reports whether an order is the one that the request asks for.
func (r Request) matches(o Order) bool { return o.UserID == r.UserID && o.VoucherID == r.VoucherID }

// checkFound checks the order that was found under the ID of a resumed request. An ID is reserved for
// one request, so the order should match it. If it does not, it is not shown, and the outcome of the
// request is unknown.
func (r Request) checkFound(found Order, err error) (Order, error) {
	if err == nil && !r.matches(found) {
		return Order{}, fmt.Errorf("%w: %w: %d", ErrUnavailable, ErrIDTaken, r.ID)
	}
	return found, err
}

// onSale returns an error if the cached voucher cannot be bought now.
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

// newOrder returns the order for a request, with the request's id or a new one.
func (s *Service) newOrder(ctx context.Context, v *voucher.Voucher, req Request, status Status, now time.Time) (o Order, err error) {
	o = Order{ID: req.ID, VoucherID: v.ID, UserID: req.UserID, Status: status, Key: req.Key}
	if o.ID == 0 {
		if o.ID, err = s.ids.NextID(ctx); err != nil {
			return Order{}, fmt.Errorf("generate an order id: %w", err)
		}
	}
	o.CreatedAt = stamp(now)
	return o, nil
}

// stamp returns a time as the database stores it, so that an order is equal to what is read later.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// resolveTimeout bounds the query for an order whose commit got no answer.
const resolveTimeout = 2 * time.Second

// resolveFailure finds out what became of an order that failed. Most errors say that nothing was sold.
// In three cases the database is asked whether the order exists:
//
//   - the commit got no answer;
//   - an earlier attempt may have committed: that of a resumed request since Place looked for it, or one that the
//     database itself reported as rolled back, which is not relied on. Such an attempt has bought the last unit or this
//     user's only one, or was in time for the sale;
//   - another row is in the way of this one. It may be this very order, or one that is gone by now.
//
// If the database does not answer, the outcome is unknown: the error is [ErrUnavailable].
func (s *Service) resolveFailure(ctx context.Context, req Request, id int64, earlier bool, failed error) (Order, error) {
	inTheWay := errors.Is(failed, ErrAlreadyOrdered)
	if !earlier && !inTheWay && !errors.Is(failed, ErrUnavailable) {
		return Order{}, failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTimeout)
	defer cancel()
	placed, err := s.store.DurableOrder(ctx, id)
	switch {
	case err == nil && req.matches(placed):
		return placed, nil
	case errors.Is(failed, ErrUnavailable):
		return Order{}, failed
	case err != nil && !errors.Is(err, ErrNotFound):
		return Order{}, fmt.Errorf("%w: an earlier attempt may have succeeded: %s", ErrUnavailable, err.Error())
	case inTheWay:
		return Order{}, s.refusedBy(ctx, req, failed)
	}
	return Order{}, failed
}

// refusedBy returns the refusal of an order by another row, if that is another order of the user. Otherwise nothing was
// sold, and the same request may succeed: the row belonged to a transaction that was rolled back, or to an order that
// was cancelled meanwhile, or it is an order of somebody else with the same id.
func (s *Service) refusedBy(ctx context.Context, req Request, failed error) error {
	switch ordered, err := s.store.Ordered(ctx, req.VoucherID, req.UserID); {
	case err != nil:
		return fmt.Errorf("%w: the order that was in the way cannot be read: %s", ErrUnavailable, err.Error())
	case !ordered:
		return fmt.Errorf("%w: a row was in the way, and the user has no order: %s", ErrUnavailable, failed.Error())
	}
	return failed
}

// Order returns a user's order. For another user's order it returns [ErrNotFound] too, so that nobody
// learns which ids exist.
func (s *Service) Order(ctx context.Context, userID, id int64) (Order, error) {
	o, err := s.findOrder(ctx, userID, id)
	if err != nil {
		return Order{}, err
	}
	if o.UserID != userID {
		return Order{}, ErrNotFound
	}
	return o, nil
}

// OrdersOf lists up to limit of a user's orders with an ID below before, newest first.
func (s *Service) OrdersOf(ctx context.Context, userID, before int64, limit int) ([]Order, error) {
	if s.gate == nil {
		return s.store.OrdersOf(ctx, userID, before, limit)
	}
	// The gate is read first: an accepted order that it no longer lists is in the database by then.
	accepted, err := s.gate.OrdersOf(ctx, userID)
	if err != nil {
		return nil, err
	}
	stored, err := s.store.OrdersOf(ctx, userID, before, limit)
	if err != nil {
		return nil, err
	}
	return mergeAccepted(stored, accepted, before, limit), nil
}

// OrdersOfVoucher lists up to limit orders of a voucher with an ID below before, newest first: those that the database has.
func (s *Service) OrdersOfVoucher(ctx context.Context, voucherID, before int64, limit int) ([]Order, error) {
	return s.store.OrdersOfVoucher(ctx, voucherID, before, limit)
}

// Audit counts what the database holds of a voucher and, under the admission flow, what the gate holds.
// It returns [voucher.ErrNotFound] if there is no such voucher.
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
