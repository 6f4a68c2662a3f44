package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/lock"
	"seckill/internal/order"
)

// MaxBatch is the most orders that one call of admit.lua decides about. It bounds how long one call keeps Redis busy,
// at about 3 µs an order.
const MaxBatch = 512

// Store is what the gate needs of the database. A [contract.AdmissionStore] implements it.
type Store interface {
	EpochState(ctx context.Context, voucherID int64) (contract.EpochState, error)
	Close(ctx context.Context, voucherID int64) (contract.EpochState, error)
	CloseAbove(ctx context.Context, voucherID, epoch int64) (contract.EpochState, error)
	Open(ctx context.Context, voucherID, closed int64) (contract.EpochState, error)
	LiveOrders(ctx context.Context, voucherID, afterUser int64, limit int) ([]order.Order, error)
	AdmissionVouchers(ctx context.Context, endsAfter time.Time) ([]contract.AdmissionVoucher, error)
	AdmissionVouchersOf(ctx context.Context, ids []int64) ([]contract.AdmissionVoucher, error)
	Forget(ctx context.Context, voucherID, closed int64, endedBy time.Time) error
	Cleared(ctx context.Context, voucherID, forgotten int64) error
	UnclearedVouchers(ctx context.Context, endedBy time.Time, after int64, limit int) ([]contract.AdmissionVoucher, error)
}

// Workers persist the orders that the gate accepts. A [fulfil.Fulfiller] implements it.
type Workers interface {
	// Await is the method of [order.Gate].
	Await(ctx context.Context, o order.Order, limit time.Duration) error
	// Watch has the workers read a voucher's streams from now on.
	Watch(ctx context.Context, v contract.AdmissionVoucher) error
	// Wake has the workers look for entries of a bucket, to which the gate is about to add some. It does not block.
	Wake(voucherID int64, bucket int)
	// Watched lists the vouchers whose streams they read, without epochs. It reports false while some may be missing
	// that have orders which are not persisted.
	Watched() (vouchers []contract.AdmissionVoucher, complete bool)
}

// Config is what a [Gate] needs. Client, Store, Workers, Locker and Log are required. A zero in the other fields takes
// the default.
type Config struct {
	Client  ledger.Client
	Store   Store
	Workers Workers
	// Locker makes sure that one process at a time opens a voucher. Any mechanism with a lease does.
	Locker lock.Locker
	Log    *slog.Logger
	// Generation returns the generation of the pair of database and Redis, or why they do not belong together: then the
	// gate accepts nothing, and opens nothing. See [pairing.Pairing.Generation]. nil: they do, under generation 0.
	Generation func() (int64, error)
	// Confirm is Generation of now: it asks both stores before a voucher is rebuilt. nil: as Generation.
	Confirm func(ctx context.Context) error
	// Prefix precedes every key, so that several installations can share one Redis.
	Prefix string

	// AttemptTimeout bounds one round trip. Default 500 ms.
	AttemptTimeout time.Duration
	// DecisionTimeout bounds how long the gate tries to find out the outcome of a batch. Default 2 s.
	DecisionTimeout time.Duration
	// OpenWait is how long requests wait for a voucher that is being opened, before they are told to come back. Default
	// 500 ms.
	OpenWait time.Duration
	// RecheckEvery is how often one request asks Redis although the voucher was sold out. Default 100 ms.
	RecheckEvery time.Duration
	// CheckEvery is how often [Gate.Run] compares Redis with the database. Default 5 s.
	CheckEvery time.Duration
	// LookupAfterSale is for how long after a sale its orders are looked for in Redis in any case. Later they are
	// looked for while the workers read the voucher's streams, as they do until the last order is persisted. Default 1
	// h.
	LookupAfterSale time.Duration
	// MaxPending is how many orders of a voucher may be accepted and not persisted yet. More are refused with
	// [order.ErrOverloaded]. Default 100,000.
	MaxPending int64
	// OrdersPerEntry is how many of the orders that a call accepts one entry of the stream may have. Default
	// [ledger.DefaultOrdersPerEntry]; 1 while consumers run that know no entries with several orders.
	OrdersPerEntry int
	// MaxInFlight is how many calls of Admit may wait at a time. More are refused with [order.ErrOverloaded] at once.
	// Default 20,000.
	MaxInFlight int64
	// WaitReplicas is how many replicas must have an order before its buyer is told of it (WAIT). If fewer do within
	// WaitTimeout, the batch is sent again, and ends with [order.ErrUnavailable] after DecisionTimeout. Default 0: the
	// primary's reply is enough.
	WaitReplicas int
	// WaitTimeout bounds that wait, in each attempt. Default half of AttemptTimeout.
	WaitTimeout time.Duration

	Observer Observer
}

// WithDefaults returns c with the defaults in place of zeros.
func (c Config) WithDefaults() Config {
	for _, d := range []struct {
		value *time.Duration
		other time.Duration
	}{
		{&c.AttemptTimeout, 500 * time.Millisecond},
		{&c.DecisionTimeout, 2 * time.Second},
		{&c.OpenWait, 500 * time.Millisecond},
		{&c.RecheckEvery, 100 * time.Millisecond},
		{&c.CheckEvery, 5 * time.Second},
		{&c.LookupAfterSale, time.Hour},
	} {
		if *d.value == 0 {
			*d.value = d.other
		}
	}
	if c.Generation == nil {
		c.Generation = func() (int64, error) { return 0, nil }
	}
	if c.Confirm == nil {
		c.Confirm = func(context.Context) error { return c.paired() }
	}
	if c.WaitTimeout == 0 {
		c.WaitTimeout = c.AttemptTimeout / 2
	}
	if c.MaxPending == 0 {
		c.MaxPending = 100_000
	}
	if c.OrdersPerEntry == 0 {
		c.OrdersPerEntry = ledger.DefaultOrdersPerEntry
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = 20_000
	}
	return c
}

// Validate returns an error if something is missing or cannot work.
func (c Config) Validate() error {
	switch {
	case c.Client == nil || c.Store == nil || c.Workers == nil || c.Locker == nil || c.Log == nil:
		return errors.New("admission: incomplete configuration")
	case c.AttemptTimeout < time.Millisecond: // the script counts in ms
		return fmt.Errorf("admission: AttemptTimeout is %v, less than 1ms", c.AttemptTimeout)
	case c.DecisionTimeout < c.AttemptTimeout:
		return fmt.Errorf("admission: DecisionTimeout is %v, less than AttemptTimeout, %v",
			c.DecisionTimeout, c.AttemptTimeout)
	case c.WaitReplicas < 0:
		return fmt.Errorf("admission: WaitReplicas is %d, less than 0", c.WaitReplicas)
	// WAIT with 0 ms would block for ever.
	case c.WaitReplicas > 0 && (c.WaitTimeout < time.Millisecond || c.WaitTimeout >= c.AttemptTimeout):
		return fmt.Errorf("admission: WaitTimeout is %v, not from 1ms to less than AttemptTimeout, %v",
			c.WaitTimeout, c.AttemptTimeout)
	case c.OpenWait < 0 || c.RecheckEvery < 0 || c.CheckEvery < 0 || c.LookupAfterSale < 0:
		return errors.New("admission: OpenWait, RecheckEvery, CheckEvery and LookupAfterSale must not be negative")
	case c.OrdersPerEntry < 1 || c.OrdersPerEntry > MaxBatch:
		return fmt.Errorf("admission: OrdersPerEntry is %d, not from 1 to %d", c.OrdersPerEntry, MaxBatch)
	case c.MaxPending < 0 || c.MaxInFlight < 0:
		return errors.New("admission: MaxPending and MaxInFlight must not be negative")
	}
	return nil
}
