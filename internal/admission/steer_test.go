package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// change does what the transaction of an administrator's change does, under the closed epoch drained if that is not 0.
func (s *store) change(drained int64, c voucher.Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.voucher
	v.Stock = s.epochState.Stock
	v.Title, v.Policy = "a voucher", voucher.DefaultPolicy()
	changed, _, err := c.Apply(v, time.Now())
	switch {
	case err != nil:
		return err
	case c.AddStock < 0 && (drained%2 == 0 || drained != s.epochState.Epoch):
		return voucher.ErrNotDrained
	}
	s.epochState.Stock = changed.Stock
	if c.AddStock > 0 && s.epochState.Open() {
		s.epochState.ReturnedToFirst += c.AddStock
		s.epochState.Returned += c.AddStock
		s.epochState.Arrived = map[int]int64{0: s.epochState.ReturnedToFirst}
	}
	// The consumers read the ID without the lock.
	s.voucher.BeginAt, s.voucher.EndAt, s.voucher.Paused = changed.BeginAt, changed.EndAt, changed.Paused
	s.voucher.InitialStock, s.voucher.Revision = changed.InitialStock, changed.Revision
	return nil
}

func paused(is bool) voucher.Change { return voucher.Change{Paused: &is} }

func endsAt(at time.Time) voucher.Change { return voucher.Change{EndAt: &at} }

// steering plays a test with an unsplit voucher, and with one in buckets. buy tries to buy for new users, at two gates
// that have the voucher as it was when the test began, as a process has it whose cache is out of date.
func steering(t *testing.T, stock int64, play func(t *testing.T, s *fixture, gates []*Gate, buy func(n int) []error)) {
	for _, buckets := range []int{1, 3} {
		t.Run(fmt.Sprint(buckets, " buckets"), func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, testkit.AnyRedis(t), stock)
			s.split(buckets)
			gates := []*Gate{s.gate(nil), s.gate(nil)}
			fail.NowIf(t, gates[0].Open(t.Context(), &s.store.voucher))
			var user atomic.Int64
			old := s.store.voucher
			play(t, s, gates, func(n int) []error {
				all := make([]error, n)
				var buying sync.WaitGroup
				for i := range all {
					buying.Go(func() {
						u := user.Add(1)
						o := order.Order{ID: 1000 + u, UserID: u, VoucherID: old.ID}
						all[i] = gates[u%2].Admit(t.Context(), &old, o)
					})
				}
				buying.Wait()
				return all
			})
		})
	}
}

func wantAll(t *testing.T, what string, all []error, want error) {
	t.Helper()
	for _, err := range all {
		if !errors.Is(err, want) {
			t.Fatalf("%s: %v, want %v", what, err, want)
		}
	}
}

func count(all []error, of error) (n int) {
	for _, err := range all {
		if errors.Is(err, of) {
			n++
		}
	}
	return n
}

// Once a pause was told, no process accepts an order, whatever its cache has; once the sale was resumed, all do.
func TestPause(t *testing.T) {
	steering(t, 1000, func(t *testing.T, s *fixture, gates []*Gate, buy func(int) []error) {
		wantAll(t, "before", buy(10), nil)
		var told atomic.Bool
		var late atomic.Int64
		var rush sync.WaitGroup
		for range 4 {
			rush.Go(func() {
				for range 30 {
					after := told.Load()
					if all := buy(2); after {
						late.Add(int64(count(all, nil)))
					}
				}
			})
		}
		fail.NowIf(t, s.store.change(0, paused(true)))
		fail.NowIf(t, gates[1].Changed(t.Context(), s.store.voucher.ID))
		told.Store(true)
		rush.Wait()
		if late.Load() > 0 {
			t.Errorf("%d orders were accepted after the pause", late.Load())
		}
		wantAll(t, "paused", buy(10), voucher.ErrPaused)
		fail.NowIf(t, s.store.change(0, paused(false)))
		fail.NowIf(t, gates[0].Changed(t.Context(), s.store.voucher.ID))
		wantAll(t, "resumed", buy(10), nil)
		s.takeAll()
		s.balanced(gates[0], int64(len(s.store.orders)))
	})
}

// A late change does not undo a newer one.
func TestChangesInTheWrongOrder(t *testing.T) {
	steering(t, 100, func(t *testing.T, s *fixture, gates []*Gate, buy func(int) []error) {
		fail.NowIf(t, s.store.change(0, paused(true)))
		late, err := s.store.EpochState(t.Context(), s.store.voucher.ID)
		fail.NowIf(t, err)
		fail.NowIf(t, s.store.change(0, paused(false)))
		fail.NowIf(t, gates[0].Changed(t.Context(), s.store.voucher.ID))
		for _, keys := range s.buckets() {
			fail.NowIf(t, gates[1].ledger.SetWindow(t.Context(), keys, windowIn(late)))
		}
		wantAll(t, "resumed", buy(5), nil)
	})
}

// A process that dies between the database and Redis leaves a pause that is found by the next check, and one that dies
// while it opens a voucher opens it with what it has read before.
func TestPauseThatRedisWasNotToldOf(t *testing.T) {
	steering(t, 100, func(t *testing.T, s *fixture, gates []*Gate, buy func(int) []error) {
		finish := s.run()
		defer finish()
		wantAll(t, "before", buy(5), nil)
		fail.NowIf(t, s.store.change(0, paused(true)))
		gates[0].Check(t.Context())
		fail.NowIf(t, gates[0].Open(t.Context(), &s.store.voucher))
		wantAll(t, "found", buy(5), voucher.ErrPaused)
	})
}

// A voucher that is rebuilt since Redis lost it is as it was: paused, and with the units that were added.
func TestRebuildKeepsWhatWasChanged(t *testing.T) {
	steering(t, 10, func(t *testing.T, s *fixture, gates []*Gate, buy func(int) []error) {
		fail.NowIf(t, s.store.change(0, paused(true)))
		fail.NowIf(t, s.store.change(0, voucher.Change{AddStock: 5}))
		fail.NowIf(t, gates[0].Changed(t.Context(), s.store.voucher.ID))
		for _, keys := range s.buckets() {
			fail.NowIf(t, s.client.Del(t.Context(), keys.Meta, keys.Users, keys.Orders).Err())
		}
		gates[0].Check(t.Context())
		wantAll(t, "lost", buy(5), voucher.ErrPaused)
		fail.NowIf(t, s.store.change(0, paused(false)))
		fail.NowIf(t, gates[0].Changed(t.Context(), s.store.voucher.ID))
		if all := buy(40); count(all, nil) != 15 || count(all, voucher.ErrSoldOut) != 25 {
			t.Errorf("%v", all)
		}
		s.takeAll()
		s.balanced(gates[0], 15)
	})
}

// While one process opens a voucher, another one pauses it: what was read before the pause does not open it.
func TestPauseWhileItOpens(t *testing.T) {
	steering(t, 10, func(t *testing.T, s *fixture, gates []*Gate, buy func(int) []error) {
		var once sync.Once
		s.store.onOpen = func() {
			once.Do(func() {
				fail.NowIf(t, s.store.change(0, paused(true)))
				fail.NowIf(t, gates[1].Changed(t.Context(), s.store.voucher.ID))
			})
		}
		of := s.store.voucher
		_, err := s.store.Close(t.Context(), of.ID)
		fail.NowIf(t, err)
		gates[0].Check(t.Context())
		fail.NowIf(t, gates[0].Open(t.Context(), &of))
		wantAll(t, "paused", buy(10), voucher.ErrPaused)
	})
}

// Units that are added sell at once although the voucher was sold out, and only once, however often Redis is told.
func TestRefill(t *testing.T) {
	steering(t, 10, func(t *testing.T, s *fixture, gates []*Gate, buy func(int) []error) {
		for sold := 0; sold < 10; {
			sold += count(buy(20), nil)
		}
		s.takeAll()
		for range 2 {
			fail.NowIf(t, s.store.change(0, voucher.Change{AddStock: 7}))
			for _, g := range []int{0, 1, 0} {
				fail.NowIf(t, gates[g].Changed(t.Context(), s.store.voucher.ID))
			}
			bought := 0
			for range 100 {
				if bought += count(buy(4), nil); bought >= 7 {
					break
				}
				for _, g := range gates {
					g.known(s.store.voucher.ID).clearSoldOut() // as after Config.RecheckEvery
				}
			}
			if more := count(buy(10), nil); bought != 7 || more > 0 {
				t.Errorf("%d and %d of 7 were bought", bought, more)
			}
			s.takeAll()
		}
		s.balanced(gates[0], 24)
	})
}

// A sale that ends earlier ends for all; one that ends later sells again.
func TestWindowIsMoved(t *testing.T) {
	steering(t, 100, func(t *testing.T, s *fixture, gates []*Gate, buy func(int) []error) {
		for _, move := range []struct {
			end  time.Time
			want error
		}{{time.Now().Add(-time.Minute), voucher.ErrEnded}, {time.Now().Add(time.Hour), nil}} {
			fail.NowIf(t, s.store.change(0, endsAt(move.end)))
			fail.NowIf(t, gates[0].Changed(t.Context(), s.store.voucher.ID))
			for _, g := range gates {
				user := int64(500 + len(s.store.orders) + slices.Index(gates, g))
				fail.Unless(t, s.buy(g, user, 9000+user), move.want, "it ends at "+move.end.String())
			}
			s.takeAll()
		}
	})
}

// Units are taken away while buyers race for them: never one that is sold, and what remains sells to the last unit.
func TestUnitsAreTakenAway(t *testing.T) {
	steering(t, 60, func(t *testing.T, s *fixture, gates []*Gate, buy func(int) []error) {
		finish := s.run()
		var sold atomic.Int64
		var rush sync.WaitGroup
		for range 3 {
			rush.Go(func() {
				for range 10 {
					sold.Add(int64(count(buy(2), nil)))
				}
			})
		}
		for range 4 {
			err := gates[1].Drained(t.Context(), &s.store.voucher, func(_ context.Context, epoch int64) error {
				return s.store.change(epoch, voucher.Change{AddStock: -5})
			})
			if err != nil && !errors.Is(err, voucher.ErrTooFew) && !errors.Is(err, voucher.ErrNotDrained) {
				t.Error(err)
			}
		}
		rush.Wait()
		for range 200 {
			all := buy(3)
			if sold.Add(int64(count(all, nil))); count(all, voucher.ErrSoldOut) == 3 {
				break
			}
		}
		finish()
		if sold.Load() != s.store.voucher.InitialStock || s.store.voucher.InitialStock > 55 {
			t.Errorf("%d were sold of %d", sold.Load(), s.store.voucher.InitialStock)
		}
		s.balanced(gates[0], sold.Load())
	})
}

// A change that comes too late, since another process has opened the voucher again, changes nothing.
func TestUnitsAreTakenAwayUnderTheClosedEpochOnly(t *testing.T) {
	s := newFixture(t, testkit.AnyRedis(t), 5)
	g := s.gate(func(c *Config) { c.Locker = grantsEverybody{} })
	fail.NowIf(t, g.Open(t.Context(), &s.store.voucher))
	err := g.Drained(t.Context(), &s.store.voucher, func(ctx context.Context, epoch int64) error {
		_, err := s.store.Open(ctx, s.store.voucher.ID, epoch)
		fail.NowIf(t, err)
		return s.store.change(epoch, voucher.Change{AddStock: -1})
	})
	fail.Unless(t, err, voucher.ErrNotDrained, "opened meanwhile")
}

// What is removed of a voucher that is to be deleted is all; while it is open nothing is.
func TestRemove(t *testing.T) {
	steering(t, 5, func(t *testing.T, s *fixture, gates []*Gate, buy func(int) []error) {
		fail.Unless(t, gates[0].Remove(t.Context(), &s.store.voucher, 3), order.ErrUnavailable, "open")
		fail.NowIf(t, gates[0].Drained(t.Context(), &s.store.voucher, func(ctx context.Context, epoch int64) error {
			fail.NowIf(t, gates[0].Remove(ctx, &s.store.voucher, epoch))
			for _, keys := range s.buckets() {
				if n := s.client.Exists(ctx, keys.Meta, keys.Users, keys.Orders, keys.Dead).Val(); n > 0 {
					t.Errorf("%d keys are left", n)
				}
			}
			return nil
		}))

		wantAll(t, "opened again", buy(3), nil)
	})
}

// A bucket that was told of a revision while it was closed is not opened with what was read before. Under the next
// epoch it is: the database may have been restored, and count from an earlier revision.
func TestBucketIsNotOpenedWithAnOlderRevision(t *testing.T) {
	s := newFixture(t, testkit.AnyRedis(t), 5)
	g := s.gate(nil)
	open := func(epoch, revision int64) bool {
		opened, err := g.ledger.Open(t.Context(), s.keys, ledger.Opening{Epoch: epoch, Window: ledger.Window{Revision: revision}})
		fail.NowIf(t, err)
		return opened
	}
	fail.NowIf(t, fail.Of(g.ledger.Close(t.Context(), s.keys, 1)))
	fail.NowIf(t, g.ledger.SetWindow(t.Context(), s.keys, ledger.Window{Revision: 3, Paused: true}))
	fail.NowIf(t, fail.Of(g.ledger.Close(t.Context(), s.keys, 1))) // again, as a call that arrives late
	if open(2, 2) || !open(2, 3) {
		t.Error("it opens with an older revision, or not with the same one")
	}
	fail.NowIf(t, fail.Of(g.ledger.Close(t.Context(), s.keys, 3)))
	if !open(4, 1) {
		t.Error("it does not open after the database was restored")
	}
}
