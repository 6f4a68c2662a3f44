package admission

import (
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

func TestRequestsThatArriveMeanwhileAreBatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, 5000, nil)
		var wg sync.WaitGroup
		begun := time.Now()
		wg.Go(func() { _ = b.buy(t.Context(), 1) })
		synctest.Wait() // the first is under way
		for user := range int64(MaxBatch + 88) {
			wg.Go(func() {
				fail.If(t, b.buy(t.Context(), user+2))
			})
		}
		wg.Wait()
		if want := []int{1, MaxBatch, 88}; !slices.Equal(b.sent.all, want) {
			t.Errorf("batches of %v, want %v", b.sent.all, want)
		}
		fail.Unequal(t, time.Since(begun), 3*b.trip, "three round trips took")
	})
}

// refused is an error that a server replied with.
type refused string

func (r refused) Error() string { return string(r) }

func (refused) RedisError() {}

var _ redis.Error = refused("")

func TestOutcomeAfterAFailedAttempt(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(int64) (bool, error){
		"the reply was lost":        func(n int64) (bool, error) { return true, map[int64]error{1: io.EOF}[n] },
		"the request was lost":      func(n int64) (bool, error) { return n > 1, map[int64]error{1: io.EOF}[n] },
		"the server loads its data": func(n int64) (bool, error) { return n > 3, map[bool]error{true: refused("LOADING")}[n <= 3] },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, 1, nil)
				b.spoil = spoil
				fail.If(t, b.buy(t.Context(), 1))
				fail.Unequal(t, b.order(1), 10, "Redis has order")
				b.redis.takeAll()
				b.redis.balanced(b.Gate, 1)
			})
		})
	}
}

// A call whose reply is lost may still act until its expiry. No refusal is final before that, of one bucket or of
// several.
func TestRefusalWaitsUntilNoEarlierCallCanAct(t *testing.T) {
	t.Parallel()
	for _, buckets := range []int{1, testBuckets} {
		refusalWaits(t, buckets)
	}
}

func refusalWaits(t *testing.T, buckets int) {
	synctest.Test(t, func(t *testing.T) {
		b := newSplitBubble(t, buckets, 0, func(c *Config) { c.AttemptTimeout = 300 * time.Millisecond })
		b.spoil = func(n int64) (bool, error) {
			switch n {
			case 1:
				return false, io.EOF
			case 3: // meanwhile the first call has acted
				b.redis.client.HSet(t.Context(), b.voucher(&b.store.voucher).bucketOf(1).keys.Users, "1", "10")
			}
			return true, nil
		}
		begun := time.Now()
		fail.If(t, b.buy(t.Context(), 1), "the order was accepted")
		if took := time.Since(begun); took < 300*time.Millisecond || took > 350*time.Millisecond {
			t.Errorf("took %v, want about the expiry, 300ms", took)
		}
	})
}

func TestUnavailableAfterDecisionTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, 5, nil)
		b.spoil = func(int64) (bool, error) { return false, io.EOF }
		begun := time.Now()
		var wg sync.WaitGroup
		for user := range int64(20) {
			wg.Go(func() {
				fail.Unless(t, b.buy(t.Context(), user+1), order.ErrUnavailable)
			})
		}
		wg.Wait()
		fail.Unequal(t, time.Since(begun), 2*time.Second, "the DecisionTimeout of all")
		b.spoil = nil
		fail.Unless(t, b.buy(t.Context(), 99), nil, "afterwards")
	})
}

// The reply to an order is lost, and the voucher is forgotten before the order can be sent again. That the sale is over
// is no answer then: the order may have been accepted.
func TestOutcomeIsUnknownAlthoughTheVoucherIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, 5, nil)
		b.spoil = func(int64) (bool, error) {
			b.store.mu.Lock()
			b.store.epochState.Epoch, b.store.epochState.Forgotten = 3, true
			b.store.mu.Unlock()
			v := b.known(b.store.voucher.ID)
			_ = v.markClosed(v.buckets[0], 2, ledger.Closed) // as a check does
			return true, io.EOF
		}
		simulate.Sleep(time.Until(b.store.voucher.EndAt) - 2*b.trip)
		err := b.buy(t.Context(), 1)
		if !errors.Is(err, order.ErrUnavailable) || errors.Is(err, voucher.ErrEnded) || !strings.Contains(err.Error(), voucher.ErrEnded.Error()) {
			t.Errorf("%v, want ErrUnavailable with the cause as text", err)
		}
		fail.Unequal(t, b.order(1), 10, "the order that was accepted, without which this proves nothing")
		fail.Unless(t, b.buy(t.Context(), 2), voucher.ErrEnded, "an order that was not sent")
	})
}

func TestClosedGateAndFullGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, 5, func(c *Config) { c.MaxInFlight = 1 })
		var wg sync.WaitGroup
		wg.Go(func() {
			fail.Unless(t, b.buy(t.Context(), 1), nil, "a request that was sent before the gate closed")
		})
		synctest.Wait()
		fail.Unless(t, b.buy(t.Context(), 2), order.ErrOverloaded, "beyond the bound")
		_ = b.Close()
		wg.Wait()
		fail.Unless(t, b.buy(t.Context(), 3), order.ErrUnavailable, "after the close")
	})
}
