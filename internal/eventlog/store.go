package eventlog

import (
	"context"

	"seckill/internal/order"
)

// Store wraps s and records its transactions.
func Store(s order.Store, rec *Recorder) order.Store { return &store{s, rec} }

type store struct {
	order.Store
	rec *Recorder
}

// Transact implements [order.Store]. Each repetition of fn is recorded as a transaction of its own; the transaction
// before it was rolled back.
func (s *store) Transact(ctx context.Context, fn func(ctx context.Context, tx order.Tx) error) error {
	var t *tx // the latest transaction
	outcome := Event{Kind: RolledBack, Error: panicked}
	defer func() {
		if t != nil {
			t.end(ctx, outcome)
		}
	}()
	err := s.Store.Transact(ctx, func(ctx context.Context, inner order.Tx) (err error) {
		if t != nil {
			t.end(ctx, Event{Kind: RolledBack, Error: "repeated"})
		}
		t = &tx{Tx: inner, rec: s.rec, template: Event{Tx: s.rec.txs.Add(1)}}
		t.record(ctx, Event{Kind: Begun})
		err = fn(ctx, t)
		t.endBegan = now()
		return err
	})
	outcome = Event{Kind: Committed}
	if err != nil {
		outcome = Event{Kind: RolledBack, Error: err.Error()}
	}
	return err
}

// PlaceGrouped implements [order.Store]. The order's part of the transaction is recorded as one of its own.
func (s *store) PlaceGrouped(ctx context.Context, o order.Order, revision int64) (attempts int, err error) {
	t := &tx{rec: s.rec, template: Event{Tx: s.rec.txs.Add(1), User: o.UserID, Order: o.ID}}
	t.record(ctx, Event{Kind: Begun})
	t.write(ctx, o.VoucherID, Event{Mode: ModeGrouped})
	t.record(ctx, Event{Kind: Insert})
	t.endBegan = now()
	attempts, err = s.Store.PlaceGrouped(ctx, o, revision)
	outcome := Event{Kind: Committed}
	if err != nil {
		outcome = Event{Kind: RolledBack, Error: err.Error()}
	}
	t.end(ctx, outcome)
	return attempts, err
}

type tx struct {
	order.Tx
	rec *Recorder
	// template has the fields of all further events: the transaction's number, and what is known of the order.
	template Event
	endBegan int64 // when the commit or the rollback began
}

func (t *tx) record(ctx context.Context, e Event) {
	e.Tx, e.Voucher, e.User, e.Order = t.template.Tx, t.template.Voucher, t.template.User, t.template.Order
	t.rec.Record(ctx, e)
}

func (t *tx) end(ctx context.Context, outcome Event) {
	outcome.Began = t.endBegan
	t.record(ctx, outcome)
}

// Ordered implements [order.Tx].
func (t *tx) Ordered(ctx context.Context, voucherID, userID int64) (bool, error) {
	began := now()
	found, err := t.Tx.Ordered(ctx, voucherID, userID)
	t.template.Voucher, t.template.User = voucherID, userID
	t.record(ctx, Event{Kind: Checked, Began: began, Found: found, Error: text(err)})
	return found, err
}

// StockOf implements [order.Tx].
func (t *tx) StockOf(ctx context.Context, voucherID int64) (stock, version int64, err error) {
	began := now()
	stock, version, err = t.Tx.StockOf(ctx, voucherID)
	t.template.Voucher = voucherID
	t.record(ctx, Event{Kind: Read, Began: began, Stock: stock, Version: version, Error: text(err)})
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

// DecrementRow implements [order.Tx].
func (t *tx) DecrementRow(ctx context.Context, voucherID, row int64) error {
	t.write(ctx, voucherID, Event{Mode: ModeRows})
	return t.Tx.DecrementRow(ctx, voucherID, row)
}

// TakeUnit implements [order.Tx].
func (t *tx) TakeUnit(ctx context.Context, voucherID, from int64) error {
	t.write(ctx, voucherID, Event{Mode: ModeUnits})
	return t.Tx.TakeUnit(ctx, voucherID, from)
}

func (t *tx) write(ctx context.Context, voucherID int64, e Event) {
	e.Kind, t.template.Voucher = Write, voucherID
	t.record(ctx, e)
}

// Insert implements [order.Tx].
func (t *tx) Insert(ctx context.Context, o order.Order, unique bool) error {
	t.template.Voucher, t.template.User, t.template.Order = o.VoucherID, o.UserID, o.ID
	t.record(ctx, Event{Kind: Insert})
	return t.Tx.Insert(ctx, o, unique)
}

// text is the text of an error; "" for nil.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
