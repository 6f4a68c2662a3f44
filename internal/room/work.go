package room

import (
	"crypto/sha256"
	"fmt"
	"math/bits"
	"strconv"
)

// maxWork bounds the length of a proof of work.
const maxWork = 32

// Worked reports whether a text is a user's proof of work for the room with a commitment: the SHA-256 of
// commitment:user:text begins with so many zero bits (Back, Hashcash, 2002). The proof is one of the user and the room, and
// so of no use to another.
func Worked(commitment string, userID int64, text string, zeros int64) bool {
	if zeros == 0 {
		return true
	}
	if text == "" || len(text) > maxWork {
		return false
	}
	var buffer [160]byte
	all := append(append(buffer[:0], commitment...), ':')
	all = append(strconv.AppendInt(all, userID, 10), ':')
	sum := sha256.Sum256(append(all, text...))
	found := int64(0)
	for _, b := range sum {
		n := bits.LeadingZeros8(b)
		if found += int64(n); n < 8 {
			break
		}
	}
	return found >= zeros
}

// WorkError is an [ErrWork] with what has to be done.
type WorkError struct {
	Bits       int64
	Commitment string
}

func (e *WorkError) Error() string {
	return fmt.Sprintf("%v: send as Room-Work a text of up to %d letters with which the SHA-256 of commitment:user:text begins with %d zero bits", ErrWork, maxWork, e.Bits)
}

// Unwrap makes it an [ErrWork].
func (e *WorkError) Unwrap() error { return ErrWork }
