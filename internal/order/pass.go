package order

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"seckill/internal/voucher"
)

// placeWithPass places an order of a voucher with a waiting room. The request uses the pass while the order is placed; the
// pass is spent once there is an order. Of an order that fails the pass stays usable, also where its outcome is unknown: a
// second order of the user is refused by the database in any case.
func (s *Service) placeWithPass(ctx context.Context, v *voucher.Voucher, req Request) (Order, error) {
	if s.room == nil {
		return Order{}, fmt.Errorf("%w: this server has no waiting rooms", ErrUnavailable)
	}
	first := req.Key == 0 && !req.Resumed
	if refused := s.knownRefusal(v, req.UserID); first && refused != nil {
		return Order{}, refused // which costs no pass
	}
	request := req.name()
	if err := s.room.Use(ctx, v, req.UserID, req.Pass, request); err != nil {
		return s.placedWithPass(ctx, v, req, err)
	}
	o, err := s.place(ctx, v, req)
	s.room.Done(ctx, v, req.Pass, request, err == nil)
	return o, err
}

// knownRefusal is the refusal of the sale, if memory is enough to know it.
func (s *Service) knownRefusal(v *voucher.Voucher, userID int64) error {
	if v.Policy.Flow == voucher.FlowAdmission && s.gate != nil {
		return s.refusalFromMemory(v, userID, s.now())
	}
	return s.onSale(v)
}

// placedWithPass returns the order that a request has placed with a pass that is over. If there is none, it returns the
// refusal.
func (s *Service) placedWithPass(ctx context.Context, v *voucher.Voucher, req Request, refused error) (Order, error) {
	switch {
	case !errors.Is(refused, ErrPassOver):
		return Order{}, refused
	case req.Resumed: // an earlier attempt has placed it since Place looked
		return s.resolveFailure(ctx, req, req.ID, true, refused)
	case req.Key == 0 || s.gate == nil || v.Policy.Flow != voucher.FlowAdmission:
		return Order{}, refused
	}
	if req.MayLook != nil {
		if err := req.MayLook(); err != nil {
			return Order{}, err
		}
	}
	return s.placedEarlier(ctx, v, req, refused)
}

// name tells a request that uses a pass from other requests of the same user, but not from its own repetitions. Requests
// without a key have the same one, since nothing tells a repetition: it may use the pass that a failed attempt did not free.
func (r Request) name() string {
	switch {
	case r.Key != 0:
		return "k" + strconv.FormatInt(int64(r.Key), 36)
	case r.ID != 0:
		return "i" + strconv.FormatInt(r.ID, 36)
	}
	return ""
}
