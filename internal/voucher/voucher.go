package voucher

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// The errors of a voucher. Compare with errors.Is.
var (
	ErrNotFound   = errors.New("voucher: not found")
	ErrNotStarted = errors.New("voucher: sale has not started")
	ErrEnded      = errors.New("voucher: sale has ended")
	ErrSoldOut    = errors.New("voucher: sold out")
	ErrPaused     = errors.New("voucher: sale is paused")
	ErrInvalid    = errors.New("voucher: invalid")
	// ErrBusy says that too many requests ask for what is not cached. The store was not asked.
	ErrBusy = errors.New("voucher: too many requests for vouchers that are not cached")
	// ErrLabOnly says that only a server in lab mode sells under the policy.
	ErrLabOnly = errors.New("voucher: policy needs lab mode")
)

// Voucher is something on sale.
type Voucher struct {
	ID    int64
	Title string
	// PriceCents is what the buyer pays, ValueCents what the voucher is worth.
	PriceCents, ValueCents int64
	// Stock is the remaining part of InitialStock.
	Stock, InitialStock int64
	// Version counts the writes to the stock, for optimistic concurrency.
	Version int64
	// Revision counts the changes that administrators made; it begins with 1.
	Revision int64
	// Paused says that nothing is sold at the moment.
	Paused bool
	// The sale window is half open: BeginAt ≤ now < EndAt.
	BeginAt, EndAt time.Time
	// PayWithin is how long a buyer has to pay, in whole seconds. 0: the voucher asks for no payment, and an
	// order is confirmed at once. Otherwise an order that is not paid in time gives its unit back.
	PayWithin time.Duration
	// ReturnsAt is, while nothing is left, when the first of the unpaid orders is to be paid: otherwise its unit comes back.
	// The zero time: there is none.
	ReturnsAt time.Time
	Policy    Policy
	CreatedAt time.Time
}

// Bounds of a voucher's fields.
const (
	MaxTitle = 200        // characters
	MaxStock = 10_000_000 // units
	// MaxUnits bounds the stock under [StockUnits], which has a row for each unit: they are counted whenever the stock is read.
	MaxUnits = 10_000
	MaxCents = 10_000_000_000 // a hundred million in the currency's main unit
	// MaxPayWithin bounds the time to pay: until then an unpaid order keeps a unit from other buyers.
	MaxPayWithin = 7 * 24 * time.Hour
)

// Validate returns an [ErrInvalid] that names an invalid field of a new voucher and the reason.
func (v *Voucher) Validate() error {
	if err := checkTitle(v.Title); err != nil {
		return err
	}
	switch {
	case v.InitialStock < 1 || v.InitialStock > MaxStock:
		return invalid("stock", " is %d; 1 to %d", v.InitialStock, MaxStock)
	case v.PriceCents < 0 || v.PriceCents > MaxCents:
		return invalid("price_cents", " is %d; 0 to %d", v.PriceCents, MaxCents)
	case v.ValueCents < 0 || v.ValueCents > MaxCents:
		return invalid("value_cents", " is %d; 0 to %d", v.ValueCents, MaxCents)
	case v.BeginAt.IsZero():
		return invalid("begin_at", " is missing")
	case v.EndAt.IsZero():
		return invalid("end_at", " is missing")
	case v.BeginAt.UTC().Year() < 1970 || v.EndAt.UTC().Year() > 9999: // RFC 3339 has four digits
		return invalid("begin_at", " and end_at lie in the years 1970 to 9999, in UTC")
	case !v.BeginAt.Before(v.EndAt):
		return invalid("end_at", " must be after begin_at")
	}
	if err := v.Policy.Validate(); err != nil {
		return err
	}
	if v.Policy.Stock == StockUnits && v.InitialStock > MaxUnits {
		return invalid("stock", " is %d; 1 to %d under policy.stock %q, which has a row for each unit", v.InitialStock, MaxUnits, StockUnits)
	}
	return v.validatePayment()
}

// AsksForPayment reports whether an order of the voucher is to be paid.
func (v *Voucher) AsksForPayment() bool { return v.PayWithin > 0 }

// stockRows is the number of counters under [StockRows]: more than the transactions that a process has at once, so that
// few of them meet.
const stockRows = 16

// Parts is the number of parts in which the database keeps the stock of a new voucher: 0 for one number in its own row.
func (v *Voucher) Parts() int64 {
	switch v.Policy.Stock {
	case StockRows:
		return stockRows
	case StockUnits:
		return v.InitialStock
	}
	return 0
}

// FirstPart is the part from which a user tries to buy first. Users are spread evenly.
func (v *Voucher) FirstPart(userID int64) int64 {
	const golden = 0x9E3779B97F4A7C15 // 2^64 divided by the golden ratio: neighbours land far apart
	return int64(uint64(userID) * golden >> 32 % uint64(v.Parts()))
}

func (v *Voucher) validatePayment() error {
	switch {
	case v.PayWithin < 0 || v.PayWithin > MaxPayWithin || v.PayWithin%time.Second != 0:
		return invalid("pay_within_s", " is %v; 0 to %d", v.PayWithin.Seconds(), int(MaxPayWithin/time.Second))
	case v.PayWithin == 0:
		return nil
	case v.PriceCents == 0:
		return invalid("pay_within_s", " is %v and price_cents is 0; there is nothing to pay", v.PayWithin.Seconds())
	case !v.Policy.Unique:
		return invalid("pay_within_s", " is %v and policy.unique is false; a user who may order again needs one order at a time", v.PayWithin.Seconds())
	}
	return nil
}

// StockKey is the key of the lock that guards the whole voucher, under [ScopeVoucher].
func (v *Voucher) StockKey() string { return "stock:" + strconv.FormatInt(v.ID, 10) }

// OnSale returns nil if the voucher can be bought at a time, [ErrNotStarted] before BeginAt, [ErrEnded] from EndAt on, and
// [ErrPaused] in between if the sale is paused.
func (v *Voucher) OnSale(now time.Time) error {
	switch {
	case now.Before(v.BeginAt):
		return ErrNotStarted
	case !now.Before(v.EndAt):
		return ErrEnded
	case v.Paused:
		return ErrPaused
	}
	return nil
}

// Store stores vouchers.
type Store interface {
	Changer
	// CreateVoucher stores v as given, including its ID.
	CreateVoucher(ctx context.Context, v *Voucher) error
	// Voucher returns the voucher with its current stock, or [ErrNotFound].
	Voucher(ctx context.Context, id int64) (*Voucher, error)
	// DurableVoucher is Voucher for one that the caller may just have created. Its commit may still be under
	// way: the voucher is returned once a crash of the database cannot undo it.
	DurableVoucher(ctx context.Context, id int64) (*Voucher, error)
	// VouchersByID returns the vouchers with the given IDs. IDs without a voucher are missing in the result.
	VouchersByID(ctx context.Context, ids []int64) (map[int64]Found, error)
	// Vouchers returns up to limit vouchers of a list. Their state is that of the moment now.
	Vouchers(ctx context.Context, list List, now time.Time, limit int) ([]*Voucher, error)
}

// Found is a voucher that the store has, or why that one cannot be read while others can.
type Found struct {
	Voucher *Voucher
	Err     error
}

// FieldError is an [ErrInvalid] that names the field, by its path in the JSON of a voucher or a change.
type FieldError struct{ Field, reason string }

func (e *FieldError) Error() string { return ErrInvalid.Error() + ": " + e.Field + e.reason }

// Unwrap returns [ErrInvalid].
func (e *FieldError) Unwrap() error { return ErrInvalid }

func invalid(field, format string, args ...any) error {
	return &FieldError{Field: field, reason: fmt.Sprintf(format, args...)}
}

// Sale counts the vouchers that can be bought in one way, now or later.
type Sale struct {
	Flow     Flow
	Lock     string // under FlowLocked
	Vouchers int
}
