package admission

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// That Redis has forgotten something is kept in mind also where the bucket was shut
// already, for a lesser reason: the epoch is not taken for good again.
func TestForgottenAfterItWasShut(t *testing.T) {
	s := newStage(t, testkit.Redis(t).Addr(), 10)
	g := s.gate(nil)
	if err := g.Open(t.Context(), &s.shelf.voucher); err != nil {
		t.Fatal(err)
	}
	l := g.pool(&s.shelf.voucher).lines[0]
	_ = l.shut(2, closed)
	_ = l.shut(2, forgotten)
	if err := g.Open(t.Context(), &s.shelf.voucher); err != nil {
		t.Fatal(err)
	}
	if epoch := l.knows().epoch; epoch != 4 {
		t.Errorf("epoch %d, want 4", epoch)
	}
}

// The same while the voucher is being opened, after Redis was found to be right.
func TestForgottenWhileItIsOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, 5, nil)
		p := b.pool(&b.shelf.voucher)
		p.door.opening = make(chan struct{})
		found := []seen{p.lines[0].knows()}
		_ = p.lines[0].shut(found[0].epoch, forgotten)
		if last, err := p.enter(found, nil); last || !errors.Is(err, errForgotten) || p.lines[0].knows().epoch != 0 {
			t.Errorf("last %v, error %v, known %+v", last, err, p.lines[0].knows())
		}
		found[0].epoch += 2
		if last, err := p.enter(found, nil); !last || err != nil || p.lines[0].knows() != found[0] {
			t.Errorf("the next epoch: last %v, error %v, known %+v", last, err, p.lines[0].knows())
		}
		_ = b.Close()
	})
}

// Whoever found that a bucket has forgotten something may be gone before he has the
// voucher opened. A check does.
func TestCheckOpensWhatIsPartlyShut(t *testing.T) {
	s := newStage(t, testkit.Redis(t).Addr(), 40)
	s.split(4)
	g := s.gate(nil)
	if err := g.Open(t.Context(), &s.shelf.voucher); err != nil {
		t.Fatal(err)
	}
	_ = g.pool(&s.shelf.voucher).lines[1].shut(2, forgotten)
	g.Check(t.Context())
	eventually(t, "all buckets open", func() bool {
		for _, known := range g.pool(&s.shelf.voucher).known() {
			if known.epoch == 0 {
				return false
			}
		}
		return true
	})
	g.Check(t.Context()) // the others find that theirs is over
	if err := g.Open(t.Context(), &s.shelf.voucher); err != nil {
		t.Fatal(err)
	}
	for bucket, known := range g.pool(&s.shelf.voucher).known() {
		if known.epoch != 4 {
			t.Errorf("bucket %d has epoch %d, want 4", bucket, known.epoch)
		}
	}
}

// A voucher that was sold out and is opened again may have stock.
func TestOpeningLiftsTheMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, 0, nil)
		if err := b.buy(t.Context(), 1); !errors.Is(err, voucher.ErrSoldOut) {
			t.Fatal(err)
		}
		b.fake.mu.Lock()
		*b.fake.stock() = 1
		b.fake.mu.Unlock()
		_ = b.pool(&b.shelf.voucher).lines[0].shut(2, closed)
		if err := b.Open(t.Context(), &b.shelf.voucher); err != nil {
			t.Fatal(err)
		}
		if err := b.buy(t.Context(), 2); err != nil {
			t.Error(err)
		}
		_ = b.Close()
	})
}

// Where it is sure that nothing was done about an order, its buyer may leave.
func TestWhoHangsUpBeforeAnythingWasDoneLeaves(t *testing.T) {
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
			b.fake.spoil = func(n int64) (bool, error) {
				if n == 1 {
					return false, c.err
				}
				return false, dial
			}
			ctx, hangUp := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, hangUp)
			if err := b.buy(ctx, 1); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
			_ = b.Close()
		})
	}
}
