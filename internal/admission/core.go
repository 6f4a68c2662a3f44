package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// core is what the parts of a gate share.
type core struct {
	config  Config
	ledger  buckets
	reader  *ledger.Ledger // for lookups, which read many buckets at once
	started time.Time

	// working are the goroutines of vouchers and buckets. Once closing, no more are started.
	starting sync.RWMutex
	working  sync.WaitGroup
	closing  context.Context
	cancel   context.CancelFunc
}

// buckets is what the gate does with buckets in Redis; a [ledger.Ledger] does it.
type buckets interface {
	Admit(ctx context.Context, b *ledger.Batch) (ledger.Decision, error)
	States(ctx context.Context, buckets []ledger.Keys) []ledger.State
	Give(ctx context.Context, keys ledger.Keys, epoch int64, to int, more bool) (ledger.Transfer, error)
	Take(ctx context.Context, keys ledger.Keys, epoch int64, from int, total int64) (ledger.Transfer, error)
	Return(ctx context.Context, keys ledger.Keys, r contract.Return) (ledger.Transfer, error)
	Close(ctx context.Context, keys ledger.Keys, epoch int64) (int64, error)
	Prepare(ctx context.Context, users []ledger.Users) error
	Discard(ctx context.Context, keys ledger.Keys, epoch int64) error
	Open(ctx context.Context, keys ledger.Keys, o ledger.Opening) (bool, error)
	SetWindow(ctx context.Context, keys ledger.Keys, w ledger.Window) error
	Replicate(ctx context.Context, keys ledger.Keys, o order.Order) (bool, error)
	Remove(ctx context.Context, keys ledger.Keys, epoch int64, all bool) (ledger.Removal, error)
}

var _ buckets = (*ledger.Ledger)(nil)

func newCore(c Config, b buckets) *core {
	shared := &core{config: c, ledger: b, reader: newLedger(c), started: time.Now()}
	shared.closing, shared.cancel = context.WithCancel(context.Background())
	return shared
}

func newLedger(c Config) *ledger.Ledger {
	return ledger.New(c.Client, ledger.Options{WaitReplicas: c.WaitReplicas, WaitTimeout: c.WaitTimeout, Generation: c.generation})
}

// generation is the latest known generation.
func (c *Config) generation() int64 {
	n, _ := c.Generation()
	return n
}

// paired returns why the database and Redis do not belong together.
func (c *Config) paired() error {
	_, err := c.Generation()
	return err
}

// spawn runs work in a goroutine that close waits for, and reports whether it does.
func (c *core) spawn(work func()) bool {
	c.starting.RLock()
	defer c.starting.RUnlock()
	if c.closing.Err() != nil {
		return false
	}
	c.working.Go(work)
	return true
}

// close starts no more goroutines and waits for the others.
func (c *core) close() {
	c.starting.Lock()
	c.cancel()
	c.starting.Unlock()
	c.working.Wait()
	c.reader.CloseTracking()
}

// now is a clock that never steps back. The gate compares it with Redis' clock.
func (c *core) now() time.Duration { return time.Since(c.started) }

// storeTimeout bounds one call to a server that no buyer's answer waits for.
const storeTimeout = 5 * time.Second

// Causes of an [order.ErrUnavailable]: why a voucher is not open, or a batch has no answer yet.
var (
	errClosed        = errors.New("the gate is closed")
	errNotOpen       = errors.New("not open in Redis under the epoch known")
	errDataLost      = errors.New("data was lost in Redis")
	errTorn          = errors.New("a script stopped in its middle in Redis")
	errBehind        = errors.New("not everything that the database has is in Redis")
	errStarting      = errors.New("it is not known yet which vouchers have orders that are not persisted")
	errOpening       = errors.New("the voucher is being opened")
	errEpochChanged  = errors.New("the epoch is another one by now")
	errLate          = errors.New("the call took too long to reach Redis")
	errInDoubt       = errors.New("an earlier call may still act")
	errUnreachable   = errors.New("the bucket did not answer a moment ago")
	errBucketCount   = errors.New("the voucher has another number of buckets")
	errWindowChanged = errors.New("the sale's window has changed")
	errNotReturned   = errors.New("the order's first voucher has not come back yet")
)

func unavailable(cause error) error { return fmt.Errorf("%w: %w", order.ErrUnavailable, cause) }

// notAdmitted is the answer to requests that wait for a voucher that cannot be opened.
func notAdmitted(cause error) error {
	if errors.Is(cause, voucher.ErrEnded) { // it is forgotten
		return voucher.ErrEnded
	}
	return unavailable(cause)
}

// sleep waits for a pause, and reports false if ctx ends before.
func sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// neverOpened reports whether the first even epoch, and with it the first order, is still to come.
func neverOpened(epoch int64) bool { return epoch <= 1 }
