package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/batch"
	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// stopStory is the life of a voucher with two buckets, in which every script has a part.
type stopStory struct {
	*fixture
	*testing.T
	g       *Gate
	stop    *stopper
	answers map[int64]error // by user
	ids     map[int64]int64 // of users' orders, if they are not ten times as much
}

// until repeats a step that fails. The operator takes three failures to notice.
func (s *stopStory) until(what string, step func() error) {
	s.Helper()
	for failures := 0; ; failures++ {
		err := step()
		if err == nil {
			return
		}
		if failures == 3 {
			s.stop.lift()
		}
		if failures == 6 {
			s.Fatalf("%s: %v", what, err)
		}
		simulate.Sleep(time.Second)
		s.g.Check(s.Context()) // as Run does every few seconds
	}
}

func (s *stopStory) play() {
	s.until("open", func() error { return s.openOnce() })
	s.until("the group", func() error {
		for _, keys := range s.buckets() {
			if _, err := scripts.EnsureGroup(s.Context(), s.client, keys); err != nil {
				return err
			}
		}
		return nil
	})
	s.buyTogether(1, 2, 3, 4)
	s.buyTogether(5)
	s.takeEntries()
	s.pauseAndResume()
	s.cancel(5)
	s.ids[5] = 51
	s.buyTogether(5, 8, 9, 12, 13, 16, 17, 20) // more than there are units, and all in one bucket
	s.takeEntries()
	simulate.Sleep(time.Second)
	s.buyTogether(6, 7, 10)
	s.takeEntries()
	s.check()
	s.forget()
}

// pauseAndResume changes the voucher as an administrator does, who repeats what fails.
func (s *stopStory) pauseAndResume() {
	for _, is := range []bool{true, false} {
		fail.NowIf(s, s.store.change(0, paused(is)))
		s.until("a change", func() error { return s.g.Changed(s.Context(), s.store.voucher.ID) })
	}
}

func (s *stopStory) openOnce() error {
	ctx, cancel := context.WithTimeout(s.Context(), time.Second)
	defer cancel()
	return s.g.Open(ctx, &s.store.voucher)
}

// buyTogether sends the orders of some users in one batch to each bucket, until each has an answer that is final. The
// workers go on meanwhile: a voucher is rebuilt once they have taken all entries.
func (s *stopStory) buyTogether(users ...int64) {
	left := users
	s.until(fmt.Sprint("orders of ", users), func() error {
		v := s.g.voucher(&s.store.voucher)
		byBucket := make(map[*bucket][]*request)
		var all []*request
		for _, user := range left {
			r := batch.NewRequest(s.Context(), pendingOrder{userID: user, orderID: s.id(user)})
			byBucket[v.bucketOf(user)] = append(byBucket[v.bucketOf(user)], r)
			all = append(all, r)
		}
		for _, b := range v.buckets {
			if requests := byBucket[b]; len(requests) > 0 {
				stop := s.work()
				_ = b.decide(requests)
				stop()
			}
		}
		var again []int64
		var failed error
		for _, r := range all {
			err := <-r.Answered()
			if errors.Is(err, order.ErrUnavailable) {
				again, failed = append(again, r.Value.userID), err
			}
			s.answers[r.Value.userID] = err
		}
		left = again
		return failed
	})
}

// work has the workers take entries until the returned function is called.
func (s *stopStory) work() (stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	var working sync.WaitGroup
	working.Go(func() {
		for sleep(ctx, 100*time.Millisecond) {
			_, _ = s.take(ctx, false)
		}
	})
	return func() {
		cancel()
		working.Wait()
	}
}

func (s *stopStory) id(user int64) int64 { return cmp.Or(s.ids[user], 10*user) }

// takeEntries has the workers take what is pending.
func (s *stopStory) takeEntries() {
	s.until("attempts", func() error {
		_, err := scripts.BeginAttempt(s.Context(), s.client, s.keys, "1-1", "a")
		return errors.Join(err, scripts.EndAttempt(s.Context(), s.client, s.keys, "1-1", "a"))
	})
	s.until("the entries", func() error {
		for {
			if n, err := s.take(s.Context(), false); n == 0 || err != nil {
				return err
			}
		}
	})
}

// epoch is the database's.
func (s *stopStory) epoch() int64 {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return s.store.epochState.Epoch
}

// cancel gives the unit of a user's order back, in the database and then in Redis.
func (s *stopStory) cancel(user int64) {
	s.store.mu.Lock()
	o := s.store.orders[user]
	delete(s.store.orders, user)
	s.store.epochState.Stock++
	r := contract.Return{VoucherID: s.store.voucher.ID, Bucket: ledger.BucketOf(user, 2), Epoch: s.store.epochState.Epoch, Total: 1}
	r.Orders = []contract.ReturnedOrder{{Order: order.Order{ID: o.ID, UserID: user}}}
	s.store.mu.Unlock()
	s.until("a return", func() error {
		for range 2 { // the answer to the first may have been lost
			done, err := s.g.ledger.Return(s.Context(), s.buckets()[r.Bucket], r)
			if err != nil {
				return err
			}
			// As the Returner does: a voucher that is being opened is told again; the next epoch begins with the unit.
			if done.Verdict != ledger.Decided && s.epoch() == r.Epoch {
				return errors.New("the bucket is closed")
			}
		}
		return nil
	})
}

// check compares what the buyers were told with the database, and Redis with the database.
func (s *stopStory) check() {
	s.until("the check", func() error {
		s.g.Check(s.Context())
		if err := s.openOnce(); err != nil {
			return err
		}
		_, err := s.g.Audit(s.Context(), s.store.voucher.ID)
		return err
	})
	s.takeEntries()
	s.balanced(s.g, int64(len(s.store.orders)))
	if _, total := s.store.epochState, len(s.store.orders); total != 9 {
		s.Errorf("%d of 9 units were sold, more were asked for", total)
	}
	s.kept(s.answers, s.id)
}

// forget removes the voucher from Redis.
func (s *stopStory) forget() {
	_ = s.g.Close()
	s.until("the consumer", func() error { return scripts.RemoveConsumer(s.Context(), s.client, s.keys, "nobody") })
	s.until("the removal", func() error {
		for _, keys := range s.buckets() {
			epoch, err := s.g.ledger.Close(s.Context(), keys, s.store.epochState.Epoch+1)
			if err != nil {
				return err
			}
			for _, all := range []bool{false, true} {
				if r, err := s.g.ledger.Remove(s.Context(), keys, epoch, all); err != nil || r.Verdict != ledger.Removed {
					return errors.Join(err, fmt.Errorf("verdict %d", r.Verdict))
				}
			}
		}
		return nil
	})
	left := slices.DeleteFunc(s.client.(*redis.Client).Keys(s.Context(), "*").Val(), func(key string) bool {
		return s.client.TTL(s.Context(), key).Val() > 0 // users that were prepared
	})
	if len(left) > 0 {
		s.Errorf("left in Redis: %v", left)
	}
}

// kept compares what users were told with the database, and the users that Redis has with the database's. No entry may
// have two dead letters.
func (s *fixture) kept(answers map[int64]error, id func(user int64) int64) {
	s.t.Helper()
	ctx := s.t.Context()
	letters, reserved := make(map[string]int), make(map[string]string)
	for _, keys := range s.buckets() {
		dead, err := s.client.XRange(ctx, keys.Dead, "-", "+").Result()
		for _, letter := range dead {
			letters[keys.Dead+letter.Values[ledger.DeadFrom].(string)]++
		}
		users, usersErr := s.client.HGetAll(ctx, keys.Users).Result()
		maps.Copy(reserved, users)
		fail.If(s.t, errors.Join(err, usersErr))
	}
	for user, told := range answers {
		have, rejected := s.store.orders[user], s.store.rejected[id(user)].ID != 0
		switch {
		case told == nil && have.ID != id(user) && !rejected:
			s.t.Errorf("user %d was told that the order is accepted; it is gone", user)
		case told != nil && !errors.Is(told, voucher.ErrSoldOut):
			s.t.Errorf("user %d was told %v", user, told)
		case told != nil && have.ID != 0:
			s.t.Errorf("user %d was told %v and has an order", user, told)
		}
		want := ""
		if have.ID != 0 {
			want = fmt.Sprint(have.ID)
		}
		fail.Unequal(s.t, reserved[fmt.Sprint(user)], want, "the order of user %d in Redis, compared with the database", user)
	}
	for entry, n := range letters {
		fail.Unequal(s.t, n, 1, "dead letters of entry %s", entry)
	}
}
