package admission

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/admission/batch"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// slow is a gate whose round trips take a second.
func slow(c *Config) { c.AttemptTimeout, c.DecisionTimeout = 10*time.Second, 10*time.Second }

// leaver is a buyer who cancels after a while, and the answer that is expected.
type leaver struct {
	name         string
	joins, leave time.Duration // since the beginning
	want         error
	answered     time.Duration
}

func (l *leaver) run(t *testing.T, b *bubble, user int64) {
	begun := time.Now()
	simulate.Sleep(l.joins)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stop := time.AfterFunc(l.leave-l.joins, cancel)
	defer stop.Stop()
	err := b.buy(ctx, user)
	if took := time.Since(begun); !errors.Is(err, l.want) || took != l.answered {
		t.Errorf("%s: %v after %v, want %v after %v", l.name, err, took, l.want, l.answered)
	}
}

func TestRequestLeavesAStalledQueueAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, 100, slow)
		b.trip = time.Second
		const ms, never = time.Millisecond, time.Hour
		var wg sync.WaitGroup
		for i, l := range []leaver{
			{"is sent", 0, 100 * ms, nil, 1000 * ms},
			{"leaves before anybody was told", 1 * ms, 5 * ms, context.Canceled, 1*ms + batch.StalledAfter},
			{"leaves", 2 * ms, 300 * ms, context.Canceled, 300 * ms},
			{"stays", 2 * ms, never, nil, 2000 * ms},
			{"comes later and leaves", 400 * ms, 401 * ms, context.Canceled, 401 * ms},
			{"comes later and stays", 400 * ms, never, nil, 2000 * ms},
			{"leaves when it is on its way", 500 * ms, 1500 * ms, nil, 2000 * ms},
		} {
			wg.Go(func() { l.run(t, b, int64(i+1)) })
		}
		simulate.Sleep(450 * ms)
		synctest.Wait()
		fail.Unequal(t, b.inFlight.Len(), 3, "in flight after three have left")
		wg.Wait()
		if want := []int{1, 3}; !slices.Equal(b.sent.all, want) {
			t.Errorf("batches of %v, want %v: a request that left was sent", b.sent.all, want)
		}
	})
}

// While a voucher is being opened no request is sent, and all requests can leave.
func TestRequestLeavesWhileTheVoucherIsOpened(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, 100, slow)
		b.store.fail(errors.Join(order.ErrUnavailable, io.EOF))
		l := b.voucher(&b.store.voucher).buckets[0]
		_ = l.voucher.markClosed(l, l.knownState().Epoch, ledger.Closed)
		const ms = time.Millisecond
		var wg sync.WaitGroup
		for i, l := range []leaver{
			{"leaves", 0, 100 * ms, context.Canceled, 100 * ms},
			{"comes later and leaves", 200 * ms, 210 * ms, context.Canceled, 210 * ms},
			{"stays", 0, time.Hour, order.ErrUnavailable, b.config.OpenWait},
		} {
			wg.Go(func() { l.run(t, b, int64(i+1)) })
		}
		wg.Wait()
		b.store.fail(nil)
		fail.If(t, b.Open(t.Context(), &b.store.voucher))
		if err := b.buy(t.Context(), 9); err != nil || b.order(1) != 0 || b.order(2) != 0 {
			t.Errorf("afterwards: %v; a request that left was sent", err)
		}
	})
}

// watchedContext is a context that counts how often it is watched.
type watchedContext struct {
	context.Context
	waited *atomic.Int64
}

func (s watchedContext) Done() <-chan struct{} {
	s.waited.Add(1)
	return s.Context.Done()
}

func TestNoRequestWatchesItsContextWhileTheQueueMoves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, 100_000, nil)
		b.trip = batch.StalledAfter - time.Millisecond
		var waited atomic.Int64
		var wg sync.WaitGroup
		for buyer := range int64(1000) {
			wg.Go(func() {
				for n := range int64(20) {
					fail.If(t, b.buy(watchedContext{t.Context(), &waited}, buyer*20+n+1))
				}
			})
		}
		wg.Wait()
		if n := waited.Load(); n > 0 {
			t.Errorf("%d requests watched their contexts", n)
		}
	})
}

// Many requests arrive and leave at any time, on a server that is fast and slow in turns. Each is answered once, a
// request that has left was not sent, and all others have an order.
func TestQueueWithManyCancellations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, 1_000_000, slow)
		chance := rand.New(rand.NewPCG(1, 2)) // its user is one round trip at a time
		b.spoil = func(int64) (bool, error) {
			simulate.Sleep(time.Duration(chance.IntN(30)) * time.Millisecond)
			return true, nil
		}
		var wg sync.WaitGroup
		var left, sold atomic.Int64
		for buyer := range int64(1500) {
			wg.Go(func() {
				chance := rand.New(rand.NewPCG(3, uint64(buyer)))
				for n := range int64(5) {
					simulate.Sleep(time.Duration(chance.IntN(20)) * time.Millisecond)
					user := buyer*5 + n + 1
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(chance.IntN(50_000))*time.Microsecond)
					err := b.buy(ctx, user)
					ended := ctx.Err() != nil
					cancel()
					has := b.order(user) != 0
					switch {
					case err == nil && has:
						sold.Add(1)
					case errors.Is(err, context.DeadlineExceeded) && !has && ended:
						left.Add(1)
					default:
						t.Errorf("user %d: %v, has an order: %t", user, err, has)
					}
				}
			})
		}
		wg.Wait()
		t.Logf("%d sold, %d left", sold.Load(), left.Load())
		if sold.Load() < 500 || left.Load() < 500 || b.inFlight.Len() != 0 {
			t.Errorf("%d sold, %d left, %d in flight", sold.Load(), left.Load(), b.inFlight.Len())
		}
	})
}

func TestQueueTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var waits []time.Duration // one worker writes
		b := newBubble(t, 5, func(c *Config) {
			slow(c)
			c.Observer.Queued = func(d time.Duration) { waits = append(waits, d) }
		})
		b.trip = time.Second
		var wg sync.WaitGroup
		for user, joins := range []time.Duration{0, 300 * time.Millisecond, 900 * time.Millisecond, 1100 * time.Millisecond} {
			wg.Go(func() {
				simulate.Sleep(joins)
				_ = b.buy(t.Context(), int64(user+1))
			})
		}
		wg.Wait()
		_ = b.Close()
		if want := []time.Duration{0, 700 * time.Millisecond, 900 * time.Millisecond}; !slices.Equal(waits, want) {
			t.Errorf("the oldest waited %v, want %v", waits, want)
		}
	})
}
