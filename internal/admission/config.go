package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"seckill/internal/lock"
	"seckill/internal/order"
)

// MaxBatch is the most orders that one call of the script decides about. It bounds how
// long Redis is busy with one call, at about 3 µs an order.
const MaxBatch = 512

// Shelf is what the gate needs of the database; an [order.Shelf] has it.
type Shelf interface {
	Standing(ctx context.Context, voucherID int64) (order.Standing, error)
	Close(ctx context.Context, voucherID int64) (order.Standing, error)
	Open(ctx context.Context, voucherID, closed int64) (order.Standing, error)
	LiveOrders(ctx context.Context, voucherID, afterUser int64, limit int) ([]order.Order, error)
	AdmissionSales(ctx context.Context, endsAfter time.Time) ([]order.Sale, error)
}

// Config is what a [Gate] needs. Client, Shelf, Locker and Log are required; a zero in
// the rest takes the default.
type Config struct {
	Client Client
	Shelf  Shelf
	// Locker has one process at a time open a voucher. Any mechanism with a lease does.
	Locker lock.Locker
	Log    *slog.Logger
	// Prefix comes before every key, so that several installations can share one Redis.
	Prefix string

	// AttemptTimeout bounds one round trip. Default 500 ms.
	AttemptTimeout time.Duration
	// Patience bounds how long the outcome of a batch is looked for. Default 2 s.
	Patience time.Duration
	// OpenWait is how long buyers wait for a voucher that is being opened, before they
	// are told to come again. Default 500 ms.
	OpenWait time.Duration
	// Recheck is how often one buyer is let through to Redis although the voucher was
	// sold out. Default 100 ms.
	Recheck time.Duration
	// CheckEvery is how often [Gate.Run] compares Redis with the database. Default 5 s.
	CheckEvery time.Duration
	// Remembered is for how long after a sale its orders are still looked for in Redis.
	// By then the last one must be persisted. Default 1 h.
	Remembered time.Duration
	// MaxPending is how many orders of a voucher may be accepted and not persisted; more
	// are refused with [order.ErrOverloaded]. Default 100,000.
	MaxPending int64
	// MaxInFlight is how many calls of Admit may be waiting at a time; more are refused
	// with [order.ErrOverloaded] at once. Default 20,000.
	MaxInFlight int64
	// WaitReplicas is how many replicas must have an order before its buyer is told of it
	// (WAIT). Where fewer do within WaitTimeout the batch is asked for again, and ends with
	// [order.ErrUnavailable] after Patience. Default 0: the primary's word is enough.
	WaitReplicas int
	// WaitTimeout bounds that wait, in each attempt. Default half of AttemptTimeout.
	WaitTimeout time.Duration

	Observer Observer
}

// WithDefaults returns c with every zero replaced that has a default.
func (c Config) WithDefaults() Config {
	for _, d := range []struct {
		value *time.Duration
		other time.Duration
	}{
		{&c.AttemptTimeout, 500 * time.Millisecond},
		{&c.Patience, 2 * time.Second},
		{&c.OpenWait, 500 * time.Millisecond},
		{&c.Recheck, 100 * time.Millisecond},
		{&c.CheckEvery, 5 * time.Second},
		{&c.Remembered, time.Hour},
	} {
		if *d.value == 0 {
			*d.value = d.other
		}
	}
	if c.WaitTimeout == 0 {
		c.WaitTimeout = c.AttemptTimeout / 2
	}
	if c.MaxPending == 0 {
		c.MaxPending = 100_000
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = 20_000
	}
	return c
}

// Validate says what is missing or cannot work.
func (c Config) Validate() error {
	switch {
	case c.Client == nil || c.Shelf == nil || c.Locker == nil || c.Log == nil:
		return errors.New("admission: incomplete configuration")
	case c.AttemptTimeout < time.Millisecond: // the script counts in them
		return fmt.Errorf("admission: AttemptTimeout is %v, less than 1ms", c.AttemptTimeout)
	case c.Patience < c.AttemptTimeout:
		return fmt.Errorf("admission: Patience is %v, less than one attempt, %v", c.Patience, c.AttemptTimeout)
	case c.WaitReplicas < 0:
		return fmt.Errorf("admission: WaitReplicas is %d, less than 0", c.WaitReplicas)
	case c.WaitReplicas > 0 && (c.WaitTimeout < time.Millisecond || c.WaitTimeout >= c.AttemptTimeout): // 0 ms would be for ever
		return fmt.Errorf("admission: WaitTimeout is %v, not from 1ms to less than AttemptTimeout, %v", c.WaitTimeout, c.AttemptTimeout)
	case c.OpenWait < 0 || c.Recheck < 0 || c.CheckEvery < 0 || c.Remembered < 0:
		return errors.New("admission: OpenWait, Recheck, CheckEvery and Remembered are not negative")
	case c.MaxPending < 0 || c.MaxInFlight < 0:
		return errors.New("admission: MaxPending and MaxInFlight are not negative")
	}
	return nil
}
