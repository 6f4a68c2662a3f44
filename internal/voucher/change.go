package voucher

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The errors of a change. Compare with errors.Is.
var (
	// ErrRevision says that the voucher was changed since the revision that the change is meant for.
	ErrRevision = errors.New("voucher: it was changed meanwhile")
	// ErrBegun says that a sale that has begun cannot begin at another time.
	ErrBegun = errors.New("voucher: the sale has begun")
	// ErrTooFew says that fewer units are unsold than are to be taken away.
	ErrTooFew = errors.New("voucher: not enough units are unsold")
	// ErrHasOrders says that a voucher with orders cannot be deleted.
	ErrHasOrders = errors.New("voucher: it has orders")
	// ErrNotDrained says that the change needs a gate without pending orders, and names no closed epoch.
	ErrNotDrained = errors.New("voucher: the gate may have pending orders")
	// ErrChanged says that an order was decided by a revision of the voucher that is over. Nothing was sold.
	ErrChanged = errors.New("voucher: it was changed while an order was placed")
)

// Change is what is to become of a voucher. What is nil, and a stock of 0, stays as it is.
type Change struct {
	// Revision is that of the voucher for which the change is meant; 0 is any.
	Revision       int64
	Title          *string
	BeginAt, EndAt *time.Time
	Paused         *bool
	AddStock       int64
	Room           *RoomChange
	By             Author
}

// TooFewError is an [ErrTooFew] that says how many units can be taken away.
type TooFewError struct {
	Most   int64
	reason string
}

func (e *TooFewError) Error() string { return ErrTooFew.Error() + ": " + e.reason }

// Unwrap returns [ErrTooFew].
func (e *TooFewError) Unwrap() error { return ErrTooFew }

// Author is who made a change.
type Author struct {
	// Name is "admin", "lab" for anybody in lab mode.
	Name string
	// Address is where the request came from, RequestID what identifies it in the log.
	Address, RequestID string
}

// Record is a change that was made.
type Record struct {
	VoucherID int64
	// Revision is that of the voucher from then on.
	Revision int64
	At       time.Time
	By       Author
	Fields   []FieldChange
}

// FieldChange is one field of a change, with its values as the HTTP interface shows them. Its JSON is stored.
type FieldChange struct {
	Field string `json:"field"`
	From  any    `json:"from"`
	To    any    `json:"to"`
}

// Apply returns the voucher after the change and what is different, which may be nothing. Its errors are [ErrRevision],
// [ErrBegun], [ErrTooFew] and [ErrInvalid].
func (c *Change) Apply(v Voucher, now time.Time) (Voucher, []FieldChange, error) {
	if c.Revision != 0 && c.Revision != v.Revision {
		return v, nil, fmt.Errorf("%w: its revision is %d, not %d", ErrRevision, v.Revision, c.Revision)
	}
	var fields []FieldChange
	note := func(field string, from, to any) { fields = append(fields, FieldChange{field, from, to}) }
	if c.Title != nil && *c.Title != v.Title {
		note("title", v.Title, *c.Title)
		v.Title = *c.Title
	}
	if c.BeginAt != nil && !c.BeginAt.Equal(v.BeginAt) {
		if !now.Before(v.BeginAt) {
			return v, nil, fmt.Errorf("%w: begin_at can be changed until %s", ErrBegun, v.BeginAt.UTC().Format(time.RFC3339Nano))
		}
		note("begin_at", v.BeginAt.UTC(), c.BeginAt.UTC())
		v.BeginAt = c.BeginAt.UTC()
	}
	if c.EndAt != nil && !c.EndAt.Equal(v.EndAt) {
		note("end_at", v.EndAt.UTC(), c.EndAt.UTC())
		v.EndAt = c.EndAt.UTC()
	}
	if c.Paused != nil && *c.Paused != v.Paused {
		note("paused", v.Paused, *c.Paused)
		v.Paused = *c.Paused
	}
	if c.Room != nil {
		if err := c.Room.apply(&v, note); err != nil {
			return v, nil, err
		}
	}
	if c.AddStock != 0 {
		if err := c.checkStock(&v); err != nil {
			return v, nil, err
		}
		note("initial_stock", v.InitialStock, v.InitialStock+c.AddStock)
		v.Stock, v.InitialStock = v.Stock+c.AddStock, v.InitialStock+c.AddStock
	}
	if len(fields) > 0 {
		v.Revision++
	}
	return v, fields, v.Validate()
}

func (c *Change) checkStock(v *Voucher) error {
	switch n := c.AddStock; {
	case n > MaxStock-v.InitialStock:
		return invalid("stock.add", " is %d; %d at most: a voucher has up to %d units", n, MaxStock-v.InitialStock, MaxStock)
	case -n >= v.InitialStock && v.Stock == v.InitialStock:
		return &TooFewError{v.InitialStock - 1, fmt.Sprintf("stock.add is %d; %d at least, which leaves one unit: a voucher without orders can be deleted", n, 1-v.InitialStock)}
	case n < 0 && v.Stock == 0:
		return &TooFewError{0, fmt.Sprintf("stock.add is %d; none is unsold", n)}
	case -n > v.Stock:
		return &TooFewError{v.Stock, fmt.Sprintf("stock.add is %d; %d at least: that many are unsold", n, -v.Stock)}
	}
	return nil
}

// Changer stores changes of vouchers.
type Changer interface {
	// ChangeVoucher applies a change in one transaction, and returns the voucher as it is then. Its errors are those of
	// [Change.Apply], [ErrNotFound], and [ErrNotDrained] if units of a voucher under the admission flow are to be taken away
	// and drained is not the closed epoch under which its gate has no pending order.
	ChangeVoucher(ctx context.Context, id, drained int64, change Change, now time.Time) (*Voucher, error)
	// DeleteVoucher deletes a voucher. Its errors are [ErrHasOrders], [ErrRevision], [ErrNotFound] and [ErrNotDrained].
	DeleteVoucher(ctx context.Context, id, drained int64, change Change, now time.Time) error
	// Changes lists up to limit changes of a voucher with a revision below before, the newest first.
	Changes(ctx context.Context, id, before int64, limit int) ([]Record, error)
}

// Gate is what sells vouchers under the admission flow.
type Gate interface {
	// Changed tells the gate of a change that the store has. When it returns nil, the gate accepts no order that the
	// change forbids.
	Changed(ctx context.Context, id int64) error
	// Drained closes the voucher and calls change with the closed epoch once no order is pending. After that the voucher
	// opens again, if it is there.
	Drained(ctx context.Context, v *Voucher, change func(ctx context.Context, epoch int64) error) error
	// Remove removes all that the gate has of a voucher that is closed under an epoch, without pending orders.
	Remove(ctx context.Context, v *Voucher, epoch int64) error
}

// Change changes a voucher. When it returns nil, no order is accepted any more that the change forbids, by any process.
// Its errors are those of [Changer] and [Gate].
func (s *Service) Change(ctx context.Context, id int64, c Change) (*Voucher, error) {
	for _, at := range []*time.Time{c.BeginAt, c.EndAt} {
		if at != nil { // as the store keeps it
			*at = at.UTC().Truncate(time.Microsecond)
		}
	}
	now := s.Now()
	var changed *Voucher
	err := s.drainedIfNeeded(ctx, id, func(ctx context.Context, _ *Voucher, drained int64) (err error) {
		changed, err = s.Store.ChangeVoucher(ctx, id, drained, c, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.cache(changed)
	if changed.Policy.Flow == FlowAdmission && s.Gate != nil {
		if err := s.Gate.Changed(ctx, id); err != nil {
			return nil, fmt.Errorf("voucher %d is changed, and not everywhere yet: %w", id, err)
		}
	}
	return changed, nil
}

// Delete deletes a voucher that has no orders. Its errors are those of [Changer] and [Gate].
func (s *Service) Delete(ctx context.Context, id int64, c Change) error {
	now := s.Now()
	err := s.drainedIfNeeded(ctx, id, func(ctx context.Context, v *Voucher, drained int64) error {
		if drained != 0 { // before its row goes: afterwards nobody would know of the rest
			if err := s.Gate.Remove(ctx, v, drained); err != nil {
				return err
			}
		}
		return s.Store.DeleteVoucher(ctx, id, drained, c, now)
	})
	if err == nil && s.Cache != nil {
		s.Cache.Deleted(id)
	}
	return err
}

// drainedIfNeeded makes a change and, if the store says that it needs a gate without pending orders, again with one.
func (s *Service) drainedIfNeeded(ctx context.Context, id int64, change func(ctx context.Context, v *Voucher, drained int64) error) error {
	err := change(ctx, nil, 0)
	if !errors.Is(err, ErrNotDrained) || s.Gate == nil {
		return err
	}
	v, err := s.Store.Voucher(ctx, id)
	if err != nil {
		return err
	}
	return s.Gate.Drained(ctx, v, func(ctx context.Context, epoch int64) error { return change(ctx, v, epoch) })
}

// Changes lists up to limit changes of a voucher with a revision below before, the newest first. A voucher that was deleted
// has its changes; for one that never was, the error is [ErrNotFound].
func (s *Service) Changes(ctx context.Context, id, before int64, limit int) ([]Record, error) {
	records, err := s.Store.Changes(ctx, id, before, limit)
	if err == nil && len(records) == 0 {
		_, err = s.Voucher(ctx, id)
	}
	return records, err
}
