package room_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"seckill/internal/room"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// An address has a limited number of tickets in the draw. A user who has one gets it again, and after the opening there
// is no limit.
func TestTicketsOfAnAddress(t *testing.T) {
	play(t, 10, voucher.Room{Rate: 10, DrawS: 60, PassS: 60, PerAddress: 3}, 2, func(t *testing.T, w *world) {
		enter := func(user int64, address uint64) error {
			_, err := w.at(user).Enter(t.Context(), room.Entry{VoucherID: voucherID, UserID: user, Address: address})
			return err
		}
		for user := range int64(9) {
			var want error
			if user >= 3 {
				want = room.ErrAddress
			}
			fail.Unless(t, enter(user+1, 7), want, "user %d", user+1)
		}
		fail.If(t, enter(1, 7), "a user who has a ticket")
		fail.If(t, enter(9, 8), "another address")
		until(time.Minute + 2*time.Second)
		fail.If(t, enter(8, 7), "after the opening")
	})
}

// A room may ask for work before it gives a ticket. The proof is of no use to another user, or for another room.
func TestProofOfWork(t *testing.T) {
	const bits = 12
	play(t, 10, voucher.Room{Rate: 10, DrawS: 60, PassS: 60, WorkBits: bits}, 1, func(t *testing.T, w *world) {
		s := w.at(1)
		_, err := s.Enter(t.Context(), room.Entry{VoucherID: voucherID, UserID: 1})
		asked, ok := errors.AsType[*room.WorkError](err)
		if !ok || asked.Bits != bits || asked.Commitment != w.look(1, "").Commitment {
			t.Fatalf("without work: %v", err)
		}
		proof := work(asked.Commitment, 1, bits)
		a, err := s.Enter(t.Context(), room.Entry{VoucherID: voucherID, UserID: 1, Work: proof})
		fail.NowIf(t, err)
		_, err = s.Enter(t.Context(), room.Entry{VoucherID: voucherID, UserID: 1, Shown: a.Ticket})
		fail.If(t, err, "with a ticket")
		for what, e := range map[string]room.Entry{
			"another user's": {UserID: 2, Work: proof}, "wrong": {UserID: 1, Work: proof + "x"}, "long": {UserID: 1, Work: proof + "                                "},
		} {
			e.VoucherID = voucherID
			_, err := s.Enter(t.Context(), e)
			fail.Unless(t, err, room.ErrWork, what)
		}
		fail.Unequal(t, room.Worked("another room", 1, proof, bits), false)
	})
}

// work finds a proof of work.
func work(commitment string, user int64, bits int64) string {
	for n := 0; ; n++ {
		if text := strconv.Itoa(n); room.Worked(commitment, user, text, bits) {
			return text
		}
	}
}

// What an instance does once, at the opening.
func BenchmarkPositions(b *testing.B) {
	for b.Loop() {
		room.Draw{Seed: make([]byte, 32)}.Positions(1_000_000)
	}
}

// What a ticket costs its visitor, and the room.
func BenchmarkWork(b *testing.B) {
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			room.Worked("6a09e667f3bcc908bb67ae8584caa73b3c6ef372fe94f82ba54ff53a5f1d36f1", 42, "123456", 18)
		}
	})
	for _, bits := range []int64{12, 16, 18} {
		b.Run("find "+strconv.FormatInt(bits, 10)+" bits", func(b *testing.B) {
			user := int64(0)
			for b.Loop() {
				user++
				work("6a09e667f3bcc908bb67ae8584caa73b3c6ef372fe94f82ba54ff53a5f1d36f1", user, bits)
			}
		})
	}
}
