package room_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/room"
	"seckill/internal/room/ledger"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// A user has one ticket, however often and wherever the user asks, and a ticket cannot be forged, guessed, or used by
// another user.
func TestOneTicketAUser(t *testing.T) {
	play(t, 10, policyOf(10), 2, func(t *testing.T, w *world) {
		mine := w.enter(1)
		var asking sync.WaitGroup
		for i := range 50 {
			asking.Go(func() {
				a, err := w.instances[i%2].Enter(t.Context(), room.Entry{VoucherID: voucherID, UserID: 1})
				fail.If(t, err)
				fail.Unequal(t, a.Ticket, mine.Ticket)
			})
		}
		asking.Wait()
		other := w.enter(2)
		if other.Ticket == mine.Ticket || other.Waiting != 2 {
			t.Errorf("another user got %+v", other)
		}
		content, err := base64.RawURLEncoding.DecodeString(mine.Ticket)
		fail.NowIf(t, err)
		content[15]++ // the end of the number
		forged := base64.RawURLEncoding.EncodeToString(content)
		for what, q := range map[string]room.Query{
			"another user's": {Ticket: mine.Ticket, User: 2}, "forged": {Ticket: forged, User: 1},
			"no ticket": {Ticket: "x", User: 1}, "cut": {Ticket: mine.Ticket[:20], User: 1},
		} {
			q.VoucherID = voucherID
			_, err := w.at(1).Look(t.Context(), q)
			fail.Unless(t, err, room.ErrTicket, what)
			_, err = w.at(1).Enter(t.Context(), room.Entry{VoucherID: voucherID, UserID: q.User, Shown: q.Ticket})
			fail.Unless(t, err, room.ErrTicket, what)
		}
	})
}

// The room opens when it should, and says so before.
func TestOpens(t *testing.T) {
	play(t, 10, voucher.Room{Rate: 10, DrawS: 30, PassS: 60}, 1, func(t *testing.T, w *world) {
		_, err := w.at(1).Enter(t.Context(), room.Entry{VoucherID: voucherID, UserID: 1})
		early, ok := errors.AsType[*room.NotOpenError](err)
		if !ok || !early.OpensAt.Equal(w.v.BeginAt.Add(-30*time.Second)) {
			t.Errorf("before it is open: %v", err)
		}
		fail.Unequal(t, w.look(1, "").State, room.NotOpen)
		until(30 * time.Second)
		a := w.enter(1)
		fail.Unequal(t, a.State, room.Drawing)
		if a.Position != 0 || a.Seed != "" || a.Commitment == "" || !a.OpensAt.Equal(w.v.BeginAt) {
			t.Errorf("before the draw: %+v", a)
		}
		until(time.Until(w.v.EndAt))
		_, err = w.at(1).Enter(t.Context(), room.Entry{VoucherID: voucherID, UserID: 2})
		fail.Unless(t, err, voucher.ErrEnded)
		fail.Unequal(t, w.look(1, a.Ticket).State, room.Ended)
	})
}

// The draw is a permutation of the tickets, the same at every instance; its seed is the one that was committed to, and
// every position can be computed from it. Later visitors queue behind.
func TestDrawCanBeChecked(t *testing.T) {
	const visitors = 500
	play(t, 10, policyOf(1), 2, func(t *testing.T, w *world) {
		tickets, committed := make(map[int64]string), ""
		for user := range int64(visitors) {
			a := w.enter(user + 1)
			tickets[user], committed = a.Ticket, a.Commitment
		}
		until(time.Minute + 2*time.Second)
		var positions []int64
		for user := range int64(visitors) {
			first, err := w.instances[0].Look(t.Context(), room.Query{VoucherID: voucherID, Ticket: tickets[user], User: user + 1})
			fail.NowIf(t, err)
			second, err := w.instances[1].Look(t.Context(), room.Query{VoucherID: voucherID, Ticket: tickets[user], User: user + 1})
			fail.NowIf(t, err)
			fail.Unequal(t, first.Position, second.Position)
			positions = append(positions, first.Position)
			if user > 0 {
				continue
			}
			seed, err := hex.DecodeString(first.Seed)
			fail.NowIf(t, err)
			sum := sha256.Sum256(seed)
			fail.Unequal(t, hex.EncodeToString(sum[:]), committed, "the commitment")
			fail.Unequal(t, first.Drawn, visitors)
			fail.Unequal(t, room.Draw{Seed: seed}.Position(visitors, 0), first.Position, "computed by hand")
		}
		if slices.IsSorted(positions) {
			t.Error("the draw leaves the tickets in order of arrival")
		}
		slices.Sort(positions)
		for i, p := range positions {
			fail.Unequal(t, p, int64(i)+1)
		}
		for i := range int64(3) {
			late := w.enter(1000 + i)
			fail.Unequal(t, late.Position, visitors+1+i, "of a late ticket")
		}
	})
}

// ofTen is the part of the users who stay, in tenths.
func (w *world) crowd(visitors, ofTen int64, lasts time.Duration) {
	var visiting sync.WaitGroup
	for user := range visitors {
		visiting.Go(func() {
			a := w.visit(user+1, user%10 >= ofTen, lasts)
			if a.State == room.HasPass {
				fail.If(w.t, w.order(user+1, a.Pass, "u"), "user %d has a pass and cannot order", user+1)
			}
		})
	}
	visiting.Wait()
}

// The rate holds over several instances: within 5 % where visitors wait, and never more than a second's worth at once.
// That most of those who are called have left does not change it.
func TestRateHolds(t *testing.T) {
	for name, staying := range map[string]int64{"all stay": 10, "three of ten stay": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const rate = 30
			play(t, 100_000, policyOf(rate), 3, func(t *testing.T, w *world) {
				w.crowd(1_200*10/staying, staying, 3*time.Minute)
				begin := w.v.BeginAt
				perSecond := make([]int, 200)
				for _, at := range w.issued {
					perSecond[int(at.Sub(begin)/time.Second)]++
				}
				total, seconds := 0, 0
				for s := 15; s < 35; s++ {
					total, seconds = total+perSecond[s], seconds+1
				}
				if got := float64(total) / float64(seconds); got < 0.95*rate || got > 1.05*rate {
					t.Errorf("%.1f passes a second, the rate is %d: %v", got, rate, perSecond[:60])
				}
				if most := slices.Max(perSecond); most > rate+rate/4+1 {
					t.Errorf("%d passes in one second, the rate is %d", most, rate)
				}
			})
		})
	}
}

// A pass finds a unit. When all are sold everybody is told within two seconds; when some come back, the room goes on; a
// pass that nobody uses goes to the next.
func TestStockIsKnown(t *testing.T) {
	play(t, 20, policyOf(100), 2, func(t *testing.T, w *world) {
		var visiting sync.WaitGroup
		soldOut := make(map[int64]time.Time)
		for user := range int64(200) {
			visiting.Go(func() {
				a := w.enter(user + 1)
				ticket := a.Ticket
				for range 400 {
					simulate.Sleep(time.Second)
					a = w.look(user+1, ticket)
					if a.State == room.SoldOut {
						w.locked(func() {
							if soldOut[user].IsZero() {
								soldOut[user] = time.Now()
							}
						})
					}
					if a.State == room.HasPass {
						break
					}
				}
				if a.State != room.HasPass || user%4 == 0 { // does not use it
					return
				}
				simulate.Sleep(3 * time.Second)
				fail.If(t, w.order(user+1, a.Pass, "u"), "with a live pass")
			})
		}
		visiting.Wait()
		w.locked(func() {
			if w.stock != 0 || len(w.orders) != 20 {
				t.Errorf("%d units are left, %d are sold", w.stock, len(w.orders))
			}
			fail.Unequal(t, len(soldOut) >= 150, true, "were told that all is sold: %d", len(soldOut))
		})
		late := w.enter(1000)
		fail.Unequal(t, late.State, room.SoldOut)
		w.locked(func() {
			for user := range w.orders {
				w.orders[user]--
				w.stock++
				break
			}
		})
		until(time.Minute)
		served := 0
		for user := range int64(200) {
			if w.orders[user+1] == 0 {
				if a := w.look(user+1, w.enter(user+1).Ticket); a.State == room.HasPass {
					served++
				}
			}
		}
		fail.Unequal(t, served, 1, "got the unit that came back")
	})
}

// How long it will take is told only to those for whom units are left.
func TestEstimateKnowsTheStock(t *testing.T) {
	play(t, 5, policyOf(1), 1, func(t *testing.T, w *world) {
		tickets := w.enterAll(1, 20)
		until(time.Minute + 3*time.Second)
		for user, ticket := range tickets {
			a := w.look(user, ticket)
			if a.State == room.Waiting && (a.Estimate >= 0) != (a.Ahead < a.UnitsLeft) {
				t.Errorf("%d are ahead, %d units are left, and it will take %v", a.Ahead, a.UnitsLeft, a.Estimate)
			}
		}
	})
}

// The stock that was read for another state of Redis, which has lost how many passes there were, gives no pass.
func TestStockIsOfThisState(t *testing.T) {
	play(t, 10, policyOf(10), 1, func(t *testing.T, w *world) {
		ticket := w.enter(1)
		until(time.Minute + 3*time.Second)
		stock := room.Stock{Left: 10, Born: "another"}
		reply, err := ledger.New(w.client, "t:", 16).Claim(t.Context(), room.ClaimCall{
			VoucherID: voucherID, UserID: 1, Number: ticket.Number, Rate: 10, PassFor: time.Minute, Stock: stock, Keep: time.Hour,
		})
		fail.NowIf(t, err)
		fail.Unequal(t, reply.Verdict, room.OtherStock)
		fail.Unequal(t, w.look(1, ticket.Ticket).State, room.HasPass)
	})
}

// A pass is for one user, one voucher and one order, until it lapses. A repetition of the request may use it again, and
// so may another one if the order failed.
func TestPassIsForOneOrder(t *testing.T) {
	play(t, 10, policyOf(10), 2, func(t *testing.T, w *world) {
		ticket := w.enter(1).Ticket
		until(time.Minute + 3*time.Second)
		a := w.look(1, ticket)
		fail.Unequal(t, a.State, room.HasPass)
		fail.Unequal(t, a.PollAfter, a.PassFor, "until then nothing changes")
		if again := w.look(1, ticket); again.Pass != a.Pass {
			t.Error("asked again, another pass")
		}
		for what, try := range map[string]struct {
			user int64
			pass string
		}{"none": {1, ""}, "another user's": {2, a.Pass}, "a ticket": {1, ticket}, "forged": {1, strings.Repeat("A", len(a.Pass))}} {
			fail.Unless(t, w.order(try.user, try.pass, "u"), order.ErrPassRequired, what)
		}
		w.locked(func() { w.down = true })
		fail.Unless(t, w.order(1, a.Pass, "first"), errDown)
		w.locked(func() { w.down = false })
		v, _ := w.Voucher(t.Context(), voucherID)
		fail.NowIf(t, w.at(1).Use(t.Context(), v, 1, a.Pass, "second"))
		fail.NowIf(t, w.at(1).Use(t.Context(), v, 1, a.Pass, "second"), "a repetition")
		fail.Unless(t, w.at(2).Use(t.Context(), v, 1, a.Pass, "third"), order.ErrPassOver, "another request meanwhile")
		w.at(1).Done(t.Context(), v, a.Pass, "second", false)
		fail.NowIf(t, w.order(1, a.Pass, "fourth"))
		w.cancel(1)
		fail.Unless(t, w.order(1, a.Pass, "fourth"), order.ErrPassOver, "after its order was cancelled")
		fail.Unequal(t, w.look(1, ticket).State, room.Ordered)

		again := w.enter(1)
		if again.Ticket == ticket || again.Position != 2 {
			t.Errorf("after an order: %+v", again)
		}
		until(2 * time.Second)
		second := w.look(1, again.Ticket)
		fail.Unequal(t, second.State, room.HasPass)
		until(time.Minute)
		fail.Unless(t, w.order(1, second.Pass, "late"), order.ErrPassOver, "lapsed")
		fail.Unequal(t, w.look(1, again.Ticket).State, room.Lapsed)
		if all := w.look(1, ""); all.Issued != 2 || all.Spent != 1 || w.look(1, again.Ticket).Issued != 0 {
			t.Errorf("passes: %+v", all)
		}
		fail.Unequal(t, w.enter(1).Position, 3)
	})
}

// A request is repeated while it is under way. The repetition fails, and the request has an order: its pass is spent.
func TestPassIsSpentWhateverARepetitionSays(t *testing.T) {
	play(t, 10, policyOf(10), 1, func(t *testing.T, w *world) {
		ticket := w.enter(1).Ticket
		until(time.Minute + 3*time.Second)
		pass := w.look(1, ticket).Pass
		v, _ := w.Voucher(t.Context(), voucherID)
		s := w.at(1)
		fail.NowIf(t, s.Use(t.Context(), v, 1, pass, "mine"))
		fail.NowIf(t, s.Use(t.Context(), v, 1, pass, "mine"), "its repetition")
		s.Done(t.Context(), v, pass, "mine", false)
		s.Done(t.Context(), v, pass, "mine", true)
		s.Done(t.Context(), v, pass, "mine", true)
		fail.Unless(t, s.Use(t.Context(), v, 1, pass, "another"), order.ErrPassOver, "a pass that has an order")
		until(time.Second)
		fail.Unequal(t, w.look(1, "").Spent, 1)
		until(5 * time.Minute)
		if a := w.look(1, ""); a.Issued != 1 || a.Spent != 1 || a.Lapsed != 0 {
			t.Errorf("%d passes were issued, %d spent, %d have lapsed", a.Issued, a.Spent, a.Lapsed)
		}
	})
}
