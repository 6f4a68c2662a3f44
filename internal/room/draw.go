package room

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Draw puts the tickets that a room has at the opening in an order that nobody can foresee or repeat: by the SHA-256 of the
// seed and the ticket's number. The seed is fixed with the room, its [Draw.Commitment] is told from the beginning, and the
// seed itself after the draw. So everybody can check every position.
type Draw struct {
	Seed []byte
}

func newDraw(secret []byte) Draw { return Draw{derive(secret, "draw")} }

// Commitment is the SHA-256 of the seed.
func (d Draw) Commitment() []byte {
	sum := sha256.Sum256(d.Seed)
	return sum[:]
}

// lot is what decides about a ticket: the smallest is first.
func (d Draw) lot(number int64) [sha256.Size]byte {
	return sha256.Sum256(binary.BigEndian.AppendUint64(slices.Clone(d.Seed), uint64(number)))
}

// Position returns the position of one of n tickets, from 1. It looks at all of them; [Draw.Positions] is for many.
func (d Draw) Position(n, number int64) int64 {
	mine, position := d.lot(number), int64(1)
	for other := range n {
		if lot := d.lot(other); bytes.Compare(lot[:], mine[:]) < 0 {
			position++
		}
	}
	return position
}

// Positions returns the positions of n tickets, from 1, by their numbers.
func (d Draw) Positions(n int64) []int32 {
	type drawn struct {
		head   uint64 // of the lot
		number int32
	}
	all := make([]drawn, n)
	text := append(slices.Clone(d.Seed), make([]byte, 8)...)
	for i := range all {
		binary.BigEndian.PutUint64(text[len(d.Seed):], uint64(i))
		sum := sha256.Sum256(text)
		all[i] = drawn{binary.BigEndian.Uint64(sum[:]), int32(i)}
	}
	slices.SortFunc(all, func(a, b drawn) int {
		if a.head != b.head {
			return cmp.Compare(a.head, b.head)
		}
		one, other := d.lot(int64(a.number)), d.lot(int64(b.number))
		return bytes.Compare(one[:], other[:])
	})
	positions := make([]int32, n)
	for i, one := range all {
		positions[one.number] = int32(i) + 1
	}
	return positions
}
