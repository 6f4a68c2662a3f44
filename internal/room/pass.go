package room

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"seckill/internal/order"
	"seckill/internal/voucher"
)

// Check implements [order.Room]. It knows a pass of another user or voucher, and one that has lapsed.
func (s *Service) Check(ctx context.Context, v *voucher.Voucher, userID int64, pass string) error {
	_, _, err := s.check(ctx, v, userID, pass)
	return err
}

func (s *Service) check(ctx context.Context, v *voucher.Voucher, userID int64, pass string) (*localRoom, Pass, error) {
	if pass == "" {
		return nil, Pass{}, fmt.Errorf("%w: get one from the voucher's waiting room, and send it as Room-Pass", order.ErrPassRequired)
	}
	l, err := s.room(ctx, v)
	if err != nil {
		return nil, Pass{}, err
	}
	p, ok := l.sign.readPass(pass)
	switch {
	case !ok:
		return nil, Pass{}, fmt.Errorf("%w: this is no pass of the voucher's waiting room", order.ErrPassRequired)
	case p.User != userID:
		return nil, Pass{}, fmt.Errorf("%w: the pass is another user's", order.ErrPassRequired)
	case l.clock() >= p.Until+clockSlack.Milliseconds():
		return nil, Pass{}, fmt.Errorf("%w: the pass has lapsed", order.ErrPassOver)
	}
	return l, p, nil
}

// clockSlack is how far this instance's idea of Redis' clock may be ahead of it.
const clockSlack = time.Second

// Use implements [order.Room].
func (s *Service) Use(ctx context.Context, v *voucher.Voucher, userID int64, pass, request string) error {
	l, p, err := s.check(ctx, v, userID, pass)
	if err != nil {
		return err
	}
	verdict, err := l.mark(ctx, v, p, Use, request)
	switch {
	case errors.Is(err, ErrMissing):
		if err := l.restore(ctx, v); err != nil {
			return err
		}
		verdict = UnknownPass
	case err != nil:
		return err
	}
	switch verdict {
	case Marked:
		return nil
	case LapsedPass:
		return fmt.Errorf("%w: the pass has lapsed", order.ErrPassOver)
	case SpentAlready:
		return fmt.Errorf("%w: the pass was used", order.ErrPassOver)
	default:
		return fmt.Errorf("%w: the waiting room does not know the pass any more; it gives another one for the ticket", order.ErrPassOver)
	}
}

// doneTimeout bounds the mark after an order.
const doneTimeout = 250 * time.Millisecond

// Done implements [order.Room].
func (s *Service) Done(ctx context.Context, v *voucher.Voucher, pass, request string, ordered bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), doneTimeout)
	defer cancel()
	verb := Free
	if ordered {
		verb = Settle
	}
	l, err := s.room(ctx, v)
	if err == nil {
		p, _ := l.sign.readPass(pass) // Use has accepted it
		_, err = l.mark(ctx, v, p, verb, request)
	}
	if err != nil && !errors.Is(err, ErrMissing) {
		// The pass counts as live until it lapses, and holds its unit for so long.
		s.config.Log.LogAttrs(ctx, slog.LevelWarn, "what became of a pass was not noted", slog.Int64("voucher", v.ID), slog.Any("error", err))
	}
}

func (l *localRoom) mark(ctx context.Context, v *voucher.Voucher, p Pass, verb Verb, request string) (SpendVerdict, error) {
	return l.service.config.Redis.Spend(ctx, SpendCall{
		VoucherID: l.id, Pass: p, Verb: verb, Request: request, PassFor: time.Duration(v.Policy.Room.PassS) * time.Second,
	})
}
