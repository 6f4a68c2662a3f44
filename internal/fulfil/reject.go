package fulfil

import (
	"context"
	"errors"
	"log/slog"

	"seckill/internal/lock"
	"seckill/internal/order"
)

// reject ends an accepted order that cannot be carried out: first in the database, which
// decides it, then in Redis.
func (w *worker) reject(ctx context.Context, e entry, reason Reason, why error) error {
	known := true
	if e.malformed != nil {
		var err error
		if e.order, known, err = w.inbox.reservation(ctx, e); err != nil {
			return err
		}
	}
	give := known
	if known {
		state, err := w.record(ctx, e)
		switch {
		case err != nil && ctx.Err() != nil:
			return err
		case errors.Is(err, order.ErrIDTaken):
			// There can be no row for it, so nobody can confirm it.
		case err != nil:
			// The database does not write at all, it seems: that is not the entry's fault.
			w.complain(ctx, "a rejection could not be recorded, trying again later", err)
			w.park(e, w.config.MaxPause)
			return nil
		case state == order.Confirmed && e.malformed == nil:
			return w.settle(ctx, []entry{e}, []order.Status{order.Confirmed}) // somebody else was faster
		case state == order.Confirmed:
			give = false // the order is right, and this is a spoiled copy of it
		}
	}
	if err := w.config.Faults.Pass(ctx, lock.BeforeRelease); err != nil {
		return err
	}
	return w.bury(ctx, e, give, reason, why.Error())
}

// record writes the rejection down, until the database has an answer.
func (w *worker) record(ctx context.Context, e entry) (order.Status, error) {
	for failures := 1; ; failures++ {
		state, err := w.config.Shelf.Reject(ctx, e.order)
		if err == nil || !passing(err) || ctx.Err() != nil {
			return state, err
		}
		if !sleep(ctx, pause(failures, w.config.FirstPause, w.config.MaxPause)) {
			return "", ctx.Err()
		}
	}
}

// maxDetail is how much of an error goes into a dead letter, in bytes.
const maxDetail = 500

// bury moves an entry to the dead letters.
func (w *worker) bury(ctx context.Context, e entry, give bool, reason Reason, detail string) error {
	buried, err := w.inbox.bury(ctx, e, give, reason, detail[:min(len(detail), maxDetail)])
	if err != nil || !buried {
		return err
	}
	w.bell.ring(e.order.OrderID)
	w.config.Observer.deadLetter(reason)
	w.config.Log.LogAttrs(ctx, slog.LevelError, "fulfil: an accepted order was rejected",
		slog.Int64("voucher", e.voucher), slog.String("entry", e.id), slog.Int64("order", e.order.OrderID),
		slog.Int64("user", e.order.UserID), slog.String("reason", string(reason)), slog.String("detail", detail))
	return nil
}
