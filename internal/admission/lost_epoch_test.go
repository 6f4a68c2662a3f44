package admission

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// A data loss is also noted if the bucket was closed before for another reason: its epoch is not trusted again.
func TestDataLossInAClosedBucket(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	g := s.gate(nil)
	fail.NowIf(t, g.Open(t.Context(), &s.store.voucher))
	l := g.voucher(&s.store.voucher).buckets[0]
	_ = l.voucher.markClosed(l, 2, ledger.Closed)
	_ = l.voucher.markClosed(l, 2, ledger.DataLost)
	fail.NowIf(t, g.Open(t.Context(), &s.store.voucher))
	fail.Unequal(t, l.knownState().Epoch, 4, "epoch")
}

// The same while the voucher is being opened, after Redis was found to be complete.
func TestDataLossDuringTheOpening(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, 5, nil)
		p := b.voucher(&b.store.voucher)
		p.lifecycle.opening = make(chan struct{})
		found := []ledger.Known{p.buckets[0].knownState()}
		_ = p.buckets[0].voucher.markClosed(p.buckets[0], found[0].Epoch, ledger.DataLost)
		if last, err := p.finishAttempt(found, nil); last || !errors.Is(err, errDataLost) || p.buckets[0].knownState().Epoch != 0 {
			t.Errorf("last %v, error %v, known %+v", last, err, p.buckets[0].knownState())
		}
		found[0].Epoch += 2
		if last, err := p.finishAttempt(found, nil); !last || err != nil || p.buckets[0].knownState() != found[0] {
			t.Errorf("the next Epoch: last %v, error %v, known %+v", last, err, p.buckets[0].knownState())
		}
	})
}

// An opener dies after the epoch was opened in the database and before it is in Redis, which is open under the one
// before and has all orders. What it accepted would be rejected.
func TestRedisIsOpenUnderAnEarlierEpoch(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	fail.NowIf(t, s.gate(nil).Open(t.Context(), &s.store.voucher))
	closed, err := s.store.Close(t.Context(), s.store.voucher.ID)
	fail.NowIf(t, err)
	fail.NowIf(t, fail.Of(s.store.Open(t.Context(), s.store.voucher.ID, closed.Epoch)))
	g := s.gate(nil)
	fail.NowIf(t, s.buy(g, 1, 11))
	s.takeAll()
	s.balanced(g, 1)
}

// The request that detected a data loss may leave before it has the voucher opened. Then the check opens it.
func TestCheckOpensAPartlyClosedVoucher(t *testing.T) {
	t.Parallel()
	inBubble(t, 40, func(t *testing.T, s *fixture, _ *simulate.Redis) {
		s.split(4)
		g := s.gate(nil)
		fail.NowIf(t, g.Open(t.Context(), &s.store.voucher))
		_ = g.voucher(&s.store.voucher).buckets[1].voucher.markClosed(g.voucher(&s.store.voucher).buckets[1], 2, ledger.DataLost)
		g.Check(t.Context())
		until(t, "all buckets open", func() bool {
			for _, known := range g.voucher(&s.store.voucher).knownStates() {
				if known.Epoch == 0 {
					return false
				}
			}
			return true
		})
		g.Check(t.Context()) // the others find that theirs is over
		fail.NowIf(t, g.Open(t.Context(), &s.store.voucher))
		for bucket, known := range g.voucher(&s.store.voucher).knownStates() {
			fail.Unequal(t, known.Epoch, 4, "bucket %d has epoch", bucket)
		}
	})
}

// While a closed voucher is drained, a replica that does not know of the closed epoch is promoted. The orders that it
// still accepts must not be of an epoch that is over, so the voucher is closed there first.
func TestPromotionDuringTheDrain(t *testing.T) {
	t.Parallel()
	inBubble(t, 10, func(t *testing.T, s *fixture, _ *simulate.Redis) {
		g := s.gate(nil)
		fail.NowIf(t, s.buy(g, 1, 11))
		b := g.voucher(&s.store.voucher).buckets[0]
		_ = b.voucher.markClosed(b, 2, ledger.DataLost)
		opened := make(chan error, 1)
		go func() { opened <- g.Open(t.Context(), &s.store.voucher) }()
		epoch := func() string { return s.client.HGet(t.Context(), s.keys.Meta, "epoch").Val() }
		until(t, "the bucket is closed", func() bool { return epoch() == "3" })
		fail.NowIf(t, s.client.HSet(t.Context(), s.keys.Meta, "epoch", 2).Err())
		s.takeAll()
		fail.NowIf(t, <-opened)
		fail.Unequal(t, epoch(), "4", "an epoch began while the one before was open in Redis")
		s.balanced(g, 1)
	})
}

// A voucher that was sold out may have stock when it is opened again.
func TestOpeningClearsSoldOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, 0, nil)
		fail.NowUnless(t, b.buy(t.Context(), 1), voucher.ErrSoldOut)
		b.put(0, 1)
		_ = b.voucher(&b.store.voucher).buckets[0].voucher.markClosed(b.voucher(&b.store.voucher).buckets[0], 2, ledger.Closed)
		fail.NowIf(t, b.Open(t.Context(), &b.store.voucher))
		fail.If(t, b.buy(t.Context(), 2))
	})
}

// While no attempt can have acted on an order, its request can leave.
func TestRequestLeavesWhileNoAttemptHasActed(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for name, c := range map[string]struct {
		err  error
		want error
	}{
		"nothing was done": {dial, context.Canceled},
		"nobody knows":     {&net.OpError{Op: "read", Err: errors.New("reset")}, order.ErrUnavailable},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t, 1, nil)
			b.spoil = func(n int64) (bool, error) {
				if n == 1 {
					return false, c.err
				}
				return false, dial
			}
			ctx, hangUp := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, hangUp)
			fail.Unless(t, b.buy(ctx, 1), c.want, "%s", name)
		})
	}
}
