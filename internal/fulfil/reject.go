package fulfil

import (
	"context"
	"errors"
	"log/slog"

	"seckill/internal/lock"
	"seckill/internal/order"
)

// reject rejects an accepted order: first in the database, which decides, then in Redis.
//
// If the database does not record the rejection, the entry is queued, and the order is offered to the database again:
// the reason may no longer hold by then.
func (w *worker) reject(ctx context.Context, queued retryEntry, reason Reason, cause error) error {
	e, reserved := queued.entry, true
	if e.malformed != nil {
		var err error
		if e.order, reserved, err = w.reader.findReservation(ctx, e); err != nil {
			return err
		}
	}
	returnStock := reserved
	if reserved {
		began := w.health.begin()
		status, err := w.config.Store.Reject(ctx, e.order)
		w.health.rejected(ctx, began, err)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return err
		case errors.Is(err, order.ErrIDTaken):
			// The id belongs to another order, so nobody can confirm this one.
		default:
			// The database seems to write nothing at all. That is not the entry's fault.
			w.config.warn(ctx, "a rejection could not be recorded, retrying later", err)
			w.retries.add(queued, w.config.MaxBackoff)
			return nil
		}
		switch {
		case status.Persisted() && e.malformed == nil:
			return w.complete(ctx, []entry{e}, []order.Status{status}) // another worker has persisted it
		case status.Persisted():
			returnStock = false // this is a malformed copy of an entry whose order is persisted
		}
	}
	if err := w.config.Faults.Pass(ctx, lock.BeforeRelease); err != nil {
		return err
	}
	return w.deadLetter(ctx, e, returnStock, reason, cause.Error())
}

// maxDetail is the largest part of an error text in a dead letter, in bytes.
const maxDetail = 500

// deadLetter moves an entry to the dead letters and notifies the waiters of its order.
func (w *worker) deadLetter(ctx context.Context, e entry, returnStock bool, reason Reason, detail string) error {
	moved, err := w.reader.deadLetter(ctx, e, returnStock, reason, detail[:min(len(detail), maxDetail)])
	if err != nil || !moved {
		return err
	}
	w.notifier.notify(e.order.OrderID)
	w.config.Observer.DeadLetter(reason)
	w.config.Log.LogAttrs(ctx, slog.LevelError, "fulfil: an accepted order was rejected",
		slog.Int64("voucher", e.stream.voucher), slog.String("entry", e.id), slog.Int64("order", e.order.OrderID),
		slog.Int64("user", e.order.UserID), slog.String("reason", string(reason)), slog.String("detail", detail))
	return nil
}
