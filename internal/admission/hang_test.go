package admission

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// Rebalancing waits for a bucket whose node hangs only at intervals, not each time. The voucher is not reported as sold
// out before that bucket answers.
func TestRebalancingSkipsABucketThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newSplitBubble(t, testBuckets, 64, nil)
		b.unread = func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		begun, readings := time.Now(), b.readings.Load()
		for n := range 64 {
			fail.NowIf(t, b.buy(t.Context(), of(1+n%2, n)), "order %d", n)
		}
		if n := b.readings.Load() - readings; n < 5 {
			t.Errorf("%d transfers: this proves nothing", n)
		}
		if took := time.Since(begun); took > b.config.AttemptTimeout/4+300*time.Millisecond {
			t.Errorf("64 orders took %v", took)
		}
		fail.Unless(t, b.buy(t.Context(), of(1, 70)), order.ErrUnavailable, "while the stock of the bucket is unknown")
		b.unread = nil
		fail.Unless(t, b.buy(t.Context(), of(1, 70)), voucher.ErrSoldOut, "when it answers again")
	})
}

// hangingNode is a node that has every voucher but one, and does not answer.
type hangingNode struct {
	buckets
	answers  ledger.Keys // of the voucher on another node
	answered time.Time   // when that was read

	mu          sync.Mutex
	asked, most int // how many wait, and how many have waited at once
}

func (n *hangingNode) States(ctx context.Context, buckets []ledger.Keys) []ledger.State {
	if buckets[0] == n.answers {
		n.answered = time.Now()
		return n.buckets.States(ctx, buckets)
	}
	n.wait(1)
	defer n.wait(-1)
	<-ctx.Done()
	return []ledger.State{{Err: ctx.Err(), Heard: time.Now()}}
}

func (n *hangingNode) wait(more int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked += more
	n.most = max(n.most, n.asked)
}

// sameForAll is a database in which every voucher is as the one.
type sameForAll struct{ *store }

func (s sameForAll) EpochState(ctx context.Context, _ int64) (contract.EpochState, error) {
	return s.store.EpochState(ctx, s.voucher.ID)
}

// A hundred vouchers are on a node that hangs. The checks of those whose turn it is take no longer than a few of them,
// and so many at once is the most.
func TestCheckWhileANodeHangs(t *testing.T) {
	t.Parallel()
	inBubble(t, 5, func(t *testing.T, s *fixture, _ *simulate.Redis) {
		sh, c := s.store, s.config
		node := &hangingNode{buckets: newLedger(c), answers: s.keys}
		c.Store = sameForAll{sh}
		g := newGate(c.WithDefaults(), node)
		fail.NowIf(t, g.Open(t.Context(), &sh.voucher))
		for n := range int64(100) {
			hanging := sh.voucher
			hanging.ID += n + 1
			g.voucher(&hanging)
		}
		for range 10 {
			begun := time.Now()
			const turns = 101/idleChecks + 1 // nobody buys any of them
			for range turns {
				g.Check(t.Context())
			}
			if took := time.Since(begun); took > turns*4*storeTimeout {
				t.Errorf("the checks took %v", took)
			}
			if node.answered.Before(begun) {
				t.Error("the voucher on the other node was not checked")
			}
		}
		if node.most > checksAtOnce {
			t.Errorf("%d at once", node.most)
		}
		fail.Unequal(t, len(g.all()), 101, "vouchers that the gate knows")
		_ = g.Close()
	})
}
