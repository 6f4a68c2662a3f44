package trace

import (
	"context"

	"seckill/internal/order"
)

// Store returns s, whose transactions are recorded.
func Store(s order.Store, rec *Recorder) order.Store { return &store{s, rec} }

type store struct {
	order.Store
	rec *Recorder
}

// Transact implements [order.Store]. Each repetition of fn is a transaction of its
// own: the one before was undone.
func (s *store) Transact(ctx context.Context, fn func(ctx context.Context, tx order.Tx) error) error {
	var t *tx // the last one begun
	outcome := Event{Kind: Undone, Error: panicked}
	defer func() {
		if t != nil {
			t.end(ctx, outcome)
		}
	}()
	err := s.Store.Transact(ctx, func(ctx context.Context, inner order.Tx) (err error) {
		if t != nil {
			t.end(ctx, Event{Kind: Undone, Error: "repeated"})
		}
		t = &tx{Tx: inner, rec: s.rec, about: Event{Tx: s.rec.txs.Add(1)}}
		t.record(ctx, Event{Kind: Begun})
		err = fn(ctx, t)
		t.worked = now()
		return err
	})
	outcome = Event{Kind: Committed}
	if err != nil {
		outcome = Event{Kind: Undone, Error: err.Error()}
	}
	return err
}

type tx struct {
	order.Tx
	rec *Recorder
	// about is what all events from now on have in common: the number, and what is
	// known of the order.
	about  Event
	worked int64 // when the work was done, and the commit or the rollback began
}

func (t *tx) record(ctx context.Context, e Event) {
	e.Tx, e.Voucher, e.User, e.Order = t.about.Tx, t.about.Voucher, t.about.User, t.about.Order
	t.rec.Record(ctx, e)
}

func (t *tx) end(ctx context.Context, outcome Event) {
	outcome.Asked = t.worked
	t.record(ctx, outcome)
}

// Ordered implements [order.Tx].
func (t *tx) Ordered(ctx context.Context, voucherID, userID int64) (bool, error) {
	asked := now()
	found, err := t.Tx.Ordered(ctx, voucherID, userID)
	t.about.Voucher, t.about.User = voucherID, userID
	t.record(ctx, Event{Kind: Checked, Asked: asked, Found: found, Error: text(err)})
	return found, err
}

// StockOf implements [order.Tx].
func (t *tx) StockOf(ctx context.Context, voucherID int64) (stock, version int64, err error) {
	asked := now()
	stock, version, err = t.Tx.StockOf(ctx, voucherID)
	t.about.Voucher = voucherID
	t.record(ctx, Event{Kind: Read, Asked: asked, Stock: stock, Version: version, Error: text(err)})
	return stock, version, err
}

// Decrement implements [order.Tx].
func (t *tx) Decrement(ctx context.Context, voucherID int64) error {
	t.write(ctx, voucherID, Event{Mode: ModeConditional})
	return t.Tx.Decrement(ctx, voucherID)
}

// SetStock implements [order.Tx].
func (t *tx) SetStock(ctx context.Context, voucherID, stock int64) error {
	t.write(ctx, voucherID, Event{Mode: ModeUnguarded, Stock: stock})
	return t.Tx.SetStock(ctx, voucherID, stock)
}

// DecrementVersion implements [order.Tx].
func (t *tx) DecrementVersion(ctx context.Context, voucherID, version int64) error {
	t.write(ctx, voucherID, Event{Mode: ModeVersion, Version: version})
	return t.Tx.DecrementVersion(ctx, voucherID, version)
}

// DecrementFenced implements [order.Tx].
func (t *tx) DecrementFenced(ctx context.Context, voucherID int64, token uint64) error {
	t.write(ctx, voucherID, Event{Mode: ModeFenced, Token: token})
	return t.Tx.DecrementFenced(ctx, voucherID, token)
}

func (t *tx) write(ctx context.Context, voucherID int64, e Event) {
	e.Kind, t.about.Voucher = Write, voucherID
	t.record(ctx, e)
}

// Insert implements [order.Tx].
func (t *tx) Insert(ctx context.Context, o order.Order, unique bool) error {
	t.about.Voucher, t.about.User, t.about.Order = o.VoucherID, o.UserID, o.ID
	t.record(ctx, Event{Kind: Insert})
	return t.Tx.Insert(ctx, o, unique)
}

// text is what an error says; "" where there is none.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
