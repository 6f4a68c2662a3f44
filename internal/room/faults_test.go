package room_test

import (
	"fmt"
	"testing"
	"time"

	"seckill/internal/room"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// Redis loses everything, before the draw and after it. Every ticket that was told counts, with its position, and no
// visitor who had a pass gets a second order.
func TestRedisIsEmptied(t *testing.T) {
	play(t, 40, policyOf(10), 2, func(t *testing.T, w *world) {
		tickets := w.enterAll(1, 60)
		w.redis.RestartEmpty()
		until(time.Second)
		for user, ticket := range tickets { // shown again, it is the same one
			a, err := w.at(user).Enter(t.Context(), room.Entry{VoucherID: voucherID, UserID: user, Shown: ticket})
			fail.NowIf(t, err)
			fail.Unequal(t, a.Ticket, ticket, "user %d", user)
		}
		// A user who does not show it gets another one, and the better one of the two counts.
		w.redis.RestartEmpty()
		until(time.Second)
		if other := w.enter(5); other.Ticket == tickets[5] {
			t.Error("Redis has forgotten nothing")
		}
		until(time.Minute + 30*time.Second) // numbers that nobody has are called too
		positions := make(map[int64]int64)
		for user, ticket := range tickets {
			positions[user] = w.look(user, ticket).Position
		}
		var first room.Answer
		who := int64(0)
		for user, ticket := range tickets {
			if a := w.look(user, ticket); a.State == room.HasPass {
				first, who = a, user
				break
			}
		}
		fail.NowIf(t, w.order(who, first.Pass, "u"))
		w.cancel(who)
		w.redis.RestartEmpty()
		until(2 * time.Second)
		fail.Unless(t, w.order(who, first.Pass, "v"), errPass, "the same pass, after its order was cancelled and Redis emptied")
		fail.Unequal(t, w.look(who, tickets[who]).State, room.Ordered, "the same ticket")
		before := w.look(1, "").Serving
		for range 30 {
			until(2 * time.Second)
			now := w.look(1, "").Serving
			fail.Unequal(t, now >= before, true, "serving fell from %d to %d", before, now)
			before = now
			for user, ticket := range tickets {
				a := w.look(user, ticket)
				fail.Unequal(t, a.Position, positions[user], "the position of user %d", user)
				if a.State == room.HasPass && w.orders[user] == 0 && user != who {
					fail.If(t, w.order(user, a.Pass, "u"))
				}
			}
		}
		fail.Unequal(t, len(w.had), 41, "who had an order") // 40 units, and one that was cancelled
	})
}

// All instances and Redis die at once. What the database has is enough: the draw is the same, and every position.
func TestEverythingButTheDatabaseDies(t *testing.T) {
	play(t, 100, policyOf(5), 2, func(t *testing.T, w *world) {
		tickets, positions := w.enterAll(1, 50), make(map[int64]int64)
		until(time.Minute + 5*time.Second)
		for user, ticket := range tickets {
			positions[user] = w.look(user, ticket).Position
		}
		fail.Unequal(t, w.look(1, "").Serving > 0, true, "somebody is called")
		var noted int64
		for _, s := range w.instances {
			s.Close()
		}
		w.instances = nil
		w.redis.RestartEmpty()
		w.locked(func() { noted = w.record.Serving })
		w.start()
		w.start()
		until(time.Second)
		w.look(1, tickets[1])
		w.look(2, tickets[2]) // each instance computes the positions beside its answers
		until(time.Second)
		for user, ticket := range tickets {
			fail.Unequal(t, w.look(user, ticket).Position, positions[user])
		}
		if now := w.look(1, "").Serving; now < noted || noted == 0 {
			t.Errorf("the database noted that %d were called, and now %d are", noted, now)
		}
		if late := w.enter(1000); late.Position <= 50 {
			t.Errorf("a late ticket has position %d", late.Position)
		}
	})
}

// Redis fails over to a replica that lacks the last second: numbers that were told are not told again by an instance
// that has seen them, and the draw of the database counts.
func TestRedisRollsBack(t *testing.T) {
	play(t, 100, policyOf(5), 1, func(t *testing.T, w *world) {
		w.enterAll(1, 20)
		key := ledgerKey()
		older := w.client.HGetAll(t.Context(), key).Val()
		tickets := w.enterAll(100, 20)
		rollBack := func() {
			fail.NowIf(t, w.client.Del(t.Context(), key).Err())
			fail.NowIf(t, w.client.HSet(t.Context(), key, older).Err())
		}
		rollBack()
		after := w.enter(500)
		for user, ticket := range tickets {
			fail.Unequal(t, ticket == after.Ticket, false, "the number of user %d is told twice", user)
		}
		until(time.Minute + 5*time.Second)
		a := w.look(500, after.Ticket)
		fail.Unequal(t, a.Drawn, 41)
		rollBack()
		until(2 * time.Second)
		again := w.look(500, after.Ticket)
		fail.Unequal(t, again.Position, a.Position)
		fail.Unequal(t, again.Serving >= a.Serving, true, "who was called stays called")
	})
}

// The database is away: those who wait are answered, tickets of the reserved numbers are given, and passes too. The
// draw waits for it.
func TestDatabaseIsAway(t *testing.T) {
	play(t, 100, policyOf(5), 1, func(t *testing.T, w *world) {
		ticket := w.enter(1).Ticket
		until(time.Second)
		w.locked(func() { w.down = true })
		w.enterAll(2, 50)
		until(time.Minute + 5*time.Second)
		fail.Unequal(t, w.look(1, ticket).State, room.Drawing)
		w.locked(func() { w.down = false })
		until(3 * time.Second)
		fail.Unequal(t, w.look(1, "").Drawn, 51)
		w.locked(func() { w.down = true })
		before := w.look(1, "").Serving
		until(5 * time.Second)
		if now := w.look(1, "").Serving; now <= before {
			t.Errorf("nobody is called while the database is away: %d, then %d", before, now)
		}
	})
}

// Redis' clock jumps an hour ahead, and back: no burst, and the room goes on.
func TestRedisClockJumps(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -10 * time.Second} {
		t.Run(fmt.Sprint(by), func(t *testing.T) {
			t.Parallel()
			const rate = 5
			play(t, 10_000, policyOf(rate), 2, func(t *testing.T, w *world) {
				var tickets []string
				for user := range int64(220) {
					tickets = append(tickets, w.enter(user+1).Ticket)
				}
				until(time.Minute + 10*time.Second)
				for i := range 300 {
					if i >= 80 {
						w.redis.Mini().SetTime(time.Now().Add(by))
					}
					for user, ticket := range tickets {
						if (i+user)%5 == 0 && ticket != "" && w.look(int64(user)+1, ticket).Pass != "" {
							tickets[user] = ""
						}
					}
					until(100 * time.Millisecond)
				}
				perSecond := make(map[int64]int)
				for _, at := range w.issued {
					perSecond[at.Unix()]++
				}
				for second, n := range perSecond {
					fail.Unequal(t, n <= 2*rate, true, "%d passes in second %d", n, second)
				}
				if n := len(w.issued); n < 100 {
					t.Errorf("%d passes in 30 s at %d a second", n, rate)
				}
			})
		})
	}
}

// While the sale is paused nobody is called, and everybody is told within two seconds. The rate can be changed while
// people wait. Once the room is closed, its tickets and passes mean nothing.
func TestOperatorChangesTheRoom(t *testing.T) {
	play(t, 10_000, policyOf(5), 2, func(t *testing.T, w *world) {
		var tickets []string
		for user := range int64(300) {
			tickets = append(tickets, w.enter(user+1).Ticket)
		}
		poll := func() {
			for user, ticket := range tickets {
				if ticket != "" && w.look(int64(user)+1, ticket).Pass != "" {
					tickets[user] = ""
				}
			}
		}
		passesIn := func(d time.Duration) int {
			before := len(w.issued)
			for range int(d / (200 * time.Millisecond)) {
				poll()
				until(200 * time.Millisecond)
			}
			return len(w.issued) - before
		}
		until(time.Minute + 5*time.Second)
		passesIn(5 * time.Second)
		yes, no := true, false
		w.change(voucher.Change{Paused: &yes})
		until(2 * time.Second)
		serving := w.look(1, "").Serving
		fail.Unequal(t, passesIn(10*time.Second), 0, "passes while it is paused")
		fail.Unequal(t, w.look(1, "").State, room.Paused)
		fail.Unequal(t, w.look(1, "").Serving, serving)
		w.change(voucher.Change{Paused: &no, Room: &voucher.RoomChange{Rate: 20}})
		passesIn(5 * time.Second)
		if n := passesIn(5 * time.Second); n < 80 || n > 120 {
			t.Errorf("%d passes in 5 s, the rate is 20", n)
		}
		w.change(voucher.Change{Room: &voucher.RoomChange{Close: true}})
		until(time.Second)
		_, err := w.at(1).Look(t.Context(), room.Query{VoucherID: voucherID})
		fail.Unless(t, err, room.ErrNoRoom)
		_, err = w.at(1).Enter(t.Context(), room.Entry{VoucherID: voucherID, UserID: 1})
		fail.Unless(t, err, room.ErrNoRoom)
	})
}

// Nobody gets a pass whose position was not called, whatever the order of arrival.
func TestOrderOfService(t *testing.T) {
	play(t, 10_000, policyOf(20), 2, func(t *testing.T, w *world) {
		w.crowd(400, 6, 100*time.Second)
		fail.Unequal(t, len(w.served) > 200, true, "were served: %d", len(w.served))
		for i, position := range w.served {
			serving := w.look(1, "").Serving
			fail.Unequal(t, position <= serving, true, "pass %d is for position %d, %d were called", i, position, serving)
		}
	})
}

// Waiting visitors are told at once: called, paused, sold out.
func TestAwait(t *testing.T) {
	play(t, 1, policyOf(5), 1, func(t *testing.T, w *world) {
		tickets := []string{w.enter(1).Ticket, w.enter(2).Ticket, w.enter(3).Ticket}
		until(time.Second)
		await := func(user int64, limit time.Duration) (room.Answer, time.Duration) {
			q, began := room.Query{VoucherID: voucherID, Ticket: tickets[user-1], User: user}, time.Now()
			told := w.look(user, q.Ticket)
			fail.NowIf(t, w.at(user).Await(t.Context(), q, told, limit))
			return w.look(user, q.Ticket), time.Since(began)
		}
		a, took := await(1, 5*time.Second)
		if a.State != room.Drawing || took != 5*time.Second {
			t.Errorf("%s after %v", a.State, took)
		}
		a, took = await(1, 2*time.Minute)
		if a.State == room.Drawing || took > time.Minute {
			t.Errorf("the opening: %s after %v", a.State, took)
		}
		until(3 * time.Second)
		passed := int64(0)
		for user := range int64(3) {
			if a := w.look(user+1, tickets[user]); a.State == room.HasPass {
				passed = user + 1
				fail.NowIf(t, w.order(passed, a.Pass, "u"))
			}
		}
		waiting := passed%3 + 1
		for range 3 {
			a, _ = await(waiting, 2*time.Second)
		}
		fail.Unequal(t, a.State, room.SoldOut)
		w.cancel(passed)
		a, took = await(waiting, time.Minute)
		fail.Unequal(t, a.State == room.SoldOut || took > 5*time.Second, false, "a unit is back: %s after %v", a.State, took)
	})
}

// Redis fails over to a replica that lacks the last tickets, and every instance that has seen them dies. Whoever shows
// such a ticket keeps it, and its number is told to nobody else.
func TestTicketTeachesItsNumber(t *testing.T) {
	play(t, 100, policyOf(5), 1, func(t *testing.T, w *world) {
		w.enter(1)
		older := w.client.HGetAll(t.Context(), ledgerKey()).Val()
		second, third, fourth := w.enter(2), w.enter(3), w.enter(4)
		w.instances[0].Close()
		w.instances = nil
		fail.NowIf(t, w.client.FlushAll(t.Context()).Err())
		fail.NowIf(t, w.client.HSet(t.Context(), ledgerKey(), older).Err())
		w.start()
		w.look(3, third.Ticket)
		fail.Unequal(t, w.enter(5).Number > third.Number, true, "a number that was told is told again")
		again, err := w.at(4).Enter(t.Context(), room.Entry{VoucherID: voucherID, UserID: 4, Shown: fourth.Ticket})
		fail.NowIf(t, err)
		fail.Unequal(t, again.Ticket, fourth.Ticket, "a ticket that is shown")
		fail.Unequal(t, w.enter(6).Number > fourth.Number, true, "a number that was told is told again")
		again, err = w.at(2).Enter(t.Context(), room.Entry{VoucherID: voucherID, UserID: 2, Shown: second.Ticket})
		fail.NowIf(t, err)
		fail.Unequal(t, again.Ticket, second.Ticket, "a ticket that is shown")
	})
}

// Redis' clock jumps beyond the beginning of the sale and back. The draw has taken place, and nobody is called before
// the sale begins.
func TestNobodyIsCalledBeforeTheSale(t *testing.T) {
	play(t, 1000, policyOf(5), 2, func(t *testing.T, w *world) {
		w.enterAll(1, 20)
		w.redis.Mini().SetTime(time.Now().Add(time.Minute))
		until(time.Second)
		w.redis.Mini().SetTime(time.Now().Add(-2 * time.Second))
		until(time.Second)
		before := w.look(1, "")
		fail.Unequal(t, before.Drawn, 20, "the draw")
		w.redis.Mini().SetTime(time.Time{})
		until(30 * time.Second)
		now := w.look(1, "")
		fail.Unequal(t, now.State, room.Drawing)
		fail.Unequal(t, now.Serving, before.Serving, "were called before the sale")
		until(time.Minute)
		fail.Unequal(t, w.look(1, "").Serving > before.Serving, true, "nobody is called")
	})
}

// For how long Redis keeps a visit is counted by Redis' clock too.
func TestClockOfAnInstanceForgetsNobody(t *testing.T) {
	play(t, 10, voucher.Room{Rate: 5, DrawS: 86_400, PassS: 60}, 1, func(t *testing.T, w *world) {
		w.redis.Mini().SetTime(time.Now().Add(-5 * time.Hour))
		w.enter(1)
		until(time.Second)
		for _, key := range w.redis.Mini().Keys() {
			if ends := 8 * time.Hour; w.redis.Mini().TTL(key) < ends {
				t.Errorf("%s is kept for %v, the sale ends in %v", key, w.redis.Mini().TTL(key), ends)
			}
		}
	})
}
