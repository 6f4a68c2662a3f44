package admission

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// grantsEverybody grants a lock to every caller: a lock is worth no more once its holder was paused.
type grantsEverybody struct{}

func (grantsEverybody) Acquire(ctx context.Context, key string, _ lock.Options) (lock.Lease, error) {
	return lock.NewHeld(ctx, lock.Grant{Key: key, Owner: "me", Release: func(context.Context) error { return nil }}), nil
}

// The epoch changes while buyers wait: orders accepted under the old epoch are drained and counted, the others are
// decided under the new one.
func TestEpochChangesUnderLoad(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 300)
	gates := []*Gate{s.gate(nil), s.gate(nil)}
	finish := s.run()
	var accepted atomic.Int64
	var wg sync.WaitGroup
	for w := range int64(50) {
		wg.Go(func() {
			for n := range int64(8) {
				user := w*8 + n + 1
				err := s.buy(gates[user%2], user, 100_000+user)
				for errors.Is(err, order.ErrUnavailable) {
					err = s.buy(gates[user%2], user, 100_000+user)
				}
				if err != nil && !errors.Is(err, voucher.ErrSoldOut) {
					t.Errorf("user %d: %v", user, err)
				}
				if err == nil && accepted.Add(1)%50 == 0 { // as another process would that distrusts Redis
					_, _ = s.store.Close(t.Context(), s.store.voucher.ID)
					gates[0].Check(t.Context())
				}
			}
		})
	}
	wg.Wait()
	finish()
	if s.store.epochState.Epoch < 6 || len(s.store.rejected) > 0 {
		t.Errorf("epoch %d, %d rejected", s.store.epochState.Epoch, len(s.store.rejected))
	}
	last := s.gate(nil)
	fail.NowIf(t, last.Open(t.Context(), &s.store.voucher))
	s.balanced(last, 300)
}

// A process that was stopped between the database and Redis continues when others have opened the voucher under a later
// epoch.
func TestLateOpenerChangesNothing(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	s.config.Locker = grantsEverybody{}
	stopped, goOn := make(chan struct{}), make(chan struct{})
	var opens atomic.Int64
	s.store.onOpen = func() {
		if opens.Add(1) == 1 {
			close(stopped)
			<-goOn
		}
	}
	slow, quick := s.gate(nil), s.gate(nil)
	opened := make(chan error, 1)
	go func() { opened <- slow.Open(context.Background(), &s.store.voucher) }()
	<-stopped
	fail.NowIf(t, s.buy(quick, 1, 11))
	close(goOn)
	fail.If(t, <-opened)
	fail.Unless(t, s.buy(slow, 1, 12), order.ErrAlreadyOrdered, "the late opener wrote over what there was")
	s.takeAll()
	s.balanced(slow, 1)
}

func TestOpeningWaitsForPendingOrders(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	fail.NowIf(t, s.buy(s.gate(nil), 1, 11))
	fail.NowIf(t, s.client.Del(t.Context(), s.keys.Meta).Err())
	g := s.gate(func(c *Config) { c.OpenWait = 50 * time.Millisecond })
	fail.Unless(t, s.buy(g, 2, 22), order.ErrUnavailable, "with an order on its way")
	fail.Unless(t, fail.Of(g.Audit(t.Context(), s.store.voucher.ID)), order.ErrUnavailable, "Audit while closed")
	s.takeAll()
	fail.NowIf(t, g.Open(t.Context(), &s.store.voucher))
	fail.Unless(t, s.buy(g, 1, 12), order.ErrAlreadyOrdered, "the user who was drained")
	s.balanced(g, 1)
}

func TestManyUsersAreCopied(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 3*pageSize)
	for user := range int64(2*pageSize + 1) {
		s.store.orders[user+1] = order.Order{ID: user + 10_000, UserID: user + 1}
		s.store.epochState.Stock--
	}
	g := s.gate(nil)
	for _, user := range []int64{1, pageSize, 2*pageSize + 1} {
		fail.Unless(t, s.buy(g, user, 1), order.ErrAlreadyOrdered, "user %d", user)
	}
	fail.Unequal(t, s.client.TTL(t.Context(), s.keys.Users).Val(), -1, "the users would be gone in")
	s.balanced(g, 2*pageSize+1)
}

func TestOpeningFails(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	g := s.gate(func(c *Config) { c.OpenWait = 50 * time.Millisecond })
	s.store.fail(errors.Join(order.ErrUnavailable, io.EOF))
	if err := s.buy(g, 1, 11); !errors.Is(err, order.ErrUnavailable) || !errors.Is(err, io.EOF) {
		t.Errorf("without a database: %v", err)
	}
	s.store.fail(nil)
	fail.Unless(t, g.Open(t.Context(), &s.store.voucher), nil, "with it")
	missing := s.store.voucher
	missing.ID = 5
	fail.Unless(t, g.Open(t.Context(), &missing), voucher.ErrNotFound, "a voucher that is not there")
}

func TestCheckDropsVouchersWhoseSaleIsOver(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	g := s.gate(func(c *Config) { c.LookupAfterSale = time.Nanosecond })
	s.store.voucher.EndAt = time.Now().Add(-time.Minute)
	fail.NowUnless(t, s.buy(g, 1, 11), voucher.ErrEnded)
	for len(g.all()) > 0 { // until its worker has gone
		g.Check(t.Context())
	}
}
