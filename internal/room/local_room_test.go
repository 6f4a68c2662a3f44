package room_test

import (
	"testing"
	"time"

	"seckill/internal/room"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// A visitor comes while an instance is about to give up a room that nobody asked for: the room that the visitor finds
// has its stock read still.
func TestRoomIsGivenUpAsAWhole(t *testing.T) {
	play(t, 1000, policyOf(5), 1, func(t *testing.T, w *world) {
		w.look(1, "")
		until(2100 * time.Millisecond)
		w.look(1, "")
		until(room.IdleAfter - time.Second)
		hold := make(chan struct{})
		w.locked(func() { w.hold = hold })
		until(time.Second + 50*time.Millisecond)
		close(hold) // the stock was read, and everything is done that came due meanwhile
		until(50 * time.Millisecond)
		w.look(1, "")
		w.locked(func() { w.hold = nil; w.stock = 7 })
		until(3 * time.Second)
		fail.Unequal(t, w.look(1, "").UnitsLeft, 7)
	})
}

// Visitors who are called and poll while the sale is paused, or while the database is away, do not have it asked more
// often.
func TestPollsDoNotReachTheDatabase(t *testing.T) {
	play(t, 1000, policyOf(200), 1, func(t *testing.T, w *world) {
		tickets := w.enterAll(1, 20)
		yes, no := true, false
		until(time.Minute)
		readsIn5s := func() (n int) {
			w.locked(func() { n = w.reads })
			for range 50 {
				for user, ticket := range tickets {
					_, _ = w.at(user).Look(t.Context(), room.Query{VoucherID: voucherID, Ticket: ticket, User: user, Claims: true})
				}
				until(100 * time.Millisecond)
			}
			w.locked(func() { n = w.reads - n })
			return n
		}
		until(2 * time.Second)
		w.change(voucher.Change{Paused: &yes})
		until(time.Second)
		fail.Unequal(t, w.look(1, "").Serving > 10, true, "are called")
		if n := readsIn5s(); n > 20 {
			t.Errorf("the stock was read %d times in 5 s of a pause", n)
		}
		w.change(voucher.Change{Paused: &no})
		w.redis.RestartEmpty()
		until(time.Second)
		w.look(1, "")
		w.locked(func() { w.failing = true })
		w.redis.RestartEmpty()
		until(3 * time.Second)
		if n := readsIn5s(); n > 80 {
			t.Errorf("the stock was read %d times in 5 s without an answer", n)
		}
	})
}
